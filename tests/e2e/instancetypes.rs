//! VMs whose size and system are said elsewhere: by an instance type and a preference, which they keep as they were.

use crate::tiny;
use std::process::{Command, Stdio};
use tests::cluster::{Space, until};
use tests::http::Authority;
use tests::registry::{Registry, Serve};

const SIZES: &str = "
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineInstancetype
metadata: {name: small}
spec:
  cpu: {guest: 2}
  memory: {guest: 256Mi}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachinePreference
metadata: {name: linux}
spec:
  cpu: {preferredCPUTopology: cores}
  devices: {preferredInterfaceModel: e1000}
  requirements: {memory: {guest: 128Mi}}
";

/// The smallest guest, with the size of its namespace's instance type.
fn sized(name: &str, strategy: &str) -> String {
    let own = "        resources:\n          requests:\n            memory: 256Mi\n";
    let named = "  instancetype: {name: small, kind: VirtualMachineInstancetype}\n  \
                 preference: {name: linux, kind: VirtualMachinePreference}\n  template:\n";
    let vm = tiny(name, strategy);
    assert!(vm.contains(own));
    vm.replace(own, "").replace("  template:\n", named)
}

#[test]
fn a_guest_has_the_size_of_its_instance_type_and_keeps_it() {
    let Some(space) = Space::new("instancetypes") else { return };
    // Before they are there, nothing is made.
    let early = space.try_apply(&sized("web", "Always"));
    assert!(
        early
            .err
            .contains("Failure to find instancetype: virtualmachineinstancetypes.instancetype.kubevirt.io"),
        "{}",
        early.err
    );
    space.apply(SIZES);
    until(
        || space.try_apply(&sized("web", "Always")).code == 0,
        || "virt-api does not know the instance type".to_owned(),
    );
    let mut console = space.console_when_ready("web");
    console.log_in();
    console.types("grep -c ^processor /proc/cpuinfo").says("2");
    assert_eq!(space.get("vmi/web", ".spec.domain.cpu.cores"), "2");
    assert_eq!(space.get("vmi/web", ".spec.domain.memory.guest"), "256Mi");
    assert_eq!(space.get("vmi/web", ".spec.domain.devices.interfaces[0].model"), "e1000");
    assert_eq!(space.get("vmi/web", r".metadata.annotations.kubevirt\.io/instancetype-name"), "small");
    assert_eq!(space.get("vm/web", ".spec.template.spec.domain.memory"), "", "the VM keeps what was written");
    let revision = space.get("vm/web", ".status.instancetypeRef.controllerRevisionRef.name");
    assert!(revision.starts_with("web-small-v1beta1-"), "{revision}");
    let kept = format!("controllerrevision/{revision}");
    assert_eq!(space.get(&kept, ".data.spec.memory.guest"), "256Mi");
    // expand-spec shows the same.
    let shown = space.run(&["get", "--raw", &expanded(&space, "web")]);
    assert!(shown.contains(r#""guest":"256Mi""#) && !shown.contains(r#""instancetype":{"kind"#), "{shown}");

    // A change is for those that come later.
    let larger = r#"{"spec":{"memory":{"guest":"300Mi"}}}"#;
    space.run(&["patch", "virtualmachineinstancetype", "small", "--type=merge", "-p", larger]);
    let uid = space.get("vmi/web", ".metadata.uid");
    space.run(&["delete", "vmi", "web", "--wait=false"]);
    space.another("vmi/web", &uid);
    assert_eq!(space.get("vmi/web", ".spec.domain.memory.guest"), "256Mi");
    // The VM goes, and its revisions with it.
    space.run(&["delete", "vm", "web"]);
    space.gone(&kept);
}

#[test]
fn what_does_not_fit_is_refused_when_it_is_written() {
    let Some(space) = Space::new("misfits") else { return };
    space.apply(SIZES);
    let both =
        sized("web", "Halted").replace("      domain:\n", "      domain:\n        memory: {guest: 1Gi}\n");
    let conflict = "VM field(s) spec.template.spec.domain.memory.guest conflicts with selected instance type";
    until(
        || space.try_apply(&both).err.contains(conflict),
        || format!("another answer: {}", space.try_apply(&both).err),
    );
    let wants = r#"{"spec":{"requirements":{"memory":{"guest":"4Gi"}}}}"#;
    space.run(&["patch", "virtualmachinepreference", "linux", "--type=merge", "-p", wants]);
    let least = "failure checking preference requirements: insufficient Memory resources of 256Mi";
    until(
        || space.try_apply(&sized("web", "Halted")).err.contains(least),
        || format!("another answer: {}", space.try_apply(&sized("web", "Halted")).err),
    );
    let odd = SIZES.replace("{guest: 256Mi}", "{guest: 256Mi, overcommitPercent: 101}");
    let refused = space.try_apply(&odd);
    assert!(refused.err.contains("must be in range between 0 and 100."), "{}", refused.err);
    // Old versions are stored as the new one, and read as they were written; VMs name them.
    for version in ["v1alpha1", "v1alpha2"] {
        let old = SIZES.replace("/v1beta1", &format!("/{version}"));
        space.apply(&old.replace("name: small", &format!("name: {version}")));
        let stored = format!("virtualmachineinstancetype/{version}");
        assert_eq!(space.get(&stored, ".apiVersion"), "instancetype.kubevirt.io/v1beta1");
        assert_eq!(space.get(&format!("vmf/{version}"), ".spec.cpu.guest"), "2");
        let written = format!("virtualmachineinstancetypes.{version}.instancetype.kubevirt.io/{version}");
        assert_eq!(space.get(&written, ".apiVersion"), format!("instancetype.kubevirt.io/{version}"));
        assert_eq!(space.get(&written, ".spec.memory.guest"), "256Mi");
        let vm = sized(version, "Halted").replace("{name: small,", &format!("{{name: {version},"));
        let vm = vm.replace("  preference: {name: linux, kind: VirtualMachinePreference}\n", "");
        until(|| space.try_apply(&vm).code == 0, || space.try_apply(&vm).err);
        let shown = space.run(&["get", "--raw", &expanded(&space, version)]);
        assert!(shown.contains(r#""guest":"256Mi""#), "{version}: {shown}");
    }
}

/// Where a VM is shown with the values of what it names.
fn expanded(space: &Space, vm: &str) -> String {
    let api = "/apis/subresources.kubevirt.io/v1";
    format!("{api}/namespaces/{}/virtualmachines/{vm}/expand-spec", space.name)
}

/// The names come from the labels of a volume, and may come after the VM.
#[test]
fn a_volume_names_the_size_of_its_vm() {
    let Some(space) = Space::new("inferred") else { return };
    space.apply(SIZES);
    let inferred = sized("web", "Always")
        .replace("{name: small, kind: VirtualMachineInstancetype}", "{inferFromVolume: root}")
        .replace(
            "{name: linux, kind: VirtualMachinePreference}",
            "{inferFromVolume: root, inferFromVolumeFailurePolicy: Ignore}",
        );
    let disks = [("{name: root, disk: {bus: virtio}}", "{name: root, dataVolume: {name: root}}")];
    space.apply(&crate::with_disks(&inferred, &disks));
    space.says("vm/web", ".status.conditions[?(@.type=='Failure')].reason", "FailedFindInstancetype");
    space.apply(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata:
  name: root
  labels:
    instancetype.kubevirt.io/default-instancetype: small
    instancetype.kubevirt.io/default-instancetype-kind: VirtualMachineInstancetype
spec:
  source: {blank: {}}
  storage: {resources: {requests: {storage: 16Mi}}}
",
    );
    space.says("vm/web", ".spec.instancetype.name", "small");
    assert_eq!(space.get("vm/web", ".spec.preference"), "");
    space.console_when_ready("web").log_in();
    assert_eq!(space.get("vmi/web", ".spec.domain.memory.guest"), "256Mi");
}

/// The set of ours is taken by a real API server, and everybody reads it; an image says which of it its VMs are.
#[test]
fn the_common_set_is_applied_and_an_image_names_the_size_of_its_vm() {
    let Some(space) = Space::new("common") else { return };
    let set = Command::new(env!("CARGO_BIN_EXE_coracle"))
        .args(["manifests", "--instancetypes"])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(set.status.success());
    space.apply(&String::from_utf8(set.stdout).unwrap());
    assert_eq!(space.get("vmcf/u1.medium", ".spec.memory.guest"), "4Gi");
    let may = [
        "auth",
        "can-i",
        "list",
        "virtualmachineclusterpreferences.instancetype.kubevirt.io",
        "--as=somebody",
    ];
    assert_eq!(space.run(&[&may[..], &["--as-group=system:authenticated"]].concat()).trim(), "yes");
    let registry = image(&space);
    space.apply(&format!(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata:
  name: root
  annotations: {{cdi.kubevirt.io/storage.bind.immediate.requested: ''}}
spec:
  source: {{registry: {{url: 'docker://{}/os:1', certConfigMap: ca}}}}
  storage: {{resources: {{requests: {{storage: 16Mi}}}}}}
",
        registry.address()
    ));
    space.says("dv/root", ".status.phase", "Succeeded");
    let label = |what: &str| {
        space.get("pvc/root", &format!(".metadata.labels.instancetype\\.kubevirt\\.io/default-{what}"))
    };
    assert_eq!((label("instancetype"), label("preference")), ("u1.nano".to_owned(), "cirros".to_owned()));

    let nano =
        "  instancetype: {inferFromVolume: root}\n  preference: {inferFromVolume: root}\n  template:\n";
    let own = "        resources:\n          requests:\n            memory: 256Mi\n";
    let vm = tiny("web", "Always").replace(own, "").replace("  template:\n", nano);
    let vm = crate::with_disks(&vm, &[("{name: root, disk: {}}", "{name: root, dataVolume: {name: root}}")]);
    until(|| space.try_apply(&vm).code == 0, || space.try_apply(&vm).err);
    space.says("vm/web", ".spec.instancetype.name", "u1.nano");
    space.says("vm/web", ".spec.preference.name", "cirros");
    space.console_when_ready("web").log_in();
    assert_eq!(space.get("vmi/web", ".spec.domain.memory.guest"), "512Mi");
}

/// A registry with the image `os:1`, which names an instance type and a preference; its authority is in the ConfigMap `ca`.
fn image(space: &Space) -> Registry {
    let gateway = space.cluster.info("gateway");
    let authority = Authority::new();
    let at = Some(gateway.parse().unwrap());
    let registry = Registry::serve(&Serve { tls: Some(&authority), at, ..Serve::default() });
    space.run(&["create", "configmap", "ca", &format!("--from-literal=ca.crt={}", authority.pem())]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("disk.raw"), vec![0; 1 << 20]).unwrap();
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    let host = format!("[host.'{}']\nca = 'ca.pem'\n", registry.address());
    std::fs::write(folder.path().join("registries.toml"), host).unwrap();
    let name = format!("docker://{}/os:1", registry.address());
    let from = ["--instancetype", "u1.nano", "--preference", "cirros", "disk.raw"];
    let build = [&["build", "--registries", "registries.toml", "-t", &name], &from[..]].concat();
    tests::coracle::run(env!("CARGO_BIN_EXE_coracle"), folder.path(), &build).ok();
    registry
}
