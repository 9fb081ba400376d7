//! What is written is judged, and completed, before anything is made of it.

use crate::tiny;
use tests::cluster::Space;

#[test]
fn a_manifest_that_is_wrong_is_refused_with_every_reason() {
    let Some(space) = Space::new("wrong") else { return };
    let disks = "        devices:\n          disks:\n          - {name: lost, disk: {bus: ide}}\n";
    let manifest = tiny("web", "Often").replace("        devices:\n", disks).replace("256Mi", "64k");
    let refused = space.try_apply(&manifest);
    assert_ne!(refused.code, 0);
    for said in [
        "spec.runStrategy: Invalid RunStrategy (Often)",
        "spec.template.spec.domain.devices.disks[0].Name 'lost' not found.",
        "spec.template.spec.domain.devices.disks[0].disk.bus: IDE bus is not supported",
        "spec.template.spec.domain.resources.requests.memory '64k': must be greater than or equal to 1M.",
    ] {
        assert!(refused.err.contains(said), "{said}: {}", refused.err);
    }
    assert_eq!(space.run(&["get", "vm", "-o", "name"]), "");
}

#[test]
fn a_field_that_nobody_knows_is_kept_and_told() {
    let Some(space) = Space::new("unknown") else { return };
    let manifest =
        tiny("web", "Halted").replace("      domain:\n", "      domain:\n        memroy: {guest: 1}\n");
    let told = space.try_apply(&manifest).ok();
    let said = "unknown field \"spec.template.spec.domain.memroy\"";
    assert!(told.err.contains(said) && told.err.contains("did you mean \"memory\"?"), "{}", told.err);
    space.run(&["patch", "vm", "web", "--type=merge", "-p", r#"{"spec":{"runStrategy":"Manual"}}"#]);
    assert_eq!(space.get("vm/web", ".spec.template.spec.domain.memroy"), r#"{"guest":1}"#);
    assert_eq!(space.get("vm/web", ".spec.template.spec.domain.machine.type"), "q35");
}

#[test]
fn a_vmi_stays_what_it_is_whoever_writes() {
    let Some(space) = Space::new("fixed") else { return };
    space.apply(&tiny("web", "Always").replace("256Mi", "900Gi"));
    space.says("vmi/web", ".status.phase", "Scheduling");
    let patch = |change: &str| space.try_run(&["patch", "vmi", "web", "--type=merge", "-p", change]);
    let told = patch(r#"{"status":{"phase":"Succeeded"},"metadata":{"labels":{"mine":"yes"}}}"#).ok();
    assert!(told.err.contains("status: it stays as it was"), "{}", told.err);
    assert_eq!(space.get("vmi/web", ".metadata.labels.mine"), "yes");
    space.says("vmi/web", ".status.phase", "Scheduling");
    for (change, said) in [
        (r#"{"spec":{"hostname":"other"}}"#, "update of VMI object is restricted"),
        (
            r#"{"metadata":{"labels":{"kubevirt.io/nodeName":"node9"}}}"#,
            "modification of the following reserved kubevirt.io/ labels",
        ),
    ] {
        let refused = patch(change);
        assert!(refused.code != 0 && refused.err.contains(said), "{}", refused.err);
    }
}
