//! What each run strategy does when a guest ends, by itself or because it was asked to.

use crate::tiny;
use tests::cluster::Space;

/// What virt-api writes for `virtctl start` and `stop`.
fn request(space: &Space, action: &str, uid: Option<&str>) {
    let uid = uid.map_or(String::new(), |uid| format!(r#","uid":"{uid}""#));
    let patch = format!(r#"{{"status":{{"stateChangeRequests":[{{"action":"{action}"{uid}}}]}}}}"#);
    space.run(&["patch", "vm", "web", "--subresource=status", "--type=merge", "-p", &patch]);
}

fn uid(space: &Space) -> String {
    space.get("vmi/web", ".metadata.uid")
}

#[test]
fn always_begins_again_after_a_shutdown() {
    let Some(space) = Space::new("always") else { return };
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    let first = uid(&space);
    space.console("web").log_in().power_off();
    space.another("vmi/web", &first);
    space.has("vmi/web", "Ready", "True");
    // Halted ends it for good.
    space.run(&["patch", "vm", "web", "--type=merge", "-p", r#"{"spec":{"runStrategy":"Halted"}}"#]);
    space.gone("vmi/web");
    space.says("vm/web", ".status.printableStatus", "Stopped");
}

#[test]
fn manual_waits_for_each_request() {
    let Some(space) = Space::new("manual") else { return };
    space.apply(&tiny("web", "Manual"));
    space.says("vm/web", ".status.printableStatus", "Stopped");
    request(&space, "Start", None);
    space.has("vmi/web", "Ready", "True");
    let first = uid(&space);
    space.console("web").log_in().power_off();
    space.says("vmi/web", ".status.phase", "Succeeded");
    request(&space, "Start", None);
    space.another("vmi/web", &first);
    space.has("vmi/web", "Ready", "True");
    request(&space, "Stop", Some(&uid(&space)));
    space.says("vm/web", ".status.printableStatus", "Stopped");
}

#[test]
fn rerun_on_failure_begins_again_after_a_crash_alone() {
    let Some(space) = Space::new("rerun") else { return };
    space.apply(&tiny("web", "RerunOnFailure"));
    space.has("vmi/web", "Ready", "True");
    let first = uid(&space);
    let pod = space.pod_of("web");
    space.kill_in(&pod, "qemu-system-x86");
    space.another("vmi/web", &first);
    space.has("vmi/web", "Ready", "True");
    let second = uid(&space);
    space.console("web").log_in().power_off();
    space.says("vmi/web", ".status.phase", "Succeeded");
    assert_eq!(uid(&space), second, "it ended in order, and was begun again");
}

#[test]
fn once_is_once() {
    let Some(space) = Space::new("once") else { return };
    space.apply(&tiny("web", "Once"));
    space.has("vmi/web", "Ready", "True");
    space.console("web").log_in().power_off();
    space.says("vmi/web", ".status.phase", "Succeeded");
    space.says("vm/web", ".status.printableStatus", "Stopped");
}
