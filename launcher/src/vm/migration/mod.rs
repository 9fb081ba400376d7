//! Migration of the VM to another launcher, from the side of its source.
//!
//! ```text
//!  driver ──► carry_out ── thread "driver" ─────► Hypervisor::migrate, which returns at the end
//!                  └────── thread "migration" ──► each tick: progress ─► Monitor::step ─► Event::Migrating
//!                                                            abort, post-copy, pause ◄─┘
//!  Control::abort  ──────────────────────────────► each tick, until the migration has ended
//! ```
//!
//! **One guest.** While it is not known that the VM has stayed here, a record in its folder says so, also to the next launcher,
//! which then starts no second guest. The guest arrives paused at the target, and goes on once this end has told it that the domain
//! here is gone (`release`).

mod monitor;
mod release;

use super::blocking_work::Outcome;
use super::handle::CurrentVm;
use super::keep;
use crate::domain;
use crate::hypervisor::{Condition, DomainState, Error, ErrorKind, Event, Hypervisor, Pause, Result};
use crate::root::Root;
use api::launcher::{Migrate, MigrationMode, Release};
use monitor::{Monitor, Step};
use release::ReleaseSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval of looking at the progress.
const TICK: Duration = Duration::from_millis(400);
/// Interval of telling it.
const TOLD: Duration = Duration::from_secs(1);
/// Time for a running migration to end after an abort. The VM is forced off beside one that does not.
const ABORT: Duration = Duration::from_secs(30);

/// A migration in progress: its driver, its monitor, and the call itself share it.
#[derive(Debug, Default)]
pub(super) struct Control {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Lock that is held while the monitor pauses the guest, and while the end of the migration is recorded. So the monitor does not pause
    /// a guest after the end.
    pausing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Inner {
    is_over: bool,
    /// Cause of the abort, and its time.
    abort: Option<(Abort, Instant)>,
    mode: MigrationMode,
}

/// Cause of an abort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Abort {
    /// A request to abort the migration or to end the VM.
    Asked,
    /// A limit of the order.
    Limit(String),
}

impl Control {
    /// Asks the monitor to abort the migration. The first cause counts.
    pub(super) fn abort(&self, cause: Abort) {
        self.lock().abort.get_or_insert_with(|| (cause, Instant::now()));
        self.changed.notify_all();
    }

    /// Cause of the abort, if there was one.
    pub(super) fn aborted(&self) -> Option<Abort> {
        self.lock().abort.as_ref().map(|(cause, _)| cause.clone())
    }

    /// True if the migration has not ended for so long after its abort that the VM may be forced off beside it.
    pub(super) fn hangs(&self) -> bool {
        self.lock().abort.as_ref().is_some_and(|(_, since)| since.elapsed() > ABORT)
    }

    pub(super) fn mode(&self) -> MigrationMode {
        self.lock().mode
    }

    fn end(&self) {
        let _pausing = self.pausing.lock().unwrap_or_else(PoisonError::into_inner);
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Pauses the guest, unless the migration has ended.
    fn pause(&self, pause: impl FnOnce() -> Result<()>) -> Result<()> {
        let _pausing = self.pausing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lock().is_over { Ok(()) } else { pause() }
    }

    /// Waits for the next tick, or for an abort. False after the end.
    fn tick(&self) -> bool {
        let inner = self.lock();
        let asleep = |inner: &mut Inner| !inner.is_over;
        let (inner, _) = match inner.abort {
            Some(_) => self.changed.wait_timeout_while(inner, TICK, asleep),
            None => self.changed.wait_timeout_while(inner, TICK, |i| !i.is_over && i.abort.is_none()),
        }
        .unwrap_or_else(PoisonError::into_inner);
        !inner.is_over
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A migration that has ended.
pub(super) struct Migrated {
    pub(super) mode: MigrationMode,
    pub(super) result: Result<()>,
    /// The VM at the source; an error where it is not known.
    pub(super) seen: Result<DomainState>,
}

/// Location of a VM after its migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VmLocation {
    Target,
    Source,
    /// libvirt paused it here, and has not heard whether it runs at the target.
    Unknown,
}

impl Migrated {
    pub(super) fn location(&self) -> VmLocation {
        match (&self.result, &self.seen) {
            (_, Ok(seen)) => match seen.condition {
                Condition::Off(crate::hypervisor::End::Left) => VmLocation::Target,
                // Its guest may run at the target.
                Condition::Off(_) if self.mode == MigrationMode::PostCopy => VmLocation::Unknown,
                // It was ended here, by a request or by its guest.
                Condition::Off(_) | Condition::Ending => VmLocation::Source,
                Condition::Paused(Pause::Passing) => VmLocation::Unknown,
                Condition::Running | Condition::Paused(_) if self.result.is_err() => VmLocation::Source,
                Condition::Running | Condition::Paused(_) => VmLocation::Unknown,
            },
            // The source forgets a domain that has gone.
            (Ok(()), Err(e)) if e.kind() == ErrorKind::NotFound => VmLocation::Target,
            (_, Err(_)) => VmLocation::Unknown,
        }
    }
}

/// Migrates the VM. Blocks until it has gone, or has stayed. `runs_there`: a guest that is paused now goes on at the target.
pub(super) fn carry_out(
    hypervisor: &Arc<dyn Hypervisor>,
    known: &CurrentVm,
    root: &Root,
    order: &Migrate,
    control: &Arc<Control>,
    runs_there: bool,
    tell: impl Fn(Event) + Send + 'static,
) -> Outcome {
    let name = known.name.as_str();
    let targets = domain::targets(&known.machine);
    let doing = || format!("migrate {name}");
    let disk = |disk: &String| {
        let unknown = || Error::new(ErrorKind::Invalid, doing(), format!("the VM has no disk '{disk}'"));
        targets.get(disk).cloned().ok_or_else(unknown)
    };
    let before = hypervisor.state(name);
    let ran = is(&before, Condition::Running);
    let go = || -> Result<()> {
        // QEMU writes EFI variables to their new file when the guest goes on.
        if known.machine.keeps_state() && !ran {
            let what = "the guest is paused, and EFI variables and TPM move with a guest that runs: let it go on first";
            return Err(Error::new(ErrorKind::Invalid, doing(), what));
        }
        let disks = order.copied_disks.iter().map(disk).collect::<Result<Vec<String>>>()?;
        keep::migration(root, &order.id).map_err(|e| Error::new(ErrorKind::Failed, doing(), e.chain()))?;
        let monitor = Monitor::new(order.limits.clone(), known.machine.memory.guest);
        let (own, watched, of) = (hypervisor.clone(), control.clone(), name.to_owned());
        let watch = move || watch(&*own, &of, monitor, &watched, tell);
        thread::Builder::new()
            .name("migration".into())
            .spawn(watch)
            .map_err(|e| Error::new(ErrorKind::Failed, doing(), e.to_string()))?;
        hypervisor.migrate(name, order, &disks)
    };
    let target = ReleaseSender::connect(&order.sockets.release);
    let result = match &target {
        Ok(_) => go(),
        Err(e) => {
            Err(Error::new(ErrorKind::Failed, doing(), format!("the target does not wait for it: {e}")))
        }
    };
    control.end();
    let mode = control.mode();
    let mut seen = hypervisor.state(name);
    // libvirt resumes what was paused during the migration. The monitor may have come a moment later.
    let by_monitor = mode == MigrationMode::Paused && is(&seen, Condition::Paused(Pause::Asked));
    // What libvirt leaves paused, since it has not heard the result: the target's guest was not released.
    let by_libvirt = mode != MigrationMode::PostCopy && is(&seen, Condition::Paused(Pause::Passing));
    if result.is_err() && ran && (by_monitor || by_libvirt) {
        let _ = hypervisor.resume(name).inspect_err(|e| tracing::warn!("{e}"));
        seen = hypervisor.state(name);
    }
    let migrated = Migrated { mode, result, seen };
    if let (VmLocation::Target, Ok(target)) = (migrated.location(), target) {
        target.send(Release { runs: ran || runs_there });
    }
    Outcome::Migrated(Box::new(migrated))
}

fn is(seen: &Result<DomainState>, condition: Condition) -> bool {
    seen.as_ref().is_ok_and(|seen| seen.condition == condition)
}

/// Looks at a migration until it has ended, and does what its limits want.
fn watch(
    hypervisor: &dyn Hypervisor,
    name: &str,
    mut monitor: Monitor,
    control: &Control,
    tell: impl Fn(Event),
) {
    let began = Instant::now();
    let mut told: Option<(Instant, MigrationMode)> = None;
    while control.tick() {
        if control.aborted().is_some() {
            let _ = hypervisor.abort_migration(name).inspect_err(|e| tracing::info!("{e}"));
            continue;
        }
        let found = hypervisor.migration_progress(name).inspect_err(|e| tracing::info!("{e}"));
        // The limits count before there are numbers, too.
        let progress = found.ok().flatten().unwrap_or_default();
        let step = monitor.step(began.elapsed(), &progress);
        // Its event may come before the call returns.
        control.lock().mode = monitor.mode();
        let done = match &step {
            Step::Wait => Ok(()),
            Step::Downtime(limit) => hypervisor.limit_downtime(name, *limit),
            Step::PostCopy => hypervisor.start_post_copy(name),
            Step::Pause => control.pause(|| hypervisor.pause(name)),
            Step::Abort(why) => {
                control.abort(Abort::Limit(why.clone()));
                tell(Event::MigrationAborts);
                hypervisor.abort_migration(name)
            }
        };
        if let Err(e) = done {
            tracing::warn!("{e}");
            monitor.failed(&step);
            control.lock().mode = monitor.mode();
        }
        let mode = control.mode();
        if told.is_none_or(|(at, of)| of != mode || at.elapsed() >= TOLD) {
            told = Some((Instant::now(), mode));
            tell(Event::Migrating { progress, mode });
        }
    }
}

#[cfg(test)]
mod tests;
