//! Step 2: the DataVolume of the newest digest is created and followed, and the DataSource is pointed to it
//! when it is complete.

use super::messages::{
    IN_PROGRESS, NO_DIGEST, NO_IMPORT, OUTDATED, PROGRESSING, SCHEDULED, UP_TO_DATE, not_made, with_trouble,
};
use super::poll::PollOutcome;
use super::source::{self, Source};
use super::{CronReconcile, digest, imports, phase, retry_at};
use api::cdi::{DataImportCron, ImportStatus, SourceFormat};
use api::data_volume::{DataVolume, Phase, PvcSource};
use cluster_model::conditions::{set, stamp};
use cluster_model::objects::{Kind, key};
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};

/// Pause before an obstacle is checked again: the end of some does not affect the key of the DataImportCron.
const IN_THE_WAY: SignedDuration = SignedDuration::from_mins(1);

/// Changes of the status of a DataImportCron, and steps after it is written.
#[derive(Default)]
pub(super) struct ImportOutcome {
    conditions: Vec<ConditionChange>,
    current_import: Option<ImportStatus>,
    /// The PVC that the DataSource leads to.
    imported: Option<PvcSource>,
    pub(super) after: Plan,
}

/// A condition as it is to be.
struct ConditionChange {
    kind: &'static str,
    status: &'static str,
    reason: String,
    message: String,
}

impl ImportOutcome {
    fn condition(
        mut self,
        kind: &'static str,
        status: &'static str,
        reason: &str,
        message: &str,
    ) -> ImportOutcome {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        self.conditions.push(ConditionChange { kind, status, reason, message });
        self
    }

    /// No import is running.
    fn no_import(self) -> ImportOutcome {
        self.condition(PROGRESSING, "False", NO_IMPORT, "No current import")
    }

    fn then(self, after: Plan) -> ImportOutcome {
        ImportOutcome { after: self.after.and(after), ..self }
    }

    fn and(mut self, other: ImportOutcome) -> ImportOutcome {
        self.conditions.extend(other.conditions);
        ImportOutcome {
            current_import: other.current_import.or(self.current_import),
            imported: other.imported.or(self.imported),
            conditions: self.conditions,
            after: self.after.and(other.after),
        }
    }

    /// The DataImportCron after this.
    pub(super) fn apply(&self, cron: &DataImportCron, now: Timestamp) -> DataImportCron {
        let mut next = cron.clone();
        let status = next.status.get_or_insert_default();
        for ConditionChange { kind, status: is, reason, message } in &self.conditions {
            set(&mut status.conditions, (*kind).to_owned(), (is, reason, message), &stamp(now));
        }
        if let Some(import) = &self.current_import {
            status.current_imports = vec![import.clone()];
        }
        if let Some(pvc) = &self.imported {
            status.source_format = Some(SourceFormat::Pvc);
            if status.last_imported_pvc.as_ref() != Some(pvc) {
                status.last_imported_pvc = Some(pvc.clone());
                status.last_import_timestamp = Some(stamp(now));
            }
        }
        next
    }
}

/// The input of the step, and the result of the poll.
struct Import<'i, 'a> {
    input: &'i CronReconcile<'a>,
    polled: &'i PollOutcome,
}

/// Makes or follows the import of the newest digest, and deletes imports that are not kept any longer.
pub(super) fn import(input: &CronReconcile<'_>, polled: &PollOutcome) -> ImportOutcome {
    let step = Import { input, polled };
    if let Source::Refused(word, why) = source::classify(input.cron) {
        return ImportOutcome::default().no_import().and(step.up_to_date("False", word, &why).0);
    }
    let outcome = ImportOutcome::default().then(delete_outdated(&step));
    let Some(digest) = digest(&polled.cron) else {
        let lacks = step.up_to_date("False", NO_DIGEST, "No source digest").0;
        return outcome.no_import().and(lacks);
    };
    let name = source::name(input.cron, digest);
    if let Some(why) = input.imports.name_conflict(&name) {
        return outcome.and(obstructed(&step, &why));
    }
    outcome.and(match input.imports.get(&name) {
        Some(volume) if volume.metadata.deletion_timestamp.is_none() => {
            let current_import = Some(import_status(&name, digest));
            ImportOutcome { current_import, ..ImportOutcome::default() }.and(follow(&step, volume, &name))
        }
        Some(_) => {
            step.wait(OUTDATED, &format!("DataVolume {name} is being deleted, and is then created again"))
        }
        None => start(&step, &name, digest),
    })
}

impl Import<'_, '_> {
    /// The condition UpToDate, with the failure of the last poll. True if it differs from the written one.
    fn up_to_date(&self, status: &'static str, reason: &str, message: &str) -> (ImportOutcome, bool) {
        let message = with_trouble(message, self.polled.trouble.as_deref());
        let mut list =
            self.input.cron.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        let before = list.clone();
        set(&mut list, UP_TO_DATE.to_owned(), (status, reason, &message), &stamp(self.input.now));
        (ImportOutcome::default().condition(UP_TO_DATE, status, reason, &message), list != before)
    }

    /// Condition while no import is running, and the DataSource does not point to the newest digest.
    fn wait(&self, reason: &str, message: &str) -> ImportOutcome {
        ImportOutcome::default().no_import().and(self.up_to_date("False", reason, message).0)
    }
}

/// Creates the DataVolume of the newest digest, unless another import is running.
fn start(step: &Import<'_, '_>, name: &str, digest: &str) -> ImportOutcome {
    let input = step.input;
    let last = input.cron.status.as_ref().and_then(|status| status.current_imports.first());
    let last = last.and_then(|last| input.imports.get(&last.data_volume_name));
    let outcome = match last.filter(|last| phase(last) == Phase::Succeeded) {
        // The tag moved before this import was complete.
        Some(last) => lead_to(step, last.metadata.name.as_deref().unwrap_or_default()),
        None => ImportOutcome::default(),
    };
    if let Some(other) = input.imports.unfinished() {
        let message = "Source digest updated since last import; the running import is completed first";
        return outcome.and(progress(&phase(other))).and(step.up_to_date("False", OUTDATED, message).0);
    }
    let current_import = Some(import_status(name, digest));
    let outcome = outcome.and(ImportOutcome { current_import, ..ImportOutcome::default() });
    if let Some(failed) = input.failure(Kind::DataVolume).filter(|failed| failed.retry > input.now) {
        return outcome.then(retry_at(failed.retry)).and(step.wait(OUTDATED, &not_made(name, failed)));
    }
    let policy = input.world.config().annotations;
    let (key, object) = imports::volume(input.cron, name, digest, policy);
    let mut create = Plan::default();
    create.create(key, object);
    outcome
        .and(step.wait(OUTDATED, "Source digest updated since last import"))
        .then(create)
        .then(input.event(false, SCHEDULED, format!("Import of {digest} into DataVolume {name}")))
}

/// Follows the import of the newest digest to its end.
fn follow(step: &Import<'_, '_>, volume: &DataVolume, name: &str) -> ImportOutcome {
    match phase(volume) {
        Phase::Succeeded => lead_to(step, name)
            .no_import()
            .and(step.up_to_date("True", UP_TO_DATE, "Latest import is up to date").0),
        Phase::Failed => {
            let why = imports::why_failed(volume);
            let message = format!("DataVolume {name} failed: {why}; delete it to start the import again");
            let (failed, is_news) = step.up_to_date("False", OUTDATED, &message);
            let outcome = ImportOutcome::default()
                .condition(PROGRESSING, "False", Phase::Failed.as_str(), "Import DataVolume phase Failed")
                .and(failed);
            match is_news {
                true => outcome.then(step.input.event(true, "ImportFailed", message)),
                false => outcome,
            }
        }
        phase => progress(&phase).and(step.up_to_date("False", IN_PROGRESS, "Import is in progress").0),
    }
}

/// Leads the DataSource to an import that is complete.
fn lead_to(step: &Import<'_, '_>, name: &str) -> ImportOutcome {
    let input = step.input;
    let namespace = input.cron.metadata.namespace.clone().unwrap_or_default();
    let pvc = PvcSource { namespace, name: name.to_owned(), ..PvcSource::default() };
    let mut after = Plan::default();
    if input.imports.lead_to(input.cron, &pvc, &mut after) {
        let source = &input.cron.spec.managed_data_source;
        let message = format!("DataSource {source} points to PVC {name}");
        after = after.and(input.event(false, "ImportSucceeded", message));
    }
    ImportOutcome { imported: Some(pvc), after, ..ImportOutcome::default() }
}

/// Deletes the imports that are not kept any longer.
fn delete_outdated(step: &Import<'_, '_>) -> Plan {
    let Import { input, polled } = step;
    let newest = digest(&polled.cron).map(|digest| source::name(input.cron, digest));
    let mut plan = Plan::default();
    for volume in input.imports.imports_to_delete(input.cron, newest.as_deref()) {
        match input.imports.is_read(volume, input.now) {
            // The end of a clone does not touch this key.
            true => plan.look_again(input.now.checked_add(IN_THE_WAY).unwrap_or(input.now)),
            false => plan.delete(key(Kind::DataVolume, &volume.metadata), &volume.metadata),
        }
    }
    plan
}

/// The condition Progressing of an import in this phase.
fn progress(phase: &Phase) -> ImportOutcome {
    let outcome = ImportOutcome::default();
    match phase {
        Phase::ImportScheduled => outcome.condition(PROGRESSING, "False", SCHEDULED, "Import is scheduled"),
        Phase::ImportInProgress => {
            outcome.condition(PROGRESSING, "True", IN_PROGRESS, "Import is progressing")
        }
        phase => {
            let word = if phase.as_str().is_empty() { &Phase::Pending } else { phase };
            outcome.condition(PROGRESSING, "False", word.as_str(), &format!("Import DataVolume phase {word}"))
        }
    }
}

/// Outcome if an object of another owner has a name that is needed.
fn obstructed(step: &Import<'_, '_>, why: &str) -> ImportOutcome {
    let input = step.input;
    let (stands, is_news) = step.up_to_date("False", NO_IMPORT, why);
    let event = if is_news { input.event(true, "ErrResourceExists", why) } else { Plan::default() };
    let next = retry_at(input.now.checked_add(IN_THE_WAY).unwrap_or(input.now));
    ImportOutcome::default().no_import().and(stands).then(event).then(next)
}

fn import_status(name: &str, digest: &str) -> ImportStatus {
    let (data_volume_name, digest) = (name.to_owned(), digest.to_owned());
    ImportStatus { data_volume_name, digest, ..ImportStatus::default() }
}
