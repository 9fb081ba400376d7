//! Whole lives with a hypervisor that runs nothing: its calls in order (`golden/`; `UPDATE_GOLDEN=1` rewrites
//! them), and the published states.

use super::{Handle, Parts, drive, drive_or_receive};
use crate::hypervisor::fake::Fake;
use crate::hypervisor::{End, ErrorKind, Event, Hypervisor, Pause};
use crate::root::Root;
use api::launcher::{Answer, Life, Request, State, Sync};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[path = "disk_pressure_scenarios.rs"]
mod disk_pressure;
#[path = "full_disk_scenarios.rs"]
mod full_disk;
#[path = "late_event_scenarios.rs"]
mod late_events;
#[path = "migration_scenarios.rs"]
mod migrations;
#[path = "reception_scenarios.rs"]
mod receptions;
#[path = "take_over_scenarios.rs"]
mod take_over;

const NAME: &str = "default_vm";

struct Scene {
    fake: Arc<Fake>,
    handle: Handle,
    folder: tempfile::TempDir,
}

fn vmi(change: impl FnOnce(&mut Value)) -> Value {
    let mut vmi = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 600,
            "domain": {
                "memory": {"guest": "64Mi"},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {
                    "autoattachPodInterface": false,
                    "disks": [
                        {"name": "root", "disk": {"bus": "virtio"}},
                        {"name": "cd", "cdrom": {"bus": "sata"}}
                    ]
                }
            },
            "volumes": [
                {"name": "root", "emptyDisk": {"capacity": "1Gi"}},
                {"name": "cd", "cloudInitNoCloud": {"userData": "#!/bin/sh\n"}}
            ]
        }
    });
    change(&mut vmi);
    vmi
}

fn sync(vmi: Value, generation: u64) -> Sync {
    Sync { vmi, generation, resolved: api::launcher::Resolved::default() }
}

fn begin(folder: &Path, fake: &Arc<Fake>) -> Handle {
    let (handle, driver) = drive(parts(folder, fake)).unwrap();
    tokio::spawn(driver);
    handle
}

/// A launcher whose VM comes from another one.
fn begin_to_receive(folder: &Path, fake: &Arc<Fake>) -> Handle {
    let (handle, driver) = drive_or_receive(parts(folder, fake), Some("/run/receive".into())).unwrap();
    tokio::spawn(driver);
    handle
}

fn parts(folder: &Path, fake: &Arc<Fake>) -> Parts {
    let root = Root::open(&folder.join("r"), folder).unwrap();
    // The other end of the lines is dropped.
    let lines = crate::console::lines().0;
    Parts { hypervisor: fake.clone(), root, lines, clock: crate::clock::now }
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(Fake::default());
        let handle = begin(folder.path(), &fake);
        Scene { fake, handle, folder }
    }

    /// A VM that runs.
    async fn running() -> Scene {
        let scene = Scene::new();
        assert_eq!(scene.handle.sync(sync(vmi(|_| {}), 1)).await.unwrap(), Answer::Queued);
        scene.until(|state| state.life == Life::Running).await;
        scene
    }

    async fn until(&self, wanted: impl FnMut(&State) -> bool) -> State {
        let mut reader = self.handle.state();
        let state = tokio::time::timeout(Duration::from_secs(60), reader.wait_for(wanted)).await;
        state.expect("a minute is enough").expect("the driver lives").clone()
    }

    async fn ask(&self, request: Request) -> Answer {
        self.handle.request(request).await.unwrap()
    }

    fn said(&self) -> String {
        self.fake.conversation().join("\n").replace(&self.folder.path().display().to_string(), "FOLDER")
    }

    /// Compares all calls with the golden file.
    fn golden(&self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/vm/golden/{name}.txt"));
        let said = self.said() + "\n";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &said).unwrap();
        }
        let wanted = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(said, wanted, "{} differs; UPDATE_GOLDEN=1 rewrites it", path.display());
    }
}

/// Runs a scene on one thread, as in the program.
fn play(scene: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(scene);
}

#[test]
fn a_vm_starts_and_is_shut_down() {
    play(async {
        let scene = Scene::running().await;
        assert_eq!(scene.ask(Request::Shutdown { grace: None }).await, Answer::Queued);
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Succeeded, Some("Shutdown")));
        let lives: Vec<Life> = state.phases.iter().map(|(life, _)| *life).collect();
        assert!(lives.starts_with(&[Life::Preparing, Life::Running]), "{lives:?}");
        assert_eq!(state.targets["root"], "vda");
        scene.golden("start-and-shutdown");
    });
}

#[test]
fn a_pool_of_iothreads_is_every_disks_where_a_disk_may_have_several() {
    play(async {
        let scene = Scene::new();
        let pool = vmi(|vmi| {
            vmi["spec"]["domain"]["ioThreadsPolicy"] = json!("supplementalPool");
            vmi["spec"]["domain"]["ioThreads"] = json!({"supplementalPoolThreadCount": 2});
        });
        assert_eq!(scene.handle.sync(sync(pool, 1)).await.unwrap(), Answer::Queued);
        scene.until(|state| state.life == Life::Running).await;
        let xml = scene.fake.definition();
        assert!(xml.contains("<iothread id='2'/>"), "{xml}");
    });
}

#[test]
fn a_guest_that_ignores_the_power_button_is_forced_off_after_the_grace_period() {
    play(async {
        let scene = Scene::running().await;
        scene.fake.deaf();
        assert_eq!(scene.ask(Request::Shutdown { grace: Some(1) }).await, Answer::Queued);
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some("GracePeriodExpired")));
        scene.golden("deaf-guest");
    });
}

#[test]
fn a_restart_waits_for_the_end() {
    play(async {
        let scene = Scene::running().await;
        let first = scene.until(|_| true).await.number;
        assert_eq!(scene.ask(Request::Destroy).await, Answer::Queued);
        assert_eq!(scene.ask(Request::Start).await, Answer::Queued);
        let again = |state: &State| {
            state.life == Life::Running && state.number > first + 2 && state.phases.len() == 2
        };
        scene.until(again).await;
        scene.golden("restart");
    });
}

#[test]
fn a_paused_vm_is_resumed_for_its_shutdown() {
    play(async {
        let scene = Scene::running().await;
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        let state = scene.until(|state| state.life == Life::Paused).await;
        assert_eq!(state.reason.as_deref(), Some("PausedByUser"));
        assert_eq!(state.message.as_deref(), Some("VMI was paused by user"));
        assert_eq!(scene.ask(Request::Shutdown { grace: None }).await, Answer::Queued);
        scene.until(|state| state.life == Life::Succeeded).await;
        scene.golden("paused-and-shutdown");
    });
}

#[test]
fn a_vm_that_a_full_disk_paused_goes_on_under_a_new_launcher() {
    play(async {
        let scene = Scene::running().await;
        let full =
            Event::IoError { disk: Some("root".into()), path: "/disk".into(), no_space: true, paused: true };
        scene.fake.happen(NAME, &full);
        scene.fake.happen(NAME, &Event::Paused(Pause::IoError));
        scene.until(|state| state.life == Life::Paused).await;
        let Scene { fake, handle, folder } = scene;
        drop(handle);
        let scene = Scene { handle: begin(folder.path(), &fake), fake, folder };
        let state = scene.until(|state| state.doing.is_none()).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Paused, Some("PausedIOError")));
        assert!(state.message.unwrap().contains("disk 'root' (/disk) has no space left"));
        scene.until(|state| state.life == Life::Running).await;
    });
}

#[test]
fn events_of_the_guest_have_kubevirts_reasons() {
    play(async {
        let scene = Scene::running().await;
        let full = Event::IoError {
            disk: Some("root".into()),
            path: "/nowhere/at/all".into(),
            no_space: true,
            paused: true,
        };
        scene.fake.happen(NAME, &full);
        scene.fake.happen(NAME, &Event::Paused(Pause::IoError));
        let state = scene.until(|state| state.life == Life::Paused).await;
        assert_eq!(state.reason.as_deref(), Some("PausedIOError"));
        assert!(state.message.unwrap().contains("disk 'root'"));
        // The free space of the path cannot be read, so going on is tried.
        scene.until(|state| state.life == Life::Running).await;

        scene.fake.happen(NAME, &Event::Panicked);
        scene.fake.happen(NAME, &Event::Ended(End::Crashed));
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some("GuestPanicked")));
        scene.golden("full-disk-and-panic");
    });
}

#[test]
fn a_failed_start_has_a_reason_and_can_be_tried_again() {
    play(async {
        let scene = Scene::new();
        scene.fake.fail_next("start", ErrorKind::Busy, "another VM has the disk");
        scene.handle.sync(sync(vmi(|_| {}), 1)).await.unwrap();
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some("StartFailed")));
        assert!(state.message.unwrap().contains("another VM has the disk"));
        assert_eq!(scene.ask(Request::Start).await, Answer::Queued);
        scene.until(|state| state.life == Life::Running).await;
        scene.golden("start-that-fails");
    });
}

#[test]
fn media_are_changed_only_in_a_cdrom() {
    play(async {
        let scene = Scene::running().await;
        let eject = |disk: &str| Request::Eject { disk: disk.into() };
        for (disk, why) in [("root", "is not a CD-ROM"), ("other", "has no disk")] {
            let Answer::Denied(denial) = scene.ask(eject(disk)).await else { panic!("{disk} was ejected") };
            assert!(denial.message().contains(why), "{denial}");
        }
        assert_eq!(scene.ask(eject("cd")).await, Answer::Queued);
        let media = scene.folder.path().join("new.iso");
        std::fs::write(&media, [0; 4096]).unwrap();
        let insert =
            Request::Insert { disk: "cd".into(), path: media.clone(), format: api::launcher::Format::Raw };
        assert_eq!(scene.ask(insert).await, Answer::Queued);
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(|state| state.life == Life::Paused).await;
        scene.golden("media");
    });
}

#[test]
fn media_that_another_guest_writes_to_are_not_inserted() {
    play(async {
        let scene = Scene::running().await;
        let path = scene.folder.path().join("new.iso");
        std::fs::write(&path, [0; 4096]).unwrap();
        let insert =
            Request::Insert { disk: "cd".into(), path: path.clone(), format: api::launcher::Format::Raw };
        let guest = ::tests::qemu_lock::qemu_lock(&path, ::tests::qemu_lock::WRITES);
        assert_eq!(scene.ask(insert.clone()).await, Answer::Queued);
        let state = scene.until(|state| state.message.is_some()).await;
        let why = format!(
            "the disk 'cd' ({}) is in use: a running QEMU writes to it; end that first",
            path.display()
        );
        assert!(state.message.as_ref().is_some_and(|said| said.contains(&why)), "{state:?}");
        let changes = |scene: &Scene| scene.said().matches("change_media").count();
        assert_eq!(changes(&scene), 0);
        drop(guest);
        assert_eq!(scene.ask(insert).await, Answer::Queued);
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(|state| state.life == Life::Paused).await;
        assert_eq!(changes(&scene), 1);
    });
}

#[test]
fn links_go_down_and_up_where_there_are_taps() {
    play(async {
        let scene = Scene::new();
        let vmi = vmi(|vmi| {
            let devices = &mut vmi["spec"]["domain"]["devices"];
            devices["autoattachPodInterface"] = Value::Null;
            devices["interfaces"] =
                json!([{"name": "tap", "bridge": {}}, {"name": "user", "masquerade": {}}]);
            vmi["spec"]["networks"] =
                json!([{"name": "tap", "multus": {"networkName": "lan"}}, {"name": "user", "pod": {}}]);
        });
        let tap = json!({"kind": "tap", "name": "tap0", "mac": "02:00:00:00:00:07"});
        let user = json!({"kind": "user", "mac": "02:00:00:00:00:08"});
        let interfaces = serde_json::from_value(json!({"tap": tap, "user": user})).unwrap();
        let resolved = api::launcher::Resolved { interfaces, ..Default::default() };
        scene.handle.sync(Sync { vmi, generation: 1, resolved }).await.unwrap();
        let state = scene.until(|state| state.life == Life::Running).await;
        assert_eq!(state.links, [("tap".to_owned(), true)].into());
        let link = |interface: &str, up| Request::Link { interface: interface.into(), up };
        for (interface, why) in [("user", "user-mode network"), ("other", "has no interface")] {
            let answer = scene.ask(link(interface, false)).await;
            let Answer::Denied(denial) = answer else { panic!("{answer:?}") };
            assert!(denial.message().contains(why), "{denial}");
        }
        for up in [false, true] {
            assert_eq!(scene.ask(link("tap", up)).await, Answer::Queued);
            scene.until(|state| state.links["tap"] == up).await;
        }
        let said = scene.said();
        let links: Vec<&str> = said.lines().filter(|line| line.contains("link")).collect();
        assert_eq!(links, ["change_link default_vm", "  link: down", "change_link default_vm", "  link: up"]);
        // A failure is told, and the link is as it was.
        scene.fake.fail_next("change_link", ErrorKind::Failed, "no");
        assert_eq!(scene.ask(link("tap", false)).await, Answer::Queued);
        let state = scene.until(|state| state.message.is_some()).await;
        assert!(state.links["tap"], "{state:?}");
    });
}

#[test]
fn an_older_generation_another_vm_and_an_invalid_vm_are_refused() {
    play(async {
        let scene = Scene::running().await;
        let denied = |answer| matches!(answer, Ok(Answer::Denied(_)));
        assert!(matches!(scene.handle.sync(sync(vmi(|_| {}), 3)).await, Ok(Answer::Ignored { .. })));
        assert!(denied(scene.handle.sync(sync(vmi(|_| {}), 2)).await));
        let other = vmi(|vmi| vmi["metadata"]["name"] = "other".into());
        assert!(denied(scene.handle.sync(sync(other, 4)).await));
        let faulty = vmi(|vmi| {
            vmi["spec"]["volumes"] = json!([]);
            vmi["spec"]["domain"]["devices"]["gpus"] = json!([{"name": "g", "deviceName": "memory"}]);
        });
        let refusal = scene.handle.sync(sync(faulty, 5)).await.unwrap_err();
        let fields: Vec<&str> = refusal.faults.iter().map(|fault| fault.field.as_str()).collect();
        // A CD-ROM without media is not one of the faults.
        assert_eq!(fields, ["spec.domain.devices.disks[0].name", "spec.domain.devices.gpus[0].deviceName"]);
        assert_eq!(scene.until(|_| true).await.generation, 1, "the first generation still runs");
    });
}

#[test]
fn an_ended_vm_starts_again_only_on_request() {
    play(async {
        let scene = Scene::running().await;
        assert_eq!(scene.ask(Request::Destroy).await, Answer::Queued);
        let ended = scene.until(|state| state.life.is_final()).await;
        let larger = vmi(|vmi| vmi["spec"]["domain"]["memory"]["guest"] = "65Mi".into());
        for (vm, generation, word) in [(vmi(|_| {}), 1, "has ended"), (larger, 2, "its new spec")] {
            let answer = scene.handle.sync(sync(vm, generation)).await.unwrap();
            let Answer::Ignored { reason } = answer else { panic!("{answer:?}") };
            assert!(reason.contains(word) && reason.contains("'start'"), "{reason}");
        }
        assert_eq!(scene.until(|_| true).await, ended, "a sync does not change the state");
        assert_eq!(scene.ask(Request::Start).await, Answer::Queued);
        let state = scene.until(|state| state.life == Life::Running).await;
        assert_eq!(state.generation, 2);
        scene.golden("sync-after-the-end");
    });
}

#[test]
fn a_new_launcher_takes_over_a_running_vm_and_remembers_an_ended_one() {
    play(async {
        let scene = Scene::running().await;
        let before = scene.until(|_| true).await;
        let Scene { fake, folder, .. } = scene;
        let next = Scene { handle: begin(folder.path(), &fake), fake: fake.clone(), folder };
        let state = next.until(|state| state.life == Life::Running).await;
        assert!(state.number >= before.number);
        assert_eq!((state.generation, &state.phases), (1, &before.phases));
        next.golden("take-over");

        assert_eq!(next.ask(Request::Shutdown { grace: None }).await, Answer::Queued);
        next.until(|state| state.life == Life::Succeeded).await;
        let last =
            Scene { handle: begin(next.folder.path(), &fake), fake: fake.clone(), folder: next.folder };
        let state = last.until(|_| true).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Succeeded, Some("Shutdown")));
    });
}

#[test]
fn a_vm_that_ended_without_a_launcher_has_failed() {
    play(async {
        let scene = Scene::running().await;
        let Scene { fake, folder, .. } = scene;
        // The old loop is gone with its launcher, so it must not get this event; the new one only looks.
        let second = Arc::new(Fake::default());
        second.define("<name>default_vm</name>").unwrap();
        let next = Scene { handle: begin(folder.path(), &second), fake: second, folder };
        let state = next.until(|state| state.life.is_final()).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some("Lost")));
        drop(fake);
    });
}

#[test]
fn a_vm_whose_launcher_was_killed_before_the_resume_is_resumed() {
    play(async {
        let Scene { folder, .. } = Scene::running().await;
        let file = Root::open(&folder.path().join("r"), folder.path()).unwrap().state();
        let mut state: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        state["life"] = json!("Preparing");
        std::fs::write(&file, state.to_string()).unwrap();
        let fake = Arc::new(Fake::default());
        fake.define("<name>default_vm</name>").unwrap();
        fake.start(NAME).unwrap();
        let next = Scene { handle: begin(folder.path(), &fake), fake, folder };
        let state = next.until(|state| state.life == Life::Running).await;
        assert_eq!(state.reason, None);
        assert!(next.said().contains("resume default_vm"), "{}", next.said());
    });
}

#[test]
fn a_vm_whose_hook_writes_no_domain_is_not_defined() {
    play(async {
        let scene = Scene::new();
        let hooks = vec![api::launcher::Hook::Script { path: "/bin/true".into() }];
        let mut sync = sync(vmi(|_| {}), 1);
        sync.resolved.hooks = hooks;
        assert_eq!(scene.handle.sync(sync).await.unwrap(), Answer::Queued);
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!(state.reason.as_deref(), Some(api::launcher::START_FAILED));
        let said = state.message.unwrap_or_default();
        assert!(said.contains("the hook /bin/true wrote no domain"), "{said}");
        assert!(!scene.said().contains("define"), "{}", scene.said());
    });
}

/// A QEMU whose storage is gone answers nothing; libvirt waits for it without an end.
#[test]
fn a_forced_end_does_not_wait_for_a_request_that_hangs() {
    play(async {
        let scene = Scene::running().await;
        scene.fake.hang("pause");
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        while scene.fake.hung("pause") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(scene.ask(Request::Destroy).await, Answer::Queued);
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!(state.reason.as_deref(), Some("Destroyed"));
        // The launcher ends, too, and leaves the call behind.
        scene.handle.end().await;
        let mut reader = scene.handle.state();
        let ends = async { while reader.changed().await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(60), ends).await.expect("the launcher ends");
        scene.fake.release("pause");
    });
}

/// The grace period counts, though the guest was not asked yet.
#[test]
fn a_shutdown_behind_a_request_that_hangs_ends_the_vm_in_time() {
    play(async {
        let scene = Scene::running().await;
        scene.fake.hang("pause");
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        assert_eq!(scene.ask(Request::Shutdown { grace: Some(1) }).await, Answer::Queued);
        let state = scene.until(|state| state.life.is_final()).await;
        assert_eq!(state.reason.as_deref(), Some("GracePeriodExpired"));
        scene.fake.release("pause");
    });
}

/// Else it would end the next run of the VM.
#[test]
fn nothing_is_begun_before_a_forced_end_beside_a_request_is_done() {
    play(async {
        let scene = Scene::running().await;
        scene.fake.hang("pause");
        scene.fake.hang("destroy");
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        assert_eq!(scene.ask(Request::Destroy).await, Answer::Queued);
        while scene.fake.hung("destroy") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        scene.fake.release("pause");
        tokio::time::sleep(Duration::from_millis(300)).await;
        scene.fake.release("destroy");
        scene.until(|state| state.life.is_final()).await;
        assert_eq!(scene.ask(Request::Start).await, Answer::Queued);
        scene.until(|state| state.life == Life::Running).await;
        // A second end of the previous run is acceptable, but none of the next run.
        let said = scene.said();
        let (former, next) = said.rsplit_once("start ").expect("it was started anew");
        assert!(former.contains("destroy") && !next.contains("destroy"), "{said}");
    });
}

/// Opening media may take for ever: here, a pipe that has no writer.
#[test]
fn media_that_cannot_be_read_keep_nothing_else_waiting() {
    play(async {
        let scene = Scene::running().await;
        assert_eq!(scene.ask(Request::Eject { disk: "cd".into() }).await, Answer::Queued);
        let path = scene.folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        // A launcher that waits is woken in the end: the test fails, and does not hang.
        let late = {
            let path = path.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs(20));
                rustix::fs::open(path, rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())
            })
        };
        let insert =
            Request::Insert { disk: "cd".into(), path: path.clone(), format: api::launcher::Format::Raw };
        let handle = scene.handle.clone();
        let inserted = tokio::spawn(async move { handle.request(insert).await });
        tokio::task::yield_now().await;
        assert_eq!(scene.ask(Request::Pause).await, Answer::Queued);
        scene.until(|state| state.life == Life::Paused).await;
        assert!(!late.is_finished(), "the pause has waited for the media");
        let Ok(Ok(Answer::Denied(denial))) = inserted.await else { panic!("a pipe is not media") };
        assert!(denial.message().contains("no answer for"), "{denial}");
    });
}
