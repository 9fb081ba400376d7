//! DataImportCrons: an image is imported again after each change of it, and a DataSource leads to the newest import.
//!
//! ```text
//!  question, when it is due ──► polls: one request ──► World::polls: digest, or why there is none
//!                          └──► where a Secret, a mirror or the proxy is needed: a pod, which ends with the same
//!                                                         │
//!  annotation …sourceDesiredDigest ◄──────────────────────┘
//!      │ its first 12 digits
//!      ▼
//!  DataVolume MANAGED-DIGITS ─► Succeeded ─► DataSource MANAGED leads there ─► older imports go, but for `importsToKeep`
//!
//!  source  what is asked, and what is imported     poller  the pod that asks     when  the times of polls
//!  imports  whose are which, which go     words
//! ```
//!
//! **Flow.** Each round looks at the last poll, at the DataVolume of the newest digest and at the DataSource, makes a copy of the
//! DataImportCron as it should be, and writes the difference; then it makes what is missing. A tag that moves while an import
//! goes on waits for its end, and the DataSource is led to that import first: of a tag that moves more often than it is
//! imported nothing would ever be whole.
//! **Guarantees.** The DataSource leads to an import that is whole, and stays there while the next one is made or fails. A
//! DataSource or a DataVolume that somebody else made is neither changed nor deleted; it is said in the way. An import is deleted
//! when neither the DataSource leads to it nor it is the newest, and no clone reads it.
//! **What belongs to a DataImportCron** says its label `cdi.kubevirt.io/dataImportCron`. With `retentionPolicy: None` it is the owner too, and
//! the garbage collector takes all of it along; with `All`, the default, nothing has an owner, and a DataImportCron of the
//! same name goes on where the first one ended. No finalizer is needed for either.
//! **Assumptions.** Whoever may write a DataImportCron may write DataVolumes and DataSources of its namespace: it makes no
//! others ([`api::datavolume::Spec::foreign_clone_source`]).
//! **Caveats.** A file of a web server is imported as it is then: one that changed after the poll is imported under the older
//! digest, and once more under its own after the next poll. VolumeSnapshots are not made: `sourceFormat` is `pvc`.

mod imports;
mod poller;
mod source;
#[cfg(test)]
mod tests;
mod when;
mod words;

pub(crate) use source::{Question, is_image_digest};

use api::cdi::annotations::DESIRED_DIGEST;
use api::cdi::{DataImportCron, DataImportCronStatus, ImportStatus, SourceFormat};
use api::datavolume::{DataVolume, Phase, PvcSource};
use api::wire::Wire;
use cluster_model::conditions::{say_of_cdi, stamp};
use cluster_model::config::Config;
use cluster_model::objects::{Attempt, Kind, Pod, World};
use cluster_model::plan::Plan;
use cluster_model::polls::Polled;
use imports::Imports;
use jiff::{SignedDuration, Timestamp};
use source::Source;
use words::{
    IN_PROGRESS, NO_DIGEST, NO_IMPORT, OUTDATED, PROGRESSING, SCHEDULED, UP_TO_DATE, not_made, trouble_of,
    with_trouble,
};

/// What is in the way is looked for again after this: not everything that is tells us when it goes.
const IN_THE_WAY: SignedDuration = SignedDuration::from_mins(1);
/// A poll that nothing came of within this was lost.
const LOST: SignedDuration = SignedDuration::from_mins(5);

/// The server that is to be asked now for the image of a DataImportCron, and the uid of that; nothing where none is.
pub(crate) fn question(
    world: &World,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Option<(String, Question)> {
    let cron = active(world, namespace, name)?;
    let source = source::of(cron);
    if poller::is_wanted(world, &source) {
        return None;
    }
    let Source::Asked(question) = source else { return None };
    let due = when::due(cron, polled(world, cron), digest(cron))?;
    (due <= now).then(|| (cron.metadata.uid.clone().unwrap_or_default(), question))
}

/// What is to be done for a DataImportCron.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let Some(cron) = active(world, namespace, name) else { return Plan::default() };
    let by_pod = poller::is_wanted(world, &source::of(cron));
    let pods = poller::all(world, cron);
    let last = pods.first().filter(|_| by_pod).and_then(|pod| poller::polled(pod));
    let (polled, words) = match (by_pod, last) {
        (true, Some((polled, words))) => (Some(polled), words),
        (true, None) => (None, None),
        (false, _) => (polled(world, cron).cloned(), None),
    };
    let mut round = Round {
        world,
        cron,
        imports: Imports::of(world, cron),
        by_pod,
        pods,
        words,
        polled,
        should: cron.clone(),
        trouble: None,
        now,
        after: Plan::default(),
    };
    round.learn();
    round.look();
    let mut plan = Plan::default();
    // Its status has no path of its own.
    plan.update(Kind::DataImportCron, &cron.metadata, &cron.write(), &round.should.write(), false);
    plan.steps.extend(round.after.steps);
    plan.again = round.after.again;
    plan
}

/// A DataImportCron that is acted on: it is not going, and there is an installation.
fn active<'a>(world: &'a World, namespace: &str, name: &str) -> Option<&'a DataImportCron> {
    let cron = world.data_import_crons.get(namespace, name)?;
    let is_there = cron.metadata.deletion_timestamp.is_none();
    let is_served = cluster_model::config::permitted(world).is_some() && crate::cdi::serves(world);
    (is_there && is_served).then_some(cron)
}

/// What came of the last poll, where that is known.
fn polled<'a>(world: &'a World, cron: &DataImportCron) -> Option<&'a Polled> {
    let meta = &cron.metadata;
    let at = (meta.namespace.clone()?, meta.name.clone()?);
    world.polls.get(&at).filter(|(uid, _)| Some(uid) == meta.uid.as_ref()).map(|(_, polled)| polled)
}

/// The newest digest, by the annotation. What is none is as good as not there.
fn digest(cron: &DataImportCron) -> Option<&str> {
    let said = cron.metadata.annotations.get(DESIRED_DIGEST)?;
    Some(said.as_str()).filter(|said| source::is_digest(said))
}

/// One look at one DataImportCron.
struct Round<'a> {
    world: &'a World,
    cron: &'a DataImportCron,
    imports: Imports<'a>,
    /// A pod polls.
    by_pod: bool,
    /// Its poll pods, the last one first.
    pods: Vec<&'a Pod>,
    /// Why the last one has no answer.
    words: Option<String>,
    polled: Option<Polled>,
    /// As it should be.
    should: DataImportCron,
    /// What went wrong with the last poll.
    trouble: Option<String>,
    now: Timestamp,
    /// What is done after it is written.
    after: Plan,
}

impl<'a> Round<'a> {
    fn status(&mut self) -> &mut DataImportCronStatus {
        self.should.status.get_or_insert_default()
    }

    // ── The digest ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Takes down what is known of the newest digest.
    fn learn(&mut self) {
        let due = when::due(self.cron, self.polled.as_ref(), digest(self.cron));
        if !self.by_pod {
            // What made a pod necessary is gone.
            self.deletes(0);
        }
        match source::of(self.cron) {
            Source::Refused(..) => return,
            Source::Pinned(found) => {
                if digest(self.cron) != Some(&*found) {
                    self.learned(Ok(found), self.now);
                }
                return;
            }
            Source::Pvc(name) => self.look_at_pvc(name, due),
            Source::Asked(_) | Source::ByPod => {
                self.hear();
                if self.by_pod {
                    self.poll(due);
                }
            }
        }
        if let Some(due) = when::due(&self.should, self.polled.as_ref(), digest(&self.should)) {
            // One that is due is being made; nobody tells of one that was lost.
            let lost = self.now.checked_add(LOST).unwrap_or(self.now);
            self.after.look_again(if due > self.now { due } else { lost });
        }
    }

    /// A PVC is looked at by the schedule, and nobody is asked.
    fn look_at_pvc(&mut self, name: &str, due: Option<Timestamp>) {
        let namespace = self.cron.metadata.namespace.as_deref().unwrap_or_default();
        let uid = self.world.pvcs.get(namespace, name).and_then(|claim| claim.meta.uid.clone());
        let found = uid.map(|uid| format!("uid:{uid}")).filter(|found| source::is_digest(found));
        if found.is_none() {
            self.trouble = Some(format!("PVC {name} is not there"));
        }
        if due.is_some_and(|due| due <= self.now) {
            self.learned(found.ok_or(()), self.now);
        }
    }

    fn hear(&mut self) {
        let Some(polled) = self.polled.clone() else {
            // Another program began, and knows what the first one wrote.
            let said = self.cron.status.iter().flat_map(|status| &status.conditions);
            let said = said.filter(|said| said.r#type == UP_TO_DATE).find_map(|said| said.message.as_deref());
            self.trouble = said.and_then(trouble_of).map(str::to_owned);
            return;
        };
        let words = self.words.clone();
        self.trouble =
            polled.answer.as_ref().err().map(|why| words.unwrap_or_else(|| why.sentence().to_owned()));
        let written = self.cron.status.as_ref().and_then(|status| status.last_execution_timestamp.clone());
        if written.as_deref() != Some(&*stamp(polled.at)) {
            let answer = polled.answer.clone().map_err(|_| ());
            self.learned(answer, polled.at);
            if polled.failures == 1
                && let Some(trouble) = self.trouble.clone()
            {
                self.tell(true, "PollFailed", format!("The poll of the image failed: {trouble}"));
            }
        }
    }

    /// Makes the pod that polls when it is time, and takes those away that are over: one that failed says why until the next one.
    fn poll(&mut self, due: Option<Timestamp>) {
        let is_due = due.is_some_and(|due| due <= self.now);
        let is_answered = self.polled.as_ref().is_some_and(|polled| polled.answer.is_ok());
        match (self.pods.first().copied(), &self.polled) {
            (Some(pod), None) => {
                if let Some(why) = poller::waits(self.world, pod) {
                    self.trouble = Some(why);
                }
                return self.deletes(1);
            }
            (Some(_), Some(_)) if !is_answered && !is_due => return self.deletes(1),
            (Some(_), Some(_)) if is_answered => return self.deletes(0),
            (None, _) if !is_due => return,
            (Some(_), Some(_)) | (None, _) => {}
        }
        let failures = self.polled.as_ref().map_or(0, |polled| i64::from(polled.failures));
        let key = cluster_model::objects::key(Kind::DataImportCron, &self.cron.metadata);
        let failed = self.world.failures.get(&key).filter(|failed| failed.about == Attempt::Make(Kind::Pod));
        if let Some(failed) = failed {
            self.trouble = Some(format!("the poll pod cannot be made: {}", failed.message));
            if failed.retry > self.now {
                return self.after.look_again(failed.retry);
            }
        }
        match poller::pod(self.world, self.cron, failures) {
            Ok((key, pod)) => {
                self.after.create(key, pod);
                self.deletes(0);
            }
            Err(why) => self.trouble = Some(why),
        }
    }

    /// Deletes its poll pods but for the last ones, so many.
    fn deletes(&mut self, kept: usize) {
        for pod in self.pods.iter().skip(kept).filter(|pod| !pod.is_going()) {
            self.after.delete(cluster_model::objects::key(Kind::Pod, &pod.meta), &pod.meta);
        }
    }

    fn learned(&mut self, answer: Result<String, ()>, at: Timestamp) {
        self.status().last_execution_timestamp = Some(stamp(at));
        let Ok(found) = answer else { return };
        if source::is_digest(&found) {
            self.should.metadata.annotations.insert(DESIRED_DIGEST.to_owned(), found);
        }
    }

    // ── The import ──────────────────────────────────────────────────────────────────────────────────────────────

    fn look(&mut self) {
        if let Source::Refused(word, why) = source::of(self.cron) {
            self.say(PROGRESSING, "False", NO_IMPORT, "No current import");
            return self.say(UP_TO_DATE, "False", word, &why);
        }
        self.collect();
        let Some(digest) = digest(&self.should).map(str::to_owned) else {
            self.say(PROGRESSING, "False", NO_IMPORT, "No current import");
            return self.say(UP_TO_DATE, "False", NO_DIGEST, "No source digest");
        };
        if let Some(why) = self.imports.in_the_way(&source::name(self.cron, &digest)) {
            return self.stands(&why);
        }
        let name = source::name(self.cron, &digest);
        match self.imports.get(&name) {
            Some(volume) if volume.metadata.deletion_timestamp.is_none() => {
                self.status().current_imports = vec![import(&name, &digest)];
                self.follow(volume, &name);
            }
            Some(_) => {
                self.waits(OUTDATED, &format!("DataVolume {name} is being deleted, and then made anew"))
            }
            None => self.begin(&name, &digest),
        }
    }

    /// Makes the DataVolume of the newest digest, unless another import goes on.
    fn begin(&mut self, name: &str, digest: &str) {
        let last = self.cron.status.as_ref().and_then(|status| status.current_imports.first());
        let last = last.and_then(|last| self.imports.get(&last.data_volume_name));
        if let Some(last) = last.filter(|last| phase(last) == Phase::Succeeded) {
            // The tag moved before it was whole.
            self.lead_to(last.metadata.name.as_deref().unwrap_or_default());
        }
        if let Some(other) = self.imports.unfinished() {
            let phase = phase(other);
            self.progress(&phase);
            let message = "Source digest updated since last import; the import that goes on ends first";
            return self.say(UP_TO_DATE, "False", OUTDATED, message);
        }
        self.status().current_imports = vec![import(name, digest)];
        let key = cluster_model::objects::key(Kind::DataImportCron, &self.cron.metadata);
        let failed =
            self.world.failures.get(&key).filter(|failed| failed.about == Attempt::Make(Kind::DataVolume));
        if let Some(failed) = failed.filter(|failed| failed.retry > self.now) {
            self.after.look_again(failed.retry);
            return self.waits(OUTDATED, &not_made(name, failed));
        }
        self.waits(OUTDATED, "Source digest updated since last import");
        let policy = Config::read(self.world).annotations;
        let (key, object) = imports::volume(self.cron, name, digest, policy);
        self.after.create(key, object);
        self.tell(false, SCHEDULED, format!("Import of {digest} into DataVolume {name}"));
    }

    /// Follows the import of the newest digest to its end.
    fn follow(&mut self, volume: &DataVolume, name: &str) {
        match phase(volume) {
            Phase::Succeeded => self.succeeded(name),
            Phase::Failed => {
                let why = imports::why_failed(volume);
                let message =
                    format!("DataVolume {name} failed: {why}; delete it, and the import is made anew");
                self.say(PROGRESSING, "False", Phase::Failed.as_str(), "Import DataVolume phase Failed");
                if self.is_news(UP_TO_DATE, "False", OUTDATED, &message) {
                    self.tell(true, "ImportFailed", message);
                }
            }
            phase => {
                self.progress(&phase);
                self.say(UP_TO_DATE, "False", IN_PROGRESS, "Import is in progress");
            }
        }
    }

    fn succeeded(&mut self, name: &str) {
        self.lead_to(name);
        self.say(PROGRESSING, "False", NO_IMPORT, "No current import");
        self.say(UP_TO_DATE, "True", UP_TO_DATE, "Latest import is up to date");
    }

    /// Leads the DataSource to an import that is whole.
    fn lead_to(&mut self, name: &str) {
        let namespace = self.cron.metadata.namespace.clone().unwrap_or_default();
        let pvc = PvcSource { namespace, name: name.to_owned(), ..PvcSource::default() };
        let is_new = self.imports.lead_to(self.cron, &pvc, &mut self.after);
        let stamped = stamp(self.now);
        let status = self.status();
        status.source_format = Some(SourceFormat::Pvc);
        if status.last_imported_pvc.as_ref() != Some(&pvc) {
            status.last_imported_pvc = Some(pvc);
            status.last_import_timestamp = Some(stamped);
        }
        if is_new {
            let source = &self.cron.spec.managed_data_source;
            self.tell(false, "ImportSucceeded", format!("DataSource {source} leads to PVC {name}"));
        }
    }

    /// Deletes the imports that are kept no longer.
    fn collect(&mut self) {
        let newest = digest(&self.should).map(|digest| source::name(self.cron, digest));
        for volume in self.imports.outdated(self.cron, newest.as_deref()) {
            if self.imports.is_read(volume) {
                // Nobody says here that a clone has ended.
                self.after.look_again(self.now.checked_add(IN_THE_WAY).unwrap_or(self.now));
                continue;
            }
            self.after
                .delete(cluster_model::objects::key(Kind::DataVolume, &volume.metadata), &volume.metadata);
        }
    }

    // ── Words ───────────────────────────────────────────────────────────────────────────────────────────────────

    fn say(&mut self, kind: &str, is: &str, reason: &str, message: &str) {
        self.is_news(kind, is, reason, message);
    }

    /// Says a condition; whether that is news.
    fn is_news(&mut self, kind: &str, is: &str, reason: &str, message: &str) -> bool {
        let trouble = self.trouble.clone().filter(|_| kind == UP_TO_DATE);
        let (message, now) = (with_trouble(message, trouble.as_deref()), self.now);
        let list = &mut self.status().conditions;
        let before = list.clone();
        say_of_cdi(list, kind.to_owned(), is, reason, &message, now);
        *list != before
    }

    fn progress(&mut self, phase: &Phase) {
        match phase {
            Phase::ImportScheduled => self.say(PROGRESSING, "False", SCHEDULED, "Import is scheduled"),
            Phase::ImportInProgress => self.say(PROGRESSING, "True", IN_PROGRESS, "Import is progressing"),
            phase => {
                let word = if phase.as_str().is_empty() { &Phase::Pending } else { phase };
                self.say(PROGRESSING, "False", word.as_str(), &format!("Import DataVolume phase {word}"))
            }
        }
    }

    /// No import goes on.
    fn waits(&mut self, reason: &str, message: &str) {
        self.say(PROGRESSING, "False", NO_IMPORT, "No current import");
        self.say(UP_TO_DATE, "False", reason, message);
    }

    /// Something of somebody else's stands in the way.
    fn stands(&mut self, why: &str) {
        self.say(PROGRESSING, "False", NO_IMPORT, "No current import");
        if self.is_news(UP_TO_DATE, "False", NO_IMPORT, why) {
            self.tell(true, "ErrResourceExists", why);
        }
        self.after.look_again(self.now.checked_add(IN_THE_WAY).unwrap_or(self.now));
    }

    fn tell(&mut self, warning: bool, reason: &'static str, message: impl Into<String>) {
        self.after.tell(Kind::DataImportCron, &self.cron.metadata, warning, reason, message);
    }
}

/// The phase of a DataVolume.
fn phase(volume: &DataVolume) -> Phase {
    volume.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}

fn import(name: &str, digest: &str) -> ImportStatus {
    let (data_volume_name, digest) = (name.to_owned(), digest.to_owned());
    ImportStatus { data_volume_name, digest, ..ImportStatus::default() }
}
