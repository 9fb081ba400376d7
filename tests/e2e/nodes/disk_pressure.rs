//! A guest fills the disk of its node. The second node keeps its pods on a file system of 2 GiB, of which its
//! kubelet wants 10 % free.

use super::{PLACE, on_two_nodes};
use crate::{tiny, with_disks, with_spec};
use tests::cluster::{Space, until};

const NODE: &str = "node2";
/// Its number.
const NUMBER: u32 = 2;
/// MiB that are left before the guest begins. Guests are paused at 292 MiB, and the kubelet evicts at 195.
const LEFT: u64 = 500;
/// MiB that the guest wants to write.
const WANTED: u64 = 400;

/// A VM of the second node with an emptyDisk.
fn vm(name: &str) -> String {
    let disk = ("{name: data, disk: {bus: virtio}}", "{name: data, emptyDisk: {capacity: 450Mi}}");
    with_spec(&with_disks(&tiny(name, "Always"), &[disk]), PLACE)
}

/// MiB that are left on the node's disk.
fn left(space: &Space) -> u64 {
    let out = space.cluster.on_node(NUMBER, &["df", "--output=avail", "-BM", "/var/lib/kubelet"]).ok().out;
    let text = String::from_utf8_lossy(&out).into_owned();
    text.lines().last().and_then(|line| line.trim().trim_end_matches('M').parse().ok()).expect(&text)
}

/// A file that takes room until this goes.
struct Ballast<'a>(&'a Space);

impl<'a> Ballast<'a> {
    fn new(space: &'a Space) -> Ballast<'a> {
        let size = format!("{}M", left(space) - LEFT);
        space.cluster.on_node(NUMBER, &["fallocate", "-l", &size, Self::PATH]).ok();
        Ballast(space)
    }

    const PATH: &'static str = "/var/lib/kubelet/ballast";
}

impl Drop for Ballast<'_> {
    fn drop(&mut self) {
        self.0.cluster.on_node(NUMBER, &["rm", "-f", Self::PATH]);
    }
}

/// The kubelet has seen the disk as full as it is, and evicts nothing.
fn is_not_evicted(space: &Space) {
    let seen = || {
        let path = format!("/api/v1/nodes/{NODE}/proxy/stats/summary");
        let out = space.cluster.run(&["get", "--raw", &path]).ok().out;
        let all: serde_json::Value = serde_json::from_slice(&out).unwrap();
        all.pointer("/node/fs/availableBytes").and_then(serde_json::Value::as_u64).unwrap() >> 20
    };
    until(|| seen() < 320, || format!("the kubelet sees {} MiB left", seen()));
    // It tells the pressure of its node with each heartbeat; wait for one that is newer than what it has
    // seen.
    let heartbeat = || {
        space
            .get(&format!("node/{NODE}"), ".status.conditions[?(@.type==\"DiskPressure\")].lastHeartbeatTime")
    };
    for _ in 0..3 {
        let before = heartbeat();
        until(|| heartbeat() != before, || "the kubelet has no heartbeat".into());
        space.has(&format!("node/{NODE}"), "DiskPressure", "False");
    }
    let events = space.run(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
    assert!(!events.contains("Evict"), "{events}");
}

#[test]
fn a_guest_that_fills_the_disk_is_paused_and_nobody_is_evicted() {
    let Some(space) = on_two_nodes("disk-pressure") else { return };
    for name in ["full", "neighbour"] {
        space.apply(&vm(name));
    }
    let mut full = space.console_when_ready("full");
    let mut neighbour = space.console_when_ready("neighbour");
    for name in ["full", "neighbour"] {
        assert_eq!(space.get(&format!("vmi/{name}"), ".status.nodeName"), NODE);
    }
    let uids = || space.run(&["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"]);
    let pods = uids();
    neighbour
        .log_in()
        .types("i=0; while :; do i=$((i+1)); echo $i | dd of=/dev/vda conv=sync,fsync 2>/dev/null; done &");
    full.log_in();
    let ballast = Ballast::new(&space);

    // The same 8 MiB again and again: a new one of each would cost the guest more than its writing.
    full.types(&format!(
        "dd if=/dev/urandom of=/tmp/piece bs=1M count=8 && for i in $(seq 0 {}); do dd if=/tmp/piece of=/dev/vda bs=1M \
         seek=$((i*8)) conv=fsync 2>/dev/null || break; done; echo all is $((2 + 2)) written",
        WANTED / 8 - 1
    ));
    space.says("vmi/full", ".status.conditions[?(@.type==\"Paused\")].reason", "PausedByDiskPressure");
    is_not_evicted(&space);
    assert!(left(&space) > 195, "{} MiB are left, where the kubelet evicts", left(&space));
    assert_eq!(uids(), pods);
    assert_eq!(space.get("vmi/neighbour", ".status.conditions[?(@.type==\"Paused\")].status"), "");
    neighbour.types("echo still $((1 + 1)) here").says("still 2 here");
    let events = space.run(&["get", "events", "-o", "jsonpath={.items[?(@.reason==\"Paused\")].message}"]);
    assert!(events.contains("the disk of node node2 is nearly full"), "{events}");

    // There is room again, and nobody has to say so.
    drop(ballast);
    full.says("all is 4 written");
    space.says("vmi/full", ".status.conditions[?(@.type==\"Paused\")].status", "");
    assert_eq!(uids(), pods);
}
