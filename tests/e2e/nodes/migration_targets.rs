//! A target that cannot take its guest: its disk becomes full while the guest's disk is copied, or its QEMU stands still. The migration
//! ends with a reason, and the guest counts on where it was.

use super::migration::{CLAIM, Policy, console_there, counting_on, counts_on, ends_as, migration};
use super::{NODES, PLACE, running};
use tests::cluster::{Space, until};
use tests::serial::Serial;

/// The guest's disk.
const VOLUME: &str = "persistentVolumeClaim: {claimName: data}";
/// Size of the guest's disk on its PVC, in MiB.
const DISK: u32 = 64;
/// Size of the file systems that the volumes lie on, in MiB: the disk fits, and nothing beside it.
const ROOM: u32 = 80;

/// A full target disk: its volume has room when the migration begins, and none some seconds later.
#[test]
fn a_disk_that_becomes_full_at_its_target_leaves_the_guest_where_it_is() {
    let volumes = match Space::new("full-volumes") {
        Some(space) => Volumes::new(space),
        None => return,
    };
    let claim = format!(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {}
  resources: {{requests: {{storage: {DISK}Mi}}}}
---",
        volumes.class
    );
    let Some((space, mut console)) = counting_on("full", PLACE, VOLUME, &claim) else { return };
    fill_guest_disk(&mut console);
    let from = space.get("vmi/web", ".status.nodeName");
    let target = if from == "node1" { 2 } else { 1 };
    let slow = Policy::new(&space, "slow", &space.name, "4Mi");
    space.apply(&migration("full"));
    space.says("vmim/full", ".status.phase", "Running");
    volumes.fill(target);
    ends_as(&space, "full", "Failed");
    let reason = space.get("vmim/full", ".status.migrationState.failureReason");
    eprintln!("failed with: {reason}");
    assert!(reason.to_lowercase().contains("space"), "the reason does not tell of a full disk: {reason}");
    stays(&space, &console, &from);
    assert_eq!(claim_of(&space), "data", "the VMI has another disk");
    // With room again the next migration takes the guest along.
    drop(slow);
    volumes.make_room(target);
    until(
        || space.run(&["get", "pvc", "-o", "name"]).lines().count() == 1,
        || "the PVC of the failed migration is left".into(),
    );
    volumes.offer(target);
    space.apply(&migration("again"));
    ends_as(&space, "again", "Succeeded");
    assert_ne!(space.get("vmi/web", ".status.nodeName"), from);
    let mut console = console_there(&space);
    counts_on(&console);
    console.power_off();
}

/// A target that is too slow, at its extreme: its QEMU stands still while it gets the guest's memory.
#[test]
fn a_target_that_stands_still_is_given_up_in_time() {
    let claim = CLAIM.replace("ReadWriteOnce", "ReadWriteMany");
    let Some((space, console)) = counting_on("still", "", VOLUME, &claim) else { return };
    stands_still(&space, &console);
}

/// The same while it gets a disk. libvirt waits for the end of the copy, also behind an abort: the connections are closed.
#[test]
fn a_target_that_stands_still_with_half_a_disk_is_given_up_in_time() {
    let Some((space, mut console)) = counting_on("half", PLACE, VOLUME, CLAIM) else { return };
    fill_guest_disk(&mut console);
    stands_still(&space, &console);
}

/// The QEMU of the target is stopped in the middle of a migration.
fn stands_still(space: &Space, console: &Serial) {
    let from = space.get("vmi/web", ".status.nodeName");
    let target = if from == "node1" { 2 } else { 1 };
    let short = "bandwidthPerMigration: 4Mi, completionTimeoutPerGiB: 20";
    let _policy = Policy::with(space, "short", &space.name, short);
    space.apply(&migration("still"));
    let copied = || space.get("vmi/web", ".status.migrationState.progress");
    until(|| !copied().is_empty(), || "nothing is copied".into());
    let guest = format!("guest={}_web,", space.name);
    space.cluster.on_node(target, &["pkill", "-STOP", "-f", &guest]).ok();
    ends_as(space, "still", "Failed");
    let reason = space.get("vmim/still", ".status.migrationState.failureReason");
    eprintln!("failed with: {reason}");
    assert!(!reason.is_empty(), "a failure without a reason");
    stays(space, console, &from);
}

/// The guest runs on this node, and nowhere else, and counts on.
#[track_caller]
fn stays(space: &Space, console: &Serial, node: &str) {
    until(|| running(space) == [node], || format!("QEMU runs on {:?}", running(space)));
    assert_eq!(space.get("vmi/web", ".status.nodeName"), node);
    space.has("vmi/web", "Ready", "True");
    counts_on(console);
}

/// Writes 48 MiB to the guest's disk, which a copy takes some seconds for, and lets the guest count on.
fn fill_guest_disk(console: &mut Serial) {
    console.keys_are(b"\x03");
    console.says("/root #");
    console.runs("dd if=/dev/urandom of=/dev/vda bs=1M seek=1 count=48 conv=notrunc,fsync 2>/dev/null");
    console.types(super::migration::COUNTS).says("at 5.");
}

fn claim_of(space: &Space) -> String {
    space.get("vmi/web", ".spec.volumes[?(@.name=='data')].persistentVolumeClaim.claimName")
}

/// A storage class with one small volume on each node, on a file system of its own.
struct Volumes {
    space: Space,
    class: String,
    path: String,
}

impl Volumes {
    fn new(space: Space) -> Volumes {
        let (class, path) = (space.name.clone(), format!("/var/{}", space.name));
        let volumes = Volumes { space, class, path };
        for (node, _) in NODES {
            let (size, path) = (format!("size={ROOM}m,mode=0777"), &volumes.path);
            let line = format!("mkdir -p {path} && mount -t tmpfs -o {size} full {path}");
            volumes.space.cluster.on_node(node, &["sh", "-c", &line]).ok();
        }
        volumes.space.apply(&format!(
            "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: {}}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
",
            volumes.class
        ));
        for (node, _) in NODES {
            volumes.offer(node);
        }
        volumes
    }

    /// Offers the volume of a node, anew where it has served a PVC that is gone.
    fn offer(&self, node: u32) {
        let name = format!("{}-{node}", self.class);
        self.space.cluster.run(&["delete", "pv", &name, "--ignore-not-found", "--timeout=60s"]).ok();
        self.space.apply(&format!(
            "
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {{storage: {DISK}Mi}}
  storageClassName: {}
  persistentVolumeReclaimPolicy: Retain
  local: {{path: {}}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [node{node}]}}]
",
            self.class, self.path
        ));
    }

    /// Takes all room that is left.
    fn fill(&self, node: u32) {
        let line = format!("dd if=/dev/zero of={}/filler bs=64k 2>/dev/null; true", self.path);
        self.space.cluster.on_node(node, &["sh", "-c", &line]).ok();
    }

    /// Empties the volume.
    fn make_room(&self, node: u32) {
        let line = format!("rm -rf {}/*", self.path);
        self.space.cluster.on_node(node, &["sh", "-c", &line]).ok();
    }
}

impl Drop for Volumes {
    fn drop(&mut self) {
        self.space.cluster.run(&["delete", "storageclass", &self.class, "--ignore-not-found"]);
        for (node, _) in NODES {
            let name = format!("{}-{node}", self.class);
            self.space.cluster.run(&["delete", "pv", &name, "--ignore-not-found", "--wait=false"]);
            self.space.cluster.on_node(node, &["umount", "-l", &self.path]);
        }
    }
}
