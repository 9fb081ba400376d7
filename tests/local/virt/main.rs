//! `coracle virt` against a small API server: requests, messages, streams that break.

#![allow(clippy::unwrap_used)]

mod exports;
mod image_upload;
mod server;
mod streams;
mod verbs;

use serde_json::{Value, json};
use server::{ApiServer, status};
use std::os::unix::fs::symlink;
use std::process::Command;
use tests::coracle::Ran;
use tests::place::Place;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_coracle");

const VM: &str = "/apis/kubevirt.io/v1/namespaces/blue/virtualmachines/web";
const VMI: &str = "/apis/kubevirt.io/v1/namespaces/blue/virtualmachineinstances/web";
const PARTS_OF_VM: &str = "/apis/subresources.kubevirt.io/v1/namespaces/blue/virtualmachines/web";
const PARTS_OF_VMI: &str = "/apis/subresources.kubevirt.io/v1/namespaces/blue/virtualmachineinstances/web";

/// A cluster, and a user's folder with the kubeconfig for it.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) place: Place,
}

impl Cluster {
    pub(crate) fn new() -> Cluster {
        let server = ApiServer::start();
        let place = Place::empty(PROGRAM);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": format!("http://{}", server.address)}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "blue"}}],
        });
        std::fs::create_dir(place.path(".kube")).unwrap();
        std::fs::write(place.path(".kube/config"), config.to_string()).unwrap();
        Cluster { server, place }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(&[&["virt"], args].concat());
        command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
        command
    }

    fn run(&self, line: &str) -> Ran {
        let args: Vec<&str> = line.split_whitespace().collect();
        Ran::of(self.command(&args).output().unwrap())
    }

    fn text(&self, line: &str) -> String {
        String::from_utf8(self.run(line).ok().out).unwrap()
    }
}

#[test]
fn a_request_is_sent_and_its_success_told_in_the_words_of_virtctl() {
    let cluster = Cluster::new();
    for part in ["start", "stop", "restart", "migrate"] {
        cluster.server.answers(&format!("PUT {PARTS_OF_VM}/{part}"), 202, "");
    }
    for part in ["pause", "unpause", "softreboot", "reset", "evacuate/cancel"] {
        cluster.server.answers(&format!("PUT {PARTS_OF_VMI}/{part}"), 200, "");
    }
    cluster.server.has(VM, &json!({"spec": {"runStrategy": "Always"}}));
    cluster.server.has(VMI, &json!({"status": {"nodeName": "n1"}}));
    for (line, asked, said) in [
        ("start web", vec![format!("PUT {PARTS_OF_VM}/start {{}}")], "VM web was scheduled to start\n"),
        (
            "start web --paused --dry-run=true",
            vec![format!(r#"PUT {PARTS_OF_VM}/start {{"dryRun":["All"],"paused":true}}"#)],
            "Dry Run execution\nVM web was scheduled to start\n",
        ),
        (
            "stop web --force --grace-period=0",
            vec![format!(r#"PUT {PARTS_OF_VM}/stop {{"gracePeriod":0}}"#)],
            "VM web was scheduled to stop\n",
        ),
        (
            "restart web --force --grace-period 0",
            vec![format!(r#"PUT {PARTS_OF_VM}/restart {{"gracePeriodSeconds":0}}"#)],
            "VM web was scheduled to restart\n",
        ),
        (
            "migrate web --addedNodeSelector=a=b",
            vec![format!(r#"PUT {PARTS_OF_VM}/migrate {{"addedNodeSelector":{{"a":"b"}}}}"#)],
            "VM web was scheduled to migrate\n",
        ),
        (
            "pause vm web",
            vec![format!("GET {VM}"), format!("PUT {PARTS_OF_VMI}/pause {{}}")],
            "VMI web was scheduled to pause\n",
        ),
        (
            "unpause vmi web",
            vec![format!("PUT {PARTS_OF_VMI}/unpause {{}}")],
            "VMI web was scheduled to unpause\n",
        ),
        (
            "soft-reboot web",
            vec![format!("PUT {PARTS_OF_VMI}/softreboot")],
            "VMI web was scheduled to soft-reboot\n",
        ),
        ("reset web", vec![format!("PUT {PARTS_OF_VMI}/reset")], "VMI web was scheduled to reset\n"),
        (
            "evacuate-cancel vmi web",
            vec![
                format!("GET {VMI}"),
                format!(r#"PUT {PARTS_OF_VMI}/evacuate/cancel {{"evacuationNodeName":"n1"}}"#),
            ],
            "VMI blue/web was canceled evacuation\n",
        ),
    ] {
        assert_eq!(cluster.text(line), said, "{line}");
        assert_eq!(cluster.server.asked(), asked, "{line}");
    }
}

#[test]
fn a_refusal_is_told_in_the_servers_words_with_a_code_of_its_own() {
    let cluster = Cluster::new();
    let start = format!("PUT {PARTS_OF_VM}/start");
    for (code, message, exit, said) in [
        (409, "VM is already running", 1, "cannot start VM web in namespace blue: VM is already running"),
        (400, "gracePeriod has to be greater or equal to 0", 3, "greater or equal to 0"),
        (403, "User \"me\" cannot update it", 5, "kubectl auth can-i"),
        (404, "virtualmachines.kubevirt.io \"web\" not found", 4, "\"web\" not found"),
        (501, "live migration is not supported", 3, "is not supported"),
        (503, "the server is currently unable to handle the request", 1, "virt-api does not answer"),
    ] {
        cluster.server.answers(&start, code, status(code, message));
        let ran = cluster.run("start web").refused(exit, said);
        assert!(ran.out.is_empty() && !ran.err.contains("ERROR"), "{}", ran.err);
        assert_eq!(cluster.server.asked().len(), 1, "{code} is asked once");
    }
    cluster.run("stop web --force").refused(2, "Must both use --force=true and set --grace-period.");
    cluster.run("migrate-cancel web").refused(4, "Found no migration to cancel for web");
    let migrations = "GET /apis/kubevirt.io/v1/namespaces/blue/virtualmachineinstancemigrations";
    cluster.server.answers(migrations, 200, r#"{"items": []}"#);
    cluster.run("migrate-cancel web").refused(4, "Found no migration to cancel for web");
    cluster.server.has(VM, &json!({"spec": {"runStrategy": "Halted"}}));
    cluster.run("pause vm web").refused(4, "it is not set to run");
    cluster.run("start web --server 127.0.0.1:1").refused(1, "cannot be reached");
    cluster.run("port-forward vm/web 0:22 --server 127.0.0.1:1").refused(1, "cannot forward ports to VM web");
    let page = ["ui", "--no-open", "--server", "127.0.0.1:1"];
    let page = Ran::of(cluster.place.command(&page).output().unwrap());
    page.refused(
        1,
        "cannot show the VMs of namespace blue: the API server http://127.0.0.1:1 cannot be reached",
    );
    cluster.run("start web --context d").refused(2, "has no context \"d\"; it has c");
    std::fs::remove_file(cluster.place.path(".kube/config")).unwrap();
    cluster.run("start web").refused(4, "--kubeconfig FILE");
    let ran = cluster.run("version").refused(4, "--kubeconfig FILE");
    assert!(ran.out.starts_with(b"Client Version: version.Info{"), "the client's own is known");
}

#[test]
fn what_the_guest_agent_says_is_json() {
    let cluster = Cluster::new();
    let info = json!({"guestAgentVersion": "7.2", "os": {"id": "debian"}});
    cluster.server.has(&format!("{PARTS_OF_VMI}/guestosinfo"), &info);
    assert_eq!(cluster.run("guestosinfo web").ok().json(), info);
    cluster.server.has(&format!("{PARTS_OF_VMI}/userlist"), &json!({"items": []}));
    assert_eq!(cluster.text("userlist web"), "{\n  \"items\": []\n}\n");
    let silent = "VMI does not have guest agent connected";
    cluster.server.answers(&format!("GET {PARTS_OF_VMI}/filesystemlist"), 500, silent);
    cluster.run("fslist web").refused(1, "install and start qemu-guest-agent");
}

#[test]
fn a_volume_is_added_to_the_vmi_where_there_is_no_vm() {
    let cluster = Cluster::new();
    cluster.server.has("/api/v1/namespaces/blue/persistentvolumeclaims/d", &json!({}));
    cluster.server.answers(&format!("PUT {PARTS_OF_VMI}/addvolume"), 202, "");
    let said = cluster.text("addvolume web --volume-name=d --cache=none");
    assert_eq!(said, "Successfully submitted add volume request to VM web for volume d\n");
    let asked = cluster.server.asked();
    let body = asked.last().unwrap().strip_prefix(&format!("PUT {PARTS_OF_VMI}/addvolume ")).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(body).unwrap(),
        json!({
            "name": "d",
            "disk": {"serial": "d", "cache": "none", "disk": {"bus": "scsi"}},
            "volumeSource": {"persistentVolumeClaim": {"claimName": "d", "hotpluggable": true}},
        })
    );
    cluster.run("addvolume web --volume-name=e").refused(4, "not a DataVolume or PersistentVolumeClaim");
}

#[test]
fn a_service_is_made_for_a_port() {
    let cluster = Cluster::new();
    cluster.server.has(VM, &json!({"metadata": {"name": "web", "uid": "u1"}, "spec": {}}));
    cluster.server.answers("POST /api/v1/namespaces/blue/services", 201, "{}");
    let said = cluster.text("expose vm web --name=s --port=22");
    assert_eq!(said, "Service s successfully created for vm web\n");
    let asked = cluster.server.asked();
    assert!(asked[1].contains(r#""selector":{"vmi.kubevirt.io/id":"web"}"#), "{asked:?}");
}

#[test]
fn the_page_says_what_the_vm_waits_for() {
    let cluster = Cluster::new();
    let said = "0/1 nodes are available: 1 Insufficient memory.";
    let condition =
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said});
    cluster
        .server
        .has(VM, &json!({"spec": {"runStrategy": "Always"}, "status": {"printableStatus": "Starting"}}));
    cluster.server.has(VMI, &json!({"metadata": {"uid": "u1"}, "status": {"phase": "Scheduling"}}));
    let pod = json!({"metadata": {"name": "virt-launcher-web-x"}, "status": {"phase": "Pending", "conditions": [condition]}});
    cluster.server.has("/api/v1/namespaces/blue/pods", &json!({"items": [pod]}));
    cluster.server.answers(
        "GET /api/v1/namespaces/blue/events",
        403,
        status(403, "User \"me\" cannot list events"),
    );
    let page = cluster.text("why web");
    assert!(page.starts_with("VM web waits for a node"), "{page}");
    assert!(page.contains(said) && page.contains("less memory"), "{page}");
    assert!(page.contains("Not read\n  - Event (all): User \"me\" cannot list events"), "{page}");
    let asked = cluster.server.asked();
    assert!(asked.iter().any(|one| one.contains("labelSelector=kubevirt.io%2Fcreated-by%3Du1")), "{asked:?}");

    let event = json!({
        "type": "Warning", "reason": "FailedCreate", "message": "no room",
        "involvedObject": {"kind": "VirtualMachine", "name": "web"},
    });
    cluster.server.has("/api/v1/namespaces/blue/events", &json!({"items": [event]}));
    assert!(cluster.text("events web").contains("Warning  FailedCreate  VM web"));
    cluster.run("why other").refused(4, "cannot read VM other in namespace blue");
}

#[test]
fn the_page_about_a_pool_names_its_vms_that_are_not_ready() {
    let cluster = Cluster::new();
    let pool = json!({
        "metadata": {"uid": "u1"}, "spec": {"replicas": 2}, "status": {"replicas": 2, "readyReplicas": 1},
    });
    let path = "/apis/pool.kubevirt.io/v1beta1/namespaces/blue/virtualmachinepools/web";
    cluster.server.has(path, &pool);
    let vm = |name: &str, owner: &str, ready: &str| {
        json!({
            "metadata": {"name": name, "ownerReferences": [{"uid": owner, "controller": true}]},
            "status": {"printableStatus": "Starting", "conditions": [{"type": "Ready", "status": ready}]},
        })
    };
    let vms = [vm("web-0", "u1", "True"), vm("web-1", "u1", "False"), vm("web-2", "u2", "False")];
    cluster.server.has("/apis/kubevirt.io/v1/namespaces/blue/virtualmachines", &json!({"items": vms}));
    let event = json!({
        "type": "Normal", "reason": "SuccessfulCreate", "message": "Created VM blue/web-1",
        "involvedObject": {"kind": "VirtualMachinePool", "name": "web"},
    });
    cluster.server.has("/api/v1/namespaces/blue/events", &json!({"items": [event]}));
    let page = cluster.text("why pool/web");
    assert!(
        page.starts_with("VirtualMachinePool web waits for 1 of its 2 VMs, which is not ready."),
        "{page}"
    );
    assert!(page.contains("coracle virt why vm/web-1 -n blue") && !page.contains("web-2"), "{page}");
    assert!(page.contains("Normal  SuccessfulCreate  VirtualMachinePool web"), "{page}");
    // No VM has the name.
    assert_eq!(cluster.text("why web"), page);
    cluster.run("why vm/web").refused(4, "cannot read VM web in namespace blue");
    cluster.run("why front").refused(4, "no VMI, pool or replica set has the name either");
    let said = "cannot read VirtualMachineInstanceReplicaSet front in namespace blue";
    cluster.run("why rs/front").refused(4, said);
}

#[test]
fn an_object_that_is_too_deep_leaves_its_neighbours_in_sight() {
    let cluster = Cluster::new();
    let pool = json!({"metadata": {"uid": "u1"}, "spec": {"replicas": 2}, "status": {"replicas": 2}});
    cluster.server.has("/apis/pool.kubevirt.io/v1beta1/namespaces/blue/virtualmachinepools/web", &pool);
    let deep = format!("{}0{}", "[".repeat(200), "]".repeat(200));
    let vm = |name: &str, owner: &str, spec: &str| {
        let metadata = json!({"name": name, "ownerReferences": [{"uid": owner, "controller": true}]});
        format!(r#"{{"metadata": {metadata}, "spec": {spec}, "status": {{"printableStatus": "Starting"}}}}"#)
    };
    let vms = [vm("web-0", "u1", "{}"), vm("web-1", "u1", &deep), vm("other", "u2", &deep)].join(",");
    let list = "GET /apis/kubevirt.io/v1/namespaces/blue/virtualmachines";
    cluster.server.answers(list, 200, format!(r#"{{"items": [{vms}]}}"#));
    cluster.server.has("/api/v1/namespaces/blue/events", &json!({"items": []}));
    let page = cluster.text("why pool/web");
    assert!(page.starts_with("VirtualMachinePool web waits for 2 of its 2 VMs"), "{page}");
    assert!(page.contains("web-0") && page.contains("Starting, not ready"), "{page}");
    assert!(page.contains("Not read\n  - VM web-1: nested too deep, or too many values"), "{page}");
    assert!(!page.contains("other"), "{page}");

    let kubevirt = format!(r#"{{"items": [{{"metadata": {{"name": "kubevirt"}}, "spec": {deep}}}]}}"#);
    cluster.server.answers("GET /apis/kubevirt.io/v1/kubevirts", 200, kubevirt);
    let said = "cannot read the KubeVirt object: kubevirt is nested too deep";
    cluster.run("adm log-verbosity --all").refused(3, said);
}

#[test]
fn the_program_is_virtctl_under_that_name() {
    let cluster = Cluster::new();
    cluster.server.answers(&format!("PUT {PARTS_OF_VM}/start"), 202, "");
    let called = |name: &str, args: &[&str]| {
        let program = cluster.place.path(name);
        if !program.exists() {
            symlink(PROGRAM, &program).unwrap();
        }
        let mut command = Command::new(program);
        command.args(args).env("HOME", cluster.place.folder()).env_remove("KUBECONFIG");
        Ran::of(command.output().unwrap())
    };
    let text = |ran: Ran| String::from_utf8(ran.ok().out).unwrap();
    assert_eq!(text(called("virtctl", &["start", "web"])), "VM web was scheduled to start\n");
    let version = text(called("kubectl-virt", &["version", "--client"]));
    assert!(version.starts_with("Client Version: version.Info{GitVersion:\"v"), "{version}");
    assert!(text(called("kubectl-virt", &["start", "--help"])).contains("Usage: kubectl virt start"));
    assert!(text(called("virtctl", &["--help"])).contains("port-forward"));
    assert!(text(cluster.run("start --help")).contains("Usage: coracle virt start"));
}
