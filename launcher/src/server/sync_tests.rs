//! A VM that is handed over while its node is full, or has a broken disk: it is not refused, and runs once
//! the node can.

use super::answer::ours;
use super::*;
use crate::hypervisor::fake::Fake;
use crate::vm::{Parts, drive};
use api::launcher::{Answer, Request, Sync};
use launcher_client::{Client, ErrorKind as Told};
use serde_json::{Value, json};

struct Scene {
    fake: Arc<Fake>,
    client: Client,
    root: crate::root::Root,
    handle: Handle,
    _folder: tempfile::TempDir,
}

async fn scene() -> Scene {
    let folder = tempfile::Builder::new().prefix("s").tempdir_in("/tmp").unwrap();
    let root = crate::root::Root::open(&folder.path().join("r"), folder.path()).unwrap();
    let fake = Arc::new(Fake::default());
    let lines = crate::console::lines().0;
    let parts = Parts { hypervisor: fake.clone(), root: root.clone(), lines, clock: crate::clock::now };
    let (handle, driver) = drive(parts).unwrap();
    tokio::spawn(driver);
    let info =
        Info { version: "1".into(), pid: 1, libvirt: "0".into(), uri: "fake:///".into(), root: "/".into() };
    let (_, lines) = crate::console::lines();
    let service = Service::new(handle.clone(), lines, info).unwrap();
    let path = folder.path().join("s");
    let listener = Listener::bind(&path).await.unwrap();
    tokio::spawn(async move { listener.serve(service).await });
    Scene { fake, client: Client::at("the launcher of vm", path), root, handle, _folder: folder }
}

fn sync(domain: &Value) -> Sync {
    let vmi = json!({"metadata": {"name": "vm", "namespace": "default"}, "spec": {"domain": domain}});
    Sync { vmi, generation: 1, resolved: api::launcher::Resolved::default() }
}

fn sound() -> Sync {
    sync(&json!({
        "memory": {"guest": "64Mi"},
        "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
        "devices": {"autoattachPodInterface": false},
    }))
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_refuses_no_vm() {
    let scene = scene().await;
    // A folder where the file of the VM would go: it cannot be replaced.
    fs::create_dir_all(scene.root.vm().join("in-the-way")).unwrap();
    let said = scene.client.sync(&sound()).await.unwrap_err();
    assert_eq!((said.status(), said.kind()), (Some(500), Told::Failed), "{said}");
    assert!(said.may_retry() && said.refusal().is_some_and(|refusal| refusal.faults.is_empty()));
    assert!(said.to_string().contains("cannot keep the VM in"), "{said}");
    fs::remove_dir_all(scene.root.vm()).unwrap();
    assert_eq!(scene.client.sync(&sound()).await.unwrap(), Answer::Queued);
}

#[tokio::test]
async fn a_hypervisor_that_fails_for_a_moment_refuses_no_vm() {
    let scene = scene().await;
    scene.fake.fail_next("watch", crate::hypervisor::ErrorKind::Failed, "no events");
    let said = scene.client.sync(&sound()).await.unwrap_err();
    assert_eq!((said.status(), said.kind()), (Some(500), Told::Failed), "{said}");
    assert_eq!(scene.client.sync(&sound()).await.unwrap(), Answer::Queued);
}

#[tokio::test]
async fn faults_of_the_vm_are_final() {
    let scene = scene().await;
    let faulty = sync(&json!({"devices": {"disks": [{"name": "root", "disk": {}}]}}));
    let said = scene.client.sync(&faulty).await.unwrap_err();
    assert_eq!((said.status(), said.kind()), (Some(422), Told::Refused), "{said}");
    assert!(!said.may_retry() && said.refusal().is_some_and(|refusal| !refusal.faults.is_empty()));
}

#[tokio::test]
async fn a_launcher_that_ends_refuses_no_vm() {
    let scene = scene().await;
    scene.handle.end().await;
    let mut state = scene.handle.state();
    while state.changed().await.is_ok() {}
    let said = scene.client.sync(&sound()).await.unwrap_err();
    assert_eq!((said.status(), said.to_string().as_str()), (Some(503), "the launcher is ending"));
    let said = scene.client.request(&Request::Destroy).await.unwrap_err();
    assert_eq!((said.status(), said.to_string().as_str()), (Some(503), "the launcher is ending"));
}

#[test]
fn an_error_of_the_system_has_the_status_of_its_kind() {
    use rustix::io::Errno;
    for (error, status) in [(Errno::NOSPC, 507), (Errno::DQUOT, 507), (Errno::IO, 500), (Errno::ROFS, 500)] {
        let (told, refusal) = ours(&Error::io("cannot keep the VM in vm.json", io::Error::from(error)));
        assert_eq!((told.as_u16(), refusal.faults.len()), (status, 0), "{error}");
    }
}
