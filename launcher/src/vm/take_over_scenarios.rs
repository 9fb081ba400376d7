//! Parts that a launcher cannot get at its take-over: the claim of a block device, locations, the serial console.

use super::{NAME, Scene, begin, play, vmi};
use crate::hypervisor::fake::Fake;
use crate::hypervisor::{End, ErrorKind, Event, Hypervisor as _};
use crate::root::Root;
use ::tests::loop_device::Loop;
use api::launcher::{Answer, Format, Life, Request, Resolved, START_FAILED, Source, Sync};
use rustix::fs::OFlags;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use storage::{Access, Claim, claim_device};

/// Opens the device for itself, as a conversion does.
fn claim(device: &Path) -> File {
    match claim_device(device, Access::Reads).unwrap() {
        Claim::Taken(file) => file,
        Claim::InUse(by) => panic!("{by}"),
    }
}

fn is_claimed(device: &Path) -> bool {
    let exclusive = OFlags::EXCL.bits().cast_signed();
    let opened = File::options().read(true).custom_flags(exclusive).open(device);
    opened.is_err_and(|e| e.kind() == io::ErrorKind::ResourceBusy)
}

/// The VM with its first disk there.
fn with_disk(source: Source) -> Sync {
    let vmi = vmi(|vmi| {
        vmi["spec"]["volumes"][0] = json!({"name": "root", "persistentVolumeClaim": {"claimName": "root"}});
    });
    let resolved = Resolved { volumes: [("root".to_owned(), source)].into(), ..Resolved::default() };
    Sync { vmi, generation: 1, resolved }
}

async fn running(sync: Sync) -> Scene {
    let scene = Scene::new();
    assert_eq!(scene.handle.sync(sync).await.unwrap(), Answer::Queued);
    scene.until(|state| state.life == Life::Running).await;
    scene
}

/// The folder of a launcher that was killed in this life, and its block device, of which no QEMU has the claim.
async fn left_in(life: Life) -> Option<(tempfile::TempDir, Loop)> {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("back");
    File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let device = Loop::over(&file, &[])?;
    let scene = running(with_disk(Source::Block { path: device.0.clone() })).await;
    assert!(is_claimed(&device.0));
    scene.fake.happen(NAME, &Event::Ended(End::Crashed));
    scene.until(|state| state.life.is_final()).await;
    let Scene { folder, .. } = scene;
    let file = Root::open(&folder.path().join("r"), folder.path()).unwrap().state();
    let mut state: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    (state["life"], state["message"]) = (json!(life), Value::Null);
    fs::write(&file, state.to_string()).unwrap();
    Some((folder, device))
}

/// A QEMU that waits for its vCPUs to be resumed.
fn started() -> Arc<Fake> {
    let fake = Arc::new(Fake::default());
    fake.define("<name>default_vm</name>").unwrap();
    fake.start(NAME).unwrap();
    fake
}

#[test]
fn a_guest_begins_after_its_qemu_has_the_claims() {
    play(async {
        let Some((folder, device)) = left_in(Life::Preparing).await else { return };
        let fake = started();
        let next = Scene { handle: begin(folder.path(), &fake), fake, folder };
        next.until(|state| state.life == Life::Running).await;
        let said = next.fake.conversation();
        let at = |what: &str| said.iter().position(|said| said == what).unwrap_or_else(|| panic!("{said:?}"));
        assert!(at("keep_file default_vm") < at("resume default_vm"), "{said:?}");
        assert!(is_claimed(&device.0));
        next.fake.happen(NAME, &Event::Ended(End::Shutdown));
        next.until(|state| state.life.is_final()).await;
        drop(claim(&device.0));
    });
}

#[test]
fn a_guest_whose_device_another_program_has_taken_does_not_begin() {
    play(async {
        let Some((folder, device)) = left_in(Life::Preparing).await else { return };
        let other = claim(&device.0);
        let fake = started();
        let next = Scene { handle: begin(folder.path(), &fake), fake, folder };
        let state = next.until(|state| state.life.is_final()).await;
        assert_eq!((state.life, state.reason.as_deref()), (Life::Failed, Some(START_FAILED)));
        let message = state.message.unwrap();
        assert!(message.contains("'root'") && message.contains("another process has it open"), "{message}");
        let said = next.said();
        assert!(said.contains("destroy default_vm") && !said.contains("resume"), "{said}");
        drop(other);
    });
}

#[test]
fn a_claim_that_another_program_has_is_taken_as_soon_as_it_is_free() {
    play(async {
        let Some((folder, device)) = left_in(Life::Running).await else { return };
        let other = claim(&device.0);
        let fake = started();
        fake.resume(NAME).unwrap();
        let next = Scene { handle: begin(folder.path(), &fake), fake, folder };
        let state = next.until(|state| state.message.is_some()).await;
        let message = state.message.unwrap();
        let why = "is not kept from other programs: another process has it open for itself";
        assert!(message.contains("'root'") && message.contains(why), "{message}");
        assert_eq!(state.life, Life::Running);
        // A pause has a message of its own.
        assert_eq!(next.ask(Request::Pause).await, Answer::Queued);
        let state = next.until(|state| state.life == Life::Paused).await;
        assert_eq!(state.message.as_deref(), Some("VMI was paused by user"));
        assert_eq!(next.ask(Request::Unpause).await, Answer::Queued);
        next.until(|state| state.life == Life::Running && state.message.is_some()).await;
        drop(other);
        next.until(|state| state.message.is_none()).await;
        assert!(is_claimed(&device.0));
        assert!(next.said().contains("keep_file default_vm"), "{}", next.said());
    });
}

#[test]
fn locations_and_a_console_that_were_missing_are_got_when_they_are_there() {
    play(async {
        let place = tempfile::tempdir().unwrap();
        let disk = place.path().join("disk.img");
        File::create(&disk).unwrap().set_len(1 << 20).unwrap();
        let source = Source::File { path: disk.clone(), format: Format::Raw, preallocated: false };
        let scene = running(with_disk(source)).await;
        let away = place.path().join("away");
        fs::rename(&disk, &away).unwrap();
        scene.fake.fail_next("line", ErrorKind::Failed, "there is no terminal");
        let Scene { fake, folder, .. } = scene;
        let next = Scene { handle: begin(folder.path(), &fake), fake: fake.clone(), folder };
        let lines = || fake.conversation().iter().filter(|said| *said == "line default_vm").count();
        let state = next.until(|state| state.message.is_some()).await;
        let message = state.message.unwrap();
        assert!(message.contains(&disk.display().to_string()), "{message}");
        assert_eq!(state.life, Life::Running);
        fs::rename(&away, &disk).unwrap();
        next.until(|state| state.message.is_none()).await;
        // Of the start, of the take-over, and again.
        assert_eq!(lines(), 3);
        assert_eq!(next.ask(Request::Eject { disk: "cd".into() }).await, Answer::Queued);
        assert_eq!(next.ask(Request::Pause).await, Answer::Queued);
        next.until(|state| state.life == Life::Paused).await;
        assert!(next.said().contains("change_media default_vm"), "{}", next.said());
    });
}
