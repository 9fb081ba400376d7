//! Clones: a disk from one PVC into another, by a source pod and an importer pod; who may, who waits, and what is left.

use crate::imports::{disk, http, message, phase, reason, serve, words};
use crate::{tiny, with_disks};
use tests::cluster::{Space, until};
use tests::disk::{qemu_convert, raw_disk};
use tests::http::Behaviour;

const MIB: u64 = 1 << 20;

/// A disk that says something, in the PVC `golden`.
fn golden(space: &Space) {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(space, words(folder.path()), Behaviour::default());
    space.apply(&disk("golden", &http(&server, ""), "16Mi", ""));
    phase(space, "golden", "Succeeded");
}

/// A clone of a PVC of a namespace.
fn clone(name: &str, source: &str) -> String {
    format!(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata:
  name: {name}
  annotations: {{cdi.kubevirt.io/storage.bind.immediate.requested: ''}}
spec:
  {source}
  storage: {{}}
"
    )
}

fn of_claim(namespace: &str) -> String {
    format!("source: {{pvc: {{namespace: {namespace}, name: golden}}}}")
}

/// A VM reads what stands on its disk.
pub(crate) fn is_read(space: &Space, vm: &str, volume: &str) {
    let volume = format!("{{name: data, dataVolume: {{name: {volume}}}}}");
    space.apply(&with_disks(&tiny(vm, "Always"), &[("{name: data, disk: {bus: virtio}}", &volume)]));
    let mut console = space.console_when_ready(vm);
    crate::volumes::reads(&mut console);
}

/// What a clone leaves of its way: nothing.
fn nothing_is_left(space: &Space) {
    let left = || {
        let found = space.run(&[
            "get",
            "pods,services,secrets",
            "-l",
            "cdi.kubevirt.io=cdi-clone-source",
            "-o",
            "name",
        ]);
        found.trim().to_owned()
    };
    until(|| left().is_empty(), || format!("left in {}: {}", space.name, left()));
}

/// An account of a namespace may clone out of another one.
fn permits(from: &Space, user: &str) {
    let role = ["create", "role", "cloner", "--verb=create", "--resource=datavolumes.cdi.kubevirt.io/source"];
    from.run(&role);
    from.run(&["create", "rolebinding", "cloner", "--role=cloner", user]);
}

#[test]
fn a_disk_is_cloned_and_a_vm_reads_it() {
    let Some(space) = Space::new("clones") else { return };
    golden(&space);
    space.apply(&clone("copy", &of_claim(&space.name)));
    phase(&space, "copy", "Succeeded");
    assert_eq!(space.get("dv/copy", ".status.progress"), "100.0%");
    assert_eq!(reason(&space, "copy", "Cloning"), "copy");
    assert_eq!(space.get("pvc/copy", ".metadata.annotations.cdi\\.kubevirt\\.io/cloneType"), "copy");
    let sizes =
        ["golden", "copy"].map(|name| space.get(&format!("pvc/{name}"), ".spec.resources.requests.storage"));
    assert_eq!(sizes[0], sizes[1]);
    nothing_is_left(&space);
    is_read(&space, "web", "copy");
    // And the source may be written again.
    is_read(&space, "other", "golden");
}

#[test]
fn across_namespaces_it_takes_the_right_to_clone_there() {
    let Some(from) = Space::new("clones-from") else { return };
    let Some(to) = Space::new("clones-to") else { return };
    golden(&from);
    to.run(&["create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice"]);
    let manifest = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(manifest.path(), clone("copy", &of_claim(&from.name))).unwrap();
    let file = manifest.path().to_str().unwrap().to_owned();
    let makes = || to.try_run(&["--as", "alice", "create", "-f", &file]);
    until(|| to.try_run(&["--as", "alice", "get", "dv"]).code == 0, || "alice may nothing".to_owned());
    let ran = makes();
    let said = format!("User alice has insufficient permissions in clone source namespace {}", from.name);
    assert!(ran.code != 0 && ran.err.contains(&said), "{}", ran.err);
    assert!(ran.err.contains("create datavolumes/source"), "{}", ran.err);
    permits(&from, "--user=alice");
    until(|| makes().code == 0, || "alice may still not clone".to_owned());
    phase(&to, "copy", "Succeeded");
    nothing_is_left(&from);
    nothing_is_left(&to);
    is_read(&to, "web", "copy");
    // A token that is taken from one DataVolume is written into no other.
    let token = to.get("dv/copy", ".metadata.annotations.cdi\\.kubevirt\\.io/storage\\.clone\\.token");
    assert!(!token.is_empty());
    to.apply(&clone("stolen", "sourceRef: {kind: DataSource, name: none}"));
    let patch = format!(
        "{{\"metadata\":{{\"annotations\":{{\"cdi.kubevirt.io/storage.clone.token\":\"{token}\"}}}}}}"
    );
    let ran = to.try_run(&["patch", "dv/stolen", "--type=merge", "-p", &patch]);
    assert!(ran.code != 0 && ran.err.contains("virt-api alone writes the annotation"), "{}", ran.err);
}

#[test]
fn a_source_that_a_vm_uses_is_cloned_when_the_vm_has_stopped() {
    let Some(space) = Space::new("clones-used") else { return };
    golden(&space);
    is_read(&space, "web", "golden");
    space.apply(&clone("copy", &of_claim(&space.name)));
    let used = || reason(&space, "copy", "Running") == "CloneSourceInUse";
    until(used, || format!("{} {}", reason(&space, "copy", "Running"), message(&space, "copy", "Running")));
    assert!(message(&space, "copy", "Running").contains("VMI web uses PVC"));
    space.run(&["patch", "vm/web", "--type=merge", "-p", r#"{"spec":{"runStrategy":"Halted"}}"#]);
    space.gone("vmi/web");
    phase(&space, "copy", "Succeeded");
    // A pod of somebody's own, too.
    space.apply(
        "
apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  containers:
  - {name: shell, image: 'registry:5000/busybox:1', command: [sleep, infinity], volumeMounts: [{name: v, mountPath: /v}]}
  volumes: [{name: v, persistentVolumeClaim: {claimName: golden}}]
",
    );
    space.apply(&clone("second", &of_claim(&space.name)));
    let used = || message(&space, "second", "Running").contains("pod shell mounts PVC golden for writing");
    until(used, || message(&space, "second", "Running"));
    space.run(&["delete", "pod", "shell", "--now"]);
    phase(&space, "second", "Succeeded");
}

#[test]
fn a_source_ref_leads_to_a_pvc_also_for_the_disk_of_a_vm() {
    let Some(from) = Space::new("clones-ref") else { return };
    let Some(to) = Space::new("clones-vm") else { return };
    golden(&from);
    let named = |name: &str, source: &str| {
        from.apply(&format!(
            "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataSource
metadata: {{name: {name}}}
spec: {{source: {source}}}
"
        ));
    };
    named("os-1", &format!("{{pvc: {{namespace: {}, name: golden}}}}", from.name));
    named("os", &format!("{{dataSource: {{namespace: {}, name: os-1}}}}", from.name));
    from.apply(&clone("copy", "sourceRef: {kind: DataSource, name: os}"));
    phase(&from, "copy", "Succeeded");
    // The VM's service account is asked about, first when the VM is written.
    let vm = with_disks(
        &tiny("web", "Always"),
        &[("{name: data, disk: {bus: virtio}}", "{name: data, dataVolume: {name: web-data}}")],
    );
    let template = format!(
        "spec:
  dataVolumeTemplates:
  - metadata: {{name: web-data}}
    spec:
      sourceRef: {{kind: DataSource, namespace: {}, name: os}}
      storage: {{}}
",
        from.name
    );
    let vm = vm.replacen("spec:\n", &template, 1);
    let ran = to.try_apply(&vm);
    let said = format!("Authorization failed, message is: User system:serviceaccount:{}:default", to.name);
    assert!(ran.code != 0 && ran.err.contains(&said), "{}", ran.err);
    permits(&from, &format!("--serviceaccount={}:default", to.name));
    until(|| to.try_apply(&vm).code == 0, || "the VM is still refused".to_owned());
    let mut console = to.console_when_ready("web");
    crate::volumes::reads(&mut console);
    assert_eq!(to.get("dv/web-data", ".status.phase"), "Succeeded");
    nothing_is_left(&from);
}

#[test]
fn a_source_that_is_deleted_in_the_middle_is_read_to_its_end() {
    let Some(space) = Space::new("clones-gone") else { return };
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("disk.raw");
    raw_disk(&raw, 512 * MIB, 1);
    let image = std::fs::read(qemu_convert("-O qcow2", &raw, &folder.path().join("disk.qcow2"))).unwrap();
    let server = serve(&space, image, Behaviour::default());
    space.apply(&disk("golden", &http(&server, ""), "512Mi", ""));
    phase(&space, "golden", "Succeeded");
    space.apply(&clone("copy", &of_claim(&space.name)));
    let begun = || matches!(space.get("dv/copy", ".status.phase").as_str(), "CloneInProgress" | "Succeeded");
    until(begun, || space.get("dv/copy", ".status.phase"));
    space.run(&["delete", "dv", "golden", "--wait=false"]);
    phase(&space, "copy", "Succeeded");
    space.gone("pvc/golden");
    nothing_is_left(&space);
    // And a target that is deleted takes the source pod along.
    golden(&space);
    space.apply(&clone("second", &of_claim(&space.name)));
    space.run(&["delete", "dv", "second"]);
    nothing_is_left(&space);
}

#[test]
fn a_pvc_names_what_it_is_a_clone_of() {
    let Some(space) = Space::new("clones-source") else { return };
    golden(&space);
    let source = |kind: &str| {
        format!(
            "
apiVersion: cdi.kubevirt.io/v1beta1
kind: VolumeCloneSource
metadata: {{name: gold}}
spec: {{source: {{{kind}, name: golden}}}}
"
        )
    };
    let ran = space.try_apply(&source("apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot"));
    assert!(
        ran.code != 0 && ran.err.contains("spec.source.kind: a VolumeSnapshot is not cloned this way"),
        "{}",
        ran.err
    );
    space.apply(&source("kind: PersistentVolumeClaim"));
    let size = space.get("pvc/golden", ".spec.resources.requests.storage");
    let claim = |size: &str| {
        format!(
            "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: copy}}
spec:
  storageClassName: immediate
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: '{size}'}}}}
  dataSourceRef: {{apiGroup: cdi.kubevirt.io, kind: VolumeCloneSource, name: gold}}
"
        )
    };
    // One that is too small says so, and nothing is read.
    space.apply(&claim("4Mi"));
    let said = || {
        space.get(
            "pvc/copy",
            ".metadata.annotations.cdi\\.kubevirt\\.io/storage\\.condition\\.running\\.message",
        )
    };
    until(|| said().contains("smaller than the source"), said);
    space.run(&["delete", "pvc", "copy"]);
    space.apply(&claim(&size));
    until(|| space.get("pvc/copy", ".status.phase") == "Bound", said);
    assert_eq!(space.get("pvc/copy", ".metadata.annotations.cdi\\.kubevirt\\.io/cloneType"), "copy");
    nothing_is_left(&space);
    let volume = "{name: data, persistentVolumeClaim: {claimName: copy}}".to_owned();
    space.apply(&with_disks(&tiny("web", "Always"), &[("{name: data, disk: {bus: virtio}}", &volume)]));
    crate::volumes::reads(&mut space.console_when_ready("web"));
}

/// Whoever may clone all of a namespace need not wait for its DataSource to be ready.
#[test]
fn a_data_source_that_leads_nowhere_yet_is_waited_for() {
    let Some(from) = Space::new("clones-early") else { return };
    let Some(to) = Space::new("clones-waits") else { return };
    to.run(&["create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice"]);
    permits(&from, "--user=alice");
    let manifest = tempfile::NamedTempFile::new().unwrap();
    let source = format!("sourceRef: {{kind: DataSource, namespace: {}, name: os}}", from.name);
    std::fs::write(manifest.path(), clone("copy", &source)).unwrap();
    let file = manifest.path().to_str().unwrap().to_owned();
    let token = || to.get("dv/copy", ".metadata.annotations.cdi\\.kubevirt\\.io/storage\\.clone\\.token");
    // The roles may not be known to the API server yet.
    let made = || {
        let is_made = to.try_run(&["--as", "alice", "create", "-f", &file]).code == 0;
        if is_made && token().is_empty() {
            to.run(&["delete", "dv", "copy"]);
            return false;
        }
        is_made
    };
    until(made, || "alice gets no token".to_owned());
    until(|| reason(&to, "copy", "Running") == "DataSourceNotReady", || message(&to, "copy", "Running"));
    golden(&from);
    from.apply(&format!(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataSource
metadata: {{name: os}}
spec: {{source: {{pvc: {{namespace: {}, name: golden}}}}}}
",
        from.name
    ));
    phase(&to, "copy", "Succeeded");
    is_read(&to, "web", "copy");
}
