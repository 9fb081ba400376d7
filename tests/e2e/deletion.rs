//! A VM that is deleted, and what it leaves to itself.

use crate::tiny;
use tests::cluster::Space;

#[test]
fn a_vmi_that_is_orphaned_runs_on() {
    let Some(space) = Space::new("orphan") else { return };
    space.apply(&tiny("web", "Always"));
    let mut console = space.console_when_ready("web");
    console.log_in().types("n=4711; echo s''et-$n").says("set-4711");
    let uid = space.get("vmi/web", ".metadata.uid");
    space.run(&["delete", "vm", "web", "--cascade=orphan"]);
    space.gone("vm/web");
    space.says("vmi/web", ".metadata.ownerReferences", "");
    console.types("echo $n-af''ter").says("4711-after");
    assert_eq!(space.get("vmi/web", ".metadata.uid"), uid);
    assert_eq!(space.get("vmi/web", ".status.phase"), "Running");
    // A VM of its name does not take it, and says why it waits.
    space.apply(&tiny("web", "Always"));
    let failure = ".status.conditions[?(@.type==\"Failure\")].message";
    tests::cluster::until(
        || space.get("vm/web", failure).contains("does not belong to this VirtualMachine"),
        || space.get("vm/web", ".status"),
    );
    assert_eq!(space.get("vmi/web", ".metadata.uid"), uid);
    // Nobody begins it again but that VM, which has its own now.
    space.run(&["delete", "vmi", "web"]);
    space.another("vmi/web", &uid);
    space.has("vm/web", "Ready", "True");
}

/// The garbage collector takes the owner from the pod of a VMI that is orphaned; when it has ended, virt-controller deletes
/// that pod all the same, and the VMI goes.
#[test]
fn a_pod_that_lost_its_owner_goes_with_its_vmi() {
    let Some(space) = Space::new("ownerless") else { return };
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    let pod = format!("pod/{}", space.pod_of("web"));
    space.run(&["delete", "vm", "web", "--cascade=orphan"]);
    space.gone("vm/web");
    space.run(&["delete", "vmi", "web", "--cascade=orphan", "--wait=false"]);
    space.gone("vmi/web");
    space.gone(&pod);
}
