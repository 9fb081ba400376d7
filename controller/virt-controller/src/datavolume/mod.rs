//! Disks: a PVC each, and the worker pod that fills it, from a source or from a client that sends it.
//!
//! ```text
//!  DataVolume ─► PVC ──(bound, or made for this pod)──► pod importer-NAME, cdi-upload-NAME ─► status ─► Succeeded, Failed
//!                 │ ▲                                      │ ▲
//!                 │ └ a PVC alone, annotated as            │ └─ the next pod, after a pause: an import goes on where the
//!                 │   the target of an upload              │    last one stopped, an upload begins anew
//!                 └─ WaitForFirstConsumer: until a VMI     └─ report: each second from the pod, then its termination message
//!                    uses it, or somebody wants it at once
//!
//!  claim  the PVC of a DataVolume       fill    the pod, and the next one     worker  how it is with the pod     pod  the object
//!  size   overhead of file systems      upload  certificate, Service, client  status  conditions of a DataVolume
//!  users  VMIs that use the disk        alone   a PVC without a DataVolume    notes   annotations of the PVC     words
//!  shell        what all worker pods have in common        registries   what a pod is told about registries and the proxy
//!  clone  filled from another PVC
//!  populator  a PVC with a dataSourceRef      settings  what the CDIConfig says of worker pods
//!  adopt  a PVC that was there before   grow    one that is too small         elsewhere   one that something else fills
//! ```
//!
//! **Flow.** Each round looks at the PVC and at the pod, makes a copy of the status as it should be, and writes the
//! difference. A PVC without a DataVolume is looked at as the DataVolume that would have made it; both are decided on under
//! the key of the DataVolume of that name.
//! **Guarantees.** No PVC and no pod that somebody else made is taken for ours. One pod at a time: its name follows from the
//! PVC's, and the next is made when the last is gone. Pods are counted by what each says of itself ([`worker::attempt`]), so
//! a plan that breaks off counts none twice. A DataVolume that has succeeded or failed stays so, whatever becomes of the pod.
//! A disk that is whole is never written again, nor one under a VMI that runs.
//! **Assumptions.** What a worker says is said by somebody in the tenant's namespace: it becomes words and numbers of this
//! DataVolume, and nothing else.
//! **Caveats.** The pod of an import that failed stays, so that its log can be read; it goes with the PVC.

mod adopt;
mod alone;
mod claim;
#[cfg(test)]
mod claim_tests;
mod clone;
mod elsewhere;
mod fill;
mod grow;
pub(crate) mod notes;
pub(crate) mod pod;
mod populator;
#[cfg(test)]
mod populator_tests;
pub(crate) mod registries;
#[cfg(test)]
mod registries_tests;
mod settings;
pub(crate) mod shell;
mod size;
mod status;
#[cfg(test)]
mod tests;
mod upload;
#[cfg(test)]
mod upload_tests;
pub(crate) mod users;
mod words;
pub(crate) mod worker;

use api::cdi::annotations::ALLOW_ADOPTION;
use api::datavolume::{ConditionType, DataVolume, Phase, Status};
use api::fault::Fault;
use api::meta::ObjectMeta;
use api::wire::Wire;
use claim::Wanted;
use clone::Cloned;
pub(crate) use clone::{FarClone, far_clone};
use cluster_model::objects::{Attempt, Key, Kind, PersistentVolumeClaim, Pod, Work, World, key, owner};
use cluster_model::plan::Plan;
use jiff::Timestamp;
pub(crate) use populator::hand_back;
use size::Overhead;

/// What is said of a pod that broke off, before the time of the next one.
const NEXT: &str = "the next pod begins at";
/// The reason of what no time mends.
const NOT_SERVED: &str = "Unsupported";
/// The reason of a PVC that is made when a VM uses it.
const WAITS: &str = "WaitForFirstConsumer";

/// What is to be done for the disk of a name.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let claim = world.pvcs.get(namespace, name);
    let volume = world.data_volumes.get(namespace, name);
    let is_taken = |claim: &&PersistentVolumeClaim| {
        volume.is_some_and(|volume| adopt::reason(world, volume, claim).is_some())
    };
    let target = claim.filter(|claim| claim.is_upload_target() && !is_taken(claim));
    let is_there = |meta: &ObjectMeta| meta.deletion_timestamp.is_none();
    let filled = claim.and_then(|claim| populator::volume(world, claim));
    let is_wanted =
        target.is_some() || filled.is_some() || volume.is_some_and(|volume| is_there(&volume.metadata));
    if !is_wanted || claim.is_some_and(|claim| !is_there(&claim.meta)) {
        // A PVC goes when no pod names it any more, and the pod goes with the PVC: somebody has to begin.
        if let Some(pod) = claim.and_then(|claim| world.worker_of(claim)).filter(|pod| !pod.is_going()) {
            plan.delete(key(Kind::Pod, &pod.meta), &pod.meta);
        }
    }
    let mut unneeded: Vec<&Pod> = world.sources_for(namespace, name).collect();
    if let Some(volume) = volume {
        let source = volume.spec.source.as_ref();
        let takes = source.is_some_and(|source| source.upload.is_some());
        let work = if takes { Work::Upload } else { Work::Import };
        let round = Round::of(world, volume, Kind::DataVolume, work, now).looks();
        unneeded.retain(|pod| !clone::is_needed(&round, pod));
        plan.steps.extend(round.before.steps);
        let mut should = volume.clone();
        should.status = Some(round.next);
        if should.status != Some(Status::default()) {
            plan.update(Kind::DataVolume, &volume.metadata, &volume.write(), &should.write(), true);
        }
        plan.steps.extend(round.after.steps);
        plan.again = round.after.again;
        adopt::ends(volume, claim, &mut plan);
    }
    let uploaded = target.map(|claim| (alone::volume(claim), Work::Upload));
    let imported = filled.map(|volume| (volume, Work::Import));
    for (volume, work) in uploaded.into_iter().chain(imported) {
        let round = Round::of(world, &volume, Kind::PersistentVolumeClaim, work, now).looks();
        unneeded.retain(|pod| !clone::is_needed(&round, pod));
        plan.steps.extend(round.before.steps.into_iter().chain(round.after.steps));
        round.after.again.into_iter().for_each(|time| plan.look_again(time));
    }
    if let Some(claim) = claim {
        populator::decide(world, claim, now, &mut plan);
    }
    // Last: a stranger's pod that says it is one of these, and cannot be taken away, holds up nothing.
    for pod in unneeded {
        clone::take_away(pod, &mut plan);
    }
    plan
}

/// What is to be done for the disk of a name while disks are left to others, or to nobody: an adoption that was begun ends, or its
/// finalizer would hold the DataVolume for ever.
pub(crate) fn leave(world: &World, namespace: &str, name: &str) -> Plan {
    let mut plan = Plan::default();
    if let Some(volume) = world.data_volumes.get(namespace, name) {
        adopt::ends(volume, world.pvcs.get(namespace, name), &mut plan);
    }
    plan
}

/// One look at one disk.
struct Round<'a> {
    world: &'a World,
    volume: &'a DataVolume,
    /// What the volume is: a DataVolume, or a PVC without one.
    kind: Kind,
    work: Work,
    phase: Phase,
    /// What it is a clone of, if it is one that can be made now.
    clone: Option<Cloned<'a>>,
    /// Its status as it should be.
    next: Status,
    now: Timestamp,
    /// What is done before the status is written, and after.
    before: Plan,
    after: Plan,
}

impl<'a> Round<'a> {
    fn of(world: &'a World, volume: &'a DataVolume, kind: Kind, work: Work, now: Timestamp) -> Round<'a> {
        let status = volume.status.clone().unwrap_or_default();
        Round {
            world,
            volume,
            kind,
            work,
            phase: status.phase.clone().unwrap_or_default(),
            clone: None,
            next: status,
            now,
            before: Plan::default(),
            after: Plan::default(),
        }
    }

    /// Without a KubeVirt object nothing is made; and its PVC goes with a DataVolume that is deleted.
    fn looks(mut self) -> Round<'a> {
        if self.volume.metadata.deletion_timestamp.is_some()
            || cluster_model::config::permitted(self.world).is_none()
        {
            return self;
        }
        let meta = &self.volume.metadata;
        let (namespace, name) =
            (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
        let claim = self.world.pvcs.get(namespace, name);
        self.look(claim, name);
        let noted = claim.filter(|claim| self.is_ours(claim) && claim.meta.deletion_timestamp.is_none());
        let is_noted = self.work == Work::Upload || self.is_alone();
        if let Some(claim) = noted.filter(|_| is_noted) {
            let pod = self.world.worker_for(claim, self.work);
            let which = (self.work, self.is_alone());
            // First: a DataVolume says that it is ready when cdi-uploadproxy sees it, too.
            notes::whole_round(claim, &self.next, pod, which, &mut self.before);
        }
        self
    }

    fn look(&mut self, claim: Option<&'a PersistentVolumeClaim>, name: &str) {
        // The annotations of a PVC that takes an upload may be put right.
        let may_be_mended = self.is_alone() && self.work == Work::Upload;
        let is_over = self.phase == Phase::Succeeded || self.phase == Phase::Failed && !may_be_mended;
        if is_over {
            return self.ended(claim);
        }
        match claim {
            Some(claim) if self.adopts(claim) => return,
            None if self.awaits_its_claim(name) => return,
            _ => {}
        }
        if let Some(claim) = claim.filter(|claim| self.is_made_by_storage(claim)) {
            self.say_bound(claim);
            return self.populated(claim, self.phase.clone());
        }
        let is_elsewhere = self.volume.spec.is_filled_otherwise();
        let faults = if is_elsewhere { Vec::new() } else { api::job::check_in_cluster(self.volume) };
        if !faults.is_empty() {
            return self.refused(&faults);
        }
        match self.cloned(claim) {
            Ok(cloned) => self.clone = cloned,
            Err(stop) => return self.stops(stop),
        }
        let size = self.clone.as_ref().and_then(Cloned::size);
        let wanted = match size {
            Some(size) => Wanted::of_clone(self.volume, self.world, Overhead::default(), size),
            None => Wanted::of(self.volume, self.world, Overhead::default()),
        };
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(why) => return self.not_valid(&why),
        };
        match claim {
            None => self.make_claim(&wanted),
            Some(claim) if !self.is_ours(claim) => self.taken(claim),
            Some(claim) => {
                self.say_bound(claim);
                match claim.status.phase.as_deref() {
                    _ if claim.meta.deletion_timestamp.is_some() => {
                        self.waits("Terminating", &format!("PVC {name} is being deleted"));
                        self.go(Phase::Pending, None);
                    }
                    Some("Lost") => {
                        let why = format!("the volume of PVC {name} is lost: delete the DataVolume");
                        self.waits("ClaimLost", &why);
                        self.go(Phase::Pending, Some((true, "ErrClaimLost", why)));
                    }
                    _ if is_elsewhere => self.is_filled_elsewhere(&wanted.of_claim(claim, self.world), claim),
                    _ => self.fill(&wanted.of_claim(claim, self.world), claim),
                }
            }
        }
    }

    /// It is a PVC without a DataVolume.
    fn is_alone(&self) -> bool {
        self.kind == Kind::PersistentVolumeClaim
    }

    fn is_ours(&self, claim: &PersistentVolumeClaim) -> bool {
        let uid = self.volume.metadata.uid.as_deref();
        match self.is_alone() {
            true => claim.meta.uid.as_deref() == uid,
            false => owner::controller(&claim.meta).is_some_and(|owner| Some(owner.uid.as_str()) == uid),
        }
    }

    fn words(&self) -> &'static words::Words {
        if self.is_clone() { &words::CLONE } else { words::of(self.work) }
    }

    /// The key under which the disk is decided on.
    fn key(&self) -> Key {
        key(Kind::DataVolume, &self.volume.metadata)
    }

    // ── Words ───────────────────────────────────────────────────────────────────────────────────────────────────

    fn say(&mut self, kind: ConditionType, is: &str, reason: &str, message: &str) {
        status::say(&mut self.next, kind, is, reason, message, self.now);
    }

    fn tell(&mut self, warning: bool, reason: &'static str, message: impl Into<String>) {
        self.after.tell(self.kind, &self.volume.metadata, warning, reason, message);
    }

    /// Goes to a phase; what people are told of it, they are told once.
    fn go(&mut self, phase: Phase, told: Option<(bool, &'static str, String)>) {
        if self.phase != phase
            && let Some((warning, reason, message)) = told
        {
            self.tell(warning, reason, message);
        }
        self.next.phase = Some(phase);
        if self.next.progress.is_none() {
            self.next.progress = Some(status::UNKNOWN.to_owned());
        }
    }

    fn waits(&mut self, reason: &str, message: &str) {
        self.say(ConditionType::Running, "False", reason, message);
        self.say(ConditionType::Ready, "False", reason, message);
    }

    fn say_bound(&mut self, claim: &PersistentVolumeClaim) {
        let name = claim.meta.name.clone().unwrap_or_default();
        self.next.claim_name = Some(name.clone());
        match claim.status.phase.as_deref() {
            Some("Bound") => self.say(ConditionType::Bound, "True", "Bound", &format!("PVC {name} Bound")),
            Some("Lost") => self.say(ConditionType::Bound, "False", "ClaimLost", "Claim Lost"),
            _ => self.say(ConditionType::Bound, "False", "Pending", &format!("PVC {name} Pending")),
        }
    }

    // ── Refusals ────────────────────────────────────────────────────────────────────────────────────────────────

    /// Its spec asks for what is not served: no time mends that.
    fn refused(&mut self, faults: &[Fault]) {
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        self.fail(NOT_SERVED, &said.join("; "));
    }

    fn fail(&mut self, reason: &str, message: &str) {
        self.waits(reason, message);
        self.say(ConditionType::Transferring, "False", reason, message);
        self.go(Phase::Failed, Some((true, self.words().failed, message.to_owned())));
    }

    /// No PVC can be made of it, as the cluster is: a StorageClass may come.
    fn not_valid(&mut self, why: &str) {
        self.say(ConditionType::Bound, "False", "NotFound", "No PVC found");
        self.waits("ErrClaimNotValid", why);
        self.go(Phase::Pending, Some((true, "ErrClaimNotValid", why.to_owned())));
    }

    fn taken(&mut self, claim: &PersistentVolumeClaim) {
        let name = claim_name(claim);
        let mut why = format!(
            "PVC {name} is there already, and not made for this DataVolume: delete the PVC or choose another name"
        );
        if let Some(not_whole) = claim.not_whole() {
            why.push_str(&format!("; the PVC {not_whole}"));
        } else if owner::controller(&claim.meta).is_none() {
            why.push_str(&format!(
                "; to have it taken as it is, annotate the PVC itself with {ALLOW_ADOPTION}: \"true\""
            ));
        }
        self.waits("ErrResourceExists", &why);
        self.go(Phase::Pending, Some((true, "ErrResourceExists", why)));
    }

    // ── The PVC ─────────────────────────────────────────────────────────────────────────────────────────────────

    fn make_claim(&mut self, wanted: &Wanted<'_>) {
        self.say(ConditionType::Bound, "False", "NotFound", "No PVC found");
        let meta = &self.volume.metadata;
        let name = meta.name.clone().unwrap_or_default();
        let (notes, data_source) = match self.way_of(wanted) {
            Ok(way) => way,
            Err(stop) => return self.stops(stop),
        };
        let wanted = &wanted.made_from(data_source);
        let failed = self.world.failures.get(&self.key());
        // Said as long as no try has mended it: a reason that comes and goes is read by nobody.
        if let Some(failed) =
            failed.filter(|failed| failed.about == Attempt::Make(Kind::PersistentVolumeClaim))
        {
            let reason = claim_refused(&failed.message);
            self.waits(reason, &failed.message);
            self.go(Phase::Pending, Some((true, reason, failed.message.clone())));
            if failed.retry > self.now {
                return self.after.look_again(failed.retry);
            }
        } else {
            self.waits("Pending", &format!("PVC {name} is being made"));
            self.go(Phase::Pending, Some((false, "Pending", format!("PVC {name} Pending"))));
        }
        let key = Key::new(Kind::PersistentVolumeClaim, meta.namespace.clone().unwrap_or_default(), name);
        let object = claim::object(self.volume, wanted, &notes);
        self.after.create(key, adopt::of_reserved_volume(self.world, meta, object));
    }

    /// It has succeeded or failed, and stays so.
    fn ended(&mut self, claim: Option<&PersistentVolumeClaim>) {
        let Some(claim) = claim.filter(|claim| self.is_ours(claim)) else {
            if self.phase == Phase::Succeeded {
                self.has_none(claim);
            }
            return;
        };
        self.say_bound(claim);
        if self.phase == Phase::Succeeded {
            self.note_import(claim, "Succeeded");
            // The plan that wrote so may have broken off behind that; and one that was made late must not write.
            if let Some(pod) = self.world.worker_for(claim, self.work).filter(|pod| !pod.is_going()) {
                self.clears(claim, Some(pod));
            }
        }
    }

    /// It has succeeded, and owns no PVC any more. One of its name is not taken again: somebody has taken that away, or another PVC
    /// is there.
    fn has_none(&mut self, other: Option<&PersistentVolumeClaim>) {
        let (reason, message) = match other.map(claim_name) {
            None => ("NotFound", "the PVC is gone, and the disk with it".to_owned()),
            Some(name) => (
                "NotOwned",
                format!(
                    "PVC {name} is there, and is not that of this DataVolume any more: to have it again, annotate the PVC with \
                     {ALLOW_ADOPTION}: \"true\", delete the DataVolume and make it anew"
                ),
            ),
        };
        self.say(ConditionType::Bound, "False", "NotFound", "No PVC found");
        self.say(ConditionType::Ready, "False", reason, &message);
    }
}

/// Why the API server refuses what a PVC asks for, as a word.
fn claim_refused(message: &str) -> &'static str {
    if message.contains("exceeded quota") { "ErrExceededQuota" } else { "ErrClaimNotValid" }
}

fn claim_name(claim: &PersistentVolumeClaim) -> &str {
    claim.meta.name.as_deref().unwrap_or_default()
}
