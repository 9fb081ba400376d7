//! The loop of virt-controller.
//!
//! ```text
//!  watch (one task a kind) ─► World ─► dirty: whose decision it touches ─► decide ─► carry out (a few)
//!                               ▲                        ▲ again, later               │ answers, failures
//!                               └────────────────────────┴────────────────────────────┘
//! ```
//!
//! One task owns the World. Which key is next, `fair_queue` decides: a client that changes its objects without end does not hold up
//! others. Nothing is decided before every kind has been listed once, and nothing for an object while a plan of it is being carried out.
//! A plan that fails is decided anew after a pause that grows. After the wall clock was set back nothing waits for a time of before.
//! Where the history of the cluster went back, since etcd was restored, the loop ends, and the program with it ([`History`]): the next one
//! knows nothing of before.

use crate::data_import_cron::{self, Question};
use crate::delay_queue::DelayQueue;
use crate::fair_queue::FairQueue;
use crate::measures::{Renderer, Snapshot, Times, Work};
use crate::polls::{self, Polls};
use crate::removed::RemovedUids;
use crate::reports::{PodReport, Reports, WorkerState};
use crate::unanswered::UnansweredDeletions;
use cluster_client::error::{Error, ErrorKind};
use cluster_client::history::History;
use cluster_client::lease::Pulse;
use cluster_client::watch::{self, WatchMessage};
use cluster_client::{Deletion, PlanResult, Writer};
use cluster_model::objects::{
    Attempt, ClusterFacts, Failure, Home, Key, Kind, Program, VALUES, World, followed_by, waiting_for_disks,
};
use cluster_model::plan::{Plan, Step};
use cluster_model::polls::PollRecord;
use jiff::{SignedDuration, Timestamp};
use serve::health::Health;
use serve::settings::Dials;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::{self, JoinSet};

/// Longest time of uninterrupted decisions, before the next events are handled and other tasks run.
const STRETCH: std::time::Duration = std::time::Duration::from_millis(50);
/// Number of events that are handled before the next decision.
const EVENTS: usize = 256;
/// Interval of the loop without events.
const BEAT: std::time::Duration = std::time::Duration::from_secs(10);
/// Plans that are carried out at once.
const AT_ONCE: usize = 16;
/// Capacity of the channel of watch events.
const WAITING: usize = 1024;
/// Longest time by which the clock is set back unnoticed: time servers correct a clock by parts of a second.
const SET_BACK: SignedDuration = SignedDuration::from_secs(1);
/// Pauses after failures, in milliseconds: the first and the longest.
const PAUSE: (i64, i64) = (200, 30_000);

/// State of the loop beside the World. It has no clock and no client: histories drive it as the loop does.
#[derive(Default)]
pub(crate) struct ControlLoop {
    pub(crate) world: World,
    /// Completed lists: a kind, or the one object of a name.
    listed: BTreeSet<(Kind, Option<String>)>,
    dirty: FairQueue,
    pub(crate) delayed: DelayQueue,
    failed: BTreeMap<Key, u32>,
    /// The uids of the last objects that went. The answer to a write of ours may come after the news that the object is
    /// gone, and would bring it back for ever.
    removed: RemovedUids,
    /// The uids of objects that the API server said to have deleted. Watches may still tell of them as they were before.
    deleted: RemovedUids,
    /// The uids of objects that the API server did not find, until a list has them: it may not have known their kind.
    missing: RemovedUids,
    unanswered: UnansweredDeletions,
    /// Questions about the images of DataImportCrons: by key, the uid and the question.
    pub(crate) questions: BTreeMap<Key, (String, Question)>,
    /// Objects that were reported as unreadable.
    unread: BTreeSet<Key>,
    times: Times,
    /// The latest time at which a key was decided on, by a clock that may be set back.
    latest: Timestamp,
    decided: u64,
    broken: u64,
}

/// Result of a turn.
enum Decision {
    /// No key waits, or all waiting keys are busy.
    Idle,
    /// The plan for a key is empty.
    Empty,
    Plan(Key, Plan),
}

/// Decides and applies for ever.
pub(crate) async fn run(
    client: kube::Client,
    writer: Writer,
    facts: ClusterFacts,
    (health, pulse, dials): (Health, Pulse, Arc<Dials>),
    (mut reports, mut told): (Reports, mpsc::Receiver<PodReport>),
    mut polls: Polls,
) -> Error {
    let (to, mut seen) = mpsc::channel(WAITING);
    let home = Home { namespace: facts.namespace.clone(), ..Home::default() };
    let watched = followed_by(Program::Controller, &home);
    let history = Arc::new(History::default());
    let mut follows = JoinSet::new();
    for which in &watched {
        follows.spawn(watch::follow_history(client.clone(), which.clone(), to.clone(), Arc::clone(&history)));
    }
    drop(to);
    let (mut asked, renderer) = (health.measures(), Renderer::start());
    let mut control = ControlLoop::new(facts);
    let mut tasks: JoinSet<PlanResult> = JoinSet::new();
    // What each of them is for, and when it began.
    let mut began: HashMap<task::Id, (Key, Instant)> = HashMap::new();
    // There is more to decide.
    let mut goes_on = false;
    let started = Instant::now();
    loop {
        pulse.beat();
        let hurries = std::mem::take(&mut goes_on);
        let next = control.delayed.times().next().map(|time| time.duration_since(Timestamp::now()));
        let pause =
            next.map_or(BEAT, |next| BEAT.min(std::time::Duration::try_from(next).unwrap_or_default()));
        tokio::select! {
            event = seen.recv() => match event {
                Some(event) => {
                    dials.see(&event);
                    control.handle_watch(event, Timestamp::now());
                }
                None => return Error::new(ErrorKind::Setup, "the watches of virt-controller have ended"),
            },
            why = history.wait() => return exchanged(&why),
            Some(report) = told.recv() => control.handle_report(report),
            told = polls.next(), if polls.are_running() => told.into_iter().for_each(|told| control.handle_poll(told)),
            Some(done) = tasks.join_next_with_id(), if !tasks.is_empty() => {
                let (id, done) = match done {
                    Ok((id, done)) => (id, done),
                    Err(error) => (error.id(), PlanResult::broken_off(error)),
                };
                done.answers.iter().for_each(|(kind, object)| history.record(*kind, object));
                if let Some((key, began)) = began.remove(&id) {
                    control.times.record_plan(began.elapsed().as_secs_f64());
                    control.finish_plan(key, done, Timestamp::now());
                }
            },
            Some(scrape) = renderer.next(&mut asked) => {
                let running = || began.values().map(|(_, began)| began.elapsed().as_secs_f64());
                let (longest, unfinished) = (running().fold(0.0, f64::max), running().sum());
                let work = Work { longest, unfinished, ..control.work() };
                scrape.render(control.snapshot(work, Timestamp::now()));
            }
            () = task::yield_now(), if hurries => {}
            () = tokio::time::sleep(pause) => {}
        }
        // Events that have arrived are handled before the next decision, up to a bound.
        for _ in 0..EVENTS {
            let Ok(event) = seen.try_recv() else { break };
            dials.see(&event);
            control.handle_watch(event, Timestamp::now());
        }
        // Some of it is of another history by now: nothing is decided on that any more.
        if let Some(why) = history.restore_reason() {
            return exchanged(&why);
        }
        if !control.has_listed_all(watched.len()) {
            continue;
        }
        health.set_ready();
        reports.follow_workers(&control.world, Timestamp::now());
        let deciding = Instant::now();
        control.world.uptime = deciding.duration_since(started);
        while tasks.len() < AT_ONCE && !goes_on {
            match control.decide_next(Timestamp::now()) {
                Decision::Idle => break,
                Decision::Empty => {}
                Decision::Plan(key, plan) => {
                    let writer = writer.clone();
                    let task = tasks.spawn(async move { writer.carry_out(plan).await });
                    began.insert(task.id(), (key, Instant::now()));
                }
            }
            goes_on = deciding.elapsed() >= STRETCH;
        }
        for (key, (uid, question)) in std::mem::take(&mut control.questions) {
            polls.ask(key, uid, question);
        }
        polls.start_due();
    }
}

/// Error that ends the program when the history of the cluster went back: its cache would mix two times, and
/// its record of deleted objects is wrong.
fn exchanged(why: &str) -> Error {
    let what = format!(
        "virt-controller restarts with the present state of the cluster, because etcd was restored from a snapshot \
         or replaced: {why}"
    );
    Error::new(ErrorKind::Conflict, what)
}

impl ControlLoop {
    pub(crate) fn new(facts: ClusterFacts) -> ControlLoop {
        ControlLoop { world: World::new(facts), ..ControlLoop::default() }
    }

    /// True if this number of lists is complete.
    pub(crate) fn has_listed_all(&self, count: usize) -> bool {
        self.listed.len() >= count
    }

    pub(crate) fn handle_watch(&mut self, event: WatchMessage, now: Timestamp) {
        match event {
            WatchMessage::Listed(kind, objects) => {
                let mut lost: BTreeSet<Key> = self.world.keys(kind).into_iter().collect();
                for object in objects {
                    if let Some(key) = key_of(kind, &object) {
                        lost.remove(&key);
                        self.missing.remove(uid_of(&object));
                        self.removed.remove(uid_of(&object));
                        self.store(&key, object, now);
                    }
                }
                for key in lost {
                    self.remove_unlisted(&key);
                }
                self.mark_listed(kind, None);
            }
            WatchMessage::Only(key, found) => {
                match found {
                    Some(object) => {
                        self.missing.remove(uid_of(&object));
                        self.removed.remove(uid_of(&object));
                        self.store(&key, object, now);
                    }
                    None => self.remove_unlisted(&key),
                }
                self.mark_listed(key.kind, Some(key.name));
            }
            WatchMessage::Changed(kind, object) => {
                if let Some(key) = key_of(kind, &object) {
                    self.store(&key, object, now);
                }
            }
            WatchMessage::Gone(key, uid) => {
                // Another of that name may be known already: we have made it, and were answered.
                if self.world.uid(&key).is_none_or(|known| known == uid) {
                    self.remove(&key);
                }
                self.removed.insert(uid);
            }
        }
    }

    /// Records a worker's report, or its silence.
    pub(crate) fn handle_report(&mut self, (pod, uid, heard): PodReport) {
        // Another of that name may have come meanwhile.
        if self.world.uid(&pod).is_none_or(|known| known != uid) {
            return;
        }
        let at = (pod.namespace.clone(), pod.name.clone());
        let is_new = match heard {
            WorkerState::Says(report) => self.world.store_report(at, uid, report, Timestamp::now()),
            WorkerState::Silent(since) => self.world.silent.insert(at, (uid, since)).is_none(),
        };
        if is_new {
            self.touch(&pod);
        }
    }

    /// Records the answer about the image of a DataImportCron.
    pub(crate) fn handle_poll(&mut self, told: polls::PollResult) {
        let polls::PollResult { key, uid, at, answer } = told;
        // Another of that name may have come meanwhile.
        if self.world.uid(&key).is_none_or(|known| known != uid) {
            return;
        }
        let place = (key.namespace.clone(), key.name.clone());
        let before = self.world.polls.get(&place).filter(|(of, _)| *of == uid);
        let failures = before.map_or(0, |(_, polled)| polled.failures);
        let (answer, failures, pause) = match answer {
            Ok(digest) => (Ok(digest), 0, None),
            Err((why, pause)) => (Err(why), failures.saturating_add(1), pause),
        };
        self.world.polls.insert(place, (uid, PollRecord { at, answer, failures, pause }));
        self.touch(&key);
    }

    /// Records the present state of an object.
    fn store(&mut self, key: &Key, object: serde_json::Value, now: Timestamp) {
        let uid = uid_of(&object);
        if self.deleted.contains(uid) || self.missing.contains(uid) {
            return;
        }
        let vmi = |world: &World| match key.kind {
            Kind::VirtualMachineInstance => world.vmis.get(&key.namespace, &key.name).cloned(),
            _ => None,
        };
        let migration = |world: &World| match key.kind {
            Kind::VirtualMachineInstanceMigration => world.migrations.get(&key.namespace, &key.name).cloned(),
            _ => None,
        };
        let before = (vmi(&self.world), migration(&self.world));
        if self.world.put(key.kind, object, now) {
            if let (Some(before), Some(after)) = (before.0, vmi(&self.world)) {
                self.times.record_transition(&before, &after);
            }
            if let (Some(before), Some(after)) = (before.1, migration(&self.world)) {
                self.times.record_migration(&before, &after);
            }
            self.touch(key);
        }
    }

    /// Records a complete list of a kind, or of the object of one name.
    fn mark_listed(&mut self, kind: Kind, name: Option<String>) {
        self.listed.insert((kind, name));
        // There may be none at all, and one is to be made.
        self.dirty.extend((kind.about().listed)(&self.world));
    }

    /// An object that a list did not tell of is gone.
    fn remove_unlisted(&mut self, key: &Key) {
        self.world.uid(key).into_iter().for_each(|uid| self.removed.insert(uid));
        self.remove(key);
    }

    fn snapshot(&self, work: Work, now: Timestamp) -> Snapshot {
        Snapshot { world: self.world.clone(), times: self.times.clone(), work, now }
    }

    fn work(&self) -> Work {
        let waiting = self.dirty.len() + self.world.busy.len();
        Work { waiting, decided: self.decided, failed: self.broken, ..Work::default() }
    }

    fn remove(&mut self, key: &Key) {
        // The owner of the object is known only before it is removed.
        self.touch(key);
        self.world.remove(key);
        self.touch(key);
        self.world.failures.remove(key);
        self.failed.remove(key);
        self.unread.remove(key);
        self.unanswered.forget(key);
    }

    fn touch(&mut self, key: &Key) {
        self.dirty.extend(self.world.dependents(key));
    }

    /// Queues an object whose failure began or ended, and the object that reports it.
    fn say_of(&mut self, key: &Key) {
        self.dirty.insert(key.clone());
        if matches!(key.kind, Kind::Deployment | Kind::DaemonSet) {
            self.touch(key);
        }
    }

    /// The next plan that is not empty, however many are.
    #[cfg(test)]
    pub(crate) fn next(&mut self, now: Timestamp) -> Option<(Key, Plan)> {
        loop {
            match self.decide_next(now) {
                Decision::Idle => return None,
                Decision::Empty => {}
                Decision::Plan(key, plan) => return Some((key, plan)),
            }
        }
    }

    /// Decides on all delayed keys anew if the clock was set back: their times were set by the clock of before, and may be hours ahead.
    fn notice_clock(&mut self, now: Timestamp) {
        if self.latest.duration_since(now) > SET_BACK {
            self.world.clock_set_back(now);
            self.dirty.extend(self.delayed.drain());
            self.latest = now;
        }
        self.latest = self.latest.max(now);
    }

    /// Decides on the next key in the queue.
    fn decide_next(&mut self, now: Timestamp) -> Decision {
        self.notice_clock(now);
        while let Some(key) = self.delayed.pop_due(now) {
            self.dirty.insert(key);
        }
        let Some((key, waited)) = self.dirty.next(|key| self.world.busy.contains(key)) else {
            return Decision::Idle;
        };
        self.times.record_wait(waited.as_secs_f64());
        // Each decision sets the time of the next one anew, so a deleted object leaves none behind.
        self.delayed.remove(&key);
        if let Some(plan) = self.unanswered.question(&key, &self.world) {
            self.world.busy.insert(key.clone());
            return Decision::Plan(key, plan);
        }
        if key.kind == Kind::VirtualMachine {
            let pool = crate::pool::observe(&mut self.world, &key.namespace, &key.name, now);
            self.dirty.extend(pool);
        }
        let plan = crate::decide(&self.world, &key, now).and(self.unread(&key));
        self.decided += 1;
        if key.kind == Kind::DataImportCron
            && !self.world.is_unread(&key)
            && let Some(question) = data_import_cron::question(&self.world, &key.namespace, &key.name, now)
        {
            self.questions.insert(key.clone(), question);
        }
        let failure = self.world.failures.get(&key).map(|failure| (failure.about, failure.retry));
        let waits = failure.map(|(_, retry)| retry).filter(|retry| *retry > now);
        if let Some(again) = plan.again.into_iter().chain(waits).min() {
            self.delayed.insert(key.clone(), again);
        }
        if let Some((about, _)) = failure {
            let tries = |step: &Step| step.attempt() == Some(about);
            match (waits, plan.steps.iter().any(tries)) {
                // A failed plan is not retried before its time, even if a reconciler does not check that.
                (Some(_), true) => return Decision::Empty,
                // The retry is due, and the plan is empty: the change was made after all (only the answer was
                // lost), was made by another client, or is not needed any more. The failure is cleared.
                (None, false) => {
                    self.world.failures.remove(&key);
                    self.say_of(&key);
                    return Decision::Empty;
                }
                _ => {}
            }
        }
        if !plan.is_empty() {
            self.unanswered.begin(&key, &plan);
            self.world.busy.insert(key.clone());
            return Decision::Plan(key, plan);
        }
        // A PVC without a DataVolume is decided on under the key of a DataVolume that does not exist, so no
        // deletion event would clean up the counts of such keys. This is the place to do it.
        if failure.is_none() {
            self.failed.remove(&key);
        }
        Decision::Empty
    }

    /// Says once why nothing is decided on an object any more.
    fn unread(&mut self, key: &Key) -> Plan {
        let mut plan = Plan::default();
        for part in crate::decide::parts(key) {
            if !self.world.is_unread(&part) {
                self.unread.remove(&part);
            } else if self.unread.insert(part.clone())
                && let Some(meta) = self.world.meta(&part)
            {
                let message = format!(
                    "this {} is ignored until it is smaller: it has more than {VALUES} values, is nested too deep or \
                     is too long",
                    part.kind.name()
                );
                plan.record_event(part.kind, meta, true, "TooLarge", message);
            }
        }
        plan
    }

    /// Records an object in an answer, unless a watch has told that it is gone.
    fn store_answer(&mut self, key: &Key, object: serde_json::Value, now: Timestamp) {
        if !self.removed.contains(uid_of(&object)) {
            self.store(key, object, now);
        }
    }

    /// Records the answer to a deletion.
    fn handle_deletion(&mut self, deletion: Deletion, now: Timestamp) {
        let Deletion { key, uid, object, is_gone } = deletion;
        if let Some(object) = object.filter(|_| is_gone || is_followed(key.kind)) {
            self.store_answer(&key, object, now);
        }
        if is_gone {
            if self.world.uid(&key).is_some_and(|known| known == uid) {
                self.remove_unlisted(&key);
            }
            self.deleted.insert(uid);
        }
    }

    pub(crate) fn finish_plan(&mut self, key: Key, done: PlanResult, now: Timestamp) {
        self.world.busy.remove(&key);
        // Whether it has a launcher pod was not known until now.
        if key.kind == Kind::VirtualMachineInstance {
            self.dirty.extend(waiting_for_disks(&self.world, &key));
        }
        for (kind, object) in done.answers {
            if let Some(key) = key_of(kind, &object) {
                self.store_answer(&key, object, now);
            }
        }
        for deletion in done.deletions {
            self.handle_deletion(deletion, now);
        }
        for (key, uid) in done.gone {
            // Another of that name may have come meanwhile.
            if self.world.uid(&key).is_some_and(|known| known == uid) {
                self.remove_unlisted(&key);
            }
            self.missing.insert(uid);
        }
        let failed = done.failed.as_ref().map(|(_, error)| error.kind());
        if self.unanswered.end(&key, failed, &self.world) {
            self.dirty.insert(key.clone());
        }
        let Some((about, error)) = done.failed else {
            self.failed.remove(&key);
            // What could not be done may have been done now.
            if self.world.failures.get(&key).is_some_and(|failure| failure.retry <= now) {
                self.say_of(&key);
            }
            return;
        };
        self.broken += 1;
        let times = self.failed.entry(key.clone()).or_insert(0);
        *times = times.saturating_add(1);
        let pause = PAUSE.0.saturating_mul(1 << (*times).min(10)).min(PAUSE.1);
        let retry = now.checked_add(SignedDuration::from_millis(pause)).unwrap_or(now);
        // Of what stays though it is to go, VMs and VMIs tell; others try again after the pause, as whatever fails.
        let tells = matches!(key.kind, Kind::VirtualMachine | Kind::VirtualMachineInstance);
        let about = about.filter(|about| tells || !matches!(about, Attempt::Delete(_)));
        match (error.kind(), about) {
            // Another client changed the object first; its new state arrives with the next event.
            (ErrorKind::Conflict | ErrorKind::Gone, _) => tracing::debug!("{}", error.chain()),
            (_, Some(about)) => {
                tracing::warn!("{}", error.chain());
                let failure = Failure { about, message: error.to_string(), times: *times, retry };
                self.world.failures.insert(key.clone(), failure);
                // The failure is reported at once, and the plan is tried again later.
                self.say_of(&key);
            }
            _ => tracing::warn!("{}", error.chain()),
        }
        self.delayed.insert(key, retry);
    }
}

/// True if a watch tells of all objects of a kind, and so of the end of each.
fn is_followed(kind: Kind) -> bool {
    let follows = kind.about().controller.follows;
    follows.iter().any(|selector| selector.labels.is_none() && selector.fields.is_none() && !selector.is_home)
}

fn uid_of(object: &serde_json::Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn key_of(kind: Kind, object: &serde_json::Value) -> Option<Key> {
    let text = |name: &str| object["metadata"][name].as_str().map(str::to_owned);
    Some(Key { kind, namespace: text("namespace").unwrap_or_default(), name: text("name")? })
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
