//! From a manifest to a login prompt.

use crate::tiny;
use tests::cluster::Space;

#[test]
fn a_vm_is_applied_and_logged_in_to() {
    let Some(space) = Space::new("boots") else { return };
    space.apply(&tiny("web", "Always"));
    space.has("vm/web", "Ready", "True");
    space.says("vm/web", ".status.printableStatus", "Running");
    let mut console = space.console("web");
    console.log_in();
    console.types("echo $((6*7))-answer");
    console.says("42-answer");
    space.run(&["delete", "vm", "web"]);
    space.gone("vmi/web");
    space.gone("pod");
}
