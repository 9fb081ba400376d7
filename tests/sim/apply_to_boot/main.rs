//! The first walk of the design, as a test that reads as its list: `kubectl apply` of a VM, until it runs.
//!
//! | on the way | here |
//! |---|---|
//! | API server | the one in memory of `controller/kit` ([`cluster`]), which asks the real webhooks before it writes |
//! | virt-controller | its decisions on its World, carried out by its own writer |
//! | scheduler, kubelet | played: a node's name, folders, a mounted image, what the pod says of itself |
//! | virt-handler | its layout, volumes, decisions, client and patch; played is the loop around them, which has tests of its own, and `/`: the pod's file system is a folder |
//! | virt-launcher | its server, queue, preparation and drawing |
//! | libvirt | a hypervisor that runs nothing, and keeps what it is told; libvirt passes the same suite |
//!
//! Not on the way are networks, which need a namespace: they are told as stories elsewhere. A disk that is filled first
//! has a walk of its own, in which CDI is played.

#![allow(clippy::unwrap_used)]

mod cluster;
mod node;

use api::launcher::Source;
use cluster::Cluster;
use cluster_model::objects::{Key, Kind};
use node::Node;
use serde_json::{Value, json};

/// A manifest as a user writes it, with few fields of a VM.
fn manifest() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"namespace": "n", "name": "web"},
        "spec": {
            "runStrategy": "Always",
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "domain": {
                        "memory": {"guest": "128Mi"},
                        "devices": {
                            "autoattachPodInterface": false,
                            "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                        },
                    },
                    "volumes": [
                        {"name": "root", "containerDisk": {"image": "registry.example/os:1"}},
                        {"name": "seed", "cloudInitNoCloud": {"userData": "#!/bin/sh\necho hello\n"}},
                    ],
                },
            },
        },
    })
}

#[tokio::test]
async fn a_vm_that_is_applied_runs() {
    let cluster = Cluster::new();
    let vm = Key::new(Kind::VirtualMachine, "n", "web");
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");

    // Admission finds all faults, …
    let mut faulty = manifest();
    faulty["spec"]["template"]["spec"]["volumes"][0]["name"] = json!("other");
    faulty["spec"]["template"]["spec"]["domain"]["devices"]["gpus"] =
        json!([{"name": "g", "deviceName": "d"}]);
    let said = cluster.apply(&vm, &faulty).unwrap_err();
    assert!(said.contains("root") && said.contains("gpus"), "{said}");

    // … and fills in the missing fields.
    cluster.apply(&vm, &manifest()).unwrap();
    let spec = cluster.object(&vm)["spec"]["template"]["spec"].clone();
    assert!(spec["domain"]["firmware"]["uuid"].is_string(), "{spec:#}");

    // cluster/vm plans the VMI; cluster/vmi and pod plan one pod.
    cluster.decide().await;
    assert_eq!(cluster.object(&vmi)["status"]["phase"], "Scheduling");
    let pods = cluster.keys(Kind::Pod);
    assert_eq!(pods.len(), 1);

    // The scheduler finds a node, and its kubelet makes the pod's folders, mounts the image and starts the launcher.
    let node = Node::new();
    let mut launcher = node.start(&cluster, &pods[0]).await;
    cluster.decide().await;
    assert_eq!(cluster.object(&vmi)["status"]["phase"], "Scheduled");

    // node/vmi sees a launcher that has no VM yet: node/volumes makes ready what the VM needs, among it the disk
    // in the image, which container-disk locates and probes; launcher_client hands all of it over.
    let plan = launcher.look(&cluster, &vmi).await;
    assert!(plan.begin, "{plan:?}");
    let resolved = launcher.begin(&cluster, &vmi).await;
    let disk = resolved.volumes["root"].clone();
    assert_eq!(disk, node.image("disk/os.img"), "found, and raw");

    // launcher/server hands it to the queue, which lets it in; domain draws the XML; the hypervisor starts it; publish tells
    // it, and node/vmi says Running.
    while cluster.object(&vmi)["status"]["phase"] != "Running" {
        let plan = launcher.look(&cluster, &vmi).await;
        assert!(!plan.begin, "a VM is begun once");
    }
    let heard: Vec<String> = launcher.heard().into_iter().filter(|line| !line.starts_with(' ')).collect();
    let words: Vec<&str> = heard.iter().map(String::as_str).collect();
    let begun =
        ["watch n_web", "undefine n_web", "define n_web", "start n_web", "line n_web", "resume n_web"];
    assert!(words.starts_with(&begun), "{words:?}");
    assert!(launcher.kept("disks/root.qcow2"), "an overlay over the image, which stays as it is");
    assert!(launcher.kept("seeds/seed.iso"), "what cloud-init reads");

    // The output that users see.
    cluster.decide().await;
    let seen = cluster.object(&vm);
    assert_eq!(seen["status"]["printableStatus"], "Running", "{seen:#}");
    assert_eq!(seen["status"]["ready"], true);
    let seen = cluster.object(&vmi);
    assert_eq!(seen["status"]["nodeName"], cluster::NODE);
    let targets: Vec<&Value> =
        seen["status"]["volumeStatus"].as_array().unwrap().iter().map(|volume| &volume["target"]).collect();
    assert_eq!(targets, ["vda", "sda"], "{:#}", seen["status"]);
    assert_eq!(cluster.deleted(), [] as [String; 0], "nothing is deleted on the way to a start");
    // And then there is silence.
    let version = cluster.version();
    cluster.decide().await;
    assert_eq!(cluster.version(), version);
}

#[tokio::test]
async fn a_vm_waits_for_a_disk_that_is_filled_first() {
    if !rustix::process::geteuid().is_root() {
        return; // only root may give the disk to the launcher
    }
    let cluster = Cluster::new();
    let [vm, vmi] =
        [Kind::VirtualMachine, Kind::VirtualMachineInstance].map(|kind| Key::new(kind, "n", "web"));
    let mut object = manifest();
    let spec = &mut object["spec"];
    spec["dataVolumeTemplates"] = json!([{
        "metadata": {"name": "web-data"},
        "spec": {"source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "64Mi"}}}},
    }]);
    spec["template"]["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "root", "disk": {"bus": "virtio"}}, {"name": "data", "disk": {"bus": "virtio"}}]);
    spec["template"]["spec"]["volumes"][1] = json!({"name": "data", "dataVolume": {"name": "web-data"}});
    cluster.apply(&vm, &object).unwrap();

    // cluster/vm plans the DataVolume, and nothing else before it is filled.
    cluster.decide().await;
    let data = Key::new(Kind::DataVolume, "n", "web-data");
    assert_eq!(cluster.object(&data)["metadata"]["ownerReferences"][0]["name"], "web");
    assert_eq!(cluster.object(&vm)["status"]["printableStatus"], "Provisioning");
    assert!(cluster.keys(Kind::VirtualMachineInstance).is_empty());
    cluster.filled(&data);
    cluster.decide().await;

    let node = Node::new();
    let mut launcher = node.start(&cluster, &cluster.keys(Kind::Pod)[0]).await;
    cluster.decide().await;
    assert!(launcher.look(&cluster, &vmi).await.begin);
    let resolved = launcher.begin(&cluster, &vmi).await;
    let Source::File { path, .. } = &resolved.volumes["data"] else { panic!("{resolved:?}") };
    assert_eq!(std::fs::metadata(path).unwrap().len(), 64 << 20, "{}", path.display());
    while cluster.object(&vmi)["status"]["phase"] != "Running" {
        launcher.look(&cluster, &vmi).await;
    }
    cluster.decide().await;
    assert_eq!(cluster.object(&vm)["status"]["printableStatus"], "Running");
}
