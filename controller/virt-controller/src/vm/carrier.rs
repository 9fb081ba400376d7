//! Carriers: VMIs with the disks of a stopped VM and no guest, by which an offline migration moves them to another node.
//!
//! ```text
//!  migration, spec.offline ─► carrier, paused ─► its PVCs are copied as in a live migration ─► the VM gets the new names ([`super::moved`])
//!                                └─ deleted when the migration has ended, and its PVCs are settled ◄──┘
//! ```
//!
//! **Design.** A disk that moves needs what a live migration has: new PVCs, one place that writes, an end that is known behind any
//! failure. The carrier has the name of the VM's VMI: meanwhile the VM does not start.
//! **Guarantees.** No code of the guest runs. The vCPUs are stopped from the beginning, and where somebody lets them go on, the firmware
//! may boot from an empty disk alone. What the migration of a running VM would refuse of disks is refused here as well: volumes that hold a node
//! stay in the carrier.
//! **Bounds.** A carrier has [`MEMORY`] of memory, and no device that a node has few of.

use super::disks::Disks;
use super::strategy::{self, Act};
use api::migration::VirtualMachineInstanceMigration;
use api::quantity::Quantity;
use api::vm::VirtualMachine;
use api::vmi::{
    Bus, Disk, DiskTarget, EmptyDisk, EvictionStrategy, Firmware, StartStrategy, VirtualMachineInstance,
    Volume,
};
use api::wire::Wire;
use cluster_model::metadata::OFFLINE_MIGRATION;
use cluster_model::objects::{Key, Kind, OF_VM, World, claim_of, migration_phase, migrations_of, owner};
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Memory of a carrier: QEMU and its firmware start with it.
const MEMORY: &str = "64Mi";
/// The empty disk that the firmware boots from.
const EMPTY: &str = "nothing-to-boot";
const EMPTY_SIZE: &str = "1Mi";

/// Pause until a VM with a carrier is looked at again.
pub(super) const LOOKS_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// UID of the migration that a VMI carries the disks of its VM for.
pub(crate) fn migration_of(vmi: &VirtualMachineInstance) -> Option<&str> {
    vmi.metadata.annotations.get(OFFLINE_MIGRATION).map(String::as_str)
}

/// The VMI of a run of the VM: not a carrier.
pub(super) fn run_of(vmi: Option<&VirtualMachineInstance>) -> Option<&VirtualMachineInstance> {
    vmi.filter(|vmi| migration_of(vmi).is_none())
}

/// The first migration of a VM that has not ended, where it is an offline one.
fn wanted<'a>(world: &'a World, vm: &VirtualMachine) -> Option<&'a VirtualMachineInstanceMigration> {
    let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    let all = migrations_of(world, namespace, vm.metadata.name.as_deref().unwrap_or_default());
    let unfinished = all.filter(|migration| !migration_phase(migration).is_final());
    let first = unfinished.min_by_key(|migration| {
        let meta = &migration.metadata;
        (text(&meta.creation_timestamp), text(&meta.uid))
    });
    first.filter(|first| first.spec.offline == Some(true) && first.metadata.deletion_timestamp.is_none())
}

/// What becomes of the VMI of a VM, where an offline migration decides that in place of the run strategy.
pub(super) fn decide(
    world: &World,
    vm: &VirtualMachine,
    vmi: Option<&VirtualMachineInstance>,
    act: &Act,
) -> Option<Act> {
    let wanted = wanted(world, vm);
    let Some(vmi) = vmi else {
        return wanted.filter(|_| *act == Act::Leave).map(|_| Act::Carry);
    };
    let Some(uid) = migration_of(vmi) else {
        // A VMI that has ended makes room.
        let makes_room = wanted.is_some() && *act == Act::Leave && crate::vmi::phase(vmi).is_final();
        return makes_room.then_some(Act::Stop);
    };
    let is_needed = wanted.is_some_and(|wanted| wanted.metadata.uid.as_deref() == Some(uid));
    let has_claims = vmi.status.as_ref().is_some_and(|status| !status.migrated_volumes.is_empty());
    let has_ended = crate::vmi::phase(vmi).is_final();
    Some(if !is_needed && (has_ended || !has_claims) { Act::Stop } else { Act::Leave })
}

/// The reason why a VM has no carrier yet, for its migration.
pub(crate) fn wait_reason(world: &World, vm: &VirtualMachine, now: Timestamp) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let shown = format!("VM {}/{}", text(&vm.metadata.namespace), text(&vm.metadata.name));
    let strategy = vm.run_strategy();
    if strategy::decide(vm, &strategy, None, now) != Act::Leave {
        return format!(
            "{shown} is about to start (runStrategy {}): stop it to move its disks",
            strategy.as_str()
        );
    }
    let disks = super::disks::find(world, vm, None);
    match disks.blocks() {
        Some(message) => format!("the disks of {shown} cannot be moved now: {message}"),
        None => format!("a VMI without a guest is being created for the disks of {shown}"),
    }
}

/// Creates the carrier of the first offline migration of a VM.
pub(super) fn create(world: &World, vm: &VirtualMachine, disks: &Disks, plan: &mut Plan) {
    let Some(migration) = wanted(world, vm).filter(|_| disks.blocks().is_none()) else { return };
    let Some(vmi) = object(world, vm, migration) else { return };
    let key = |kind, name: &Option<String>| {
        Key::new(kind, vm.metadata.namespace.clone().unwrap_or_default(), name.clone().unwrap_or_default())
    };
    let mut object = vmi.write();
    object["metadata"]["ownerReferences"] = json!([owner::reference(Kind::VirtualMachine, &vm.metadata)]);
    plan.require_unchanged(Kind::VirtualMachineInstanceMigration, &migration.metadata);
    plan.create(key(Kind::VirtualMachineInstance, &vm.metadata.name), object);
    let name = migration.metadata.name.as_deref().unwrap_or_default();
    let message = format!(
        "Created a virtual machine instance without a guest, which the migration {name} moves the disks by"
    );
    plan.record_event(Kind::VirtualMachine, &vm.metadata, false, "SuccessfulCreate", message);
}

/// The carrier as an object.
fn object(
    world: &World,
    vm: &VirtualMachine,
    migration: &VirtualMachineInstanceMigration,
) -> Option<VirtualMachineInstance> {
    let whole = api::defaults::vmi_of(vm)?;
    let mut vmi =
        VirtualMachineInstance { api_version: whole.api_version, kind: whole.kind, ..Default::default() };
    vmi.metadata.name = whole.metadata.name;
    vmi.metadata.namespace = whole.metadata.namespace;
    vmi.metadata.finalizers.push(OF_VM.to_owned());
    let uid = migration.metadata.uid.clone()?;
    vmi.metadata.annotations.insert(OFFLINE_MIGRATION.to_owned(), uid);
    let (spec, of_vm) = (&mut vmi.spec, whole.spec);
    // The new PVCs come to a node that the VM itself may run on.
    spec.architecture = of_vm.architecture;
    spec.node_selector = of_vm.node_selector;
    spec.affinity = of_vm.affinity;
    spec.tolerations = of_vm.tolerations;
    spec.tolerations.push(of_cordoned_nodes());
    spec.scheduler_name = of_vm.scheduler_name;
    spec.priority_class_name = of_vm.priority_class_name;
    spec.start_strategy = Some(StartStrategy::Paused);
    spec.eviction_strategy = Some(EvictionStrategy::None);
    spec.termination_grace_period_seconds = Some(0);
    spec.domain.memory.get_or_insert_default().guest = Quantity::parse(MEMORY).ok();
    let devices = &mut spec.domain.devices;
    devices.autoattach_pod_interface = Some(false);
    devices.autoattach_graphics_device = Some(false);
    devices.autoattach_serial_console = Some(false);
    devices.autoattach_mem_balloon = Some(false);
    // Where these have a state on a PVC of the VM, the migration is refused for it.
    devices.tpm = of_vm.domain.devices.tpm.filter(|tpm| tpm.persistent == Some(true));
    spec.domain.firmware = of_vm.domain.firmware.filter(has_state);
    spec.volumes = of_vm.volumes.into_iter().filter(holds_a_node).collect();
    let is_kept = |name: &str| spec.volumes.iter().any(|volume| volume.name == name);
    devices.filesystems =
        of_vm.domain.devices.filesystems.into_iter().filter(|share| is_kept(&share.name)).collect();
    devices.disks =
        of_vm.domain.devices.disks.into_iter().filter(|disk| is_kept(&disk.name)).map(without_boot).collect();
    let target = DiskTarget { bus: Some(Bus::Virtio), ..DiskTarget::default() };
    devices.disks.push(Disk {
        name: EMPTY.to_owned(),
        disk: Some(target),
        boot_order: Some(1),
        ..Disk::default()
    });
    let empty = EmptyDisk { capacity: Quantity::parse(EMPTY_SIZE).ok()?, other: Default::default() };
    spec.volumes.push(Volume { name: EMPTY.to_owned(), empty_disk: Some(empty), ..Volume::default() });
    let name = vm.metadata.name.as_deref().unwrap_or_default();
    api::defaults::apply(&mut vmi, &world.config().defaults_context(api::uuid::of_vm(name)));
    Some(vmi)
}

/// A toleration: the PVCs of a VM can be moved from a node that takes no new pods.
fn of_cordoned_nodes() -> Value {
    json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"})
}

/// Removes what holds for the node of a carrier alone from the VMI of its target pod.
pub(crate) fn prepare_target(vmi: &mut VirtualMachineInstance) {
    if migration_of(vmi).is_some() {
        // The last one is the carrier's; one of the VM itself stays.
        let own = of_cordoned_nodes();
        if let Some(position) = vmi.spec.tolerations.iter().rposition(|toleration| *toleration == own) {
            vmi.spec.tolerations.remove(position);
        }
    }
}

/// True for EFI variables that stay on a PVC of the VM.
fn has_state(firmware: &Firmware) -> bool {
    let efi = firmware.bootloader.as_ref().and_then(|bootloader| bootloader.efi.as_ref());
    efi.is_some_and(|efi| efi.persistent == Some(true))
}

/// True for a volume whose content may be on one node alone.
fn holds_a_node(volume: &Volume) -> bool {
    claim_of(volume).is_some() || volume.host_disk.is_some()
}

/// A disk that no firmware boots from.
fn without_boot(disk: Disk) -> Disk {
    Disk { boot_order: None, ..disk }
}
