//! The loop of virt-controller.
//!
//! ```text
//!  watch (one task a kind) ─► World ─► dirty: whose decision it touches ─► decide ─► carry out (a few)
//!                               ▲                        ▲ again, later               │ answers, failures
//!                               └────────────────────────┴────────────────────────────┘
//! ```
//!
//! One task owns the World. Whose turn it is says `turns`: nobody who changes his objects without end holds up others. Nothing is
//! decided before every kind has been listed once, and nothing for an object while a plan of it is being carried out. A plan that
//! fails is decided anew after a pause that grows.

use crate::dataimportcron::{self, Question};
use crate::later::Later;
use crate::measures::{self, Times, Work};
use crate::polls::{self, Polls};
use crate::reports::{Heard, Reports, Told};
use crate::turns::Turns;
use api_server::error::ErrorKind;
use api_server::lease::Pulse;
use api_server::watch::{self, Seen};
use api_server::{Done, Writer};
use jiff::{SignedDuration, Timestamp};
use kubernetes::objects::{Attempt, ClusterFacts, Failure, Home, Key, Kind, Program, World, followed_by};
use kubernetes::plan::{Plan, Step};
use kubernetes::polls::Polled;
use serve::health::Health;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How long is decided at a stretch, before the next events are looked at and others have their turn.
const STRETCH: std::time::Duration = std::time::Duration::from_millis(50);
/// Events that are looked at, before something is decided.
const EVENTS: usize = 256;
/// How often the loop comes round where nothing happens.
const BEAT: std::time::Duration = std::time::Duration::from_secs(10);
/// Plans that are carried out at once.
const AT_ONCE: usize = 16;
/// What is seen and not yet looked at.
const WAITING: usize = 1024;
/// Pauses after failures, in milliseconds: the first and the longest.
const PAUSE: (i64, i64) = (200, 30_000);
/// Uids that are kept of objects that went: far more than go while one request is answered.
const REMOVED: usize = 4096;

/// What the loop knows beside the World. It has no clock and no client: histories drive it as the loop does.
#[derive(Default)]
pub(crate) struct ControlLoop {
    pub(crate) world: World,
    /// What has been listed: a kind, or the one object of a name.
    listed: BTreeSet<(Kind, Option<String>)>,
    dirty: Turns,
    busy: BTreeSet<Key>,
    pub(crate) later: Later,
    failed: BTreeMap<Key, u32>,
    /// The uids of the last objects that went. The answer to a write of ours may come after the news that the object is
    /// gone, and would bring it back for ever.
    removed: VecDeque<String>,
    /// Servers that are to be asked for the images of DataImportCrons: by key, the uid and the question.
    pub(crate) questions: BTreeMap<Key, (String, Question)>,
    times: Times,
    decided: u64,
    broken: u64,
}

/// What a turn has given.
enum Turn {
    /// Nothing waits that is not busy.
    Idle,
    /// Nothing is to be done for a key.
    Empty,
    Plan(Key, Plan),
}

/// Decides and applies for ever.
pub(crate) async fn run(
    client: kube::Client,
    writer: Writer,
    facts: ClusterFacts,
    (health, pulse): (Health, Pulse),
    (mut reports, mut told): (Reports, mpsc::Receiver<Told>),
    mut polls: Polls,
) {
    let (to, mut seen) = mpsc::channel(WAITING);
    let home = Home { namespace: facts.namespace.clone(), ..Home::default() };
    let watched = followed_by(Program::Controller, &home);
    for which in &watched {
        tokio::spawn(watch::follow(client.clone(), which.clone(), to.clone()));
    }
    drop(to);
    let mut asked = health.measures();
    let mut control = ControlLoop::new(facts);
    let mut tasks: JoinSet<(Key, Done)> = JoinSet::new();
    // When each of them began.
    let mut began: BTreeMap<Key, Instant> = BTreeMap::new();
    // There is more to decide.
    let mut goes_on = false;
    loop {
        pulse.beat();
        let hurries = std::mem::take(&mut goes_on);
        let next = control.later.times().next().map(|time| time.duration_since(Timestamp::now()));
        let pause =
            next.map_or(BEAT, |next| BEAT.min(std::time::Duration::try_from(next).unwrap_or_default()));
        tokio::select! {
            event = seen.recv() => match event {
                Some(event) => control.see(event, Timestamp::now()),
                None => return,
            },
            Some(report) = told.recv() => control.told(report),
            told = polls.next(), if polls.are_running() => told.into_iter().for_each(|told| control.polled(told)),
            Some(done) = tasks.join_next(), if !tasks.is_empty() => match done {
                Ok((key, done)) => {
                    if let Some(began) = began.remove(&key) {
                        control.times.worked(began.elapsed().as_secs_f64());
                    }
                    control.done(key, done, Timestamp::now());
                }
                Err(error) => tracing::error!("a plan broke off: {error}"),
            },
            Some(tell) = asked.recv() => {
                // Whoever asked may be gone.
                let running = || began.values().map(|began| began.elapsed().as_secs_f64());
                let (longest, unfinished) = (running().fold(0.0, f64::max), running().sum());
                let work = Work { longest, unfinished, ..control.work() };
                let page = measures::page(&control.world, &mut control.times, work, Timestamp::now());
                let _ = tell.send(page);
            }
            () = tokio::task::yield_now(), if hurries => {}
            () = tokio::time::sleep(pause) => {}
        }
        // What has come meanwhile is looked at before anything is decided on it, unless more comes than can be looked at.
        for _ in 0..EVENTS {
            let Ok(event) = seen.try_recv() else { break };
            control.see(event, Timestamp::now());
        }
        if !control.has_listed_all(watched.len()) {
            continue;
        }
        health.is_ready();
        reports.follow(&control.world, Timestamp::now());
        let deciding = Instant::now();
        while tasks.len() < AT_ONCE && !goes_on {
            match control.turn(Timestamp::now()) {
                Turn::Idle => break,
                Turn::Empty => {}
                Turn::Plan(key, plan) => {
                    let writer = writer.clone();
                    began.insert(key.clone(), Instant::now());
                    tasks.spawn(async move { (key, writer.carry_out(plan).await) });
                }
            }
            goes_on = deciding.elapsed() >= STRETCH;
        }
        for (key, (uid, question)) in std::mem::take(&mut control.questions) {
            polls.ask(key, uid, question);
        }
        polls.begin();
    }
}

impl ControlLoop {
    pub(crate) fn new(facts: ClusterFacts) -> ControlLoop {
        ControlLoop { world: World::of(facts), ..ControlLoop::default() }
    }

    /// So many lists have come.
    pub(crate) fn has_listed_all(&self, count: usize) -> bool {
        self.listed.len() >= count
    }

    pub(crate) fn see(&mut self, event: Seen, now: Timestamp) {
        match event {
            Seen::Listed(kind, objects) => {
                let mut lost: BTreeSet<Key> = self.world.keys(kind).into_iter().collect();
                for object in objects {
                    if let Some(key) = key_of(kind, &object) {
                        lost.remove(&key);
                        self.take(&key, object, now);
                    }
                }
                for key in lost {
                    self.lost(&key);
                }
                self.has_listed(kind, None);
            }
            Seen::Only(key, found) => {
                match found {
                    Some(object) => self.take(&key, object, now),
                    None => self.lost(&key),
                }
                self.has_listed(key.kind, Some(key.name));
            }
            Seen::Changed(kind, object) => {
                if let Some(key) = key_of(kind, &object) {
                    self.take(&key, object, now);
                }
            }
            Seen::Gone(key, uid) => {
                // Another of that name may be known already: we have made it, and were answered.
                if self.world.uid(&key).is_none_or(|known| known == uid) {
                    self.gone(&key);
                }
                self.bury(uid);
            }
        }
    }

    /// A worker has said what it does, or has fallen silent.
    pub(crate) fn told(&mut self, (pod, uid, heard): Told) {
        // Another of that name may have come meanwhile.
        if self.world.uid(&pod).is_none_or(|known| known != uid) {
            return;
        }
        let at = (pod.namespace.clone(), pod.name.clone());
        let is_new = match heard {
            Heard::Says(report) => self.world.says(at, uid, report, Timestamp::now()),
            Heard::Silent(since) => self.world.silent.insert(at, (uid, since)).is_none(),
        };
        if is_new {
            self.touch(&pod);
        }
    }

    /// A server was asked for the image of a DataImportCron.
    pub(crate) fn polled(&mut self, told: polls::Told) {
        let polls::Told { key, uid, at, answer } = told;
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
        self.world.polls.insert(place, (uid, Polled { at, answer, failures, pause }));
        self.touch(&key);
    }

    /// Takes an object as it is now.
    fn take(&mut self, key: &Key, object: serde_json::Value, now: Timestamp) {
        let vmi = |world: &World| match key.kind {
            Kind::VirtualMachineInstance => world.vmis.get(&key.namespace, &key.name).cloned(),
            _ => None,
        };
        let before = vmi(&self.world);
        if self.world.put(key.kind, object, now) {
            if let (Some(before), Some(after)) = (before, vmi(&self.world)) {
                self.times.saw(&before, &after);
            }
            self.touch(key);
        }
    }

    /// A list of a kind has come, or that of one name.
    fn has_listed(&mut self, kind: Kind, name: Option<String>) {
        self.listed.insert((kind, name));
        // There may be none at all, and one is to be made.
        self.dirty.extend((kind.about().listed)(&self.world));
    }

    /// An object that a list did not tell of is gone.
    fn lost(&mut self, key: &Key) {
        self.world.uid(key).into_iter().for_each(|uid| self.bury(uid));
        self.gone(key);
    }

    fn work(&self) -> Work {
        let waiting = self.dirty.len() + self.busy.len();
        Work { waiting, decided: self.decided, failed: self.broken, ..Work::default() }
    }

    fn bury(&mut self, uid: String) {
        if self.removed.len() >= REMOVED {
            self.removed.pop_front();
        }
        self.removed.push_back(uid);
    }

    fn gone(&mut self, key: &Key) {
        // Whose it was is known only while it is there.
        self.touch(key);
        self.world.remove(key);
        self.touch(key);
        self.world.failures.remove(key);
        self.failed.remove(key);
    }

    fn touch(&mut self, key: &Key) {
        self.dirty.extend(self.world.touched(key));
    }

    /// Something has failed for an object, or does so no more: it is decided on again, and so is the one that says it.
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
            match self.turn(now) {
                Turn::Idle => return None,
                Turn::Empty => {}
                Turn::Plan(key, plan) => return Some((key, plan)),
            }
        }
    }

    /// Decides on the key whose turn it is.
    fn turn(&mut self, now: Timestamp) -> Turn {
        while let Some(key) = self.later.due(now) {
            self.dirty.insert(key);
        }
        let Some((key, waited)) = self.dirty.next(|key| self.busy.contains(key)) else { return Turn::Idle };
        self.times.waited(waited.as_secs_f64());
        let plan = crate::decide(&self.world, &key, now);
        self.decided += 1;
        if key.kind == Kind::DataImportCron
            && let Some(question) = dataimportcron::question(&self.world, &key.namespace, &key.name, now)
        {
            self.questions.insert(key.clone(), question);
        }
        let failure = self.world.failures.get(&key).map(|failure| (failure.about, failure.retry));
        let waits = failure.map(|(_, retry)| retry).filter(|retry| *retry > now);
        if let Some(again) = plan.again.into_iter().chain(waits).min() {
            self.later.insert(key.clone(), again);
        }
        if let Some((about, _)) = failure {
            let tries = |step: &Step| step.attempt() == Some(about);
            match (waits, plan.steps.iter().any(tries)) {
                // Whatever a reconciler forgets: what has failed is not tried again before its time.
                (Some(_), true) => return Turn::Empty,
                // Its time has come, and nothing of it is to be done: it was done all the same (only the answer was
                // lost), by somebody else, or is not wanted any more. What was said of it is taken back.
                (None, false) => {
                    self.world.failures.remove(&key);
                    self.say_of(&key);
                    return Turn::Empty;
                }
                _ => {}
            }
        }
        if !plan.is_empty() {
            self.busy.insert(key.clone());
            return Turn::Plan(key, plan);
        }
        // There is nothing left to fail. A PVC without a DataVolume is decided on under the key of one, whose end nobody tells:
        // what is counted of such keys would stay for ever.
        if failure.is_none() {
            self.failed.remove(&key);
        }
        Turn::Empty
    }

    pub(crate) fn done(&mut self, key: Key, done: Done, now: Timestamp) {
        self.busy.remove(&key);
        for (kind, object) in done.answers {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            if let Some(key) = key_of(kind, &object)
                && !self.removed.iter().any(|grave| grave == uid)
            {
                self.take(&key, object, now);
            }
        }
        for (key, uid) in done.gone {
            // Another of that name may have come meanwhile.
            if self.world.uid(&key).is_some_and(|known| known == uid) {
                self.lost(&key);
            }
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
        let about = about.filter(|about| tells || matches!(about, Attempt::Make(_)));
        match (error.kind(), about) {
            // Somebody was quicker; the next picture tells how it is.
            (ErrorKind::Conflict | ErrorKind::Gone, _) => tracing::debug!("{}", error.chain()),
            (_, Some(about)) => {
                tracing::warn!("{}", error.chain());
                let failure = Failure { about, message: error.to_string(), times: *times, retry };
                self.world.failures.insert(key.clone(), failure);
                // It is said at once, and tried again later.
                self.say_of(&key);
            }
            _ => tracing::warn!("{}", error.chain()),
        }
        self.later.insert(key, retry);
    }
}

fn key_of(kind: Kind, object: &serde_json::Value) -> Option<Key> {
    let text = |name: &str| object["metadata"][name].as_str().map(str::to_owned);
    Some(Key { kind, namespace: text("namespace").unwrap_or_default(), name: text("name")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A pod without the label of launchers, whose end no watch tells.
    #[test]
    fn what_is_found_gone_when_it_is_deleted_is_forgotten() {
        let mut control = ControlLoop::default();
        let object = |uid: &str| json!({"metadata": {"namespace": "n", "name": "a", "uid": uid, "resourceVersion": "5"}});
        let (key, now) = (Key::new(Kind::Pod, "n", "a"), Timestamp::UNIX_EPOCH);
        let gone = |uid: &str| Done { gone: vec![(key.clone(), uid.to_owned())], ..Done::default() };
        control.see(Seen::Changed(Kind::Pod, object("2")), now);
        let about = Key::new(Kind::VirtualMachineInstance, "n", "a");
        control.done(about.clone(), gone("1"), now);
        assert_eq!(control.world.uid(&key).as_deref(), Some("2"), "another has the name by now");
        control.done(about, gone("2"), now);
        assert_eq!(control.world.uid(&key), None);
    }

    /// Whoever has many objects about which nothing is to be done keeps the loop from nothing else.
    #[test]
    fn a_turn_decides_on_one_key() {
        let mut control = ControlLoop::default();
        let now = Timestamp::UNIX_EPOCH;
        (0..3).for_each(|n| control.dirty.insert(Key::new(Kind::Pod, "n", format!("pod-{n}"))));
        for left in [2, 1, 0] {
            assert!(matches!(control.turn(now), Turn::Empty));
            assert_eq!(control.dirty.len(), left);
        }
        assert!(matches!(control.turn(now), Turn::Idle));
    }

    #[test]
    fn the_answer_to_a_write_does_not_bring_back_what_is_gone() {
        let mut control = ControlLoop::default();
        let object = |uid: &str, version: &str| json!({"metadata": {"namespace": "n", "name": "a", "uid": uid, "resourceVersion": version}});
        let key = Key::new(Kind::VirtualMachineInstance, "n", "a");
        let answer = |object| Done {
            answers: vec![(Kind::VirtualMachineInstance, object)],
            writes: 1,
            ..Done::default()
        };
        control.see(Seen::Changed(Kind::VirtualMachineInstance, object("1", "5")), Timestamp::UNIX_EPOCH);
        control.see(Seen::Gone(key.clone(), "1".to_owned()), Timestamp::UNIX_EPOCH);
        control.done(key.clone(), answer(object("1", "6")), Timestamp::UNIX_EPOCH);
        assert!(control.world.vmis.get("n", "a").is_none());
        control.done(key.clone(), answer(object("2", "7")), Timestamp::UNIX_EPOCH);
        let is_there = |control: &ControlLoop| control.world.vmis.get("n", "a").is_some();
        assert!(is_there(&control), "another of that name");
        control.see(Seen::Gone(key.clone(), "1".to_owned()), Timestamp::UNIX_EPOCH);
        assert!(is_there(&control), "that news is not about this one");
        control.see(Seen::Listed(Kind::VirtualMachineInstance, Vec::new()), Timestamp::UNIX_EPOCH);
        control.done(key, answer(object("2", "8")), Timestamp::UNIX_EPOCH);
        assert!(!is_there(&control), "a list that lacks it is such news too");
    }

    /// Two objects of a kind are followed, each by its name: the news of one is none of the other.
    #[test]
    fn an_object_that_is_followed_by_its_name_goes_alone() {
        let mut control = ControlLoop::default();
        let key = |name: &str| Key::new(Kind::Secret, "n", name);
        let object = |name: &str| json!({"metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": "5"}});
        let now = Timestamp::UNIX_EPOCH;
        for name in ["a", "b"] {
            control.see(Seen::Only(key(name), Some(object(name))), now);
        }
        assert_eq!(control.listed.len(), 2);
        control.see(Seen::Only(key("a"), None), now);
        let is_there = |name: &str| control.world.secrets.get("n", name).is_some();
        assert!(!is_there("a") && is_there("b"));
    }

    /// An answer that comes late is about an object that is gone, and may be wrong for the next one of its name.
    #[test]
    fn the_answer_to_a_poll_is_for_the_object_that_it_was_asked_for() {
        let mut control = ControlLoop::default();
        let (key, now) = (Key::new(Kind::DataImportCron, "n", "images"), Timestamp::UNIX_EPOCH);
        let object =
            json!({"metadata": {"namespace": "n", "name": "images", "uid": "2", "resourceVersion": "5"}});
        control.see(Seen::Changed(Kind::DataImportCron, object), now);
        let mut told = |uid: &str, answer| {
            control.polled(polls::Told { key: key.clone(), uid: uid.to_owned(), at: now, answer });
            control.world.polls.values().map(|(_, polled)| polled.failures).next()
        };
        let failed = || Err((kubernetes::polls::NoAnswer::Silent, None));
        assert_eq!(told("1", failed()), None);
        assert_eq!((told("2", failed()), told("2", failed())), (Some(1), Some(2)));
        assert_eq!(told("2", Ok("sha256:0".to_owned())), Some(0));
        control.see(Seen::Gone(key.clone(), "2".to_owned()), now);
        assert!(control.world.polls.is_empty(), "nothing is kept of what is gone");
    }

    /// A PVC without a DataVolume: the key that its disk is decided on under has no object, and so no end.
    #[test]
    fn nothing_is_counted_of_what_failed_once_and_is_gone() {
        let mut control = ControlLoop::default();
        let (key, now) = (Key::new(Kind::DataVolume, "n", "disk"), Timestamp::UNIX_EPOCH);
        let after = |seconds| now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        for (about, kind) in
            [(Some(Attempt::Make(Kind::Pod)), ErrorKind::Refused), (None, ErrorKind::Conflict)]
        {
            let error = api_server::error::Error::new(kind, "exceeded quota");
            control.done(key.clone(), Done { failed: Some((about, error)), ..Done::default() }, now);
            assert_eq!(control.failed.get(&key), Some(&1));
            assert!(control.next(after(60)).is_none(), "there is no such PVC any more");
            assert!(control.failed.is_empty() && control.world.failures.is_empty(), "{about:?}");
            assert!(control.later.times().next().is_none(), "{:?}", control.later);
        }
    }

    #[test]
    fn what_could_not_be_made_is_said_at_once_and_tried_again_later() {
        let mut control = ControlLoop::new(ClusterFacts {
            image_volumes: true,
            namespace: "kubevirt".into(),
            ..ClusterFacts::default()
        });
        let settings = json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}});
        let now = Timestamp::UNIX_EPOCH;
        control.world.put(Kind::KubeVirt, settings, now);
        let mut object = crate::sim::vmi("web");
        object["metadata"]["uid"] = json!("1");
        control.see(Seen::Changed(Kind::VirtualMachineInstance, object), now);
        let (key, plan) = control.next(now).expect("a plan");
        assert!(matches!(plan.steps[0], Step::Create { .. }));
        let error = api_server::error::Error::new(ErrorKind::Refused, "exceeded quota");
        control.done(
            key,
            Done { failed: Some((Some(Attempt::Make(Kind::Pod)), error)), ..Done::default() },
            now,
        );
        let (_, plan) = control.next(now).expect("a plan that says so");
        assert!(plan.steps.iter().all(|step| !matches!(step, Step::Create { .. })), "{plan:?}");
        assert!(plan.steps.iter().any(
            |step| matches!(step, Step::Patch { change, .. } if change.to_string().contains("exceeded quota"))
        ));
        control.busy.clear();
        let later = now.checked_add(SignedDuration::from_secs(60)).unwrap();
        let again = control.world.vmis.get("n", "web").cloned();
        assert!(again.is_some() && control.later.times().all(|time| time <= later));
    }
}
