//! The CDI object: it says how the part of the installation that fills disks is, and which of its settings have no effect.

use tests::cluster::{Space, until};

#[test]
fn the_cdi_object_becomes_available_and_names_settings_without_an_effect() {
    let Some(space) = Space::new("cdi") else { return };
    space.run(&["wait", "cdi/cdi", "--for=condition=Available", "--timeout=120s"]);
    until(|| space.get("cdi/cdi", ".status.phase") == "Deployed", || space.get("cdi/cdi", ".status"));
    let version = space.get("cdi/cdi", ".status.targetVersion");
    assert!(!version.is_empty());
    assert_eq!(space.get("cdi/cdi", ".status.observedVersion"), version);
    // Nothing of it is kept: other stories go on beside.
    let patch = r#"{"spec":{"priorityClass":"p","config":{"scratchSpaceStorageClass":"s"}}}"#;
    let said = space.try_run(&["patch", "cdi", "cdi", "--type", "merge", "--dry-run=server", "-p", patch]);
    assert_eq!(said.code, 0, "{}", said.err);
    for field in ["spec.priorityClass: no effect", "spec.config.scratchSpaceStorageClass: no effect"] {
        assert!(said.err.contains(field), "{}", said.err);
    }
    let settings = r#"{"spec":{"dataVolumeTTLSeconds":1}}"#;
    let said = space.try_run(&[
        "patch",
        "cdiconfig",
        "config",
        "--type",
        "merge",
        "--dry-run=server",
        "-p",
        settings,
    ]);
    assert!(said.err.contains("spec.dataVolumeTTLSeconds: no effect"), "{}", said.err);
}
