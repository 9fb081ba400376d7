//! Hook sidecars: KubeVirt's own sidecar-shim, which runs scripts of a ConfigMap, and the same as a network binding plugin.

use crate::network::OTHER;
use crate::reasons::told;
use crate::{open_gates, tiny, with_disks};
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use tests::cluster::{Space, until};

const SCRIPTS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: hooks}
data:
  board.sh: |
    #!/bin/sh
    # What it is told of its pod.
    test -n "$(sed -n /interfaces/p /etc/podinfo/network-info)" || exit 1
    test -n "$(sed -n /virt-launcher/p /var/run/kubevirt-private/downwardapi/podinfo/labels)" || exit 1
    printf '%s\n' "$4" | sed "s|</sysinfo>|<baseBoard><entry name='manufacturer'>Radical</entry></baseBoard></sysinfo>|"
  seed.sh: |
    #!/bin/sh
    printf '%s' "$4" | sed "s|word-from-spec|word-from-hook|"
  name.sh: |
    #!/bin/sh
    printf '%s\n' "$4" | sed "s|<name>[^<]*</name>|<name>other</name>|"
"#;

/// A VM with these sidecars: of each, its version, its script, and when that runs.
fn hooked(name: &str, hooks: &[(&str, &str, &str)]) -> String {
    let entry = |(version, key, point): &(&str, &str, &str)| {
        format!(
            r#"{{"image": "registry:5000/sidecar-shim:1", "args": ["--version", "{version}"], "configMap": {{"name": "hooks", "key": "{key}", "hookPath": "/usr/bin/{point}"}}, "downwardAPI": ["device-info", "pod-info"]}}"#
        )
    };
    let hooks: Vec<String> = hooks.iter().map(entry).collect();
    let annotation = format!(
        "  template:\n    metadata:\n      annotations:\n        hooks.kubevirt.io/hookSidecars: '[{}]'\n",
        hooks.join(", ")
    );
    let seed = "{name: seed, cloudInitNoCloud: {userData: word-from-spec}}";
    let vm = with_disks(&tiny(name, "Always"), &[("{name: seed, disk: {bus: virtio}}", seed)]);
    format!("{SCRIPTS}---{}", vm.replace("  template:\n", &annotation))
}

/// The settings are read live, a moment later.
fn apply(space: &Space, manifest: &str) {
    open_gates(space);
    until(|| space.try_apply(manifest).code == 0, || space.try_apply(manifest).err);
}

/// What the image of the plugin does: the guest's card is on a network of QEMU's own.
const PLUGIN: &str = r#"#!/bin/sh
test "$NETWORK_BINDING_PLUGIN_NAME" = usermode || exit 1
card="<interface type='user'><mac address='02:00:00:00:00:2a'/><model type='virtio'/></interface>"
printf '%s\n' "$4" | sed "s|</devices>|$card</devices>|"
"#;

/// Registers a network binding plugin, whose image is sidecar-shim with its script; or takes it away again.
fn register(space: &Space, image: Option<&str>) {
    let plugin = image.map(|image| json!({"sidecarImage": image}));
    let binding = json!({"binding": {"usermode": plugin}});
    let change = json!({"spec": {"configuration": {"network": binding}}}).to_string();
    space.run(&["patch", "-n", "kubevirt", "kubevirt", "kubevirt", "--type", "merge", "-p", &change]);
}

/// Makes the image of the plugin, and pushes it; its name in the cluster.
fn plugin(space: &Space) -> String {
    let registry = space.cluster.info("registry");
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("onDefineDomain");
    std::fs::write(&script, PLUGIN).unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let (from, to) =
        (format!("docker://{registry}/sidecar-shim:1"), format!("docker://{registry}/usermode:1"));
    let plain = ["skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", "--dest-tls-verify=false"];
    let arguments = ["--config.entrypoint=/sidecar-shim", "--config.cmd=--version", "--config.cmd=v1alpha3"];
    for command in [
        [&plain[..], &[from.as_str(), "oci:shim:1"]].concat(),
        vec!["umoci", "insert", "--image=shim:1", "onDefineDomain", "/bin/onDefineDomain"],
        [&["umoci", "config", "--image=shim:1"], &arguments[..]].concat(),
        [&plain[..], &["oci:shim:1", to.as_str()]].concat(),
    ] {
        let done = Command::new(command[0]).args(&command[1..]).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    "registry:5000/usermode:1".to_owned()
}

#[test]
fn sidecars_change_the_domain_and_the_texts_of_cloud_init() {
    let Some(space) = Space::new("hooks") else { return };
    let hooks = [("v1alpha3", "board.sh", "onDefineDomain"), ("v1alpha2", "seed.sh", "preCloudInitIso")];
    apply(&space, &hooked("web", &hooks));
    let mut console = space.console_when_ready("web");
    console.log_in().types("cat /sys/class/dmi/id/board_vendor").says("Radical");
    console.types(&crate::once_there("/seed/user-data")).says("word-from-hook");
    // The first version of the interface is served, too; and behind it a network binding plugin gives the guest its card.
    register(&space, Some(&plugin(&space)));
    space.run(&["delete", "vm", "web"]);
    space.gone("pod");
    let vm = hooked("old", &[("v1alpha1", "board.sh", "onDefineDomain")]);
    apply(&space, &vm.replace("masquerade: {}", "binding: {name: usermode}"));
    space.apply(OTHER);
    let mut console = space.console_when_ready("old");
    console.log_in().types("cat /sys/class/dmi/id/board_vendor").says("Radical");
    assert_eq!(console.runs("cat /sys/class/net/eth0/address").trim(), "02:00:00:00:00:2a");
    console.types("until ip -4 addr show eth0 | grep inet; do sleep 1; done").says("inet 10.0.2.15/24");
    space.has("pod/other", "Ready", "True");
    let other = space.get("pod/other", ".status.podIP");
    console.types(&format!("wget -qO- http://{other}/")).says("from a pod");
    space.run(&["delete", "vm", "old"]);
    register(&space, None);
}

#[test]
fn a_sidecar_that_makes_another_domain_is_told_in_the_condition_of_the_vmi() {
    let Some(space) = Space::new("hooks-bad") else { return };
    let vm = hooked("web", &[("v1alpha3", "name.sh", "onDefineDomain")]);
    apply(&space, &vm.replace("runStrategy: Always", "runStrategy: Once"));
    space.says("vmi/web", ".status.phase", "Failed");
    told(&space, "Synchronized", "changed the name of the domain");
}
