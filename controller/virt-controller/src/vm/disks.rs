//! The DataVolumes of a VM: they are created from its templates, and the VM waits for them.

use super::trouble::VmProblem;
use crate::template::data_volume_name;
use crate::vmi::volume_update::{self, VolumeUpdate};
use api::data_volume::{ConditionType, DataVolume, Phase};
use api::kubevirt::AnnotationPolicy;
use api::vm::{DataVolumeTemplate, VirtualMachine};
use api::vmi::VirtualMachineInstance;
use api::wire::Wire;
use cluster_model::claim_moves::{ClaimReference, RECOVERY, copy_of, moved_message};
use cluster_model::metadata::{OmittedKeys, left_out_of_disk, of_disk};
use cluster_model::objects::{
    Attempt, Failure, Key, Kind, PersistentVolumeClaim, World, claim_of, claims_of, owner,
};
use cluster_model::plan::Plan;
use jiff::Timestamp;
use serde_json::json;

/// Annotation of a VM. With the value `false`, its DataVolumes are created only when the VM starts.
const AT_ONCE: &str = "kubevirt.io/immediate-data-volume-creation";

/// State of the disks of a VM.
#[derive(Clone, Debug, Default)]
pub(super) struct Disks {
    /// Templates without a DataVolume and without a PVC.
    missing: Vec<DataVolumeTemplate>,
    /// A disk has failed.
    pub(super) failed: bool,
    /// A disk is being filled.
    pub(super) filling: bool,
    /// A PVC has no volume yet.
    pub(super) unbound: bool,
    /// Reason against a start of the VM.
    blocks: Option<String>,
    /// A DataVolume that must not be created, or a PVC that must not be used.
    denied: Option<Denied>,
    /// The disk of a PVC is on another one since a live migration, or may be.
    pub(super) moved: bool,
    /// An offline migration moves the disks.
    pub(super) carried: bool,
}

/// A DataVolume that is not made.
#[derive(Clone, Debug)]
struct Denied {
    name: String,
    reason: &'static str,
    why: String,
}

impl Disks {
    /// Records that a DataVolume must not be created, and that the VM does not start without it.
    fn deny(&mut self, name: &str, reason: &'static str, why: String) {
        self.blocks.get_or_insert_with(|| why.clone());
        self.denied.get_or_insert_with(|| Denied { name: name.to_owned(), reason, why });
    }

    /// A VM whose volumes were being migrated when its VMI ended does not start.
    pub(super) fn unless_broken(mut self, update: &VolumeUpdate) -> Disks {
        if let Some(message) = volume_update::block(update) {
            self.moved = true;
            self.deny("", RECOVERY, message.to_owned());
        }
        self
    }

    /// Reason against a start of the VM.
    pub(super) fn blocks(&self) -> Option<&str> {
        self.blocks.as_deref()
    }

    /// Problem of a DataVolume that must not be created.
    pub(super) fn denied(&self) -> Option<VmProblem<'_>> {
        let Denied { name, reason, why } = self.denied.as_ref()?;
        let disk = Some(name.as_str()).filter(|_| *reason != RECOVERY);
        Some(VmProblem { disk, ..VmProblem::new(reason, why) })
    }

    /// The DataVolume to create next.
    pub(super) fn next_missing(&self) -> Option<&str> {
        data_volume_name(self.missing.first()?)
    }
}

/// True if the DataVolumes are created before the VM starts.
pub(super) fn at_once(vm: &VirtualMachine) -> bool {
    vm.metadata.annotations.get(AT_ONCE).is_none_or(|said| said != "false")
}

pub(super) fn find(world: &World, vm: &VirtualMachine, vmi: Option<&VirtualMachineInstance>) -> Disks {
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    let carried = vmi.is_some_and(|vmi| super::carrier::migration_of(vmi).is_some());
    let mut disks = Disks { carried, ..Disks::default() };
    for template in &vm.spec.data_volume_templates {
        let Some(name) = data_volume_name(template) else { continue };
        match find_volume(world, vm, namespace, name) {
            ExistingVolume::Nothing => {}
            ExistingVolume::Usable => continue,
            ExistingVolume::Foreign(why) => {
                disks.deny(name, "FailedDataVolumeCreate", why);
                continue;
            }
        }
        if let Some(message) = copied_from(world, vm, name) {
            disks.moved = true;
            disks.deny(name, RECOVERY, message);
            continue;
        }
        // The DataVolume would be created with virt-controller's rights, which cover all namespaces. The
        // webhook refuses this earlier, if it is installed. Clones are reviewed: virt-api checks the rights
        // of the VM's service account, and without its token nothing is cloned.
        if let Some((field, other)) = template.spec.unchecked_reference(Some(namespace)) {
            let why = format!(
                "DataVolume {name} is not created: {field} is the namespace {other}, and the right to read there is \
                 not checked for this field: name a PVC by source.pvc"
            );
            disks.deny(name, "UnauthorizedDataVolumeCreate", why);
            continue;
        }
        disks.missing.push(template.clone());
        disks.blocks.get_or_insert_with(|| format!("DataVolume {name} does not exist yet"));
    }
    let volumes = vm.spec.template.iter().flat_map(|template| &template.spec.volumes);
    let used = vmi.map(claims_of).unwrap_or_default();
    for name in volumes.filter_map(claim_of) {
        let claim = world.pvcs.get(namespace, name);
        // A VMI that runs on it is the one that migrates.
        let is_used = used.iter().any(|used| used == name);
        // Of an update of the volumes that goes on.
        let is_copied = |claim: &&PersistentVolumeClaim| {
            vmi.is_some_and(|vmi| !crate::vmi::phase(vmi).is_final())
                && claim.is_copied_for(vm.metadata.uid.as_deref())
        };
        let moved = || {
            claim
                .filter(|claim| !is_copied(claim))
                .and_then(|claim| moved_message(claim, ClaimReference::of_vm(vm, name)))
                .or_else(|| copied_from(world, vm, name))
        };
        if let Some(message) = (!is_used).then(moved).flatten() {
            disks.moved = true;
            disks.deny(name, RECOVERY, message);
        }
        disks.unbound |= claim.is_some_and(|claim| !claim.is_bound());
        let Some(data) = world.data_volumes.get(namespace, name) else { continue };
        let status = data.status.as_ref();
        let phase = status.and_then(|status| status.phase.clone()).unwrap_or_default();
        let bound = claim.is_some_and(PersistentVolumeClaim::is_bound);
        disks.failed |= phase == Phase::Failed || has_error(data);
        disks.filling |= !matches!(phase, Phase::Succeeded | Phase::PendingPopulation | Phase::Failed)
            && (bound || phase != Phase::WaitForFirstConsumer);
        if !matches!(phase, Phase::Succeeded | Phase::WaitForFirstConsumer | Phase::PendingPopulation) {
            disks.blocks.get_or_insert_with(|| format!("DataVolume {name} is not filled yet"));
        }
    }
    disks
}

/// The message about a disk that lies on another PVC since a live migration: what has its name now, or would get it, is empty, or as it was
/// imported.
fn copied_from(world: &World, vm: &VirtualMachine, name: &str) -> Option<String> {
    let namespace = vm.metadata.namespace.as_deref()?;
    let mut volumes = vm.spec.template.iter().flat_map(|template| &template.spec.volumes);
    if !volumes.any(|volume| claim_of(volume) == Some(name)) {
        return None;
    }
    let copy = copy_of(world, namespace, name, vm.metadata.uid.as_deref()?)?;
    let new = copy.meta.name.as_deref().unwrap_or_default();
    let reference = ClaimReference::of_vm(vm, name);
    let kind = if reference == ClaimReference::Template { "DataVolume" } else { "PVC" };
    Some(format!(
        "a live migration has copied the disk of {kind} {namespace}/{name} into PVC {new}, and the guest has run on that one since: {}; \
         or, to begin with a new disk, delete PVC {new}",
        reference.replacement(name, new)
    ))
}

/// Object with the name of a DataVolume that a VM would create.
enum ExistingVolume {
    Nothing,
    /// The VM's own, or without an owner.
    Usable,
    /// The VM does not start with it, for this reason.
    Foreign(String),
}

/// A VM that is created under the name of a deleted one would run on the old disk until the garbage collector
/// deletes it, and two VMs would write to one disk.
fn find_volume(world: &World, vm: &VirtualMachine, namespace: &str, name: &str) -> ExistingVolume {
    if let Some(data) = world.data_volumes.get(namespace, name) {
        let owner = owner::controller(&data.metadata).filter(|owner| {
            owner.kind == Kind::VirtualMachine.name() && Some(&owner.uid) != vm.metadata.uid.as_ref()
        });
        return match owner {
            _ if data.metadata.deletion_timestamp.is_some() => ExistingVolume::Foreign(format!(
                "DataVolume {name} is being deleted, and is created again when it is gone"
            )),
            Some(owner) if is_there(world, namespace, owner) => {
                ExistingVolume::Foreign(format!("DataVolume {name} belongs to the VM {}", owner.name))
            }
            Some(_) => {
                ExistingVolume::Foreign(format!("DataVolume {name} still exists from a VM that is gone"))
            }
            None => ExistingVolume::Usable,
        };
    }
    match world.pvcs.get(namespace, name) {
        Some(claim) if claim.meta.deletion_timestamp.is_some() => ExistingVolume::Foreign(format!(
            "PVC {name} is being deleted, and is created again when it is gone"
        )),
        Some(claim) if world.is_left_over(claim) => ExistingVolume::Foreign(format!(
            "PVC {name} still exists from a DataVolume that is gone, and is created again when it is gone"
        )),
        Some(_) => ExistingVolume::Usable,
        None => ExistingVolume::Nothing,
    }
}

fn is_there(world: &World, namespace: &str, owner: &api::meta::OwnerReference) -> bool {
    world.vms.get(namespace, &owner.name).is_some_and(|vm| vm.metadata.uid.as_ref() == Some(&owner.uid))
}

fn has_error(data: &DataVolume) -> bool {
    data.status.iter().flat_map(|status| &status.conditions).any(|condition| {
        condition.r#type == ConditionType::Running
            && condition.status == "False"
            && matches!(condition.reason.as_deref(), Some("Error" | "ImagePullFailed"))
    })
}

/// Creates the missing DataVolumes.
pub(super) fn make(
    vm: &VirtualMachine,
    disks: &Disks,
    policy: AnnotationPolicy,
    failed: Option<&Failure>,
    now: Timestamp,
    plan: &mut Plan,
) {
    if let Some(failed) =
        failed.filter(|failed| failed.about == Attempt::Make(Kind::DataVolume) && failed.retry > now)
    {
        return plan.look_again(failed.retry);
    }
    // Further DataVolumes follow at the next decision, because a plan occupies a slot until it is done.
    for template in disks.missing.iter().take(crate::replicas::AT_ONCE) {
        let Some(name) = data_volume_name(template) else { continue };
        let meta = template.metadata.clone().unwrap_or_default();
        let (mut labels, annotations) = of_disk(&meta, policy);
        labels.insert("kubevirt.io/created-by".to_owned(), vm.metadata.uid.clone().unwrap_or_default());
        let object = json!({
            "apiVersion": api::data_volume::API_VERSION,
            "kind": "DataVolume",
            "metadata": {
                "name": name,
                "namespace": vm.metadata.namespace,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner::reference(Kind::VirtualMachine, &vm.metadata)],
            },
            "spec": template.spec.write(),
        });
        plan.create(
            Key::new(Kind::DataVolume, vm.metadata.namespace.clone().unwrap_or_default(), name),
            object,
        );
        let message = format!("Created DataVolume {name}");
        plan.record_event(Kind::VirtualMachine, &vm.metadata, false, "SuccessfulDataVolumeCreate", message);
        let OmittedKeys { labels, annotations } = left_out_of_disk(&meta, policy);
        let left: Vec<&str> = labels.into_iter().chain(annotations).collect();
        if !left.is_empty() {
            let message =
                format!("Labels and annotations that DataVolume {name} does not get: {}", left.join(", "));
            plan.record_event(Kind::VirtualMachine, &vm.metadata, false, "NotPassedOn", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replicas::AT_ONCE;
    use crate::sim::{Sim, vm};
    use serde_json::Value;

    fn says(kind: &str, status: &str, reason: &str) -> Value {
        json!({"phase": "ImportInProgress", "conditions": [{"type": kind, "status": status, "reason": reason}]})
    }

    /// The columns: failed, filling, PVC without a volume, and whether the VM may start.
    #[test]
    fn a_vm_starts_when_its_data_volume_is_filled_or_waits_for_it() {
        let phase = |phase: &str| json!({"phase": phase});
        for (status, is_bound, expected) in [
            (phase("Succeeded"), true, (false, false, false, true)),
            (phase("Failed"), true, (true, false, false, false)),
            (phase("ImportInProgress"), true, (false, true, false, false)),
            (phase("ImportScheduled"), false, (false, true, true, false)),
            (Value::Null, false, (false, true, true, false)),
            (phase("WaitForFirstConsumer"), false, (false, false, true, true)),
            (phase("WaitForFirstConsumer"), true, (false, true, false, true)),
            (phase("PendingPopulation"), false, (false, false, true, true)),
            (says("Running", "False", "Error"), true, (true, true, false, false)),
            (says("Running", "False", "ImagePullFailed"), true, (true, true, false, false)),
            (says("Running", "False", "Pending"), true, (false, true, false, false)),
            (says("Running", "True", "Error"), true, (false, true, false, false)),
            (says("Bound", "False", "Error"), true, (false, true, false, false)),
        ] {
            let mut sim = Sim::new();
            let meta = json!({"namespace": "n", "name": "data"});
            sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": {}, "status": status}));
            let bound = if is_bound { "Bound" } else { "Pending" };
            sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "status": {"phase": bound}}));
            let mut object = vm("web", "Always");
            object["spec"]["template"]["spec"]["volumes"] =
                json!([{"name": "root", "dataVolume": {"name": "data"}}]);
            sim.put(Kind::VirtualMachine, object);
            let disks = find(&sim.world, sim.world.vms.get("n", "web").unwrap(), None);
            let is = (disks.failed, disks.filling, disks.unbound, disks.blocks().is_none());
            assert_eq!(is, expected, "{status} {is_bound}");
        }
    }

    #[test]
    fn a_few_are_made_at_a_time() {
        let template = |n: usize| -> DataVolumeTemplate {
            let template =
                json!({"metadata": {"name": format!("disk-{n}")}, "spec": {"source": {"blank": {}}}});
            api::wire::read(template).unwrap()
        };
        let disks = Disks { missing: (0..1400).map(template).collect(), ..Disks::default() };
        let mut plan = Plan::default();
        make(
            &VirtualMachine::default(),
            &disks,
            AnnotationPolicy::Pass,
            None,
            Timestamp::UNIX_EPOCH,
            &mut plan,
        );
        let made =
            plan.steps.iter().filter(|step| step.attempt() == Some(Attempt::Make(Kind::DataVolume))).count();
        assert_eq!(made, AT_ONCE);
    }

    fn with_template(meta: &Value) -> Value {
        let mut object = vm("web", "Manual");
        let storage = json!({"resources": {"requests": {"storage": "1Gi"}}});
        let mut meta = meta.clone();
        meta["name"] = json!("data");
        object["spec"]["dataVolumeTemplates"] =
            json!([{"metadata": meta, "spec": {"source": {"blank": {}}, "storage": storage}}]);
        object
    }

    fn owned(kind: &str, name: &str, uid: &str) -> Value {
        let owner = json!({"apiVersion": "a/v1", "kind": kind, "name": name, "uid": uid, "controller": true});
        json!({"ownerReferences": [owner]})
    }

    /// Two VMs that write to one disk destroy it.
    #[test]
    fn a_disk_of_the_name_is_used_where_it_is_nobody_elses() {
        let going = json!({"deletionTimestamp": "2027-01-01T00:00:00Z", "finalizers": ["a/b"]});
        let (volume, claim) = (Kind::DataVolume, Kind::PersistentVolumeClaim);
        for (kind, meta, expected) in [
            (volume, json!({}), None),
            (volume, owned("DataImportCron", "a", "a"), None),
            (volume, owned("VirtualMachine", "other", "uid-of-other"), Some("belongs to the VM other")),
            (volume, owned("VirtualMachine", "other", "gone"), Some("still exists from a VM that is gone")),
            (volume, going.clone(), Some("DataVolume data is being deleted")),
            (claim, json!({}), None),
            (claim, owned("DataVolume", "data", "gone"), Some("still exists from a DataVolume that is gone")),
            (claim, going, Some("PVC data is being deleted")),
            (Kind::Secret, json!({}), Some("DataVolume data does not exist yet")),
        ] {
            let mut sim = Sim::new();
            let mut other = vm("other", "Halted");
            other["metadata"]["uid"] = json!("uid-of-other");
            sim.world.put(Kind::VirtualMachine, other, sim.now);
            sim.put(Kind::VirtualMachine, with_template(&json!({})));
            let mut object = json!({"metadata": {"namespace": "n", "name": "data"}, "spec": {}});
            cluster_model::plan::merge(&mut object["metadata"], &meta);
            if kind != Kind::Secret {
                sim.put(kind, object);
            }
            let disks = find(&sim.world, sim.world.vms.get("n", "web").unwrap(), None);
            let is = disks.blocks();
            assert!(
                is.zip(expected).is_none_or(|(is, expected)| is.contains(expected)),
                "{is:?} {expected:?}"
            );
            assert_eq!(is.is_some(), expected.is_some(), "{meta}: {is:?}");
        }
    }

    #[test]
    fn a_refused_data_volume_is_made_at_its_time_and_no_other_refusal_holds_it_up() {
        let label = json!({"labels": {"kubevirt.io/nodeName": "a"}});
        let volume = Attempt::Make(Kind::DataVolume);
        for (about, seconds, meta, told) in [
            (volume, 60, json!({}), vec![]),
            (volume, 0, json!({}), vec!["SuccessfulDataVolumeCreate"]),
            (Attempt::Make(Kind::VirtualMachineInstance), 60, json!({}), vec!["SuccessfulDataVolumeCreate"]),
            (volume, 0, label, vec!["SuccessfulDataVolumeCreate", "NotPassedOn"]),
        ] {
            let mut sim = Sim::new();
            let key = sim.put(Kind::VirtualMachine, with_template(&meta));
            let retry = sim.now + jiff::SignedDuration::from_secs(seconds);
            let failure = Failure { about, message: "m".to_owned(), times: 1, retry };
            sim.world.failures.insert(key.clone(), failure);
            let plan = crate::decide(&sim.world, &key, sim.now);
            assert_eq!(plan.again, told.is_empty().then_some(retry), "{about:?}");
            sim.apply(plan);
            let is_made = sim.objects.contains_key(&Key::new(Kind::DataVolume, "n", "data"));
            assert_eq!(is_made, !told.is_empty(), "{about:?} {seconds}");
            let is: Vec<_> = sim.told.iter().map(|(reason, _)| reason.as_str()).collect();
            let is: Vec<_> = is.into_iter().filter(|reason| !reason.starts_with("Failed")).collect();
            assert_eq!(is, told, "{about:?} {seconds}");
            assert!(
                !told.iter().any(|told| sim.warnings.contains(&(*told).to_owned())),
                "{:?}",
                sim.warnings
            );
        }
    }
}
