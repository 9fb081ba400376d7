//! The launcher pod of a VMI as a value: what both the start of a VMI and a live migration check before they create one.

use super::needs::{self, DiskNeeds};
use super::{state, with_defaults};
use crate::pod::{self, AutomaticLimits, MigrationTarget, Surroundings};
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;
use cluster_model::objects::{Key, Kind, PersistentVolumeClaim, World, names};
use cluster_model::plan::Step;
use std::collections::BTreeMap;

/// Reason of a VMI whose spec the settings of the cluster do not permit.
const INVALID: &str = "InvalidSpec";
/// Reason of a VMI in a cluster without settings.
pub(crate) const NO_SETTINGS: &str = "KubeVirtNotFound";

/// Reason why there is no launcher pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// CamelCase reason.
    pub(crate) reason: &'static str,
    /// Message for users.
    pub(crate) message: String,
}

/// The VMI with all its defaults, and its checked spec. Webhooks check the same, but are not always installed, and the settings
/// may have changed since.
pub(super) fn checked(
    world: &World,
    vmi: &VirtualMachineInstance,
    claims: &BTreeMap<String, PersistentVolumeClaim>,
) -> Result<(VirtualMachineInstance, Machine), Refusal> {
    let whole = with_defaults(vmi, world.config());
    let Some(permitted) = world.permissions() else {
        let home = &world.facts.namespace;
        let message = format!(
            "there is no KubeVirt object in the namespace {home}, so the settings are unknown: no pod is created \
             until one is created"
        );
        return Err(Refusal { reason: NO_SETTINGS, message });
    };
    let machine = Machine::check(&whole, permitted).map_err(|faults| {
        let faults = faults.iter().take(10).map(|fault| format!("{}: {}", fault.field, fault.message));
        let faults: Vec<String> = faults.collect();
        Refusal { reason: INVALID, message: faults.join("; ") }
    })?;
    match pod::without_files(&machine, claims) {
        Some(message) => Err(Refusal { reason: INVALID, message }),
        None => Ok((whole, machine)),
    }
}

/// Name of a launcher pod, and the step that creates it. `state`: the PVC of EFI variables and TPM.
pub(super) fn creation(
    world: &World,
    (vmi, machine): (&VirtualMachineInstance, &Machine),
    claims: &BTreeMap<String, PersistentVolumeClaim>,
    state: Option<&str>,
    receives: Option<MigrationTarget<'_>>,
) -> (String, Step) {
    let config = world.config();
    let image_volumes = config.image_volumes && world.facts.image_volumes && world.nodes_mount_images();
    let limits = AutomaticLimits::for_namespace(world, config, &machine.namespace);
    let around = Surroundings { config, facts: &world.facts, image_volumes, claims, state, limits, receives };
    let object = pod::pod(vmi, machine, &around);
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let key = Key::new(Kind::Pod, machine.namespace.clone(), name.clone());
    let create = match pod::on_networks(machine) {
        networks if networks.is_empty() => Step::Create { key, object },
        networks => Step::CreateOnNetworks { key, object, networks },
    };
    (name, create)
}

/// Name of the target pod of a live migration of a VMI that runs, and the step that creates it.
pub(crate) fn target_pod(
    world: &World,
    vmi: &VirtualMachineInstance,
    target: MigrationTarget<'_>,
) -> Result<(String, Step), Refusal> {
    let claims = match needs::find_for_target(world, vmi) {
        DiskNeeds::There(claims) => claims,
        DiskNeeds::Missing { message }
        | DiskNeeds::Moved { message }
        | DiskNeeds::Filling { message }
        | DiskNeeds::BeingRead { message }
        | DiskNeeds::Failed { message, .. } => return Err(Refusal { reason: "DisksNotReady", message }),
    };
    let (whole, machine) = checked(world, vmi, &claims)?;
    let state = match machine.keeps_state() {
        true => Some(new_state(world, vmi, target.uid)?),
        false => None,
    };
    Ok(creation(world, (&whole, &machine), &claims, state.as_deref(), Some(target)))
}

/// Name of the PVC that EFI variables and TPM move into by a live migration.
fn new_state(world: &World, vmi: &VirtualMachineInstance, migration: &str) -> Result<String, Refusal> {
    let refuse = |message: String| Refusal { reason: "DisksNotReady", message };
    let source = state::find(world, vmi).and_then(|claim| claim.meta.name.as_deref());
    let source = source.ok_or_else(|| {
        refuse("the PVC that keeps EFI variables and TPM of the VM does not exist".to_owned())
    })?;
    let name = names::moved(source, migration);
    match world.pvcs.get(vmi.metadata.namespace.as_deref().unwrap_or_default(), &name) {
        Some(_) => Ok(name),
        None => Err(refuse(format!(
            "PVC {name}, which EFI variables and TPM of the VM move into, does not exist"
        ))),
    }
}
