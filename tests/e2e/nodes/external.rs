//! A drain of a node whose VMI is somebody else's to move (`evictionStrategy: External`): it waits, and says so.

use super::{AWAY, Whole, begin, begun_again};
use std::process::Command;
use tests::cluster::{Space, until};
use tests::serial::Serial;

/// The node that the VMI must leave.
const LEAVES: &str = ".status.evacuationNodeName";

/// virtctl in the namespace, as the one who moves VMIs uses it.
#[track_caller]
pub(super) fn virtctl(space: &Space, args: &[&str], said: &str) {
    let info = |word| space.cluster.info(word);
    let mut command = Command::new(info("virtctl"));
    command.args(["-n", &space.name]).args(args).env("KUBECONFIG", info("kubeconfig"));
    let ran = command.output().unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && out.contains(said),
        "{args:?}: {out}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

/// A drain, with all that it says.
fn drain(space: &Space) -> Serial {
    let words = ["drain", AWAY, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=600s"];
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(space.cluster.path("kubectl")).args(words);
    Serial::of(command)
}

#[test]
fn a_drain_waits_for_a_vmi_that_somebody_else_moves() {
    let Some((space, first)) = begin("external", "      evictionStrategy: External\n") else { return };
    let _again = Whole(&space);
    let mut drain = drain(&space);
    // It is refused for now, in words that programs look for, and the VMI says what it waits for.
    let triggered = format!("Eviction triggered evacuation of VMI \"{}/web\"", space.name);
    drain.says(&triggered);
    space.says("vmi/web", LEAVES, AWAY);
    space.has("vmi/web", "EvictionRequested", "True");
    let message = space.get("vmi/web", ".status.conditions[?(@.type==\"EvictionRequested\")].message");
    assert!(message.contains(AWAY) && message.contains("virtctl evacuate-cancel vmi web"), "{message}");
    // It is tried again and again.
    let in_progress = format!("Evacuation in progress: {triggered}");
    drain.says(&in_progress);
    // Whoever moves it does not want to: it need not leave, until the drain asks again.
    let refusals = || drain.text().matches(&triggered).count() - drain.text().matches(&in_progress).count();
    let before = refusals();
    virtctl(&space, &["evacuate-cancel", "vm", "web"], "was canceled evacuation");
    until(|| refusals() > before, || format!("the drain was not refused anew: {}", drain.text()));
    space.says("vmi/web", LEAVES, AWAY);
    space.has("vmi/web", "EvictionRequested", "True");
    assert_eq!(space.get("vmi/web", ".metadata.uid"), first, "nothing ended it");
    assert_eq!(space.get("vmi/web", ".status.phase"), "Running");
    // They end it: the VM begins anew elsewhere, and the drain goes on to its end.
    virtctl(&space, &["restart", "web"], "VM web was scheduled to restart");
    begun_again(&space, &first);
    assert_eq!(space.get("vmi/web", ".status.nodeName"), "node1");
    assert_eq!(space.get("vmi/web", LEAVES), "");
    drain.says(&format!("node/{AWAY} drained"));
    drain.ends();
    assert!(drain.succeeded());
}
