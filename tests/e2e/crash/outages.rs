//! Outages that last: parts of the control plane stand still (SIGSTOP) for minutes, with all their connections open, and go on.
//!
//! | stands still | for | what clients see |
//! |---|---|---|
//! | kube-apiserver | 120 s | each watch stalls, each request has no answer, each lease runs out |
//! | etcd | 60 s | the API server answers each write with an error |

use super::goes_on;
use crate::tiny;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::cluster::{Cluster, Space, until};

/// A process that stands still; it goes on with the end of the value.
struct Stopped {
    part: &'static str,
    pid: String,
}

impl Stopped {
    fn part(cluster: &Cluster, part: &'static str) -> Stopped {
        let said = cluster.tool("part", &["pid", part]).ok();
        let pid = String::from_utf8_lossy(&said.out).trim().to_owned();
        let stopped = Stopped { part, pid };
        stopped.signal("-STOP");
        stopped
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.pid]).status().unwrap();
        assert!(sent.success(), "{} ({}) is gone", self.part, self.pid);
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-CONT", &self.pid]).status();
    }
}

/// The processes of QEMU of a VMI, on the first node.
fn qemus(space: &Space, vmi: &str) -> Vec<String> {
    let guest = format!("qemu-system.*guest={}_{vmi},", space.name);
    let found = space.cluster.on_node(1, &["pgrep", "-f", &guest]);
    String::from_utf8_lossy(&found.out).split_whitespace().map(str::to_owned).collect()
}

/// All launcher pods of a VM that there ever were: none is removed while its VMI is there.
fn pods(space: &Space, vmi: &str) -> Vec<String> {
    let label = format!("vm.kubevirt.io/name={vmi}");
    let names = space.run(&["get", "pods", "-l", &label, "-o", "jsonpath={.items[*].metadata.uid}"]);
    names.split_whitespace().map(str::to_owned).collect()
}

/// One VM runs and another one is about to, a part stands still so long, and then both run as if nothing had been.
fn outlast(story: &str, part: &'static str, time: Duration) {
    let Some(space) = Space::new(story) else { return };
    space.apply(&tiny("web", "Always"));
    let mut console = space.console_when_ready("web");
    console.log_in().types("n=4711; echo s''et-$n").says("set-4711");
    drop(console);
    let uid = space.get("vmi/web", ".metadata.uid");
    let before = (pods(&space, "web"), qemus(&space, "web"));
    assert_eq!((before.0.len(), before.1.len()), (1, 1), "{before:?}");
    space.apply(&tiny("next", "Always"));

    let stopped = Stopped::part(&space.cluster, part);
    let since = Instant::now();
    while since.elapsed() < time {
        assert_eq!(qemus(&space, "web"), before.1, "{:?} after {part} stood still", since.elapsed());
        assert!(qemus(&space, "next").len() <= 1, "a second QEMU");
        std::thread::sleep(Duration::from_secs(1));
    }
    stopped.signal("-CONT");
    drop(stopped);

    until(|| space.try_run(&["get", "nodes"]).code == 0, || format!("{part} does not go on"));
    goes_on(&space, story);
    assert_eq!(space.get("vmi/web", ".metadata.uid"), uid);
    assert_eq!(space.get("vmi/web", ".status.phase"), "Running");
    assert_eq!((pods(&space, "web"), qemus(&space, "web")), before, "the same pod, the same QEMU");
    // The VM that was about to begin has begun once.
    space.console_when_ready("next").log_in();
    assert_eq!((pods(&space, "next").len(), qemus(&space, "next").len()), (1, 1));
    // All programs hear and write again.
    let programs = ["-n", "kubevirt", "rollout", "status", "deployment,daemonset", "--timeout=300s"];
    until(|| space.cluster.run(&programs).code == 0, || "a program does not come back".into());
    space.has("vmi/web", "Ready", "True");
    space.console("web").log_in().power_off();
    space.another("vmi/web", &uid);
    space.has("vmi/web", "Ready", "True");
    assert_eq!(qemus(&space, "web").len(), 1);
}

#[test]
fn an_api_server_that_stands_still_for_two_minutes_costs_no_vm() {
    outlast("still", "kube-apiserver", Duration::from_secs(120));
}

#[test]
fn an_api_server_that_answers_errors_for_a_minute_costs_no_vm() {
    outlast("errors", "etcd", Duration::from_secs(60));
}
