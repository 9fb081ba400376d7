//! The end of the installation. It runs alone, and last: nothing of the product is there after it.

use crate::release::{self, Before};
use crate::tiny;
use tests::cluster::{Cluster, Space, until};
use tests::coracle::Ran;

/// What there is in the cluster by a name of ours, whatever its kind. Events tell of the past.
pub(crate) fn left(cluster: &Cluster) -> Vec<String> {
    let words = |args: &[&str]| {
        let out = cluster.run(args).out;
        String::from_utf8_lossy(&out).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let kinds = words(&["api-resources", "--verbs=list", "-o", "name"]);
    let kinds: Vec<String> = kinds.into_iter().filter(|kind| !kind.starts_with("events")).collect();
    let all = words(&["get", &kinds.join(","), "-A", "--ignore-not-found", "-o", "name"]);
    // A kind may have gone between the two.
    if !all.iter().any(|name| name == "namespace/kube-system") {
        return vec!["not known: nothing was listed".into()];
    }
    let ours = |name: &String| ["virt", "revision-start-vm"].iter().any(|word| name.contains(word));
    all.into_iter().filter(ours).collect()
}

/// Processes, sockets and folders of pods on a node: what is ours, and what belongs to no pod that is there.
fn left_on(cluster: &Cluster, number: &str) -> String {
    let node = format!("spec.nodeName=node{number}");
    let pods = ["get", "pods", "-A", "--field-selector", &node, "-o", "jsonpath={.items[*].metadata.uid}"];
    let pods = String::from_utf8_lossy(&cluster.run(&pods).ok().out).replace(' ', "|");
    let line = format!(
        "pgrep -l 'qemu|virt-'; ls /var/lib/kubelet/device-plugins | grep -i virt; \
         ls /var/lib/kubelet/pods | grep -vxE '{pods}'; true"
    );
    let seen = cluster.tool("node-exec", &[number, "bash", "-c", &line]).ok();
    String::from_utf8_lossy(&seen.out).into_owned()
}

/// Where no webhook stands, the API server's own policies still keep the status of a VMI from everybody.
fn nobody_writes_a_status(space: &Space) {
    let vmi = |status: &str| {
        format!(
            "{{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {{name: alone}}, spec: {{domain: \
             {{devices: {{}}}}}}{status}}}"
        )
    };
    let refused = |ran: &Ran, said: &str| {
        assert_ne!(ran.code, 0, "it was done: {}", String::from_utf8_lossy(&ran.out));
        assert!(
            ran.err.contains("ValidatingAdmissionPolicy") && ran.err.contains(said),
            "{said}: {}",
            ran.err
        );
    };
    let forged = ", status: {phase: Running, nodeName: node1}";
    refused(&space.try_apply(&vmi(forged)), "a VMI is created without a status");
    space.apply(&vmi(""));
    let ended = ["patch", "vmi", "alone", "--type=merge", "-p", r#"{"status":{"phase":"Succeeded"}}"#];
    refused(&space.try_run(&ended), "the status of a VMI is written by KubeVirt's own programs only");
    let taken = ["label", "vmi", "alone", "kubevirt.io/nodeName=node1"];
    refused(&space.try_run(&taken), "reserved kubevirt.io/ labels on a VMI object is prohibited");
    space.run(&["delete", "vmi", "alone"]);
}

#[test]
fn it_takes_its_vms_along_and_leaves_nothing_and_helm_installs_it_anew() {
    let Some(space) = Space::new("removal") else { return };
    let cluster = &space.cluster;
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    assert!(left(cluster).contains(&"namespace/kubevirt".to_owned()));
    let before = Before::of(cluster);

    cluster.run(&["delete", "-n", "kubevirt", "kubevirt", "kubevirt", "--timeout=150s"]).ok();
    for kind in ["vm", "vmi"] {
        assert_eq!(space.run(&["get", kind, "-o", "name"]), "");
    }
    space.gone("pod");
    let webhooks =
        || left(cluster).into_iter().filter(|name| name.contains("webhookconfiguration")).collect::<Vec<_>>();
    assert!(webhooks().is_empty(), "{:?}", webhooks());
    nobody_writes_a_status(&space);

    let place = tempfile::tempdir().unwrap();
    let words = ["manifests", "--registry", "registry:5000/coracle"];
    let stream = tests::coracle::run(env!("CARGO_BIN_EXE_coracle"), place.path(), &words).ok();
    let file = place.path().join("all.yaml");
    std::fs::write(&file, stream.out).unwrap();
    let file = file.to_str().unwrap();
    cluster.run(&["delete", "--ignore-not-found", "--timeout=170s", "-f", file]).ok();
    until(|| left(cluster).is_empty(), || format!("{:?}", left(cluster)));
    for node in cluster.info("nodes").split_whitespace() {
        let number = node.trim_start_matches("node");
        until(|| left_on(cluster, number).is_empty(), || left_on(cluster, number));
    }
    release::comes_and_goes(&space, &before);
}
