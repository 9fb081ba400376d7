//! Deletes a source pod without a reader, so that the VMs of its namespace may start.
//!
//! ```text
//!  source pod made ──► ready ──► an importer pod runs, and reads: it stays
//!      ▲   │             │           └─ it reads nothing for STILL
//!      │   │ not within  │ none runs
//!      │   │ STARTS      │ within IDLE
//!      │   └─────────────┴──────────────► both pods go ──► waits (CloneNotStarted, CloneStalled), each time longer than before
//!      └──────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The target's namespace decides if the importer pod starts and what it does (quota, image pull Secrets,
//! StorageClass), while VMs of another namespace wait. After a reader that broke off, the pause before the
//! next source pod does not count.
//!
//! **Evidence of reading.** The source pod reports the bytes that it has sent, because the importer pod
//! belongs to the tenant. An importer whose own count moves may be writing zeros while nothing is sent. That
//! is accepted, but not for longer than [`STILL_AT_MOST`].
//! **State.** The condition Running records when the source pod was deleted; the DataVolume counts deletions
//! as restarts. A user who may write the status of the DataVolume may forge both. So a time in the future is
//! ignored, and a source pod that has sent nothing for [`STILL_AT_MOST`] is deleted, whenever a reader is
//! said to have ended. Such a user may make the pause between two source pods as short as the first one.
//! **Caveats.** While the sent bytes of a source pod are unknown (it does not answer), it stays until its
//! deadline. An importer that reads a little now and then stays too.

use super::super::claim_annotations::running;
use super::super::outcome::Outcome;
use super::super::request::Request;
use super::super::worker;
use super::{Stop, serve};
use cluster_model::conditions::stamp;
use cluster_model::objects::{PersistentVolumeClaim, Pod, Work, names};
use jiff::{SignedDuration, Timestamp};

/// Reason if the source pod was deleted because it had no reader.
pub(super) const UNREAD: &str = "CloneNotStarted";
/// Reason if the source pod was deleted because its reader read nothing.
pub(super) const STALLED: &str = "CloneStalled";
/// The time that a source pod may take until it is ready.
const STARTS: SignedDuration = SignedDuration::from_mins(10);
/// The time that a source pod waits for a reader.
const IDLE: SignedDuration = SignedDuration::from_mins(5);
/// Time after which a reader without progress is stopped, and the time without sent bytes for a reader that
/// reports progress.
const STILL: SignedDuration = SignedDuration::from_mins(30);
const STILL_AT_MOST: SignedDuration = SignedDuration::from_hours(2);
/// The time after which there is another source pod, in seconds: the first, and the longest.
const PAUSE: (i64, i64) = (60, 3600);

/// An event that must come until a time, or the source pod is deleted: the source pod is ready, it has a reader, or the reader has read.
struct AwaitedEvent {
    until: Timestamp,
    /// Reason and message if the wait is in vain.
    reason: &'static str,
    why: String,
}

/// Continues while the source pod of the clone into this PVC has a reader, or has not waited for long.
pub(super) fn check_reader(
    request: &Request<'_>,
    target: &PersistentVolumeClaim,
    source: &PersistentVolumeClaim,
) -> (Outcome, Result<(), Stop>) {
    if let Some((reason, message, until)) = pause_after_deletion(request) {
        return match until > request.now {
            true => let_go_until(request, target, reason, message, until),
            false => (Outcome::default(), Ok(())),
        };
    }
    let Some(awaited) = awaited_event(request, target, source) else { return (Outcome::default(), Ok(())) };
    if awaited.until > request.now {
        return (Outcome::default().retry_at(awaited.until), Ok(()));
    }
    let count = request.status.restart_count.unwrap_or(0).max(0).saturating_add(1);
    let until = after_pause(count, request.now);
    let message = format!(
        "{}, while VMs of the source wait; the next source pod is created at {}",
        awaited.why,
        stamp(until)
    );
    let (outcome, stop) = let_go_until(request, target, awaited.reason, message, until);
    (outcome.restart_count(count), stop)
}

/// Deletes the importer pod, and lets the clone wait until this time. The same plan deletes the source pod, since the clone does not need
/// it any more (`serve::is_needed`).
fn let_go_until(
    request: &Request<'_>,
    target: &PersistentVolumeClaim,
    reason: &'static str,
    message: String,
    until: Timestamp,
) -> (Outcome, Result<(), Stop>) {
    let importer = request.world.worker_for(target, Work::Import).filter(|pod| !pod.has_ended());
    (Outcome::default().deletes(importer).retry_at(until), Stop::wait(reason, message))
}

/// Reason and message of the last deletion of a source pod, and the end of the pause before the next one.
fn pause_after_deletion(request: &Request<'_>) -> Option<(&'static str, String, Timestamp)> {
    let said = running(&request.status)?;
    let reason = [UNREAD, STALLED].into_iter().find(|reason| said.reason.as_deref() == Some(*reason))?;
    let until = after_pause(
        request.status.restart_count.unwrap_or(0),
        parse_past_time(request, said.last_check_time.as_ref())?,
    );
    Some((reason, said.message.clone().unwrap_or_default(), until))
}

/// The end of the pause after the source pod was deleted for the `count`th time.
fn after_pause(count: i64, since: Timestamp) -> Timestamp {
    let times = count.clamp(1, 10) - 1;
    let pause = PAUSE.0.saturating_mul(1 << times).min(PAUSE.1);
    since.checked_add(SignedDuration::from_secs(pause)).unwrap_or(since)
}

/// The event that the source pod waits for: to be ready, a reader, or progress of the reader.
fn awaited_event(
    request: &Request<'_>,
    target: &PersistentVolumeClaim,
    source: &PersistentVolumeClaim,
) -> Option<AwaitedEvent> {
    let uid = target.meta.uid.as_deref().unwrap_or_default();
    let namespace = source.meta.namespace.as_deref().unwrap_or_default();
    let pod = request.world.pods.get(namespace, &names::cloner(uid))?;
    if !serve::is_source_pod(pod, source, target) || pod.is_going() || pod.has_ended() {
        return None;
    }
    let said = pod.condition("Ready");
    let since = said.and_then(|said| said.since.as_ref()?.parse::<Timestamp>().ok());
    let container = pod.container(Work::Serve.container());
    let is_ready = container.is_some_and(|container| container.ready);
    if !is_ready && said.is_none_or(|said| said.status != "True") {
        let made: Timestamp = pod.meta.creation_timestamp.as_ref()?.parse().ok()?;
        let why = format!(
            "the source pod {namespace}/{} was not ready within {} minutes: find out why it does not start there \
             (quota, nodes, the worker's image)",
            names::cloner(uid),
            minutes(STARTS)
        );
        return Some(AwaitedEvent {
            until: after(since.map_or(made, |since| since.max(made)), STARTS),
            reason: UNREAD,
            why,
        });
    }
    let reader = request.world.worker_for(target, Work::Import);
    if let Some(reader) = reader.filter(|reader| has_run(reader)) {
        return awaited_progress(request, pod, reader);
    }
    let ready = since?;
    let ended = last_reader_ended(request).filter(|ended| *ended > ready);
    let since = ended.map_or(ready, |ended| after(ended, SignedDuration::from_secs(worker::PAUSE.1)));
    let sent = request.world.still_since(pod).map(|sent| after(sent.max(ready), STILL_AT_MOST));
    let why = format!(
        "no importer pod ran within {} minutes after the source pod was ready: find out why pods of this namespace \
         do not start (quota, nodes, the worker's image)",
        minutes(IDLE)
    );
    let until = after(since, IDLE);
    Some(AwaitedEvent { until: sent.map_or(until, |sent| sent.min(until)), reason: UNREAD, why })
}

/// The event that a running importer pod must bring: progress of reading from the source pod. `None` if none is waited for.
fn awaited_progress(request: &Request<'_>, source: &Pod, reader: &Pod) -> Option<AwaitedEvent> {
    let container = reader.container(Work::Import.container());
    if reader.is_going() || !container.is_some_and(|container| container.running) {
        return None;
    }
    let sent = request.world.still_since(source)?;
    // A source pod without a report has just begun.
    let began = || reader.meta.creation_timestamp.as_ref()?.parse().ok();
    let counts = request.world.still_since(reader).or_else(began).unwrap_or(sent).max(sent);
    let why = format!(
        "the importer pod {} has read nothing from the source pod for {} minutes: check its log, and the volume that \
         it writes to",
        reader.meta.name.as_deref().unwrap_or_default(),
        minutes(STILL)
    );
    Some(AwaitedEvent { until: after(counts, STILL).min(after(sent, STILL_AT_MOST)), reason: STALLED, why })
}

/// The time at which the last importer pod ended, if one ran: the condition Running changed then.
fn last_reader_ended(request: &Request<'_>) -> Option<Timestamp> {
    let said = running(&request.status).filter(|said| said.status == "False")?;
    parse_past_time(request, said.last_transition_time.as_ref())
}

/// Time from a status, unless it is in the future.
fn parse_past_time(request: &Request<'_>, said: Option<&String>) -> Option<Timestamp> {
    said?.parse().ok().filter(|time| *time <= request.now)
}

fn after(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_add(span).unwrap_or(time)
}

fn minutes(span: SignedDuration) -> i64 {
    span.as_secs() / 60
}

/// True if the pod runs or has run. `fill` decides on its result.
pub(super) fn has_run(pod: &Pod) -> bool {
    let container = pod.container(Work::Import.container());
    pod.has_ended() || container.is_some_and(|container| container.running || container.ended.is_some())
}
