//! A running VM takes its disk along to another PVC (`updateVolumesStrategy: Migration`).

use super::migration::{CLAIM, Policy, console_there, counting_on, counts_on, ends_as};
use crate::{tiny, with_disks};
use tests::cluster::{Space, until};

/// A PVC that is larger than the disk, and one whose class does not exist.
const OTHERS: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: roomy}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: immediate
  resources: {requests: {storage: 128Mi}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: nowhere}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: no-such-class
  resources: {requests: {storage: 64Mi}}
---";

/// The new PVC has the disk of another VM, which is overwritten. An update to a PVC that never gets a volume is taken back.
#[test]
fn a_vm_takes_its_disk_along_to_the_pvc_that_it_names() {
    let on_data = "persistentVolumeClaim: {claimName: data}";
    let objects = format!("{CLAIM}{OTHERS}");
    let Some((space, console)) = counting_on("volumes", "", on_data, &objects) else { return };
    fill(&space);
    let size = |space: &Space| space.get("vmi/web", ".status.volumeStatus[?(@.name=='data')].size");
    let (uid, from, bytes) =
        (space.get("vmi/web", ".metadata.uid"), space.get("vmi/web", ".status.nodeName"), size(&space));
    // So slow that the guest counts on while its disk and its memory are copied.
    let _slow = Policy::new(&space, "slow", &space.name, "6Mi");
    name(&space, "roomy");
    let migration = migration_for_volumes(&space);
    space.says(
        "vm/web",
        ".status.volumeUpdateState.volumeMigrationState.migratedVolumes[0].destinationPVCInfo.claimName",
        "roomy",
    );
    counts_on(&console);
    assert_ne!(space.get("pvc/roomy", ".metadata.annotations.coracle\\.io/copied-into-by"), "");
    ends_as(&space, &migration, "Succeeded");
    assert_ne!(space.get("vmi/web", ".status.nodeName"), from);
    assert_eq!((space.get("vmi/web", ".metadata.uid"), size(&space)), (uid, bytes.clone()));
    let claim = || space.get("vmi/web", ".spec.volumes[?(@.name=='data')].persistentVolumeClaim.claimName");
    assert_eq!(claim(), "roomy");
    space.says("vm/web", ".status.volumeUpdateState", "");
    assert_eq!(
        (told(&space, "VolumesChange"), told(&space, "RestartRequired")),
        (String::new(), String::new())
    );
    assert_eq!(space.get("pvc/data", ".metadata.annotations.coracle\\.io/moved-to"), "roomy");
    assert_eq!(space.get("pvc/roomy", ".metadata.annotations.coracle\\.io/copied-into-by"), "");
    let mut console = console_there(&space);
    counts_on(&console);
    console.keys_are(b"\x03");
    console.says("/root #");
    assert_eq!(
        console.runs("cat /sys/block/vda/size").trim(),
        (bytes.parse::<u64>().unwrap() / 512).to_string()
    );
    let left = console.runs("dd if=/dev/vda bs=1M 2>/dev/null | tr -d '\\0'");
    assert!(
        left.trim().ends_with(" is kept") && left.trim().len() < 30,
        "what the other VM had is there: {left:?}"
    );
    // Back again, before it has begun.
    name(&space, "nowhere");
    let migration = migration_for_volumes(&space);
    assert_ne!(migration, "");
    name(&space, "roomy");
    space.says(
        "vmi/web",
        ".status.conditions[?(@.type=='VolumesChange')].reason",
        "VolumesChangeCancellation",
    );
    until(
        || migrations(&space).iter().all(|(_, phase)| phase != "Scheduling"),
        || format!("{:?}", migrations(&space)),
    );
    space.says("vm/web", ".status.volumeUpdateState", "");
    assert_eq!((claim(), told(&space, "RestartRequired")), ("roomy".to_owned(), String::new()));
    console.power_off();
}

/// Another VM fills the disk of the new PVC.
fn fill(space: &Space) {
    let volume = "{name: data, persistentVolumeClaim: {claimName: roomy}}";
    space.apply(&with_disks(&tiny("before", "Once"), &[("{name: data, disk: {bus: virtio}}", volume)]));
    let mut console = space.console_when_ready("before");
    console.log_in();
    console.runs("tr '\\0' '\\377' </dev/zero | dd of=/dev/vda bs=1M; sync");
    console.power_off();
    space.run(&["delete", "vm", "before", "--timeout=100s"]);
    let left = || space.run(&["get", "pods", "-l", "vm.kubevirt.io/name=before", "-o", "name"]);
    until(|| left().is_empty(), left);
}

/// The VM names another PVC.
fn name(space: &Space, claim: &str) {
    let volumes = space.get("vm/web", ".spec.template.spec.volumes");
    let mut volumes: serde_json::Value = serde_json::from_str(&volumes).unwrap();
    for volume in volumes.as_array_mut().unwrap().iter_mut().filter(|volume| volume["name"] == "data") {
        *volume = serde_json::json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
    }
    let spec =
        serde_json::json!({"updateVolumesStrategy": "Migration", "template": {"spec": {"volumes": volumes}}});
    let patch = serde_json::json!({"spec": spec}).to_string();
    space.run(&["patch", "vm", "web", "--type=merge", "-p", &patch]);
}

/// The migrations for volumes that are there, each with its phase. One may go between two questions.
fn migrations(space: &Space) -> Vec<(String, String)> {
    let label = "kubevirt.io/volume-update-migration=web";
    let each = "jsonpath={range .items[*]}{.metadata.name}={.status.phase}{' '}{end}";
    let all = space.run(&["get", "vmim", "-l", label, "-o", each]);
    let read = |one: &str| one.split_once('=').map(|(name, phase)| (name.to_owned(), phase.to_owned()));
    all.split_whitespace().filter_map(read).collect()
}

/// The name of the one that has not ended.
#[track_caller]
fn migration_for_volumes(space: &Space) -> String {
    let open = || {
        let ended = |phase: &str| ["Succeeded", "Failed"].contains(&phase);
        migrations(space).into_iter().find(|(_, phase)| !ended(phase)).map(|(name, _)| name)
    };
    until(|| open().is_some(), || format!("no migration: {}", space.get("vm/web", ".status")));
    open().unwrap_or_default()
}

fn told(space: &Space, kind: &str) -> String {
    space.get("vm/web", &format!(".status.conditions[?(@.type=='{kind}')].status"))
}
