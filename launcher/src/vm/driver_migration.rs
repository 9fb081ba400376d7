//! Migrations: their requests, their progress, and their end.
//!
//! ```text
//!  Migrate ──► queue ──► work, in which all other requests wait
//!  AbortMigration, Shutdown, Destroy, the end of the launcher ──► abort; then their turn comes, unless the VM has gone
//!  the end ──► gone: Mode::Moved, which starts nothing      stayed: the VM as it was seen      unknown: as gone
//! ```

use super::Driver;
use crate::hypervisor::{Condition, DomainState, End, Pause};
use crate::vm::keep;
use crate::vm::life::Standing;
use crate::vm::migration::{self, Abort, Migrated, VmLocation};
use crate::vm::queue::Mode;
use crate::vm::work::Work;
use api::launcher::{
    Answer, Denial, DenialReason, Life, MIGRATED, MIGRATION_UNKNOWN, Migrate, Migration, MigrationMode,
    MigrationPhase, MigrationProgress, PAUSED_BY_MIGRATION, Request, ends_with_source,
};
use std::sync::Arc;

impl Driver {
    /// Answer to a request about a migration; `None` leaves it to the queue.
    pub(super) fn migration_request(&mut self, request: &Request) -> Option<Answer> {
        let known = self.queue.migration().map(|order| order.id.clone());
        match request {
            Request::Release(release) => self.release(*release),
            Request::Migrate(order) => {
                if known.as_ref() == Some(&order.id) {
                    return Some(Answer::Ignored { reason: "this migration is in progress".into() });
                }
                if let Some(known) = known {
                    return Some(Answer::Denied(Denial::new(DenialReason::Migrating, &[&known])));
                }
                // A repeated order must not begin a second attempt, whose target has gone.
                let last = self.publisher.state().migration.filter(|last| last.id == order.id);
                if last.is_some() {
                    return Some(Answer::Denied(Denial::new(DenialReason::MigrationEnded, &[&order.id])));
                }
                let targets = crate::domain::targets(&self.known.as_ref()?.machine);
                let missing = order.copied_disks.iter().find(|disk| !targets.contains_key(*disk))?;
                Some(Answer::Denied(Denial::new(DenialReason::NoDisk, &[missing])))
            }
            Request::AbortMigration { id } if known.as_ref() == Some(id) => {
                self.abort_migration();
                Some(Answer::Queued)
            }
            _ => None,
        }
    }

    /// Aborts the migration in progress, and forgets one that waits.
    pub(super) fn abort_migration(&mut self) {
        let waiting = self.queue.migration().cloned().filter(|_| self.migration.is_none());
        if let Some(order) = waiting {
            self.queue.forget_migrations();
            let (now, message) = (self.now(), "it was aborted before its begin".to_owned());
            self.publisher.change(|state| {
                state.migration = Some(Migration {
                    id: order.id,
                    phase: MigrationPhase::Aborted,
                    started: now.clone(),
                    ended: Some(now),
                    message: Some(message),
                    ..Migration::default()
                });
            });
        }
        if let Some(control) = &self.migration {
            control.abort(Abort::Asked);
            self.migration_aborts();
        }
    }

    /// The migration in progress is being aborted.
    pub(super) fn migration_aborts(&self) {
        self.change_migration(|migration| {
            if migration.phase == MigrationPhase::Running {
                migration.phase = MigrationPhase::Aborting;
            }
        });
    }

    /// Begins the migration of the queue.
    pub(super) fn migrate(&mut self, order: Migrate) {
        let Some(known) = self.known.clone() else { return self.queue.done() };
        let control = Arc::<migration::Control>::default();
        self.migration = Some(control.clone());
        let started = self.now();
        let last = self.publisher.state();
        let runs_there = last.life == Life::Paused && last.reason.as_deref().is_some_and(ends_with_source);
        self.publisher.change(|state| {
            state.migration = Some(Migration { id: order.id.clone(), started, ..Migration::default() });
        });
        let (hypervisor, root, told) =
            (self.parts.hypervisor.clone(), self.parts.root.clone(), self.told.clone());
        // The loop may have ended; then the event is dropped.
        let tell = move |event| drop(told.send(event));
        let migrate =
            move || migration::carry_out(&hypervisor, &known, &root, &order, &control, runs_there, tell);
        self.work = Some(Work::begin("migrate".to_owned(), migrate));
    }

    pub(super) fn migration_progress(&self, progress: MigrationProgress, mode: MigrationMode) {
        self.change_migration(|migration| {
            migration.mode = mode;
            // There are no numbers while the target prepares.
            if progress.total > 0 {
                migration.progress = progress;
            }
        });
    }

    /// True while a pause is one of the migration.
    pub(super) fn is_paused_by_migration(&self) -> bool {
        self.migration.as_ref().is_some_and(|control| control.mode() == MigrationMode::Paused)
    }

    pub(super) fn migrated(&mut self, ended: Migrated) {
        self.queue.done();
        let control = self.migration.take();
        let aborted = control.and_then(|control| control.aborted());
        let place = match self.queue.mode() {
            Mode::Moved => VmLocation::Target,
            // Its guest ended here, or it was forced off; behind post-copy it may run at the target.
            Mode::Ended if ended.mode != MigrationMode::PostCopy => VmLocation::Source,
            Mode::Ended => VmLocation::Unknown,
            _ => ended.location(),
        };
        let now = self.now();
        let phase = match (place, &aborted) {
            (VmLocation::Target, _) => MigrationPhase::Succeeded,
            (VmLocation::Unknown, _) => MigrationPhase::Unknown,
            (VmLocation::Source, Some(Abort::Asked)) => MigrationPhase::Aborted,
            (VmLocation::Source, _) => MigrationPhase::Failed,
        };
        let error = ended.result.err().map(|e| e.to_string());
        let message = match (phase, aborted) {
            (MigrationPhase::Succeeded, _) => None,
            (MigrationPhase::Aborted, _) => Some("Live migration has been aborted".to_owned()),
            (_, Some(Abort::Limit(why))) => Some(why),
            _ => error,
        };
        if let Some(why) = &message {
            tracing::warn!("the migration has not succeeded: {why}");
        }
        self.change_migration(|migration| {
            (migration.phase, migration.message, migration.ended) = (phase, message, Some(now));
        });
        match place {
            VmLocation::Target => self.ended(End::Left),
            VmLocation::Source => {
                self.no_migration();
                match ended.seen {
                    Ok(seen) if !self.queue.mode().is_over() => self.saw(&seen),
                    _ => {}
                }
            }
            VmLocation::Unknown => self.may_have_moved(),
        }
    }

    /// Ends the VM here, since it is not known whether it runs at the target.
    fn may_have_moved(&mut self) {
        self.over(&Standing::failed(MIGRATION_UNKNOWN, UNKNOWN.into()), Mode::Moved);
    }

    /// Decides what a new launcher does with a VM whose migration the last one began. True if it does not run here.
    pub(super) fn moved_before(&mut self, seen: Option<&DomainState>) -> bool {
        if !keep::may_have_moved(&self.parts.root) {
            return false;
        }
        let is_held = |seen: &DomainState| matches!(seen.condition, Condition::Paused(Pause::Asked));
        if keep::is_reception(&self.parts.root) && seen.is_some_and(is_held) {
            self.await_release(None);
            return true;
        }
        let state = self.publisher.state();
        let (now, message) = (self.now(), "the launcher ended during the migration".to_owned());
        let phase = match seen.map(|seen| seen.condition) {
            None | Some(Condition::Off(End::Left)) => match state.reason.as_deref() == Some(MIGRATED) {
                true => MigrationPhase::Succeeded,
                false => MigrationPhase::Unknown,
            },
            Some(Condition::Off(_) | Condition::Paused(Pause::Passing)) => MigrationPhase::Unknown,
            // The driver aborts a migration whose call is gone.
            Some(Condition::Running | Condition::Paused(_) | Condition::Ending) => MigrationPhase::Failed,
        };
        self.change_migration(|migration| {
            if migration.phase.is_open() {
                (migration.phase, migration.ended, migration.message) = (phase, Some(now), Some(message));
            }
        });
        match phase {
            MigrationPhase::Failed => {
                self.no_migration();
                return false;
            }
            MigrationPhase::Succeeded => self.mode(Mode::Moved),
            // The last launcher has told why it is not here.
            _ if state.life.is_final() => self.mode(Mode::Moved),
            _ => self.may_have_moved(),
        }
        true
    }

    /// The pause of the migration in the state, in place of a user's.
    pub(super) fn migration_standing(&self) -> Option<Standing> {
        let message = "VMI was paused by the migration monitor".to_owned();
        self.is_paused_by_migration().then_some(Standing {
            life: Life::Paused,
            reason: PAUSED_BY_MIGRATION,
            message,
        })
    }

    /// Removes the record that the VM may be at another launcher.
    pub(super) fn no_migration(&self) {
        keep::no_migration(&self.parts.root);
    }

    fn change_migration(&self, change: impl FnOnce(&mut Migration)) {
        self.publisher.change(|state| {
            if let Some(migration) = &mut state.migration {
                change(migration);
            }
        });
    }

    fn now(&self) -> String {
        (self.parts.clock)()
    }
}

/// Message of a VM whose place is not known.
const UNKNOWN: &str = "the migration broke off at its very end: the VM may run under the other launcher, so it is not started here";
