//! VirtualMachineInstanceMigrations: label and finalizer of a new one, and the checks of upstream, in its order and words.
//!
//! ```text
//!  create ─► the object itself ─► its VMI, and the other migrations of that VMI ([`MigrationFacts`], read by the caller)
//!  update ─► the spec stays; the label with the name of the VMI stays until the migration has ended
//! ```
//!
//! As upstream, only the first fault is reported. Migrations between clusters are refused. A label of
//! `addedNodeSelector` that no node can have is refused too: the target pod could not be created.
//!
//! **Guarantees.** Without the facts a migration is deferred, not admitted. virt-controller judges each migration
//! again: the webhook may be missing, and the facts may change after the answer.

use super::answer::Deferral;
use super::{AdmissionResponse, Request, RequestContext, patch, unknown};
use api::fault::{Fault, Reason};
use api::meta::is_label_value;
use api::migration::{Spec, VirtualMachineInstanceMigration};
use api::vm::VirtualMachine;
use api::vmi::{ConditionType, Phase, VirtualMachineInstance, Volume};
use api::wire;
use cluster_model::objects::names::{self, is_name};
use cluster_model::objects::{Key, Kind, MIGRATED_VMI, MIGRATION_FINALIZER, Program};
use cluster_model::plan::merge;
use serde_json::{Value, json};

/// The VMI of a new migration and its other migrations, as the API server has them.
#[derive(Clone, Debug, Default)]
pub struct MigrationFacts {
    /// The VMI, if it exists. On the heap, since every review has room for these facts.
    pub vmi: Option<Box<VirtualMachineInstance>>,
    /// The VM of this name, if it exists; `None` as well beside a VMI that has not ended.
    pub vm: Option<Box<VirtualMachine>>,
    /// A migration of the VMI that has not ended.
    pub active: Option<ActiveMigration>,
}

/// A migration that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActiveMigration {
    pub uid: String,
    pub name: String,
}

/// The VMI that has to be read before a new migration is judged; `None` if the answer does not depend on it.
/// Namespace and name are valid in a path.
pub fn vmi_of(request: &Request, context: &RequestContext) -> Option<Key> {
    key(request, &read(request, context).ok()?.spec)
}

/// True for a VMI that has ended.
pub fn has_ended(vmi: &VirtualMachineInstance) -> bool {
    let phase = vmi.status.as_ref().and_then(|status| status.phase.as_ref());
    phase.is_some_and(Phase::is_final)
}

/// True for a migration that has not ended.
pub fn is_active(migration: &VirtualMachineInstanceMigration) -> bool {
    let phase = migration.status.as_ref().and_then(|status| status.phase.as_ref());
    !phase.is_some_and(api::migration::Phase::is_final)
}

/// Deferral of a migration whose VMI or other migrations could not be read. The client retries.
pub fn deferred_unread(request: &Request, why: &str) -> AdmissionResponse {
    let vmi = request.object["spec"]["vmiName"].as_str().unwrap_or_default();
    let message = format!(
        "the migration is not created now, since it is not known whether VMI {}/{vmi} can migrate: {why}; try again",
        request.namespace
    );
    AdmissionResponse::later(Deferral { message, evacuates: None })
}

/// Sets the label by which the migrations of a VMI are found, and the finalizer of virt-controller.
pub(super) fn complete(request: &Request) -> AdmissionResponse {
    // The schema and the validating webhook report a migration without a VMI.
    let Some(vmi) = request.object["spec"]["vmiName"].as_str().filter(|name| !name.is_empty()) else {
        return AdmissionResponse::yes();
    };
    let mut should = request.object.clone();
    merge(&mut should, &json!({"metadata": {"labels": {MIGRATED_VMI: names::label(vmi)}}}));
    let finalizers = &mut should["metadata"]["finalizers"];
    match finalizers {
        Value::Array(all) if all.iter().any(|one| one == MIGRATION_FINALIZER) => {}
        Value::Array(all) => all.push(json!(MIGRATION_FINALIZER)),
        _ => *finalizers = json!([MIGRATION_FINALIZER]),
    }
    AdmissionResponse { patch: patch::between(&request.object, &should), ..AdmissionResponse::yes() }
}

/// Validates a new migration.
pub(super) fn create(request: &Request, context: &RequestContext) -> AdmissionResponse {
    let migration = match read(request, context) {
        Ok(migration) => migration,
        Err(faults) => return AdmissionResponse::no(faults),
    };
    let missing = MigrationFacts::default();
    let facts = match (&context.migration, key(request, &migration.spec)) {
        (Some(facts), Some(_)) => facts,
        (None, Some(_)) => return deferred_unread(request, "its VMI was not read from the API server"),
        // No object can have this name.
        (_, None) => &missing,
    };
    AdmissionResponse {
        faults: fault_of(&migration.spec, facts, &request.namespace).into_iter().collect(),
        warnings: unknown::warnings(&migration),
        ..AdmissionResponse::yes()
    }
}

/// Validates a change of a migration.
pub(super) fn update(request: &Request) -> AdmissionResponse {
    if request.is_leaving() {
        return AdmissionResponse::yes();
    }
    let (old, new) = (&request.old, &request.object);
    let refused = |field: &str, message: &str| {
        AdmissionResponse::no(vec![Fault::new(field, Reason::NotSupported, message)])
    };
    if !same(&old["spec"], &new["spec"]) {
        return refused("spec", "update of Migration object's spec is restricted");
    }
    let label = |object: &Value| object["metadata"]["labels"][MIGRATED_VMI].clone();
    let (was, is) = (label(old), label(new));
    let has_ended =
        old["status"]["phase"].as_str().is_some_and(|phase| api::migration::Phase::from(phase).is_final());
    if has_ended || was.is_null() || was == is {
        return AdmissionResponse::yes();
    }
    let done = if is.is_null() { "removed from" } else { "modified on" };
    refused("metadata.labels", &format!("selector label can't be {done} an in-flight migration"))
}

/// A new migration that is valid by itself, or its first fault.
fn read(request: &Request, context: &RequestContext) -> Result<VirtualMachineInstanceMigration, Vec<Fault>> {
    let mut faults = Vec::new();
    let read = wire::read_in_part::<VirtualMachineInstanceMigration>(request.object.clone(), &mut faults);
    let Some(migration) = read.filter(|_| faults.is_empty()) else { return Err(faults) };
    let is_controller = request.who.name == context.accounts.user(Program::Controller);
    match spec_fault(&migration.spec, is_controller) {
        Some(fault) => Err(vec![fault]),
        None => Ok(migration),
    }
}

fn spec_fault(spec: &Spec, is_controller: bool) -> Option<Fault> {
    if spec.vmi_name.is_empty() {
        return Some(Fault::new("spec.vmiName", Reason::Required, "vmiName is missing"));
    }
    if spec.priority.is_some() && !is_controller {
        let message = "Migration priority queue, only virt-controller is allowed to set priority field";
        return Some(Fault::new("spec.priority", Reason::Forbidden, message));
    }
    let of_clusters = [("spec.sendTo", spec.send_to.is_some()), ("spec.receive", spec.receive.is_some())];
    if let Some((field, _)) = of_clusters.into_iter().find(|(_, is_set)| *is_set) {
        let message = format!("{field} must be absent: migration between clusters is not supported");
        return Some(Fault::new(field, Reason::NotSupported, message));
    }
    let odd =
        spec.added_node_selector.iter().find(|(key, value)| !is_label_key(key) || !is_label_value(value));
    odd.map(|(key, value)| {
        let message =
            format!("spec.addedNodeSelector: no node can have the label {key:?} with the value {value:?}");
        Fault::new("spec.addedNodeSelector", Reason::Invalid, message)
    })
}

/// True if the text can be the key of a label: a name, with the domain of its owner before a slash.
fn is_label_key(text: &str) -> bool {
    let (domain, name) = text.split_once('/').map_or((None, text), |(domain, name)| (Some(domain), name));
    domain.is_none_or(is_name) && !name.is_empty() && is_label_value(name)
}

/// The VMI of a migration, if an object can have its name.
fn key(request: &Request, spec: &Spec) -> Option<Key> {
    let (namespace, name) = (request.namespace.as_str(), spec.vmi_name.as_str());
    (is_name(namespace) && is_name(name)).then(|| Key::new(Kind::VirtualMachineInstance, namespace, name))
}

/// The first fault of a migration beside its VMI and the other migrations of that VMI.
fn fault_of(spec: &Spec, facts: &MigrationFacts, namespace: &str) -> Option<Fault> {
    let name = &spec.vmi_name;
    let fault = |reason, message: String| Some(Fault::new("spec.vmiName", reason, message));
    if spec.offline == Some(true) {
        return in_flight(name, facts).or_else(|| offline_fault(name, facts, namespace));
    }
    let Some(vmi) = &facts.vmi else {
        return fault(Reason::NotFound, format!("the VMI \"{namespace}/{name}\" does not exist"));
    };
    if has_ended(vmi) {
        return fault(Reason::Invalid, "Cannot migrate VMI in finalized state.".to_owned());
    }
    let conditions = vmi.status.iter().flat_map(|status| &status.conditions);
    let mut of_migration = conditions.filter(|one| one.r#type == ConditionType::LiveMigratable);
    if let Some(cannot) = of_migration.find(|one| one.status == "False") {
        let said = |text: &Option<String>| text.clone().unwrap_or_default();
        let (reason, message) = (said(&cannot.reason), said(&cannot.message));
        return fault(Reason::Invalid, format!("Cannot migrate VMI, Reason: {reason}, Message: {message}"));
    }
    in_flight(name, facts)
}

fn in_flight(name: &str, facts: &MigrationFacts) -> Option<Fault> {
    let ActiveMigration { uid, name: active } = facts.active.as_ref()?;
    let mut message = format!(
        "in-flight migration detected. Active migration job ({uid}) is currently already in progress for VMI {name}."
    );
    // Upstream has the UID alone, which no command takes.
    if !active.is_empty() {
        message += &format!(" Its name is {active}.");
    }
    Some(Fault::new("spec.vmiName", Reason::Invalid, message))
}

/// The fault of a migration without a guest, whose VM has to be there and stopped.
fn offline_fault(name: &str, facts: &MigrationFacts, namespace: &str) -> Option<Fault> {
    if facts.vmi.as_ref().is_some_and(|vmi| !has_ended(vmi)) {
        let message = format!(
            "spec.offline moves the disks of a stopped VM, and VM \"{namespace}/{name}\" runs: remove the field to migrate it with its \
             guest, or stop it"
        );
        return Some(Fault::new("spec.offline", Reason::Invalid, message));
    }
    let Some(vm) = &facts.vm else {
        let message = format!("the VM \"{namespace}/{name}\" does not exist");
        return Some(Fault::new("spec.vmiName", Reason::NotFound, message));
    };
    let why = unmovable(vm)?;
    let message = format!("the disks of VM \"{namespace}/{name}\" do not move without its guest: {why}");
    Some(Fault::new("spec.offline", Reason::Invalid, message))
}

/// The reason why the disks of a stopped VM do not move, by its template alone. virt-controller knows its PVCs, and judges again.
fn unmovable(vm: &VirtualMachine) -> Option<String> {
    let spec = &vm.spec.template.as_ref()?.spec;
    let is_local = |volume: &&Volume| volume.host_disk.as_ref().is_some_and(|disk| disk.shared != Some(true));
    if let Some(local) = spec.volumes.iter().find(is_local) {
        return Some(format!("the volume {} is a hostDisk that is not shared", local.name));
    }
    let mut on_claims = spec.volumes.iter().filter(|volume| {
        volume.persistent_volume_claim.is_some() || volume.data_volume.is_some() || volume.ephemeral.is_some()
    });
    let Some(first) = on_claims.clone().next() else {
        return Some("it has no PVC, and can start on any node as it is".to_owned());
    };
    let is_cdrom = |volume: &Volume| {
        let mut disks = spec.domain.devices.disks.iter();
        disks.any(|disk| disk.name == volume.name && disk.cdrom.is_some())
    };
    on_claims.all(is_cdrom).then(|| {
        format!(
            "of its disks only CD-ROMs are on PVCs ({}), and only disks that the guest may write to are moved",
            first.name
        )
    })
}

/// True if two specs are equal after parsing.
fn same(one: &Value, other: &Value) -> bool {
    let read = |value: &Value| wire::read::<Spec>(value.clone()).ok();
    one == other || read(one).zip(read(other)).is_some_and(|(one, other)| one == other)
}
