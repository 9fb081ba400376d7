//! What a guest is told at its first start: a small ISO image, written as cloud-init reads it. The smallest guest mounts it,
//! and runs the script among its files.

use crate::{tiny, with_disks};
use tests::cluster::Space;
use tests::serial::Serial;

/// A VM with such a volume; and its console.
fn told(space: &Space, source: &str) -> Serial {
    let volume = format!("{{name: seed, {source}}}");
    space.apply(&with_disks(&tiny("web", "Always"), &[("{name: seed, disk: {bus: virtio}}", &volume)]));
    space.console_when_ready("web")
}

#[test]
fn a_script_in_the_manifest_runs_in_the_guest() {
    let Some(space) = Space::new("nocloud") else { return };
    let script = r##""#!/bin/sh\necho told $((6*7)) times\n""##;
    let source = format!(r#"cloudInitNoCloud: {{userData: {script}, networkData: "version: 2\n"}}"#);
    let mut console = told(&space, &source);
    console.says("told 42 times").log_in();
    console.types(&crate::once_there("/seed/network-config")).says("version: 2");
    // It is told its name, and who it is: the same at each start.
    let uuid = space.get("vmi/web", ".spec.domain.firmware.uuid");
    console.types(&crate::once_there("/seed/meta-data")).says(&format!(r#""instance-id":"{uuid}""#));
    console.says(r#""local-hostname":"web""#);
}

#[test]
fn what_is_too_long_for_a_manifest_comes_from_a_secret() {
    let Some(space) = Space::new("seeds") else { return };
    let script = format!(r##""#!/bin/sh\n# {}\necho told by secret-$((6*7))\n""##, "-".repeat(3000));
    let inline = format!("{{name: seed, cloudInitNoCloud: {{userData: {script}}}}}");
    let manifest = with_disks(&tiny("web", "Always"), &[("{name: seed, disk: {bus: virtio}}", &inline)]);
    let refused = space.try_apply(&manifest);
    assert!(refused.code != 0 && refused.err.contains("exceeds 2048 byte limit"), "{}", refused.err);
    space.apply(&format!(
        r#"
apiVersion: v1
kind: Secret
metadata: {{name: seed}}
stringData: {{userdata: {script}, networkdata: "version: 2\n"}}
"#
    ));
    let source = "cloudInitNoCloud: {secretRef: {name: seed}, networkDataSecretRef: {name: seed}}";
    let mut console = told(&space, source);
    console.says("told by secret-42").log_in();
    console.types(&crate::once_there("/seed/network-config")).says("version: 2");
}

#[test]
fn a_config_drive_says_the_same_in_its_own_form() {
    let Some(space) = Space::new("configdrive") else { return };
    let source = r##"cloudInitConfigDrive: {userData: "#!/bin/sh\necho told $((6*7)) times\n"}"##;
    let mut console = told(&space, source);
    console.says("told 42 times").log_in();
    console.types(&crate::once_there("/seed/openstack/latest/meta_data.json"));
    console.says(&format!(r#""instance_id":"web.{}""#, space.name)).says(r#""hostname":"web""#);
}
