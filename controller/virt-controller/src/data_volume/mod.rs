//! Disks: a PVC each, and the worker pod that fills it, from a source or from a client that uploads.
//!
//! ```text
//!  DataVolume ─► PVC ──(bound, or made for this pod)──► pod importer-NAME, cdi-upload-NAME ─► status ─► Succeeded, Failed
//!                 │ ▲                                      │ ▲
//!                 │ └ a PVC without a DataVolume:          │ └─ the next pod, after a pause: an import goes on where the
//!                 │   target of an upload, dataSourceRef   │    last one stopped, an upload starts again
//!                 └─ WaitForFirstConsumer: until a VMI     └─ report: each second from the pod, then its termination message
//!                    uses it, or an annotation asks for it
//! ```
//!
//! **Design.** [`decide`] is read from top to bottom:
//!
//! ```text
//!  World, name ─► request::requests ─► reconcile: steps, each returns an Outcome ─► outcome::plan ─► Plan
//!                 (one input value)     adopt ─► claim ─► clone ─► fill ─► upload, grow   (the only place that makes a plan)
//! ```
//!
//! A [`Request`] is what a DataVolume, the target of an upload, an external populator's PVC and the PVC of one of our populators have
//! in common; no step looks at the object that asks. A step is a function of the request, and of the PVC and pod at hand, that returns
//! an [`Outcome`]: changes of the status, steps before and after it is written, events. No step changes its input.
//!
//! | file | content |
//! |---|---|
//! | `request` | the input: one disk to fill, from four kinds of objects |
//! | `outcome` | the result of steps, and the plan that follows from it |
//! | `adopt`, `unfinished` | a PVC that existed before its DataVolume; a PVC that is being written |
//! | `claim`, `size`, `settings` | the PVC of a DataVolume; overhead of file systems; what the CDIConfig says of worker pods |
//! | `clone` | a disk that is filled from another PVC |
//! | `external` | a PVC that names itself what fills it |
//! | `fill`, `worker`, `users` | the worker pod and the next one; the state of a pod; VMIs that use the disk |
//! | `permit` | the permit of an importer pod to write to a block device |
//! | `upload`, `grow` | certificate, Service and client of an upload; a PVC that is too small for its image |
//! | `pod`, `base_pod`, `registries` | the worker pod as an object; what all worker pods share; settings of registries and the proxy |
//! | `status`, `terms`, `claim_annotations` | conditions of a DataVolume; phases and event reasons of each work; annotations of the PVC |
//! | `standalone_claim`, `populator` | a PVC without a DataVolume, read as one; a PVC with a dataSourceRef |
//!
//! **Guarantees.** No PVC and no pod of another owner is used. One pod at a time: its name follows from the
//! PVC's, and the next is made when the last is gone. Pods are counted by what each says of itself ([`worker::attempt`]), so
//! a plan that breaks off counts none twice. A DataVolume that has succeeded or failed stays so, whatever becomes of the pod.
//! A disk that is complete is never written again, nor one under a VMI that runs.
//! **Assumptions.** A worker runs in the tenant's namespace, so its reports are the tenant's: they become texts and numbers of this
//! DataVolume, and nothing else.
//! **Caveats.** The pod of an import that failed stays, so that its log can be read; it is deleted with the PVC.

mod adopt;
pub(crate) mod base_pod;
mod claim;
pub(crate) mod claim_annotations;
#[cfg(test)]
mod claim_tests;
mod clone;
mod external;
mod fill;
mod grow;
mod outcome;
mod permit;
#[cfg(test)]
mod permit_tests;
pub(crate) mod pod;
mod populator;
#[cfg(test)]
mod populator_tests;
pub(crate) mod registries;
#[cfg(test)]
mod registries_tests;
mod request;
mod settings;
mod size;
mod standalone_claim;
mod status;
mod terms;
#[cfg(test)]
mod tests;
mod unfinished;
mod upload;
#[cfg(test)]
mod upload_tests;
pub(crate) mod users;
pub(crate) mod worker;

use crate::volume_origin::{VolumeOrigin, volume_origin};
use api::cdi::annotations::ALLOW_ADOPTION;
use api::data_volume::{ConditionType, Phase};
use claim::RequestedClaim;
use clone::Cloned;
pub(crate) use clone::{FarClone, far_clone, is_begun_clone};
use cluster_model::objects::{Attempt, Key, Kind, PersistentVolumeClaim, Pod, Work, World, owner};
use cluster_model::plan::Plan;
use fill::Target;
use jiff::Timestamp;
use outcome::Outcome;
pub(crate) use populator::restore_reclaim_policy;
use request::{Request, requests};
use size::Overhead;
use unfinished::unfinished;

/// Part of the message about a pod that broke off, before the time of the next one.
const NEXT: &str = "the next pod begins at";
/// Reason of a request that is not supported: no time mends that.
const NOT_SERVED: &str = "Unsupported";
/// Reason of a PVC that is created when a VM uses it.
const WAITS: &str = "WaitForFirstConsumer";
/// End of a message about a PVC whose storage waits for a pod.
const AT_FIRST_POD: &str = "; its volume is created on the node of the first pod that uses it";

/// The plan for the disk of a name.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let requests = requests(world, namespace, name, now);
    let claim = world.pvcs.get(namespace, name);
    let mut unneeded: Vec<&Pod> = claim.and_then(|claim| world.source_for(claim)).into_iter().collect();
    let mut plan = release_claim(world, claim, &requests);
    for request in requests.iter().filter(|request| request.is_served()) {
        let (outcome, clone) = reconcile(request);
        let status = outcome.status(request);
        unneeded.retain(|pod| !clone::is_needed(request, &status, clone.as_ref(), pod));
        plan = plan.and(outcome::plan(request, outcome, status));
    }
    plan = plan.and(finish_adoption(world, namespace, name));
    if let Some(claim) = claim {
        plan = plan.and(populator::decide(world, claim, now));
    }
    plan = plan.and(clone::withdraw_announcements(world, namespace, name));
    unneeded.extend(claim.into_iter().flat_map(|claim| clone::strays(world, claim)));
    // Last: a pod that only claims to be a source pod, and cannot be deleted, must not hold up the steps before.
    unneeded.into_iter().map(clone::take_away).fold(plan, Plan::and)
}

/// The plan for the disk of a name while another installation fills the disks, or none does: an adoption that was begun ends, or its
/// finalizer would keep the DataVolume for ever.
pub(crate) fn finish_adoption(world: &World, namespace: &str, name: &str) -> Plan {
    let claim = world.pvcs.get(namespace, name);
    world.data_volumes.get(namespace, name).map(|volume| adopt::finish(volume, claim)).unwrap_or_default()
}

/// Deletes the worker pod of a PVC that is deleted, or that no request fills. Kubernetes keeps the PVC while the pod mounts it, and
/// deletes the pod only after the PVC.
fn release_claim(world: &World, claim: Option<&PersistentVolumeClaim>, requests: &[Request<'_>]) -> Plan {
    let Some(claim) = claim else { return Plan::default() };
    let is_wanted = requests.iter().any(|request| !request.is_deleted());
    match is_wanted && claim.meta.deletion_timestamp.is_none() {
        true => Plan::default(),
        false => Plan::deleting(world.worker_of(claim)),
    }
}

/// The steps of one request, in their order; the first that cannot continue ends them. Returns the outcome,
/// and the source if the disk is a clone.
fn reconcile<'a>(request: &Request<'a>) -> (Outcome, Option<Cloned<'a>>) {
    let and_no_clone = |outcome: Outcome| (outcome, None);
    // The annotations of a PVC that takes an upload may be corrected after they were refused.
    let may_be_corrected = request.is_standalone() && request.work == Work::Upload;
    if request.phase == Phase::Succeeded || request.phase == Phase::Failed && !may_be_corrected {
        return and_no_clone(ended_outcome(request));
    }
    let adopted = match request.claim {
        Some(claim) => adopt::adopted(request, claim),
        None => adopt::awaits_claim(request),
    };
    if let Some(outcome) = adopted {
        return and_no_clone(outcome);
    }
    if let Some(claim) = request.claim.filter(|claim| clone::is_made_by_storage(request, claim)) {
        let populated = clone::follow_population(request, claim, request.phase.clone());
        return and_no_clone(Outcome::default().bound_condition(claim).and(populated));
    }
    let faults = match (request.is_populated_externally(), request.claim) {
        (false, _) => api::job::check_in_cluster(&request.volume),
        (true, None) => external::faults(request),
        // It is compared with what was asked for, and may be marked as filled.
        (true, Some(_)) => Vec::new(),
    };
    if !faults.is_empty() {
        return and_no_clone(refuse_spec(request, &faults));
    }
    let (found, clone) = clone::resolve(request);
    match clone {
        Ok(clone) => {
            let outcome = found.and(with_claim(request, clone.as_ref()));
            (outcome, clone)
        }
        Err(stop) => and_no_clone(found.and(clone::stop_outcome(request, stop))),
    }
}

/// The steps from the PVC on: it is created, or filled.
fn with_claim<'a>(request: &Request<'a>, clone: Option<&Cloned<'a>>) -> Outcome {
    let requested = match clone.and_then(Cloned::size) {
        Some(size) => RequestedClaim::of_clone(&request.volume, request.world, Overhead::default(), size),
        None => RequestedClaim::new(&request.volume, request.world, Overhead::default()),
    };
    let requested = match requested {
        Ok(requested) => requested,
        Err(why) => return not_valid(&why),
    };
    let Some(claim) = request.claim else { return make_claim(request, clone, &requested) };
    if !request.owns(claim) {
        return occupied(request, claim);
    }
    let name = request.name();
    let outcome = Outcome::default().bound_condition(claim);
    outcome.and(match claim.status.phase.as_deref() {
        _ if claim.meta.deletion_timestamp.is_some() => Outcome::default()
            .wait("Terminating", &format!("PVC {name} is being deleted"))
            .phase(Phase::Pending),
        Some("Lost") => {
            let why = format!("the volume of PVC {name} is lost: delete the DataVolume");
            Outcome::default().wait("ClaimLost", &why).enter_phase(Phase::Pending, true, "ErrClaimLost", why)
        }
        _ => {
            let requested = requested.of_existing(claim, request.world);
            match request.is_populated_externally() {
                true => external::follow_population(request, &requested, claim),
                false => fill::fill(&Target { request, claim, requested: &requested, clone }),
            }
        }
    })
}

// ── Refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────

/// Outcome for a spec with a part that is not supported.
fn refuse_spec(request: &Request<'_>, faults: &[api::fault::Fault]) -> Outcome {
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    Outcome::default().fail(request, NOT_SERVED, &faults.join("; "))
}

/// No PVC can be made as the cluster is. A StorageClass may be created later.
fn not_valid(why: &str) -> Outcome {
    Outcome::default().not_found().wait("ErrClaimNotValid", why).enter_phase(
        Phase::Pending,
        true,
        "ErrClaimNotValid",
        why,
    )
}

/// A PVC of that name exists, and is not of this request.
fn occupied(request: &Request<'_>, claim: &PersistentVolumeClaim) -> Outcome {
    let name = claim_name(claim);
    let mut why = format!(
        "PVC {name} exists already, and was not created for this DataVolume: delete the PVC or choose another name"
    );
    if let Some(unfinished) = unfinished(request.world, claim) {
        why.push_str(&format!("; the PVC {unfinished}"));
    } else if owner::controller(&claim.meta).is_none() {
        why.push_str(&format!(
            "; to adopt it as it is, annotate the PVC itself with {ALLOW_ADOPTION}: \"true\""
        ));
    }
    Outcome::default().wait("ErrResourceExists", &why).enter_phase(
        Phase::Pending,
        true,
        "ErrResourceExists",
        why,
    )
}

// ── The PVC ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/// Makes the PVC, from a source of its storage where the storage clones it.
fn make_claim(request: &Request<'_>, clone: Option<&Cloned<'_>>, requested: &RequestedClaim<'_>) -> Outcome {
    let outcome = Outcome::default().not_found();
    let chosen = match clone.map(|clone| clone::choose_way(request, clone, requested)).transpose() {
        Ok(chosen) => chosen.unwrap_or_default(),
        Err(stop) => return outcome.and(clone::stop_outcome(request, stop)),
    };
    let requested = requested.made_from(chosen.data_source);
    let name = request.name();
    let failed = request.world.failures.get(&request.key());
    let failed = failed.filter(|failed| failed.about == Attempt::Make(Kind::PersistentVolumeClaim));
    let mut outcome = outcome.and(chosen.outcome);
    // A refusal is reported until a try succeeds: a reason that comes and goes is not seen.
    if let Some(failed) = failed {
        let reason = claim_refused(&failed.message);
        outcome = outcome.wait(reason, &failed.message).enter_phase(
            Phase::Pending,
            true,
            reason,
            failed.message.clone(),
        );
        if failed.retry > request.now {
            return outcome.retry_at(failed.retry);
        }
    } else {
        outcome = outcome.wait("Pending", &format!("PVC {name} is being created")).enter_phase(
            Phase::Pending,
            false,
            "Pending",
            format!("PVC {name} Pending"),
        );
    }
    let key = Key::new(Kind::PersistentVolumeClaim, request.namespace(), name);
    let object = claim::object(&request.volume, &requested, &chosen.annotations);
    let mut create = Plan::default();
    create.create(key, adopt::of_reserved_volume(request.world, request.meta(), object));
    outcome.after_status(create)
}

/// The request has succeeded or failed, and stays so.
fn ended_outcome(request: &Request<'_>) -> Outcome {
    let Some(claim) = request.own_claim() else {
        return match request.phase == Phase::Succeeded {
            true => lost_claim(request.claim),
            false => Outcome::default(),
        };
    };
    let outcome = Outcome::default().bound_condition(claim);
    if request.phase != Phase::Succeeded {
        return outcome;
    }
    // The volume of an adopted PVC may not be known as that of its source.
    let outcome = match volume_origin(request.world, claim) {
        VolumeOrigin::OfSource => outcome.and(fill::note_import(request, claim, "Succeeded")),
        VolumeOrigin::Unknown | VolumeOrigin::Other(_) => outcome,
    };
    // The plan that wrote the phase may have ended before it deleted the pod. Such a pod must not write any more.
    match request.world.worker_for(claim, request.work).filter(|pod| !pod.is_going()) {
        Some(pod) => outcome.and(fill::clear(request, claim, Some(pod))),
        None => outcome,
    }
}

/// The request has succeeded, and owns no PVC any more. A PVC of its name is not taken again: the owner reference was removed, or
/// the PVC is another one.
fn lost_claim(other: Option<&PersistentVolumeClaim>) -> Outcome {
    let (reason, message) = match other.map(claim_name) {
        None => ("NotFound", "the PVC was deleted, and the disk with it".to_owned()),
        Some(name) => (
            "NotOwned",
            format!(
                "PVC {name} exists, but does not belong to this DataVolume any more: to use it again, annotate the \
                 PVC with {ALLOW_ADOPTION}: \"true\", delete the DataVolume and create it again"
            ),
        ),
    };
    Outcome::default().not_found().condition(ConditionType::Ready, "False", reason, &message)
}

/// Reason of a PVC that the API server refuses.
fn claim_refused(message: &str) -> &'static str {
    if message.contains("exceeded quota") { "ErrExceededQuota" } else { "ErrClaimNotValid" }
}

fn claim_name(claim: &PersistentVolumeClaim) -> &str {
    claim.meta.name.as_deref().unwrap_or_default()
}
