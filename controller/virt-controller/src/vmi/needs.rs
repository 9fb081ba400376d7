//! PVCs that a VMI needs before its pod is created, and their content. A PVC whose disk a live migration has copied into another one
//! is never used again by itself: the guest has written to the other one since.

use super::disk_conflict::may_run;
use super::{phase, vm_uid};
use crate::volume_origin::{incomplete, unknown};
use api::data_volume::{ConditionType, Phase};
use api::vmi::VirtualMachineInstance;
use cluster_model::claim_moves::{ClaimReference, moved_message};
use cluster_model::objects::{PersistentVolumeClaim, Pod, PodPhase, Work, World, claims_of, migration_phase};
use std::collections::BTreeMap;

/// The state of the PVCs of a VMI.
pub(super) enum DiskNeeds {
    /// All requirements are met; the PVCs by name.
    There(BTreeMap<String, PersistentVolumeClaim>),
    /// A PVC is not.
    Missing { message: String },
    /// A DataVolume is still being filled.
    Filling { message: String },
    /// A PVC is whole, and is read: by a pod that runs, or by its storage. It must not be written until that has ended, which
    /// needs nothing of this VMI.
    BeingRead { message: String },
    /// A DataVolume will never be filled.
    Failed { volume: String, message: String },
    /// The disk of a PVC is on another PVC since a live migration, or may be.
    Moved { message: String },
}

/// The reason why a guest must not be copied onto the PVCs of this VMI yet: they are not whole, or other VMIs use them.
pub(crate) fn wait_for_disks(world: &World, vmi: &VirtualMachineInstance) -> Option<String> {
    match find_for_target(world, vmi) {
        DiskNeeds::There(_) => {}
        DiskNeeds::Missing { message }
        | DiskNeeds::Filling { message }
        | DiskNeeds::BeingRead { message }
        | DiskNeeds::Failed { message, .. }
        | DiskNeeds::Moved { message } => return Some(message),
    }
    let mut conflict = world.disk_conflicts(vmi).into_iter();
    let conflict = conflict.find(|one| !phase(one.other).is_final() || may_run(world, one.other))?;
    let other = conflict.other.metadata.name.as_deref().unwrap_or_default();
    Some(format!(
        "PVC {} is a disk of VMI {other}: a disk is not copied into it before that VMI has ended",
        conflict.claim
    ))
}

/// Message about a PVC that names a source, and whose volume is not known. A launcher pod that runs proves that the PVC is bound, so the
/// picture of the cluster is older, and the volume may be one that has nothing of the source.
pub(super) fn unknown_volume(
    world: &World,
    claims: &BTreeMap<String, PersistentVolumeClaim>,
) -> Option<String> {
    claims.iter().find_map(|(name, claim)| {
        let namespace = claim.meta.namespace.as_deref().unwrap_or_default();
        Some(format!("PVC {namespace}/{name} {}", unknown(world, claim)?))
    })
}

pub(super) fn has_data_volumes(vmi: &VirtualMachineInstance) -> bool {
    vmi.spec.volumes.iter().any(|volume| volume.data_volume.is_some())
}

/// True if a live migration of another VMI copies a disk into the PVC.
fn is_copied_for_other(world: &World, vmi: &VirtualMachineInstance, claim: &PersistentVolumeClaim) -> bool {
    let meta = &vmi.metadata;
    let [namespace, name] = [&meta.namespace, &meta.name].map(|text| text.as_deref().unwrap_or_default());
    let own = world.vmis.get(namespace, name).filter(|own| own.metadata.uid == meta.uid);
    // The target pod of a migration has the new PVCs, and its VMI the old ones.
    let is_own = |from: &str| own.is_some_and(|own| claims_of(own).iter().any(|used| used == from));
    let goes_on = |uid: &str| {
        let mut all = world.migrations.all();
        all.any(|one| one.metadata.uid.as_deref() == Some(uid) && !migration_phase(one).is_final())
    };
    claim.moved_by().is_some_and(goes_on) && !claim.moved_from().is_some_and(is_own)
}

pub(super) fn find(world: &World, vmi: &VirtualMachineInstance) -> DiskNeeds {
    find_for(world, vmi, None)
}

/// The state of the PVCs of a VMI as the target of its migration has them: its own disks are copied into those that its VM names.
pub(super) fn find_for_target(world: &World, vmi: &VirtualMachineInstance) -> DiskNeeds {
    find_for(world, vmi, vm_uid(world, vmi))
}

/// `copier`: uid of the VM whose disk may be copied into PVCs.
fn find_for(world: &World, vmi: &VirtualMachineInstance, copier: Option<&str>) -> DiskNeeds {
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let mut claims = BTreeMap::new();
    let (mut missing, mut filling, mut read) = (None, None, None);
    for name in &claims_of(vmi) {
        let claim = world.pvcs.get(namespace, name).filter(|claim| !claim.is_copied_for(copier));
        let reference = || ClaimReference::of_vmi(vmi, name);
        if let Some(message) = claim.and_then(|claim| moved_message(claim, reference())) {
            return DiskNeeds::Moved { message };
        }
        let copied = world.pvcs.get(namespace, name).filter(|claim| is_copied_for_other(world, vmi, claim));
        if copied.is_some() {
            filling.get_or_insert_with(|| {
                format!("PVC {namespace}/{name} is being filled by the live migration of another VMI")
            });
            continue;
        }
        // A PVC may be a DataVolume's even where the VMI names only the PVC.
        if let Some(data) = world.data_volumes.get(namespace, name) {
            let status = data.status.as_ref();
            let phase = status.and_then(|status| status.phase.clone()).unwrap_or_default();
            match phase {
                Phase::Succeeded => {}
                Phase::Failed => {
                    let said = status.and_then(|status| {
                        let running = ConditionType::Running;
                        let said = status.conditions.iter().find(|condition| condition.r#type == running);
                        said.and_then(|said| said.message.clone())
                    });
                    let message = said.unwrap_or_else(|| format!("DataVolume {name} has failed"));
                    return DiskNeeds::Failed { volume: name.clone(), message };
                }
                // No pod of ours fills it, and none writes to it: the volume is there for the launcher when it is whole.
                Phase::PendingPopulation
                    if data.spec.is_populated_externally()
                        || claim.is_some_and(PersistentVolumeClaim::is_filled_by_driver) => {}
                Phase::WaitForFirstConsumer | Phase::PendingPopulation => {
                    filling.get_or_insert_with(|| {
                        format!("DataVolume {name} waits for its first consumer ({phase}), which is this VMI")
                    });
                }
                phase => {
                    let progress =
                        status.and_then(|status| status.progress.clone()).unwrap_or_else(|| "N/A".to_owned());
                    let phase = if phase.as_str().is_empty() { "no phase yet" } else { phase.as_str() };
                    filling.get_or_insert_with(|| {
                        format!("DataVolume {name} is not filled yet: {phase}, {progress}")
                    });
                }
            }
        }
        let claim = world.pvcs.get(namespace, name);
        let incomplete = claim.and_then(|claim| incomplete(world, claim));
        match claim {
            Some(claim) if claim.meta.deletion_timestamp.is_some() => {
                filling.get_or_insert_with(|| format!("PVC {namespace}/{name} is being deleted"));
            }
            Some(claim) if world.is_left_over(claim) => {
                filling.get_or_insert_with(|| {
                    format!(
                        "PVC {namespace}/{name} still exists from a DataVolume that is gone: the garbage collector deletes it"
                    )
                });
            }
            // Also where its DataVolume is gone, and between two pods.
            Some(_) if incomplete.is_some() => {
                let why = incomplete.unwrap_or_default();
                filling.get_or_insert_with(|| format!("PVC {namespace}/{name} {why}"));
            }
            // Before the pod is noted on the PVC.
            Some(claim) if world.worker_of(claim).is_some_and(|pod| !pod.has_ended()) => {
                filling.get_or_insert_with(|| format!("a pod still writes to PVC {namespace}/{name}"));
            }
            Some(claim) => match reader(world, claim) {
                Some((true, message)) => {
                    read.get_or_insert(message);
                }
                // A pod that does not run yet may wait for the very volume that this VMI's launcher pod has on its node.
                Some((false, message)) => {
                    filling.get_or_insert(message);
                }
                None => {
                    claims.insert(name.clone(), claim.clone());
                }
            },
            None => {
                missing.get_or_insert_with(|| {
                    format!("PVC {namespace}/{name} does not exist, waiting for it to appear")
                });
            }
        }
    }
    match (filling, missing, read) {
        (Some(message), _, _) => DiskNeeds::Filling { message },
        (None, Some(message), _) => DiskNeeds::Missing { message },
        (None, None, Some(message)) => DiskNeeds::BeingRead { message },
        (None, None, None) => DiskNeeds::There(claims),
    }
}

/// A pod, or the storage, that reads a PVC: whether it does so already, and a message. Nothing may write to the disk meanwhile.
fn reader(world: &World, claim: &PersistentVolumeClaim) -> Option<(bool, String)> {
    let namespace = claim.meta.namespace.as_deref().unwrap_or_default();
    let name = claim.meta.name.as_deref().unwrap_or_default();
    let runs = |pod: &Pod| pod.phase == PodPhase::Running;
    if let Some(pod) = world.worker_for(claim, Work::Export).filter(|pod| !pod.has_ended()) {
        let message = format!(
            "PVC {namespace}/{name} is being exported to an image, and must not be written until that has ended"
        );
        return Some((runs(pod), message));
    }
    if let Some(pod) = world.cloner_of(claim) {
        return Some((runs(pod), format!("PVC {namespace}/{name} is being cloned")));
    }
    let clone = world.storage_clone_of(claim)?;
    let message = format!(
        "PVC {namespace}/{name} is being cloned by its storage, into PVC {clone}: the VMI starts when that is bound, or \
         when the DataVolume {clone} is deleted"
    );
    // A clone whose PVC is not there yet waits until no pod writes to its source, and so for this VMI's launcher pod.
    Some((world.copied_into(claim).is_some(), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::{Key, Kind};
    use cluster_model::uploads::POD_PHASE;
    use serde_json::{Value, json};

    const SUCCEEDED: &str = "Succeeded";

    /// The needs of a VMI with the disks `disk` and `more`, in words.
    fn needs(sim: &mut Sim) -> String {
        let mut object = vmi("web");
        let volume = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        object["spec"]["volumes"] = json!([volume("disk"), volume("more")]);
        sim.put(Kind::VirtualMachineInstance, object);
        match find(&sim.world, sim.world.vmis.get("n", "web").unwrap()) {
            DiskNeeds::There(claims) => format!("there: {}", claims.len()),
            DiskNeeds::Missing { message } => format!("missing: {message}"),
            DiskNeeds::Filling { message } => format!("filling: {message}"),
            DiskNeeds::BeingRead { message } => format!("read: {message}"),
            DiskNeeds::Failed { volume, message } => format!("failed: {volume}: {message}"),
            DiskNeeds::Moved { message } => format!("moved: {message}"),
        }
    }

    fn claim(name: &str, more: &Value) -> Value {
        let mut object = json!({
            "metadata": {"namespace": "n", "name": name}, "spec": {}, "status": {"phase": "Bound"},
        });
        cluster_model::plan::merge(&mut object, more);
        object
    }

    /// A guest that begins too early runs on half a disk, and one that waits for nothing never runs.
    #[test]
    fn a_vmi_waits_for_its_data_volume_in_the_words_of_that() {
        let running = |message: &str| {
            json!([
                {"type": "Bound", "status": "True", "message": "bound"},
                {"type": "Running", "status": "False", "message": message},
            ])
        };
        let external = json!({"pvc": {"dataSourceRef": {"kind": "VolumeSnapshot", "name": "s"}}});
        for (spec, status, expected) in [
            (json!({}), json!({"phase": SUCCEEDED}), "there: 2"),
            (json!({}), json!({"phase": "Failed"}), "failed: disk: DataVolume disk has failed"),
            (json!({}), json!({"phase": "Failed", "conditions": running("404")}), "failed: disk: 404"),
            (
                json!({}),
                json!({"phase": "WaitForFirstConsumer"}),
                "filling: DataVolume disk waits for its first consumer (WaitForFirstConsumer), which is this VMI",
            ),
            (
                json!({}),
                json!({"phase": "PendingPopulation"}),
                "filling: DataVolume disk waits for its first consumer (PendingPopulation), which is this VMI",
            ),
            (external, json!({"phase": "PendingPopulation"}), "there: 2"),
            (json!({}), Value::Null, "filling: DataVolume disk is not filled yet: no phase yet, N/A"),
            (
                json!({}),
                json!({"phase": "ImportInProgress", "progress": "33.00%"}),
                "filling: DataVolume disk is not filled yet: ImportInProgress, 33.00%",
            ),
        ] {
            let mut sim = Sim::new();
            let meta = json!({"namespace": "n", "name": "disk"});
            sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": spec, "status": status}));
            sim.put(Kind::PersistentVolumeClaim, claim("disk", &json!({})));
            sim.put(Kind::PersistentVolumeClaim, claim("more", &json!({})));
            assert_eq!(needs(&mut sim), expected);
        }
    }

    #[test]
    fn a_vmi_waits_for_a_pvc_that_is_not_its_own_yet() {
        let going = json!({"finalizers": ["x"], "deletionTimestamp": "2027-01-01T00:00:00Z"});
        let owner = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "disk",
            "uid": "gone", "controller": true});
        for (change, expected) in [
            (Some(json!({})), "there: 2"),
            (Some(going), "filling: PVC n/disk is being deleted"),
            (
                Some(json!({"ownerReferences": [owner]})),
                "filling: PVC n/disk still exists from a DataVolume that is gone: the garbage collector deletes it",
            ),
            (None, "missing: PVC n/disk does not exist, waiting for it to appear"),
        ] {
            let mut sim = Sim::new();
            for name in ["disk", "more"] {
                let change = if name == "disk" { change.clone() } else { Some(json!({})) };
                let Some(change) = change else { continue };
                sim.put(Kind::PersistentVolumeClaim, claim(name, &json!({"metadata": change})));
            }
            assert_eq!(needs(&mut sim), expected);
        }
        // Of several causes the first is told, and one that is filled comes before one that is missing.
        let mut sim = Sim::new();
        assert_eq!(needs(&mut sim), "missing: PVC n/disk does not exist, waiting for it to appear");
        let half = json!({"metadata": {"annotations": {POD_PHASE: "Running"}}});
        sim.put(Kind::PersistentVolumeClaim, claim("more", &half));
        let told = needs(&mut sim);
        assert!(told.starts_with("filling: PVC n/more is not whole"), "{told}");
    }

    /// Tools that wait for a VMI read this condition.
    #[test]
    fn a_vmi_says_that_its_data_volumes_are_whole_where_it_has_any() {
        let disk = json!({"name": "disk", "dataVolume": {"name": "disk"}});
        let pvc = json!({"name": "more", "persistentVolumeClaim": {"claimName": "more"}});
        for (volumes, expected) in
            [(json!([pvc, disk]), Some(("True".to_owned(), "AllDVsReady".to_owned()))), (json!([pvc]), None)]
        {
            let mut sim = Sim::new();
            let meta = json!({"namespace": "n", "name": "disk"});
            sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": {}, "status": {"phase": SUCCEEDED}}));
            sim.put(Kind::PersistentVolumeClaim, claim("disk", &json!({})));
            sim.put(Kind::PersistentVolumeClaim, claim("more", &json!({})));
            let mut object = vmi("web");
            object["spec"]["domain"]["devices"]["disks"] = json!([]);
            object["spec"]["volumes"] = volumes;
            let key = sim.put(Kind::VirtualMachineInstance, object);
            sim.apply(crate::decide(&sim.world, &key, sim.now));
            let said = sim.condition(&key, "DataVolumesReady").map(|(status, reason, _)| (status, reason));
            assert_eq!(said, expected);
            // The pod was created, and the status was not written.
            let mut object = sim.get(&key).clone();
            object["status"] = json!({"phase": "Pending"});
            sim.world.put(Kind::VirtualMachineInstance, object, sim.now);
            let plan = crate::decide(&sim.world, &key, sim.now);
            assert_eq!(format!("{plan:?}").contains("AllDVsReady"), expected.is_some(), "{plan:?}");
        }
    }

    /// The pod of a worker has not ended: it writes, or it reads what must not change meanwhile.
    #[test]
    fn a_vmi_waits_for_the_pods_that_use_its_pvc() {
        for (work, label, expected) in [
            ("importer", "importer", "filling: a pod still writes to PVC n/disk"),
            (
                "exporter",
                "exporter",
                "read: PVC n/disk is being exported to an image, and must not be written until that has ended",
            ),
        ] {
            let mut sim = Sim::new();
            let disk = sim.put(Kind::PersistentVolumeClaim, claim("disk", &json!({})));
            sim.put(Kind::PersistentVolumeClaim, claim("more", &json!({})));
            let owner = cluster_model::objects::owner::reference(
                Kind::PersistentVolumeClaim,
                &sim.world.pvcs.get("n", "disk").unwrap().meta,
            );
            let labels = json!({"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": label});
            let meta = json!({"namespace": "n", "name": format!("{work}-{}", disk.name), "labels": labels,
                "ownerReferences": [owner]});
            let pod = sim.put(Kind::Pod, json!({"metadata": meta, "status": {"phase": "Running"}}));
            assert_eq!(needs(&mut sim), expected);
            sim.change(&pod, json!({"status": {"phase": "Succeeded"}}));
            assert_eq!(needs(&mut sim), "there: 2", "{work}");
        }
    }

    /// A PVC may go as long as its pod has no node.
    #[test]
    fn a_guest_does_not_begin_on_a_disk_that_was_replaced_while_its_pod_waited() {
        let mut sim = Sim::new();
        let claim = |annotations: Value| {
            let meta = json!({"namespace": "n", "name": "disk", "annotations": annotations});
            json!({"metadata": meta, "spec": {}, "status": {"phase": "Bound"}})
        };
        let disk = sim.put(Kind::PersistentVolumeClaim, claim(json!({POD_PHASE: "Succeeded"})));
        let mut object = vmi("web");
        object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        let pod = sim.pod_of(&key).unwrap();
        sim.vanish(&disk);
        sim.put(Kind::PersistentVolumeClaim, claim(json!({POD_PHASE: "Pending"})));
        sim.pod_runs(&pod, "node1");
        sim.settle();
        assert_eq!(sim.get(&key)["status"]["phase"], "Failed");
        let (_, reason, message) = sim.condition(&key, "Synchronized").unwrap();
        assert!(
            reason == "DisksChanged" && message.contains("PVC n/disk is not whole"),
            "{reason}: {message}"
        );
        assert!(sim.get(&key)["status"]["nodeName"].is_null(), "virt-handler never has it");
        assert_eq!(sim.warnings, ["DisksChanged"]);
    }

    /// Its VMI failed once, and the next one waited all the same.
    #[test]
    fn a_vmi_whose_disk_is_exported_at_the_hand_over_waits_for_the_end_of_that() {
        let mut sim = Sim::new();
        let disk = sim.put(Kind::PersistentVolumeClaim, claim("disk", &json!({})));
        let mut object = vmi("web");
        object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        let pod = sim.pod_of(&key).unwrap();
        let owner = cluster_model::objects::owner::reference(
            Kind::PersistentVolumeClaim,
            &sim.world.pvcs.get("n", "disk").unwrap().meta,
        );
        let meta = json!({"namespace": "n", "name": format!("exporter-{}", disk.name), "ownerReferences": [owner],
            "labels": {"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "exporter"}});
        let export = sim.put(Kind::Pod, json!({"metadata": meta, "status": {"phase": "Running"}}));
        sim.pod_runs(&pod, "node1");
        // Only the VMI is decided about: nobody asks for this export, and its pod would be deleted.
        let decided = |sim: &Sim| format!("{:?}", crate::decide(&sim.world, &key, sim.now));
        let plan = decided(&sim);
        assert!(plan.contains("PvcInUse") && plan.contains("PVC n/disk is being exported"), "{plan}");
        assert!(!plan.contains("\"Scheduled\""), "{plan}");
        assert!(sim.world.dependents(&disk).contains(&key), "the end of the export is looked at for the VMI");
        sim.change(&export, json!({"status": {"phase": "Succeeded"}}));
        assert!(decided(&sim).contains("\"Scheduled\""), "{}", decided(&sim));
    }

    /// A pod that runs proves that its PVCs are bound, and not that their volumes are those of their sources.
    #[test]
    fn a_vmi_waits_at_the_hand_over_until_the_volume_of_its_pvc_is_known() {
        let by = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
        let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "shot"});
        for (annotations, expected) in [(json!({}), "Scheduled"), (by.clone(), "Failed")] {
            let mut sim = Sim::new();
            let waits = json!({"spec": {"dataSource": source}, "status": {"phase": "Pending"}});
            let disk = sim.put(Kind::PersistentVolumeClaim, claim("disk", &waits));
            let mut object = vmi("web");
            object["spec"]["volumes"] =
                json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
            let key = sim.put(Kind::VirtualMachineInstance, object);
            sim.settle();
            let pod = sim.pod_of(&key).unwrap();
            sim.pod_runs(&pod, "node1");
            sim.settle();
            assert_eq!(sim.get(&key)["status"]["phase"], "Scheduling", "the PVC is known as unbound");
            let bound = json!({"metadata": {"annotations": by}, "spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}});
            sim.change(&disk, bound);
            sim.settle();
            assert_eq!(sim.get(&key)["status"]["phase"], "Scheduling", "the volume is not known");
            let (status, reason, message) = sim.condition(&key, "Synchronized").unwrap();
            assert_eq!((status.as_str(), reason.as_str()), ("False", "PvcVolumeUnknown"));
            assert!(message.contains("PVC n/disk") && message.contains("pv-1"), "{message}");
            let writes = sim.writes;
            sim.settle();
            assert_eq!((sim.writes, sim.warnings.len()), (writes, 0), "it waits without a write");
            let of = json!({"namespace": "n", "name": "disk", "uid": sim.uid(&disk)});
            let meta = json!({"name": "pv-1", "annotations": annotations});
            let volume = sim.put(
                Kind::PersistentVolume,
                json!({"metadata": meta, "spec": {"claimRef": of}, "status": {}}),
            );
            assert!(sim.world.dependents(&volume).contains(&key), "the volume wakes the VMI");
            sim.settle();
            assert_eq!(sim.get(&key)["status"]["phase"], expected);
        }
    }

    /// The volumes of these need no proof.
    #[test]
    fn a_vmi_whose_pvc_has_no_source_is_handed_over_whatever_is_known_of_its_volume() {
        for more in [
            json!({"status": {"phase": "Pending"}}),
            json!({"spec": {"volumeName": "static"}}),
            json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}, "spec": {"volumeName": "static"}}),
        ] {
            let mut sim = Sim::new();
            sim.put(Kind::PersistentVolumeClaim, claim("disk", &more));
            let mut object = vmi("web");
            object["spec"]["volumes"] =
                json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
            let key = sim.put(Kind::VirtualMachineInstance, object);
            sim.settle();
            let pod = sim.pod_of(&key).unwrap();
            sim.pod_runs(&pod, "node1");
            sim.settle();
            assert_eq!(sim.get(&key)["status"]["phase"], "Scheduled", "{more}");
        }
    }

    /// It may wait for a volume that the launcher pod has on another node, so that each would wait for the other.
    #[test]
    fn a_vmi_whose_disk_a_pod_without_a_node_is_to_read_gives_way_at_the_hand_over() {
        let mut sim = Sim::new();
        let disk = sim.put(Kind::PersistentVolumeClaim, claim("disk", &json!({})));
        let mut object = vmi("web");
        object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        let pod = sim.pod_of(&key).unwrap();
        let owner = cluster_model::objects::owner::reference(
            Kind::PersistentVolumeClaim,
            &sim.world.pvcs.get("n", "disk").unwrap().meta,
        );
        let meta = json!({"namespace": "n", "name": format!("exporter-{}", disk.name), "ownerReferences": [owner],
            "labels": {"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "exporter"}});
        sim.put(Kind::Pod, json!({"metadata": meta, "status": {"phase": "Pending"}}));
        sim.pod_runs(&pod, "node1");
        sim.settle();
        assert_eq!(sim.get(&key)["status"]["phase"], "Failed");
        assert_eq!(sim.condition(&key, "Synchronized").unwrap().1, "DisksChanged");
    }

    /// `kubectl delete dv --cascade=orphan` in the middle of an import: no pod, no DataVolume, and half a disk.
    #[test]
    fn half_a_disk_is_not_run_from_and_it_is_said_what_to_do() {
        for phase in ["Pending", "Running", "Failed"] {
            let mut sim = Sim::new();
            let meta = json!({"namespace": "n", "name": "disk", "annotations": {POD_PHASE: phase}});
            let claim = json!({"metadata": meta, "spec": {}, "status": {"phase": "Bound"}});
            sim.put(Kind::PersistentVolumeClaim, claim);
            let mut object = vmi("web");
            object["spec"]["volumes"] =
                json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
            let key = sim.put(Kind::VirtualMachineInstance, object);
            sim.settle();
            assert_eq!(sim.pod_of(&key), None, "{phase}");
            let (_, _, message) = sim.condition(&key, "DataVolumesReady").unwrap();
            assert!(
                message.starts_with("PVC n/disk is not whole") && message.contains("delete it"),
                "{message}"
            );
            let whole = json!({"metadata": {"annotations": {POD_PHASE: "Succeeded"}}});
            sim.change(&Key::new(Kind::PersistentVolumeClaim, "n", "disk"), whole);
            sim.settle();
            assert!(sim.pod_of(&key).is_some(), "{phase}");
        }
    }
}
