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
//! may boot from an empty disk alone. A carrier has all PVCs of the VM, so a PVC that a live migration refuses is refused here as well.
//! A VM that something else binds to a node, for example a hostDisk, gets no carrier ([`refusal`]).
//! **Placement.** The carrier runs where the PVCs are. Its target pod goes where the VM itself may run, with its instance type and its
//! preference, and where the memory of its guest is free ([`prepare_target`]).
//! **Bounds.** A carrier has [`MEMORY`] of memory, and no device that a node has few of.

use super::disks::Disks;
use super::sizes;
use super::strategy::{self, Act};
use crate::pod;
use api::machine::{hook, is_of_one_node};
use api::migration::VirtualMachineInstanceMigration;
use api::quantity::Quantity;
use api::vm::VirtualMachine;
use api::vmi::{
    Bus, Disk, DiskTarget, EmptyDisk, EvictionStrategy, StartStrategy, VirtualMachineInstance, Volume,
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

/// Creates the carrier of the first offline migration of a VM. `expanded`: the VM with the values of its instance type and its preference.
pub(super) fn create(
    world: &World,
    vm: &VirtualMachine,
    expanded: &VirtualMachine,
    disks: &Disks,
    plan: &mut Plan,
) {
    let Some(migration) = wanted(world, vm).filter(|_| disks.blocks().is_none()) else { return };
    if refusal(world, expanded).is_some() {
        return;
    }
    let Some(vmi) = object(world, expanded, migration) else { return };
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

/// Builds the carrier of a VM: a VMI without a guest, by which an offline migration moves the disks. `None` if the VM has no template or
/// the migration has no UID.
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
    spec.architecture = of_vm.architecture;
    spec.tolerations = of_vm.tolerations;
    spec.tolerations.push(of_cordoned_nodes());
    spec.scheduler_name = of_vm.scheduler_name;
    if let Some(cpu) = of_vm.domain.cpu {
        // Between nodes with different processors a model that both have is what migrates.
        let own = spec.domain.cpu.get_or_insert_default();
        (own.model, own.features) = (cpu.model, cpu.features);
    }
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
    spec.volumes = of_vm.volumes.into_iter().filter(|volume| claim_of(volume).is_some()).collect();
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

/// Gives the VMI of a carrier's target pod what its VM asks of a node, in place of what holds for the carrier's own node alone.
pub(crate) fn prepare_target(world: &World, vmi: &mut VirtualMachineInstance) {
    if migration_of(vmi).is_none() {
        return;
    }
    let meta = &vmi.metadata;
    let [namespace, name] = [&meta.namespace, &meta.name].map(|text| text.as_deref().unwrap_or_default());
    let vm = world.vms.get(namespace, name);
    let whole = vm.and_then(|vm| api::defaults::vmi_of(&sizes::expanded_now(world, vm)));
    // The last one is the carrier's; one of the VM itself stays.
    let own = of_cordoned_nodes();
    let last = vmi.spec.tolerations.iter().rposition(|toleration| *toleration == own);
    last.into_iter().for_each(|position| drop(vmi.spec.tolerations.remove(position)));
    let Some(whole) = whole else { return };
    let config = world.config();
    vmi.spec.node_selector = match crate::vmi::checked(world, &whole, config) {
        Some((whole, machine)) => {
            // Huge pages are another resource.
            if machine.memory.hugepage.is_none() {
                let memory = Quantity::of_bytes(pod::guest_memory(&whole, &machine, config));
                let resources = vmi.spec.domain.resources.get_or_insert_default();
                resources.requests.insert("memory".to_owned(), memory);
            }
            pod::selectors(&whole, &machine, config)
        }
        None => whole.spec.node_selector,
    };
    vmi.spec.affinity = whole.spec.affinity;
    vmi.spec.topology_spread_constraints = whole.spec.topology_spread_constraints;
}

/// The reason why the disks of a VM do not move without its guest: something other than its PVCs binds it to a node.
pub(crate) fn refusal(world: &World, expanded: &VirtualMachine) -> Option<String> {
    let vmi = api::defaults::vmi_of(expanded)?;
    let namespace = expanded.metadata.namespace.as_deref().unwrap_or_default();
    let of_one_node = |name: &String| {
        world.pvcs.get(namespace, name).is_some_and(|claim| is_of_one_node(&claim.spec.access_modes))
    };
    if let Some(name) = hook::claims(&vmi.metadata).into_iter().find(of_one_node) {
        return Some(format!("a hook sidecar has PVC {name}, which one node can use at a time"));
    }
    if crate::vmi::keeps_state(&vmi) {
        return Some(
            "EFI variables and a TPM that are kept move with a guest that runs: start the VM to migrate it"
                .to_owned(),
        );
    }
    let is_local = |volume: &&Volume| volume.host_disk.as_ref().is_some_and(|disk| disk.shared != Some(true));
    if let Some(local) = vmi.spec.volumes.iter().find(is_local) {
        return Some(format!("the volume {} is a hostDisk that is not shared", local.name));
    }
    crate::vmi::unmovable_stopped(world, &vmi)
}

/// A disk that no firmware boots from.
fn without_boot(disk: Disk) -> Disk {
    Disk { boot_order: None, ..disk }
}
