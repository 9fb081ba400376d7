//! A stopped VM: its disk goes to another node, and no guest runs meanwhile.

use super::external::virtctl;
use super::migration::{CLAIM, Policy, counting_on, ends_as};
use tests::cluster::{Space, until};

const KEPT: &str = "dd if=/dev/vda bs=512 count=1 2>/dev/null | head -n 1";

#[test]
fn the_disk_of_a_stopped_vm_moves_and_its_guest_sleeps_on() {
    let volume = "persistentVolumeClaim: {claimName: data}";
    let Some((space, mut console)) = counting_on("offline", "", volume, CLAIM) else { return };
    // Of a VM that runs it is refused.
    let refused = space.try_apply(&migration("early"));
    assert!(refused.err.contains("remove the field to migrate it with its guest"), "{}", refused.err);
    console.keys_are(b"\x03");
    console.says("/root #");
    let kept = console.runs(KEPT);
    space.run(&["patch", "vm", "web", "--type=merge", "-p", r#"{"spec": {"runStrategy": "Halted"}}"#]);
    is_gone(&space);
    // So slow that there is time for what follows.
    let _slow = Policy::new(&space, "slow", &space.name, "6Mi");
    space.apply(&migration("away"));
    space.says("vm/web", ".status.printableStatus", "Migrating");
    // Somebody lets the vCPUs go on: the firmware has nothing to boot from.
    space.says("vmi/web", ".status.phase", "Running");
    space.has("vmi/web", "Paused", "True");
    virtctl(&space, &["unpause", "vmi", "web"], "scheduled to unpause");
    assert_eq!(space.get("vmi/web", ".spec.domain.devices.disks[?(@.name=='data')].bootOrder"), "");
    ends_as(&space, "away", "Succeeded");
    is_gone(&space);
    let state = |field: &str| space.get("vmim/away", &format!(".status.migrationState.{field}"));
    assert_ne!(state("targetNode"), state("sourceNode"));
    let claim =
        space.get("vm/web", ".spec.template.spec.volumes[?(@.name=='data')].persistentVolumeClaim.claimName");
    assert!(claim.starts_with("data-moved-"), "{claim}");
    assert_eq!(space.get("pvc/data", ".metadata.annotations.coracle\\.io/moved-to"), claim);
    assert_eq!(space.get("vm/web", ".status.printableStatus"), "Stopped");
    space.run(&["patch", "vm", "web", "--type=merge", "-p", r#"{"spec": {"runStrategy": "Always"}}"#]);
    let mut console = space.console_when_ready("web");
    console.log_in();
    assert_eq!(console.runs(KEPT), kept);
    console.power_off();
}

fn migration(name: &str) -> String {
    format!("{}\n", super::migration::migration(name).replace("vmiName: web", "vmiName: web, offline: true"))
}

/// The VM has no VMI, and no launcher pod that has not ended.
#[track_caller]
fn is_gone(space: &Space) {
    let left = || space.run(&["get", "vmi", "-o", "name"]);
    until(|| left().is_empty(), || format!("{} is there: {}", left(), space.get("vmi/web", ".status")));
}
