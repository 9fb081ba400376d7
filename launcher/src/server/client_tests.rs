//! The server, with the one client of all our programs.

use super::*;
use crate::hypervisor::fake::Fake;
use crate::vm::{Parts, drive};
use api::launcher::{Answer, DenialReason, Exec, Freeze, Life, Request, Sync};
use launcher_client::{Access, Client, ErrorKind};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// More than anything here takes.
const LONG: Duration = Duration::from_secs(120);

struct Scene {
    fake: Arc<Fake>,
    client: Client,
    handle: Handle,
    /// The VM's end of the serial console.
    line: UnixStream,
    _folder: tempfile::TempDir,
}

async fn scene() -> Scene {
    let folder = tempfile::Builder::new().prefix("s").tempdir_in("/tmp").unwrap();
    let root = crate::root::Root::open(&folder.path().join("r"), folder.path()).unwrap();
    let fake = Arc::new(Fake::default());
    // The hypervisor's own lines are not used.
    let parts =
        Parts { hypervisor: fake.clone(), root, lines: crate::console::lines().0, clock: crate::clock::now };
    let (handle, driver) = drive(parts).unwrap();
    tokio::spawn(driver);
    let info = Info {
        version: "1".into(),
        pid: 1,
        libvirt: "0".into(),
        uri: "fake:///".into(),
        root: folder.path().into(),
    };
    let (give, lines) = crate::console::lines();
    let service = Service::new(handle.clone(), lines, info).unwrap();
    let (line, theirs) = UnixStream::pair().unwrap();
    give.send(theirs.into_std().unwrap().into()).unwrap();
    while !service.console.status().connected {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let path = folder.path().join("s");
    let listener = Listener::bind(&path).await.unwrap();
    tokio::spawn(async move { listener.serve(service).await });
    Scene { fake, client: Client::at("the launcher of vm", path), handle, line, _folder: folder }
}

fn sync(generation: u64) -> Sync {
    let vmi = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "domain": {
                "memory": {"guest": "64Mi"},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"autoattachPodInterface": false},
            },
        },
    });
    Sync { vmi, generation, resolved: api::launcher::Resolved::default() }
}

#[tokio::test]
async fn every_request_of_the_client_is_answered() {
    let Scene { fake, client, .. } = &scene().await;
    assert_eq!(client.info().await.unwrap().uri, "fake:///");
    assert_eq!(client.state().await.unwrap().life, Life::Empty);
    let early = client.stats().await.unwrap_err();
    assert_eq!((early.kind(), early.to_string().as_str()), (ErrorKind::Failed, "there is no VM yet"));
    assert_eq!(client.sync(&sync(2)).await.unwrap(), Answer::Queued);
    let (mut states, ()) = client.watch().await.unwrap();
    while states.next_within(LONG).await.unwrap().unwrap().life != Life::Running {}
    let older = client.sync(&sync(1)).await.unwrap();
    let Answer::Denied(denial) = older else { panic!("{older:?}") };
    assert_eq!(denial.reason(), DenialReason::OlderGeneration);
    assert_eq!(denial.message(), "generation 1 is older than 2, which this launcher has already");
    assert_eq!(client.stats().await.unwrap().cpu_ns, 1);
    assert!(client.screenshot().await.unwrap().starts_with(b"\x89PNG"));

    let silent = client.ping(LONG).await.unwrap_err();
    assert_eq!(silent.kind(), ErrorKind::Failed);
    assert!(silent.refusal().is_some() && silent.to_string().contains("does not answer"), "{silent}");
    fake.agent_says("guest-ping", r#"{"return":{}}"#);
    client.ping(LONG).await.unwrap();
    fake.agent_says("guest-exec", r#"{"return":{"pid":7}}"#);
    fake.agent_says("guest-exec-status", r#"{"return":{"exited":true,"exitcode":3,"out-data":"aGk="}}"#);
    let exec = Exec { command: "echo".into(), args: vec!["hi".into()], input: None, timeout: None };
    let done = client.exec(&exec, LONG).await.unwrap();
    assert_eq!((done.exit_code, done.stdout.as_str()), (3, "hi"));

    assert_eq!(client.request(&Request::Destroy).await.unwrap(), Answer::Queued);
    while !states.next_within(LONG).await.unwrap().unwrap().life.is_final() {}
}

impl Scene {
    /// A VM that runs.
    async fn running() -> Scene {
        let scene = scene().await;
        assert_eq!(scene.client.sync(&sync(1)).await.unwrap(), Answer::Queued);
        let (mut states, ()) = scene.client.watch().await.unwrap();
        while states.next_within(LONG).await.unwrap().unwrap().life != Life::Running {}
        scene
    }

    /// How often the guest agent was asked for this.
    fn asked(&self, command: &str) -> usize {
        self.fake.conversation().iter().filter(|said| said.ends_with(command)).count()
    }

    /// A launcher that is killed would find this.
    fn has_alarm(&self) -> bool {
        self.handle.root.thaw().exists()
    }
}

async fn until(what: &str, is: impl Fn() -> bool) {
    let wait = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, wait).await.unwrap_or_else(|_| panic!("waited {LONG:?} for {what}"));
}

const FREEZE: &str = "guest-fsfreeze-freeze";
const THAW: &str = "guest-fsfreeze-thaw";

#[tokio::test]
async fn frozen_file_systems_thaw_by_themselves_when_their_time_is_over() {
    let scene = Scene::running().await;
    scene.fake.agent_says(FREEZE, r#"{"return":2}"#);
    scene.fake.agent_says(THAW, r#"{"return":2}"#);
    let freeze = |ms| Freeze { thaw_after_ms: ms };
    let long = scene.client.freeze(&freeze(Some(3_600_001))).await.unwrap_err();
    assert!(long.status() == Some(400) && long.to_string().contains("for 3600 s at most"), "{long}");
    scene.client.freeze(&freeze(Some(1))).await.unwrap();
    until("the thaw", || scene.asked(THAW) == 1).await;
    until("the alarm to be forgotten", || !scene.has_alarm()).await;

    // A thaw before ends the time, and so does a freeze without one.
    scene.client.freeze(&freeze(Some(3_600_000))).await.unwrap();
    assert!(scene.has_alarm());
    scene.client.thaw().await.unwrap();
    assert!(!scene.has_alarm());
    scene.client.freeze(&freeze(Some(3_600_000))).await.unwrap();
    scene.client.freeze(&freeze(None)).await.unwrap();
    assert!(!scene.has_alarm());
    assert_eq!((scene.asked(FREEZE), scene.asked(THAW)), (4, 2));

    // What the guest refuses changes nothing.
    scene.client.freeze(&freeze(Some(3_600_000))).await.unwrap();
    scene.fake.agent_says(FREEZE, r#"{"error":{"desc":"frozen already"}}"#);
    scene.client.freeze(&freeze(Some(1))).await.unwrap_err();
    assert!(scene.has_alarm());
}

/// A guest that is paused for longer than thaws are tried again would stay frozen.
#[tokio::test]
async fn a_paused_guest_is_thawed_when_it_goes_on() {
    let scene = Scene::running().await;
    let is = |life: Life| scene.handle.state().borrow().life == life;
    assert_eq!(scene.client.request(&Request::Pause).await.unwrap(), Answer::Queued);
    until("the pause", || is(Life::Paused)).await;
    scene.fake.agent_says(FREEZE, r#"{"return":2}"#);
    scene.fake.agent_says(THAW, r#"{"error":{"desc":"no answer"}}"#);
    scene.client.freeze(&Freeze { thaw_after_ms: Some(1) }).await.unwrap();
    for _ in 0..100 {
        assert_eq!(scene.client.state().await.unwrap().life, Life::Paused);
    }
    assert!(scene.has_alarm());
    scene.fake.agent_says(THAW, r#"{"return":2}"#);
    assert_eq!(scene.client.request(&Request::Unpause).await.unwrap(), Answer::Queued);
    until("the alarm to be forgotten", || !scene.has_alarm()).await;
    assert_eq!(scene.asked(THAW), 1, "not while it was paused");
}

/// As in KubeVirt: a backup program that tries again, or a second one, hears that it is done.
#[tokio::test]
async fn a_freeze_of_a_frozen_guest_and_a_thaw_of_a_thawed_one_are_done_already() {
    let scene = Scene::running().await;
    let freeze = |ms| Freeze { thaw_after_ms: ms };
    let disabled = "Command guest-fsfreeze-freeze has been disabled: the agent is in frozen state";
    scene.fake.agent_says(FREEZE, &json!({"error": {"desc": disabled}}).to_string());
    scene.fake.agent_says("guest-fsfreeze-status", r#"{"return":"frozen"}"#);
    scene.client.freeze(&freeze(Some(3_600_000))).await.unwrap();
    assert!(scene.has_alarm());
    // One without a time does not keep the guest frozen for ever.
    scene.client.freeze(&freeze(None)).await.unwrap();
    assert!(scene.has_alarm());
    scene.fake.agent_says("guest-fsfreeze-status", r#"{"return":"thawed"}"#);
    scene.fake.agent_says(THAW, r#"{"error":{"desc":"a hook has failed"}}"#);
    scene.client.thaw().await.unwrap();
    assert!(!scene.has_alarm());
    assert_eq!((scene.asked(FREEZE), scene.asked(THAW)), (0, 0));
}

/// Windows thaws by itself after seconds.
#[tokio::test]
async fn the_state_says_that_file_systems_are_frozen_until_they_are_not() {
    let scene = Scene::running().await;
    let frozen = |is: bool| {
        let state = scene.handle.state();
        until("the state of the file systems", move || state.borrow().frozen == is)
    };
    scene.fake.agent_says(FREEZE, r#"{"return":2}"#);
    scene.fake.agent_says(THAW, r#"{"return":2}"#);
    scene.client.freeze(&Freeze::default()).await.unwrap();
    frozen(true).await;
    scene.client.thaw().await.unwrap();
    frozen(false).await;
    scene.client.freeze(&Freeze { thaw_after_ms: Some(1) }).await.unwrap();
    until("the thaw", || scene.asked(THAW) == 2).await;
    frozen(false).await;
    scene.client.freeze(&Freeze::default()).await.unwrap();
    frozen(true).await;
    let _thaw = Thaw::start_at(Duration::from_millis(1), scene.handle.clone());
    until("a look", || scene.asked("guest-fsfreeze-status") > 6).await;
    assert!(scene.handle.state().borrow().frozen, "a guest agent that says nothing changes nothing");
    scene.fake.agent_says("guest-fsfreeze-status", r#"{"return":"thawed"}"#);
    frozen(false).await;
    // A guest that is forced off has nothing frozen.
    scene.fake.agent_says("guest-fsfreeze-status", r#"{"return":"frozen"}"#);
    scene.client.freeze(&Freeze::default()).await.unwrap();
    frozen(true).await;
    scene.client.request(&Request::Destroy).await.unwrap();
    frozen(false).await;
}

#[tokio::test]
async fn a_new_launcher_thaws_what_the_one_before_it_froze_and_tries_until_it_is_done() {
    let scene = Scene::running().await;
    fs::write(scene.handle.root.thaw(), r#"{"at":"2026-01-01T00:00:00Z"}"#).unwrap();
    let _thaw = Thaw::start_at(Duration::from_millis(1), scene.handle.clone());
    until("a second try", || scene.asked(THAW) >= 2).await;
    assert!(scene.has_alarm());
    scene.fake.agent_says(THAW, r#"{"return":2}"#);
    until("the alarm to be forgotten", || !scene.has_alarm()).await;
}

#[tokio::test]
async fn the_serial_console_is_a_stream_and_a_missing_screen_is_a_refusal() {
    let mut scene = scene().await;
    let mut console = scene.client.console(Access::Write).await.unwrap();
    console.write_all(b"root\r").await.unwrap();
    let mut typed = [0; 5];
    scene.line.read_exact(&mut typed).await.unwrap();
    assert_eq!(&typed, b"root\r");
    scene.line.write_all(b"# ").await.unwrap();
    let mut shown = Vec::new();
    while !shown.ends_with(b"# ") {
        assert!(console.read_buf(&mut shown).await.unwrap() > 0, "{shown:?}");
    }
    let second = scene.client.console(Access::Write).await.unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Failed);
    assert!(second.refusal().is_some(), "{second}");
    scene.client.console(Access::Read).await.unwrap();
    // A client that takes the keyboard over has it.
    let mut other = scene.client.console(Access::Take).await.unwrap();
    other.write_all(b"x").await.unwrap();
    scene.line.read_exact(&mut typed[..1]).await.unwrap();
    assert_eq!(typed[0], b'x');
    // A client that wants to be alone closes it.
    let alone = scene.client.console(Access::Alone).await.unwrap();
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(LONG, other.read_to_end(&mut rest)).await;
    closed.expect("the console before it stays").unwrap();
    let last_words = "[… another client has opened this console …]\r\n";
    assert!(String::from_utf8_lossy(&rest).ends_with(last_words), "{rest:?}");
    drop(alone);
    let screen = scene.client.vnc(Access::Take).await.unwrap_err();
    assert_eq!(screen.kind(), ErrorKind::NotFound);
    assert!(screen.to_string().contains("cannot reach the VM's screen at"), "{screen}");
}

/// The runtime of the program has few threads for calls that block.
fn play(scene: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(8).build().unwrap();
    runtime.block_on(scene);
    runtime.shutdown_background();
}

/// Clients that are gone leave their calls behind.
#[test]
fn a_guest_agent_that_hangs_keeps_nothing_else_waiting() {
    play(async {
        let scene = Scene::running().await;
        scene.fake.hang("agent");
        for _ in 0..12 {
            scene.client.ping(Duration::from_millis(20)).await.unwrap_err();
        }
        assert!((1..=4).contains(&scene.fake.hung("agent")), "{} threads", scene.fake.hung("agent"));
        assert_eq!(scene.client.stats().await.unwrap().cpu_ns, 1);
        assert_eq!(scene.client.request(&Request::Destroy).await.unwrap(), Answer::Queued);
        let mut state = scene.handle.state();
        tokio::time::timeout(Duration::from_secs(20), state.wait_for(|state| state.life.is_final()))
            .await
            .expect("the VM ends")
            .unwrap();
        scene.fake.release("agent");
    });
}

/// Probes of a pod run programs; one that runs for hours holds no place meanwhile.
#[test]
fn programs_that_run_for_long_keep_no_other_request_waiting() {
    play(async {
        let scene = Scene::running().await;
        scene.fake.agent_says("guest-ping", r#"{"return":{}}"#);
        scene.fake.agent_says("guest-exec", r#"{"return":{"pid":7}}"#);
        scene.fake.agent_says("guest-exec-status", r#"{"return":{"exited":false}}"#);
        let exec = Exec { command: "sleep".into(), args: vec![], input: None, timeout: Some(u64::MAX) };
        let programs: Vec<_> = (0..6)
            .map(|_| {
                let (client, exec) = (scene.client.clone(), exec.clone());
                tokio::spawn(async move { client.exec(&exec, LONG).await })
            })
            .collect();
        while scene.asked("guest-exec") < 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        scene.client.ping(Duration::from_secs(20)).await.unwrap();
        programs.iter().for_each(tokio::task::JoinHandle::abort);
    });
}
