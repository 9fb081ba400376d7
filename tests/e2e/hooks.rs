//! Hook sidecars: KubeVirt's own sidecar-shim, which runs scripts of a ConfigMap.

use crate::reasons::told;
use crate::{open_gates, tiny, with_disks};
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

#[test]
fn sidecars_change_the_domain_and_the_texts_of_cloud_init() {
    let Some(space) = Space::new("hooks") else { return };
    let hooks = [("v1alpha3", "board.sh", "onDefineDomain"), ("v1alpha2", "seed.sh", "preCloudInitIso")];
    apply(&space, &hooked("web", &hooks));
    let mut console = space.console_when_ready("web");
    console.log_in().types("cat /sys/class/dmi/id/board_vendor").says("Radical");
    console.types(&crate::once_there("/seed/user-data")).says("word-from-hook");
    // The first version of the interface is served, too.
    space.run(&["delete", "vm", "web"]);
    space.gone("pod");
    apply(&space, &hooked("old", &[("v1alpha1", "board.sh", "onDefineDomain")]));
    let mut console = space.console_when_ready("old");
    console.log_in().types("cat /sys/class/dmi/id/board_vendor").says("Radical");
}

#[test]
fn a_sidecar_that_makes_another_domain_is_told_in_the_condition_of_the_vmi() {
    let Some(space) = Space::new("hooks-bad") else { return };
    let vm = hooked("web", &[("v1alpha3", "name.sh", "onDefineDomain")]);
    apply(&space, &vm.replace("runStrategy: Always", "runStrategy: Once"));
    space.says("vmi/web", ".status.phase", "Failed");
    told(&space, "Synchronized", "changed the name of the domain");
}
