//! Volumes of a CSI driver: disks that the storage clones, by itself or from a snapshot, and VMs that take such volumes along to another
//! node. In a cluster with CSI=1; the migrations need NODES=2, too.

use crate::clones::is_read;
use crate::imports::{disk, http, message, phase, reason, serve, words};
use crate::nodes::{CLAIM, console_there, counting_on, counts_on, ends_as, migration};
use tests::cluster::{Cluster, Space, until};
use tests::http::Behaviour;

/// The StorageClass whose volumes are made at once.
const IMMEDIATE: &str = "csi-immediate";
/// The StorageClass whose volumes are made with their first pod.
const WAITING: &str = "csi";

/// True if the cluster has the driver.
fn is_there() -> bool {
    let is_there =
        Cluster::there().is_some_and(|cluster| cluster.run(&["get", "storageclass", IMMEDIATE]).code == 0);
    if !is_there {
        eprintln!("skipped: the cluster has no CSI driver; CSI=1 tests/cluster/up adds one");
    }
    is_there
}

fn begin(story: &str) -> Option<Space> {
    is_there().then(|| Space::new(story)).flatten()
}

/// Settings of a StorageProfile, until the end of the story.
struct Profile<'a>(&'a Space, &'static str);

impl Profile<'_> {
    fn new<'a>(space: &'a Space, class: &'static str, spec: &str) -> Profile<'a> {
        until(
            || space.try_run(&["get", "storageprofile", class]).code == 0,
            || format!("no profile of {class}"),
        );
        space.run(&["patch", "storageprofile", class, "--type=merge", "-p", &format!("{{\"spec\":{spec}}}")]);
        Profile(space, class)
    }
}

impl Drop for Profile<'_> {
    fn drop(&mut self) {
        let none = r#"{"spec":{"cloneStrategy":null,"snapshotClass":null}}"#;
        self.0.cluster.run(&["patch", "storageprofile", self.1, "--type=merge", "-p", none]);
    }
}

/// A disk that says something, in the PVC `golden` of this class.
fn golden(space: &Space, class: &str) {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(space, words(folder.path()), Behaviour::default());
    let class = format!(", storageClassName: {class}");
    space.apply(&disk("golden", &http(&server, ""), "32Mi", &class));
    phase(space, "golden", "Succeeded");
}

/// A DataVolume of this class with this source. It is larger than its source: a driver rounds sizes up, and refuses less than a snapshot has.
fn copy(name: &str, source: &str, class: &str) -> String {
    format!(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata: {{name: {name}}}
spec:
  source: {source}
  storage: {{storageClassName: {class}, resources: {{requests: {{storage: 48Mi}}}}}}
"
    )
}

fn of_golden(space: &Space) -> String {
    format!("{{pvc: {{namespace: {}, name: golden}}}}", space.name)
}

/// A VolumeSnapshot of the PVC `golden`, once it can be used.
fn snapshot(space: &Space, name: &str) {
    space.apply(&format!(
        "
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {{name: {name}}}
spec:
  volumeSnapshotClassName: csi
  source: {{persistentVolumeClaimName: golden}}
"
    ));
    space.says(&format!("volumesnapshot/{name}"), ".status.readyToUse", "true");
}

fn clone_type(space: &Space, claim: &str) -> String {
    space.get(&format!("pvc/{claim}"), ".metadata.annotations.cdi\\.kubevirt\\.io/cloneType")
}

/// The driver clones a PVC, without a pod of ours. Where it cannot, pods copy the disk, and the DataVolume says why.
#[test]
fn the_driver_clones_a_disk_where_it_can() {
    let Some(space) = begin("csi-clones") else { return };
    let _immediate = Profile::new(&space, IMMEDIATE, r#"{"cloneStrategy":"csi-clone"}"#);
    let _waiting = Profile::new(&space, WAITING, r#"{"cloneStrategy":"csi-clone"}"#);
    golden(&space, IMMEDIATE);
    space.apply(&copy("clone", &of_golden(&space), IMMEDIATE));
    phase(&space, "clone", "Succeeded");
    assert_eq!(clone_type(&space, "clone"), "csi-clone");
    let source = space.get("pvc/clone", ".spec.dataSource.name");
    assert_eq!(source, "golden");
    is_read(&space, "web", "clone");
    // The volume would be made with the VM, which waits for a whole disk.
    space.apply(&copy("late", &of_golden(&space), WAITING));
    is_read(&space, "late", "late");
    assert_eq!(clone_type(&space, "late"), "copy");
    let why = space.get("pvc/late", ".metadata.annotations.cdi\\.kubevirt\\.io/cloneFallbackReason");
    assert!(why.contains("WaitForFirstConsumer"), "{why}: {}", message(&space, "late", "Cloning"));
    // Another driver.
    space.apply(&copy("plain", &of_golden(&space), "csi-plain-immediate"));
    phase(&space, "plain", "Succeeded");
    assert_eq!(
        (clone_type(&space, "plain"), reason(&space, "plain", "Cloning")),
        ("copy".into(), "copy".into())
    );
    is_read(&space, "plain", "plain");
}

/// Disks that are created from a VolumeSnapshot, with what the PVC had then.
#[test]
fn a_disk_is_created_from_a_snapshot() {
    let Some(space) = begin("csi-snapshots") else { return };
    let _immediate = Profile::new(&space, IMMEDIATE, r#"{"snapshotClass":"csi"}"#);
    let _waiting = Profile::new(&space, WAITING, r#"{"snapshotClass":"csi"}"#);
    golden(&space, IMMEDIATE);
    snapshot(&space, "before");
    let source = format!("{{snapshot: {{namespace: {}, name: before}}}}", space.name);
    // Its source goes, and the snapshot stays.
    space.run(&["delete", "dv", "golden", "--timeout=100s"]);
    space.apply(&copy("restored", &source, IMMEDIATE));
    phase(&space, "restored", "Succeeded");
    assert_eq!(clone_type(&space, "restored"), "snapshot");
    is_read(&space, "web", "restored");
    space.apply(&copy("late", &source, WAITING));
    is_read(&space, "late", "late");
}

/// The disk on a volume of one node is copied to the other node, and its volume is attached and detached as the driver wants it.
#[test]
fn a_vm_takes_its_volume_of_one_node_along() {
    if !is_there() {
        return;
    }
    // XFS takes a tenth of 64 MiB for itself.
    let claim = CLAIM.replace("standard", "csi-local").replace("64Mi", "160Mi");
    let volume = "persistentVolumeClaim: {claimName: data}";
    let Some((space, _)) = counting_on("csi-local", "", volume, &claim) else { return };
    for hop in ["first", "second"] {
        hops(&space, hop);
    }
    let new = space.get("vmi/web", ".spec.volumes[?(@.name=='data')].persistentVolumeClaim.claimName");
    assert!(new.starts_with("data-moved-"), "{new}");
    console_there(&space).power_off();
}

/// A device that both nodes may attach: the disk stays where it is.
#[test]
fn a_vm_migrates_on_a_device_that_both_nodes_attach() {
    if !is_there() {
        return;
    }
    let claim = CLAIM.replace("standard", IMMEDIATE).replace("ReadWriteOnce", "ReadWriteMany");
    let claim = claim.replace("spec:\n", "spec:\n  volumeMode: Block\n");
    let volume = "persistentVolumeClaim: {claimName: data}";
    let Some((space, _)) = counting_on("csi-shared", "", volume, &claim) else { return };
    for hop in ["first", "second"] {
        hops(&space, hop);
    }
    let same = space.get("vmi/web", ".spec.volumes[?(@.name=='data')].persistentVolumeClaim.claimName");
    assert_eq!(same, "data");
    console_there(&space).power_off();
}

/// The VM goes to the other node, and its guest counts on.
fn hops(space: &Space, name: &str) {
    let from = space.get("vmi/web", ".status.nodeName");
    space.apply(&migration(name));
    ends_as(space, name, "Succeeded");
    assert_ne!(space.get("vmi/web", ".status.nodeName"), from);
    counts_on(&console_there(space));
}
