//! Two nodes: one is emptied, one is not heard of, one loses its power, the disk of one is filled. Never do
//! two QEMUs have the one disk. These run one after the other, on a cluster with NODES=2.

mod disk_pressure;
mod external;
mod migration;
mod migration_kills;
mod migration_targets;
mod offline_migration;
mod state_migration;
mod volume_update;

pub(crate) use migration::{CLAIM, console_there, counting_on, counts_on, ends_as, migration};

use crate::{volumes, with_spec};
use std::process::Stdio;
use tests::cluster::{Cluster, Space, until};

const NODES: [(u32, &str); 2] = [(1, "node1"), (2, "node2")];
/// Where the VMI is at first, and what happens.
const AWAY: &str = "node2";
/// Says that a node is off, and that its pods run no more.
const OUT: &str = "node.kubernetes.io/out-of-service";

/// It would rather be on the second node, and gives up one that is lost at once.
const PLACE: &str = "      affinity:
        nodeAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node2]}]}
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
";

/// A VM with a disk on a PVC, and with these lines of its spec, runs on the second node and has written to it. Gives back
/// the VMI's uid.
fn begin(story: &str, lines: &str) -> Option<(Space, String)> {
    let space = on_two_nodes(story)?;
    space.apply(&with_spec(&volumes::manifest("Filesystem", "standard"), &format!("{PLACE}{lines}")));
    volumes::write(&mut space.console_when_ready("web"));
    assert_eq!(space.get("vmi/web", ".status.nodeName"), AWAY);
    let uid = space.get("vmi/web", ".metadata.uid");
    Some((space, uid))
}

/// A namespace of a cluster with two nodes, both of which take VMIs.
fn on_two_nodes(story: &str) -> Option<Space> {
    let cluster = Cluster::there()?;
    if cluster.run(&["get", "node", AWAY]).code != 0 {
        eprintln!("skipped: the cluster has one node; NODES=2 tests/cluster/up adds one");
        return None;
    }
    let space = Space::new(story)?;
    takes_vmis(&space);
    Some(space)
}

/// The second node is there, and VMIs may come.
fn takes_vmis(space: &Space) {
    space.has("node/node2", "Ready", "True");
    space.says("node/node2", ".metadata.labels.kubevirt\\.io/schedulable", "true");
    // Its agent has said that it may, and a little later what of: without it the VMI goes to the other.
    let cards = || space.get("node/node2", ".status.allocatable.devices\\.kubevirt\\.io/tun");
    until(|| !["", "0"].contains(&cards().as_str()), || "node2 offers no network devices".into());
}

/// Waits until it is so, and looks all the while that no second QEMU has the disk.
#[track_caller]
fn alone_until(space: &Space, so: impl Fn() -> bool, what: impl Fn() -> String) {
    let is_so = || {
        let there = running(space);
        assert!(there.len() <= 1, "two QEMUs have the one disk, on {there:?}");
        so()
    };
    until(is_so, what);
}

/// The nodes on which the VMI's QEMU runs, each as often as it does.
fn running(space: &Space) -> Vec<&'static str> {
    let words = format!("guest={}_web,", space.name);
    let on = |&(number, name): &(u32, &'static str)| {
        let found = space.cluster.on_node(number, &["pgrep", "-f", &words]).out;
        vec![name; String::from_utf8_lossy(&found).lines().count()]
    };
    NODES.iter().flat_map(on).collect()
}

/// There is another VMI, it serves, and has what the first one wrote.
#[track_caller]
fn begun_again(space: &Space, first: &str) {
    let state = || {
        let path = "jsonpath={.metadata.uid} {.status.conditions[?(@.type==\"Ready\")].status}";
        String::from_utf8_lossy(&space.try_run(&["get", "vmi", "web", "-o", path]).out).into_owned()
    };
    alone_until(space, || !state().starts_with(first) && state().ends_with(" True"), state);
    volumes::reads(&mut space.console_when_ready("web"));
}

/// The cluster has given the pod up, and nobody has said that it is gone: the VMI is the first, and the only one.
#[track_caller]
fn waits(space: &Space, first: &str) {
    let deleted = || space.run(&["get", "pods", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}"]);
    alone_until(space, || !deleted().is_empty(), || "the pod on a lost node is not given up".into());
    space.has("vmi/web", "Ready", "False");
    assert_eq!(space.get("vmi/web", ".metadata.uid"), first);
    assert_eq!(space.get("vmi/web", ".status.phase"), "Running");
    assert_eq!(space.run(&["get", "pods", "-o", "name"]).lines().count(), 1);
}

#[test]
fn a_node_is_drained_and_its_vm_starts_on_the_other() {
    let Some((space, first)) = begin("drain", "") else { return };
    let _again = Whole(&space);
    let words = ["drain", AWAY, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=170s"];
    let mut drain = space.cluster.kubectl(&words).stdout(Stdio::null()).spawn().unwrap();
    begun_again(&space, &first);
    assert_eq!(space.get("vmi/web", ".status.nodeName"), "node1");
    assert!(drain.wait().unwrap().success());
}

#[test]
fn the_disk_of_a_node_that_is_not_heard_of_is_given_to_nobody() {
    let Some((space, first)) = begin("unheard", "") else { return };
    let again = Whole(&space);
    space.cluster.tool("part", &["stop", "node2/kubelet"]).ok();
    waits(&space, &first);
    assert_eq!(running(&space), [AWAY], "the guest knows nothing of all this");
    // It is heard of again, and does what it was told meanwhile: the guest ends in order.
    drop(again);
    begun_again(&space, &first);
}

#[test]
fn a_node_without_power_gives_its_vm_up_when_somebody_says_so() {
    let Some((space, first)) = begin("power", "") else { return };
    let again = Whole(&space);
    let old = space.get(&format!("pod/{}", space.pod_of("web")), ".metadata.uid");
    space.cluster.tool("part", &["stop", AWAY]).ok();
    waits(&space, &first);
    assert!(running(&space).is_empty());
    space.cluster.run(&["taint", "node", AWAY, &format!("{OUT}=nodeshutdown:NoExecute")]).ok();
    begun_again(&space, &first);
    assert_eq!(space.get("vmi/web", ".status.nodeName"), "node1");
    // Its power is back: it begins nothing again, and clears away what it had.
    drop(again);
    takes_vmis(&space);
    let left = || space.cluster.on_node(2, &["ls", "/var/lib/kubelet/pods"]).ok().out;
    until(|| !String::from_utf8_lossy(&left()).contains(&old), || "the old pod's folder is left".into());
    assert_eq!(running(&space), ["node1"]);
}

/// The second node is as it was once this goes, also after a failure.
struct Whole<'a>(&'a Space);

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        let cluster = &self.0.cluster;
        // Each says that there is nothing to do where that is so.
        for part in [AWAY, "node2/kubelet"] {
            cluster.tool("part", &["start", part]);
        }
        cluster.run(&["uncordon", AWAY]);
        cluster.run(&["taint", "node", AWAY, &format!("{OUT}-")]);
    }
}
