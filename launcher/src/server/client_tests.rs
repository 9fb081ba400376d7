//! The server, with the one client of all our programs.

use super::*;
use crate::hypervisor::fake::Fake;
use crate::vm::{Parts, drive};
use api::launcher::{Answer, Exec, Life, Request, Sync};
use launcher_client::{Client, Console, ErrorKind};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// More than anything here takes.
const LONG: Duration = Duration::from_secs(120);

struct Scene {
    fake: Arc<Fake>,
    client: Client,
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
    let service = Service::new(handle, lines, info).unwrap();
    let (line, theirs) = UnixStream::pair().unwrap();
    give.send(theirs.into_std().unwrap().into()).unwrap();
    while !service.console.status().connected {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let path = folder.path().join("s");
    let listener = Listener::bind(&path).await.unwrap();
    tokio::spawn(async move { listener.serve(service).await });
    Scene { fake, client: Client::at("the launcher of vm", path), line, _folder: folder }
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
    let reason = "generation 1 is older than 2, which this launcher has already".to_owned();
    assert_eq!(older, Answer::Denied { reason });
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

#[tokio::test]
async fn the_serial_console_is_a_stream_and_a_missing_screen_is_a_refusal() {
    let mut scene = scene().await;
    let mut console = scene.client.console(Console::Write).await.unwrap();
    console.write_all(b"root\r").await.unwrap();
    let mut typed = [0; 5];
    scene.line.read_exact(&mut typed).await.unwrap();
    assert_eq!(&typed, b"root\r");
    scene.line.write_all(b"# ").await.unwrap();
    let mut shown = Vec::new();
    while !shown.ends_with(b"# ") {
        assert!(console.read_buf(&mut shown).await.unwrap() > 0, "{shown:?}");
    }
    let second = scene.client.console(Console::Write).await.unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Failed);
    assert!(second.refusal().is_some(), "{second}");
    scene.client.console(Console::Read).await.unwrap();
    // A client that takes the keyboard over has it.
    let mut other = scene.client.console(Console::Take).await.unwrap();
    other.write_all(b"x").await.unwrap();
    scene.line.read_exact(&mut typed[..1]).await.unwrap();
    assert_eq!(typed[0], b'x');
    let screen = scene.client.vnc().await.unwrap_err();
    assert_eq!(screen.kind(), ErrorKind::NotFound);
    assert!(screen.to_string().contains("cannot reach the VM's screen at"), "{screen}");
}
