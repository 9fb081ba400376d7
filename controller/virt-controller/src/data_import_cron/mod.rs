//! DataImportCrons: an image is imported again after each change of it, and a DataSource leads to the newest import.
//!
//! ```text
//!  question, when it is due ──► polls: one request ──► World::polls: digest, or the reason without one
//!                          └──► where a Secret, a mirror or the proxy is needed: a pod, which ends with the same
//!                                                         │
//!  annotation …sourceDesiredDigest ◄──────────────────────┘
//!      │ its first 12 digits
//!      ▼
//!  DataVolume MANAGED-DIGITS ─► Succeeded ─► DataSource MANAGED leads there ─► older imports go, but for `importsToKeep`
//!
//!  poll    step 1: the newest digest           source   server and image of a DataImportCron      poller    the pod that polls
//!  import  step 2: DataVolume and DataSource   imports  its DataVolumes, and which are deleted     when      the times of polls
//!  messages  reasons and messages
//! ```
//!
//! **Flow.** [`decide`] makes a [`CronReconcile`] of the last poll, the imports and the DataSource.
//! [`poll::poll`] returns the DataImportCron with the newest digest, and [`import::import`] the outcome of
//! that digest: conditions, and objects to create and delete. The plan is the difference of the
//! DataImportCrons, and then the steps of both. A tag that moves during an import waits for its end, and the
//! DataSource is pointed to that import first. Otherwise a tag that moves more often than an import takes
//! would never have a complete import.
//! **Guarantees.** The DataSource points to a complete import, and stays there while the next one is running
//! or fails. A DataSource or a DataVolume that another client created is neither changed nor deleted; a
//! condition names it. An import is deleted when neither the DataSource points to it nor it is the newest,
//! and no clone reads it.
//! **Membership.** The label `cdi.kubevirt.io/dataImportCron` names the DataImportCron of an object. With
//! `retentionPolicy: None` the DataImportCron is the owner too, and the garbage collector deletes all its
//! objects with it. With `All`, the default, the objects have no owner, and a later DataImportCron of the
//! same name continues with them. No finalizer is needed for either.
//! **Assumptions.** A user who may write a DataImportCron may write DataVolumes and DataSources of its
//! namespace: it creates no others ([`api::data_volume::Spec::foreign_clone_source`]).
//! **Caveats.** A file of a web server is imported in its state at that time: a file that changed after the
//! poll is imported under the older digest, and once more under its own after the next poll. VolumeSnapshots
//! are not created: `sourceFormat` is `pvc`.

mod import;
mod imports;
mod messages;
mod poll;
mod poller;
mod source;
#[cfg(test)]
mod tests;
mod when;

pub(crate) use source::{Question, is_image_digest};

use api::cdi::DataImportCron;
use api::cdi::annotations::DESIRED_DIGEST;
use api::data_volume::{DataVolume, Phase};
use api::wire::Wire;
use cluster_model::objects::{Attempt, Failure, Kind, Pod, World, key};
use cluster_model::plan::Plan;
use cluster_model::polls::PollRecord;
use imports::Imports;
use jiff::Timestamp;
use source::Source;

/// Question to ask now about the image of a DataImportCron, and the uid of the DataImportCron; `None` if
/// there is none.
pub(crate) fn question(
    world: &World,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Option<(String, Question)> {
    let cron = active(world, namespace, name)?;
    let source = source::classify(cron);
    if poller::is_wanted(world, &source) {
        return None;
    }
    let Source::Asked(question) = source else { return None };
    let due = when::next_poll(cron, last_poll(world, cron), digest(cron))?;
    (due <= now).then(|| (cron.metadata.uid.clone().unwrap_or_default(), question))
}

/// The plan for a DataImportCron.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let Some(cron) = active(world, namespace, name) else { return Plan::default() };
    let input = CronReconcile::new(world, cron, now);
    let polled = poll::poll(&input);
    let outcome = import::import(&input, &polled);
    let should = outcome.apply(&polled.cron, now);
    let mut plan = Plan::default();
    // The status is not a subresource.
    plan.update(Kind::DataImportCron, &cron.metadata, &cron.write(), &should.write(), false);
    plan.and(polled.after).and(outcome.after)
}

/// The input: one DataImportCron, its imports and its last poll.
struct CronReconcile<'a> {
    world: &'a World,
    now: Timestamp,
    cron: &'a DataImportCron,
    imports: Imports<'a>,
    /// A pod polls, not this program.
    by_pod: bool,
    /// Poll pods, the last one first.
    pods: Vec<&'a Pod>,
    polled: Option<PollRecord>,
    /// The message of the last poll pod, where that has no answer.
    pod_message: Option<String>,
}

impl<'a> CronReconcile<'a> {
    fn new(world: &'a World, cron: &'a DataImportCron, now: Timestamp) -> CronReconcile<'a> {
        let by_pod = poller::is_wanted(world, &source::classify(cron));
        let pods = poller::all(world, cron);
        let last = pods.first().filter(|_| by_pod).and_then(|pod| poller::poll_result(pod));
        let (polled, pod_message) = match (by_pod, last) {
            (true, Some((polled, message))) => (Some(polled), message),
            (true, None) => (None, None),
            (false, _) => (last_poll(world, cron).cloned(), None),
        };
        let imports = Imports::find(world, cron);
        CronReconcile { world, now, cron, imports, by_pod, pods, polled, pod_message }
    }

    /// The last failure of a plan, if it was to create an object of this kind.
    fn failure(&self, made: Kind) -> Option<&'a Failure> {
        let failed = self.world.failures.get(&key(Kind::DataImportCron, &self.cron.metadata));
        failed.filter(|failed| failed.about == Attempt::Make(made))
    }

    /// An event of the DataImportCron.
    fn event(&self, is_warning: bool, reason: &'static str, message: impl Into<String>) -> Plan {
        Plan::event((Kind::DataImportCron, &self.cron.metadata), is_warning, reason, message)
    }
}

/// The plan to decide again at a time.
fn retry_at(time: Timestamp) -> Plan {
    Plan { again: Some(time), ..Plan::default() }
}

/// A DataImportCron that is acted on: it is not going, and there is an installation.
fn active<'a>(world: &'a World, namespace: &str, name: &str) -> Option<&'a DataImportCron> {
    let cron = world.data_import_crons.get(namespace, name)?;
    let is_there = cron.metadata.deletion_timestamp.is_none();
    let is_served = world.permissions().is_some() && crate::cdi::fills_disks(world);
    (is_there && is_served).then_some(cron)
}

/// The result of the last poll, where that is known.
fn last_poll<'a>(world: &'a World, cron: &DataImportCron) -> Option<&'a PollRecord> {
    let meta = &cron.metadata;
    let at = (meta.namespace.clone()?, meta.name.clone()?);
    world.polls.get(&at).filter(|(uid, _)| Some(uid) == meta.uid.as_ref()).map(|(_, polled)| polled)
}

/// The newest digest, from the annotation. An invalid value counts as absent.
fn digest(cron: &DataImportCron) -> Option<&str> {
    let said = cron.metadata.annotations.get(DESIRED_DIGEST)?;
    Some(said.as_str()).filter(|said| source::is_digest(said))
}

/// The phase of a DataVolume.
fn phase(volume: &DataVolume) -> Phase {
    volume.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}
