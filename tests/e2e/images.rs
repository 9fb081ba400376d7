//! Images where the cluster cannot mount them: a container of each runs beside the launcher.

use crate::tiny;
use tests::cluster::Space;

#[test]
fn a_vm_boots_from_an_image_that_is_held_out_to_it() {
    let Some(space) = Space::new("images") else { return };
    let gates = |list: &str| {
        let patch = format!(
            r#"{{"spec":{{"configuration":{{"developerConfiguration":{{"disabledFeatureGates":{list}}}}}}}}}"#
        );
        space.run(&["patch", "-n", "kubevirt", "kubevirt", "kubevirt", "--type", "merge", "-p", &patch]);
    };
    gates(r#"["ImageVolume"]"#);
    space.apply(&tiny("web", "Always"));
    space.says("vmi/web", ".status.phase", "Running");
    gates("[]");
    let names = space.run(&["get", "pod", "-o", "jsonpath={.items[0].spec.containers[*].name}"]);
    assert_eq!(names.trim(), "compute kernel-boot-volume guest-console-log");
    let mut console = space.console("web");
    console.says("tiny login:");
    // The container beside ends with the VMI.
    space.run(&["delete", "vm", "web"]);
    space.gone("vmi/web");
    space.gone("pod");
}
