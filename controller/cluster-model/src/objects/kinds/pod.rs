//! Pod: launcher pods, and worker pods that move disks.

use super::cdi;
use super::persistent_volume_claim::{disks, users};
use super::virtual_machine_instance::waiting_for_disks;
use super::virtual_machine_instance_migration::keys_of;
use crate::clones;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, meta};
use crate::objects::{
    About, IndexKey, Key, Kind, LauncherPods, PersistentVolumeClaim, Selector, Use, Work, World, names, owner,
};
use crate::worker::{PERMIT, WORKER};
use api::data_volume::{DataVolume, Phase};
use api::launcher::Ending;
use api::meta::ObjectMeta;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// The label of a launcher pod.
pub const LAUNCHER: (&str, &str) = ("kubevirt.io", "virt-launcher");
/// The labels by which launcher pods are found.
pub const FOUND_BY: [&str; 4] =
    [LAUNCHER.0, "kubevirt.io/created-by", "vmi.kubevirt.io/id", "vm.kubevirt.io/name"];
const LAUNCHERS: &str = "kubevirt.io=virt-launcher";
/// Launcher and worker pods, in one selector: see [`Use::follows`].
const OURS: &str = "kubevirt.io in (virt-launcher,cdi-worker)";

pub(crate) const ABOUT: About = About {
    kept: kept!(pods),
    controller: Use {
        follows: &[Selector { labels: Some(OURS), ..Selector::ALL }],
        // `list` is also used before the source pod of a clone is created, to check that no pod writes to the
        // PVC.
        verbs: &[
            (None, &["create", "delete", "get"]),
            (Some("status"), &["patch"]),
            // Evicts launcher pods of another version if the KubeVirt object says so.
            (Some("eviction"), &["create"]),
        ],
        ..Use::NONE
    },
    // Reads the pods of eviction requests.
    api: Use { verbs: &[(None, &["get"])], ..Use::NONE },
    handler: Use {
        follows: &[Selector {
            labels: Some(LAUNCHERS),
            fields: Some("spec.nodeName={node}"),
            ..Selector::ALL
        }],
        ..Use::NONE
    },
    touches: dependents,
    put: |world, key, now| {
        keep_ending(world, key);
        keep_end(world, key, now);
    },
    removed: |world, key| {
        world.warnings.remove(&(key.namespace.clone(), key.name.clone()));
        world.reports.remove(&(key.namespace.clone(), key.name.clone()));
        world.silent.remove(&(key.namespace.clone(), key.name.clone()));
        world.still.remove(&(key.namespace.clone(), key.name.clone()));
        world.over.remove(&(key.namespace.clone(), key.name.clone()));
    },
    ..About::new("v1", "Pod", "pods")
};

/// Keeps the endings of a VMI, as its launchers left them, until the VMI is deleted. A pod that is being deleted
/// disappears as soon as its containers have ended, before a decision can read the ending.
fn keep_ending(world: &mut World, key: &Key) {
    let Key { namespace, name, .. } = key;
    let Some(pod) = world.pods.get(namespace, name) else { return };
    let Some((uid, ending)) = pod.meta.uid.clone().zip(pod.ending()) else { return };
    let of = world.indexed_by(&IndexKey::LauncherPod(namespace.clone(), name.clone()));
    let vmis = of.filter_map(|key| world.vmis.get(&key.namespace, &key.name));
    let own = vmis.filter(|vmi| LauncherPods::for_vmi(vmi).is_some_and(|pods| pods.contains(&pod.meta)));
    let found: Vec<_> = own.filter_map(|vmi| Some((namespace.clone(), vmi.metadata.name.clone()?))).collect();
    for at in found {
        world.endings.entry(at).or_default().insert(uid.clone(), ending.clone());
    }
}

/// Keeps the time at which a pod was first seen to be over. Times in its status are by the clock of its node.
fn keep_end(world: &mut World, key: &Key, now: Timestamp) {
    let at = (key.namespace.clone(), key.name.clone());
    let pod = world.pods.get(&key.namespace, &key.name);
    match pod.filter(|pod| pod.is_over()).map(|pod| pod.meta.uid.clone().unwrap_or_default()) {
        Some(uid) if world.over.get(&at).is_some_and(|(of, _)| *of == uid) => {}
        Some(uid) => drop(world.over.insert(at, (uid, now))),
        // Another pod of the same name.
        None => drop(world.over.remove(&at)),
    }
}

/// Keys of the objects whose decision depends on the pod. A pod that has no owner or is gone may still be the
/// launcher pod of a VMI.
pub(super) fn dependents(world: &World, key: &Key) -> Vec<Key> {
    let Key { namespace, name, .. } = key;
    let pod = world.pods.get(namespace, name);
    // VMIs that wait for the disks of another VMI wait until its launcher has ended.
    let with_waiting = |vmi: Key| {
        let waiting = pod.is_none_or(Pod::is_over).then(|| waiting_for_disks(world, &vmi));
        std::iter::once(vmi).chain(waiting.into_iter().flatten()).collect::<Vec<Key>>()
    };
    match pod.and_then(|pod| owner::controller(&pod.meta)) {
        Some(owner) if owner.kind == Kind::VirtualMachineInstance.name() => {
            let migrations = keys_of(world, namespace, &owner.name);
            let mut keys = with_waiting(Key::new(Kind::VirtualMachineInstance, namespace, &owner.name));
            keys.extend(migrations);
            keys
        }
        // The PVC is decided under the name of its DataVolume, even without a DataVolume. A PVC that is
        // filled in place of another is handed over after its last pod has ended.
        Some(owner) if owner.kind == Kind::PersistentVolumeClaim.name() => {
            // A VMI waits until no worker pod uses its disk.
            let disk = Key::new(Kind::DataVolume, namespace, &owner.name);
            let target = world
                .pods
                .get(namespace, name)
                .filter(|pod| world.is_of_clone(pod))
                .and_then(Pod::clone_target);
            let target = target.map(|(namespace, name)| Key::new(Kind::DataVolume, namespace, name));
            users(world, &disk)
                .into_iter()
                .chain(target)
                .chain(disks(world, namespace, &owner.name))
                .chain(cdi::going(world))
                .collect()
        }
        // The pod polls an image.
        Some(owner) if owner.kind == Kind::DataImportCron.name() => {
            let cron = Key::new(Kind::DataImportCron, namespace, &owner.name);
            [cron].into_iter().chain(cdi::going(world)).collect()
        }
        Some(_) => Vec::new(),
        None => {
            let launched = world.indexed_by(&IndexKey::LauncherPod(namespace.clone(), name.clone()));
            launched.cloned().flat_map(with_waiting).collect()
        }
    }
}

/// The keys of the PVCs whose pods look like source pods for this PVC, and are not: it is gone, or another one,
/// or reads from another namespace.
pub(super) fn owners_of_strays(world: &World, claim: &Key) -> Vec<Key> {
    let mark = IndexKey::CloneInto(claim.namespace.clone(), claim.name.clone());
    let pods = world.indexed_by(&mark).filter_map(|key| world.pods.get(&key.namespace, &key.name));
    let owners = pods.filter(|pod| world.is_stray(pod)).filter_map(|pod| {
        let owner = owner::controller(&pod.meta)?;
        let is_claim = owner.kind == Kind::PersistentVolumeClaim.name();
        is_claim
            .then(|| Key::new(Kind::DataVolume, pod.meta.namespace.clone().unwrap_or_default(), &*owner.name))
    });
    owners.collect()
}

/// The part of a pod that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    pub meta: ObjectMeta,
    pub node: Option<String>,
    /// IP address, once assigned.
    pub ip: Option<String>,
    pub phase: PodPhase,
    /// CamelCase reason of the end (`Evicted`, …).
    pub reason: Option<String>,
    /// Human-readable message of the end.
    pub message: Option<String>,
    pub qos: Option<String>,
    /// The image of the launcher container.
    pub image: Option<String>,
    pub conditions: Vec<Condition>,
    /// ResourceClaims created for the pod, by their names in its spec.
    pub resource_claims: BTreeMap<String, String>,
    /// PVCs that its volumes name.
    pub claims: Vec<String>,
    /// Init containers first, then the others.
    pub containers: Vec<Container>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    pub kind: String,
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
    pub since: Option<String>,
}

/// State of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub init: bool,
    pub ready: bool,
    pub running: bool,
    /// Reason and message while it waits.
    pub waiting: Option<(String, String)>,
    /// Exit code, reason, message and time of its end.
    pub ended: Option<(i64, String, String, String)>,
}

impl Pod {
    /// True if the guest has ended: the launcher is not started again.
    pub fn is_over(&self) -> bool {
        self.has_ended() || self.container("compute").is_some_and(|compute| compute.ended.is_some())
    }

    /// True if the pod may write to the block device of its PVC.
    pub fn has_permit(&self) -> bool {
        self.meta.uid.is_some() && self.meta.annotations.get(PERMIT) == self.meta.uid.as_ref()
    }

    /// True if no container is started again.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// True if the pod is being deleted.
    pub fn is_going(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// The reason why the scheduler finds no node. An error inside the scheduler (a conflict on a PVC) does
    /// not count: the scheduler retries at once.
    pub fn unscheduled(&self) -> Option<&Condition> {
        let is_error = |condition: &Condition| condition.reason.as_deref() == Some("SchedulerError");
        self.condition("PodScheduled").filter(|said| said.status == "False" && !is_error(said))
    }

    /// Namespace and name of the PVC whose clone the pod serves a disk to.
    pub fn clone_target(&self) -> Option<(&str, &str)> {
        let target = self.meta.annotations.get(clones::TARGET)?;
        names::namespaced(target).filter(|_| Work::from_pod(&self.meta) == Some(Work::Serve))
    }

    /// True if the pod has the name of the source pod for the PVC with the uid in its label.
    fn is_cloner(&self) -> bool {
        let target = self.meta.labels.get(clones::TARGET_LABEL);
        target.is_some_and(|uid| self.meta.name.as_deref() == Some(names::cloner(uid).as_str()))
    }

    /// The ending of the VMI, from the launcher's termination message.
    pub fn ending(&self) -> Option<Ending> {
        let (_, _, message, _) = self.container("compute")?.ended.as_ref()?;
        Ending::of_termination(message)
    }

    pub fn container(&self, name: &str) -> Option<&Container> {
        self.containers.iter().find(|container| container.name == name)
    }
}

impl World {
    /// The worker pod that fills a PVC. A pod of the same name without our owner reference is ignored.
    pub fn worker_of(&self, claim: &PersistentVolumeClaim) -> Option<&Pod> {
        Work::FILLS.into_iter().find_map(|work| self.worker_for(claim, work))
    }

    /// The worker pod that does this work for a PVC.
    pub fn worker_for(&self, claim: &PersistentVolumeClaim, work: Work) -> Option<&Pod> {
        let meta = &claim.meta;
        let name = work.pod(meta.name.as_deref().unwrap_or_default());
        let pod = self.pods.get(meta.namespace.as_deref().unwrap_or_default(), &name)?;
        let is_owned = owner::controller(&pod.meta).map(|owner| owner.uid.as_str()) == meta.uid.as_deref();
        (is_owned && meta.uid.is_some() && Work::from_pod(&pod.meta) == Some(work)).then_some(pod)
    }

    /// The pod that serves a disk to the clone into this PVC. There is at most one: its name follows from the
    /// uid of the PVC, and its namespace is that of the source.
    pub fn source_for(&self, claim: &PersistentVolumeClaim) -> Option<&Pod> {
        let (namespace, _) = claim.clone_source()?;
        let pod = self.pods.get(namespace, &names::cloner(claim.meta.uid.as_deref()?))?;
        self.is_of_clone(pod).then_some(pod)
    }

    /// The pods of this PVC that look like source pods, and whose clone is gone or does not read from this
    /// namespace. They are removed under the key of this PVC, because their labels and annotations may name
    /// any clone of another namespace.
    pub fn stray_sources_of<'a>(&'a self, claim: &'a PersistentVolumeClaim) -> impl Iterator<Item = &'a Pod> {
        let owned = claim.meta.uid.clone().map(IndexKey::Owner);
        let owned = owned.into_iter().flat_map(move |mark| self.indexed_by(&mark));
        let owned = owned.filter(|key| key.kind == Kind::Pod);
        let pods = owned.filter_map(move |key| self.pods.get(&key.namespace, &key.name));
        pods.filter(move |pod| pod.meta.namespace == claim.meta.namespace && self.is_stray(pod))
    }

    /// True for a pod that looks like the source pod of a clone, and is not.
    fn is_stray(&self, pod: &Pod) -> bool {
        pod.clone_target().is_some() && pod.is_cloner() && !pod.is_going() && !self.is_of_clone(pod)
    }

    /// True if the pod serves a disk to the clone that its label names. Labels and annotations are set by the
    /// creator of the pod, who may have access to one namespace only. So the PVC of the clone must reference
    /// the namespace of the source pod.
    fn is_of_clone(&self, pod: &Pod) -> bool {
        let Some((namespace, name)) = pod.clone_target().filter(|_| pod.is_cloner()) else { return false };
        self.pvcs.get(namespace, name).is_some_and(|claim| {
            claim.meta.uid.as_ref() == pod.meta.labels.get(clones::TARGET_LABEL)
                && claim.clone_source().map(|(namespace, _)| namespace) == pod.meta.namespace.as_deref()
        })
    }

    /// True if the pod serves the disk of this PVC to an existing clone and is owned by the PVC.
    pub fn serves_clone_of(&self, pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
        let is_owned =
            owner::controller(&pod.meta).map(|owner| owner.uid.as_str()) == claim.meta.uid.as_deref();
        is_owned && self.is_of_clone(pod)
    }

    /// The PVC of a DataVolume into which the storage is still cloning this PVC. Nothing may write to the
    /// source meanwhile.
    pub fn copied_into(&self, claim: &PersistentVolumeClaim) -> Option<&PersistentVolumeClaim> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let kind = Kind::PersistentVolumeClaim.name().to_owned();
        let mark = IndexKey::FilledFrom(kind, text(&claim.meta.namespace), text(&claim.meta.name));
        let mut clones = self.indexed_by(&mark).filter_map(|key| self.pvcs.get(&key.namespace, &key.name));
        clones.find(|clone| {
            let is_ours =
                owner::controller(&clone.meta).is_some_and(|owner| owner.kind == Kind::DataVolume.name());
            is_ours
                && clone.cloned_from().is_some()
                && !clone.is_bound()
                && clone.meta.deletion_timestamp.is_none()
        })
    }

    /// Name of a DataVolume that has announced a clone of this PVC by its storage, and whose PVC is not known
    /// yet. The request that creates it may be on its way.
    pub fn announced_clone<'a>(&self, claim: &'a PersistentVolumeClaim) -> Option<&'a str> {
        let namespace = claim.meta.namespace.as_deref().unwrap_or_default();
        let mut announced = claim.announced_clones();
        announced.find(|(uid, name)| self.awaits_clone(namespace, uid, name)).map(|(_, name)| name)
    }

    /// True while the DataVolume of this uid may create its PVC.
    pub fn awaits_clone(&self, namespace: &str, uid: &str, name: &str) -> bool {
        let volume = self.data_volumes.get(namespace, name);
        let is_open = |volume: &DataVolume| {
            let phase = volume.status.as_ref().and_then(|status| status.phase.as_ref());
            volume.metadata.uid.as_deref() == Some(uid)
                && volume.metadata.deletion_timestamp.is_none()
                && !matches!(phase, Some(Phase::Succeeded | Phase::Failed))
        };
        volume.is_some_and(is_open) && self.pvcs.get(namespace, name).is_none()
    }

    /// Name of the PVC into which the storage clones this PVC, or is about to.
    pub fn storage_clone_of<'a>(&'a self, claim: &'a PersistentVolumeClaim) -> Option<&'a str> {
        let copied = self.copied_into(claim).and_then(|clone| clone.meta.name.as_deref());
        copied.or_else(|| self.announced_clone(claim))
    }

    /// A running pod that serves the disk of a PVC to a clone. Nothing may write to the disk meanwhile.
    pub fn cloner_of(&self, claim: &PersistentVolumeClaim) -> Option<&Pod> {
        let owned = self.indexed_by(&IndexKey::Owner(claim.meta.uid.clone()?));
        let pods = owned.filter_map(|key| self.pods.get(&key.namespace, &key.name));
        pods.into_iter().find(|pod| {
            pod.meta.namespace == claim.meta.namespace && pod.clone_target().is_some() && !pod.has_ended()
        })
    }
}

impl StoredObject for Pod {
    fn parse(object: Value) -> Option<Self> {
        let meta = meta(&object)?;
        let text = |pointer: &str| object.pointer(pointer)?.as_str().map(str::to_owned);
        Some(Pod {
            meta,
            node: text("/spec/nodeName").filter(|name| !name.is_empty()),
            ip: text("/status/podIP").filter(|address| !address.is_empty()),
            phase: match text("/status/phase").as_deref() {
                Some("Running") => PodPhase::Running,
                Some("Succeeded") => PodPhase::Succeeded,
                Some("Failed") => PodPhase::Failed,
                Some("Unknown") => PodPhase::Unknown,
                _ => PodPhase::Pending,
            },
            reason: text("/status/reason"),
            message: text("/status/message"),
            qos: text("/status/qosClass"),
            image: list(&object, "/spec/containers")
                .find(|container| container["name"] == "compute")
                .and_then(|container| container["image"].as_str().map(str::to_owned)),
            conditions: list(&object, "/status/conditions").map(condition).collect(),
            resource_claims: list(&object, "/status/resourceClaimStatuses")
                .filter_map(|made| Some((self::text(made, "name")?, self::text(made, "resourceClaimName")?)))
                .collect(),
            claims: list(&object, "/spec/volumes")
                .filter_map(|volume| self::text(volume.get("persistentVolumeClaim")?, "claimName"))
                .collect(),
            containers: list(&object, "/status/initContainerStatuses")
                .map(|status| container(status, true))
                .chain(list(&object, "/status/containerStatuses").map(|status| container(status, false)))
                .collect(),
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn index_keys(&self) -> Vec<IndexKey> {
        let is_worker = self.meta.labels.get(WORKER.0).is_some_and(|label| label == WORKER.1);
        let into =
            self.clone_target().map(|(namespace, name)| IndexKey::CloneInto(namespace.into(), name.into()));
        owner::mark(&self.meta).into_iter().chain(is_worker.then_some(IndexKey::Worker)).chain(into).collect()
    }
}

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(str::to_owned)
}

fn condition(value: &Value) -> Condition {
    Condition {
        kind: text(value, "type").unwrap_or_default(),
        status: text(value, "status").unwrap_or_default(),
        reason: text(value, "reason"),
        message: text(value, "message"),
        since: text(value, "lastTransitionTime"),
    }
}

fn container(status: &Value, init: bool) -> Container {
    let word = |state: &Value, name| text(state, name).unwrap_or_default();
    let state = |name: &str| status.get("state").and_then(|state| state.get(name));
    Container {
        name: word(status, "name"),
        init,
        ready: status.get("ready").and_then(Value::as_bool).unwrap_or(false),
        running: state("running").is_some(),
        waiting: state("waiting").map(|state| (word(state, "reason"), word(state, "message"))),
        ended: state("terminated").map(|state| {
            let code = state.get("exitCode").and_then(Value::as_i64).unwrap_or(0);
            (code, word(state, "reason"), word(state, "message"), word(state, "finishedAt"))
        }),
    }
}
