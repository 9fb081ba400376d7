//! The loop of virt-controller during failures of the API server: no VM is lost, and no object is deleted
//! without a reason.

use cluster_client::Writer;
use cluster_client::error::Error;
use cluster_client::lease::Pulse;
use cluster_model::objects::{ClusterFacts, Home, Kind, Program};
use fetch::Addresses;
use hyper::StatusCode;
use kit::ApiServer;
use serde_json::{Value, json};
use serve::health::Health;
use serve::settings::Dials;
use tokio::task::JoinHandle;

/// The path of a VM or a VMI.
fn path(kind: Kind, name: &str) -> String {
    format!("{}/{name}", kind.collection("n"))
}

/// A virt-controller that has begun.
fn controller(server: &ApiServer) -> JoinHandle<Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = server.client();
    let facts = ClusterFacts {
        namespace: "kubevirt".into(),
        launcher_image: "launcher".into(),
        worker_image: "worker".into(),
        version: "1.0.0".into(),
        image_volumes: true,
    };
    let dials = Dials::new(Program::Controller, Home { namespace: "kubevirt".into(), ..Home::default() });
    let around = (Health::default(), Pulse::default(), dials);
    let (reports, polls) =
        (crate::reports::Reports::new().unwrap(), crate::polls::Polls::new(Addresses::Any).unwrap());
    let writer = Writer::new(client.clone(), "virt-controller");
    tokio::spawn(crate::run::run(client, writer, facts, around, reports, polls))
}

/// An installation, a virt-controller, and a VM whose VMI is there.
async fn begin() -> (ApiServer, JoinHandle<Error>) {
    let server = ApiServer::default();
    server.put_object(Kind::KubeVirt, crate::sim::kubevirt(json!({})));
    let controller = controller(&server);
    runs(&server, "web").await;
    (server, controller)
}

/// Creates a running VM, and waits for virt-controller to create its VMI.
async fn runs(server: &ApiServer, name: &str) {
    server.put_object(Kind::VirtualMachine, crate::sim::vm(name, "Always"));
    server.until(&format!("VMI {name} is made"), |server| vmi(server, name).is_some()).await;
}

/// The VMI of a name, if it is there and stays.
fn vmi(server: &ApiServer, name: &str) -> Option<Value> {
    let vmi = server.object(&path(Kind::VirtualMachineInstance, name))?;
    vmi["metadata"]["deletionTimestamp"].is_null().then_some(vmi)
}

/// VMs, VMIs and launcher pods that virt-controller has deleted.
fn deleted(server: &ApiServer) -> Vec<String> {
    let asked = server.asked().into_iter().filter(|request| request.verb == "delete");
    let asked = asked.map(|request| request.path);
    asked.filter(|path| path.contains("/virtualmachine") || path.contains("/virt-launcher-")).collect()
}

fn halts(server: &ApiServer, name: &str) {
    let mut vm = server.object(&path(Kind::VirtualMachine, name)).unwrap();
    vm["spec"]["runStrategy"] = json!("Halted");
    server.put_object(Kind::VirtualMachine, vm);
}

/// Etcd is restored from a snapshot of a time when a VM ran that was halted since, and whose VMI is gone: the VM runs, and its VMI
/// is not deleted as that of a halted one.
#[tokio::test]
async fn after_a_restore_of_etcd_nothing_is_decided_on_what_was_before() {
    for bump in [0, 1_000_000_000] {
        let (server, controller_before) = begin().await;
        server
            .until("its pod is made", |server| {
                let pods = server.asked();
                pods.iter()
                    .any(|request| request.verb == "create" && request.path.ends_with("/namespaces/n/pods"))
            })
            .await;
        let snapshot = server.snapshot();
        let known = vmi(&server, "web").unwrap()["metadata"]["uid"].clone();
        halts(&server, "web");
        server
            .until("the VMI is gone", |server| {
                server.object(&path(Kind::VirtualMachineInstance, "web")).is_none()
            })
            .await;
        assert!(!deleted(&server).is_empty());
        server.restore(&snapshot, bump);
        let why = tokio::time::timeout(std::time::Duration::from_secs(60), controller_before).await;
        let why = why.expect("it goes on with its old picture").unwrap().to_string();
        assert!(
            why.contains("etcd was restored") && why.contains("restarts with the present state"),
            "{why}"
        );
        // The next one decides on what there is.
        let after = controller(&server);
        runs(&server, "second").await;
        assert_eq!(vmi(&server, "web").unwrap()["metadata"]["uid"], known, "bump {bump}");
        assert_eq!(deleted(&server), [] as [&str; 0], "bump {bump}");
        after.abort();
    }
}

/// Watches say nothing for a while: the picture is old, and what is decided on it does no harm.
#[tokio::test]
async fn while_watches_stall_nothing_is_lost() {
    let (server, controller) = begin().await;
    server.asked();
    server.stalls(true);
    // During the outage a client changes the VM, creates another one, and deletes the objects of the first.
    let mut vm = server.object(&path(Kind::VirtualMachine, "web")).unwrap();
    vm["metadata"]["labels"] = json!({"a": "b"});
    server.put_object(Kind::VirtualMachine, vm);
    server.put_object(Kind::VirtualMachine, crate::sim::vm("second", "Always"));
    let known = vmi(&server, "web").unwrap()["metadata"]["uid"].clone();
    server.loses(&path(Kind::VirtualMachineInstance, "web"));
    assert!(vmi(&server, "second").is_none());
    server.stalls(false);
    server.until("the VMI of the new VM is made", |server| vmi(server, "second").is_some()).await;
    server.until("the lost VMI is made anew", |server| vmi(server, "web").is_some()).await;
    assert_ne!(vmi(&server, "web").unwrap()["metadata"]["uid"], known);
    assert!(!deleted(&server).iter().any(|path| path.contains("/virtualmachine")));
    assert!(!controller.is_finished());
    controller.abort();
}

/// Everything is answered 500 for as long as each follower has asked a few times: afterwards all goes on, with a new list of each kind.
#[tokio::test]
async fn while_the_api_server_fails_nothing_is_lost() {
    let (server, controller) = begin().await;
    server.asked();
    let known = vmi(&server, "web").unwrap()["metadata"]["uid"].clone();
    server.fails(Some(StatusCode::INTERNAL_SERVER_ERROR));
    server.put_object(Kind::VirtualMachine, crate::sim::vm("second", "Always"));
    let lists = |server: &ApiServer| {
        let asked = server.asked();
        let failed = asked.iter().filter(|request| request.verb == "list").count();
        assert!(!asked.iter().any(|request| request.verb == "delete"), "{asked:?}");
        failed
    };
    let failed = std::cell::Cell::new(0);
    server
        .until("all followers ask again and again", |server| {
            failed.set(failed.get() + lists(server));
            failed.get() > 100
        })
        .await;
    assert!(vmi(&server, "second").is_none());
    server.fails(None);
    server.until("the VMI of the new VM is made", |server| vmi(server, "second").is_some()).await;
    assert_eq!(vmi(&server, "web").unwrap()["metadata"]["uid"], known);
    assert_eq!(deleted(&server), [] as [&str; 0]);
    assert!(!controller.is_finished(), "it is the same history");
    controller.abort();
}
