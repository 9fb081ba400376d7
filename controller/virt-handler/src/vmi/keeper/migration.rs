//! Live migration of a VMI, from the side of one keeper: that of the node which runs the guest (the source), or of the node
//! which receives it (the target). Pure.
//!
//! ```text
//!  source: Announced ── the target is ready ──► Ordered ──► the launcher tells progress and end
//!                  │                               └─ it aborts ──► Aborting ─ no end ──► Cut
//!                  └── the order failed ──────► Refused
//!  target: the launcher receives ──► Open ──► the launcher runs the guest
//! ```
//!
//! Each end makes a certificate for this migration alone and writes its SHA-256 into `status.migrationState`, where the other one
//! finds it. A virt-handler that begins anew makes new ones.

use crate::migration::Findings;
use crate::vmi::migratable::{copied_disks, images_may_differ};
use api::launcher::{self, Migration, MigrationLimits, MigrationPhase, Release};
use api::machine::Machine;
use api::vmi::{
    AbortStatus, Compression, Condition, ConditionType, MigrationConfiguration, MigrationMode,
    MigrationProgress, MigrationState, Status,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Interval of writing the progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// Time for an abort to end the migration. Behind it the connections are closed: the source's libvirt waits without a limit for a target
/// that does not answer.
const ABORTS: Duration = Duration::from_secs(10);
/// Default of `maxDowntimeMs`, which is written but has no effect by itself.
const MAX_DOWNTIME: i64 = 900;
/// Message of a migration that was aborted, as upstream has it.
const ABORTED: &str = "Live migration has been aborted";

/// Part that a node has in the life of a VMI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The guest runs on the node, or starts there.
    #[default]
    Guest,
    /// The guest migrates to the node.
    Target,
}

/// This end of a migration.
#[derive(Clone, Debug, PartialEq)]
pub struct MigrationEnd {
    /// UID of the VirtualMachineInstanceMigration.
    pub(super) uid: String,
    /// SHA-256 of the certificate that was made for it.
    pub(super) certificate: String,
    pub(super) stage: Stage,
    /// Progress that is written, and the time at which it was taken.
    pub(super) progress: Option<(Instant, MigrationProgress)>,
    /// Findings about its connections.
    pub(super) findings: Findings,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// Source: the target is waited for.
    Announced,
    /// Source: the launcher has the order.
    Ordered,
    /// Source: the launcher aborts the migration, and has until this time.
    Aborting(Instant),
    /// Source: the connections were closed.
    Cut,
    /// Source: the launcher did not get the order.
    Refused(String),
    /// Target: the source may connect.
    Open {
        address: String,
        /// Ports, each with the one of libvirt that it stands for.
        ports: BTreeMap<String, i64>,
        /// Certificate of the source that is accepted.
        expects: String,
    },
}

/// Order to the source's launcher, and its way to the target.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    pub(super) uid: String,
    pub(super) address: String,
    pub(super) ports: BTreeMap<String, i64>,
    /// Certificate of the target.
    pub(super) peer: String,
    pub(super) copied_disks: Vec<String>,
    pub(super) whole_disks: bool,
    pub(super) limits: MigrationLimits,
}

/// Next action for a migration.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// Source: make a certificate.
    Announce(String),
    Order(Box<Order>),
    Abort(String),
    /// Node of the guest: let it go on, since its source has none any more.
    Release(Release),
    /// Target: accept the source with this certificate.
    Open {
        uid: String,
        source: String,
    },
}

impl MigrationEnd {
    pub(super) fn new(uid: &str, certificate: String, stage: Stage) -> MigrationEnd {
        let (uid, findings) = (uid.to_owned(), Findings::default());
        MigrationEnd { uid, certificate, stage, progress: None, findings }
    }

    /// Takes what the launcher tells of the migration. A progress is left out if the last one is new enough.
    pub(super) fn hear(&mut self, launcher: &launcher::State, now: Instant) {
        let Some(told) = migration_of(launcher, &self.uid) else { return };
        if told.phase == MigrationPhase::Aborting && matches!(self.stage, Stage::Announced | Stage::Ordered) {
            self.stage = Stage::Aborting(now + ABORTS);
        }
        let is_due =
            self.progress.as_ref().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= PROGRESS);
        if told.progress.total > 0 && (is_due || told.ended.is_some()) {
            self.progress = Some((now, progress(&told.progress)));
        }
    }

    /// Time at which the connections of an abort that does not end are closed.
    pub(super) fn cut_at(&self) -> Option<Instant> {
        match self.stage {
            Stage::Aborting(until) => Some(until),
            Stage::Announced | Stage::Ordered | Stage::Cut | Stage::Refused(_) | Stage::Open { .. } => None,
        }
    }

    /// Decides whether the connections are to be closed now. True once.
    pub(super) fn cut(&mut self, now: Instant) -> bool {
        let is_due = self.cut_at().is_some_and(|until| until <= now);
        if is_due {
            self.stage = Stage::Cut;
            self.findings.failure.get_or_insert_with(|| {
                format!(
                    "virt-handler closed its connections, since its abort had not ended it within {} s",
                    ABORTS.as_secs()
                )
            });
        }
        is_due
    }
}

/// The open migration away from this node, or to it; `None` if there is none, or it has ended.
pub(crate) fn open_migration(status: &Status, role: Role) -> Option<(&str, &MigrationState)> {
    let state = status.migration_state.as_ref()?;
    let uid = state.migration_uid.as_deref().filter(|uid| !uid.is_empty())?;
    let is_ours = match role {
        Role::Guest => state.source_node.is_some() && state.source_node == status.node_name,
        Role::Target => state.target_node.is_some(),
    };
    let is_over = state.completed == Some(true) || role == Role::Guest && state.end_timestamp.is_some();
    (is_ours && !is_over).then_some((uid, state))
}

/// Next action of the node that has the guest now, where it arrived without the word of its source. The guest is this node's by
/// virt-controller's decision, which has seen that the source has none any more.
pub(super) fn next_of_arrival(status: &Status, launcher: &launcher::State) -> Option<Next> {
    let was_paused = |condition: &Condition| {
        let is_of_source = condition.reason.as_deref().is_some_and(launcher::ends_with_source);
        condition.r#type == ConditionType::Paused && condition.status == "True" && !is_of_source
    };
    is_held(launcher).then(|| Next::Release(Release { runs: !status.conditions.iter().any(was_paused) }))
}

/// True of a guest that has arrived, and is paused until its source has none any more.
pub(crate) fn is_held(launcher: &launcher::State) -> bool {
    launcher.reason.as_deref() == Some(launcher::AWAITS_RELEASE)
}

/// Next action of the source. `aborted`: migration that the launcher was asked to abort.
pub(super) fn next_of_source(
    status: &Status,
    machine: impl FnOnce() -> Option<Machine>,
    launcher: &launcher::State,
    end: Option<&MigrationEnd>,
    aborted: Option<&str>,
) -> Option<Next> {
    let (uid, state) = open_migration(status, Role::Guest)?;
    let told = migration_of(launcher, uid);
    let is_abort = state.abort_requested == Some(true);
    if let Some(told) = told {
        let may_abort = is_abort && told.phase == MigrationPhase::Running;
        return (may_abort && aborted != Some(uid)).then(|| Next::Abort(uid.to_owned()));
    }
    if is_abort {
        return None;
    }
    let Some(end) = end.filter(|end| end.uid == uid) else { return Some(Next::Announce(uid.to_owned())) };
    // The target accepts the certificate that it reads in the status.
    let is_known = state.source_certificate.as_ref() == Some(&end.certificate);
    let (Stage::Announced, true) = (&end.stage, is_known) else { return None };
    let (address, peer) = (state.target_node_address.clone()?, state.target_certificate.clone()?);
    let machine = machine()?;
    let settings = state.migration_configuration.clone().unwrap_or_default();
    // EFI variables and TPM are no disk.
    let migrated = status.migrated_volumes.iter().map(|volume| &volume.volume_name);
    let migrated = migrated.filter(|name| machine.has_disk(name));
    Some(Next::Order(Box::new(Order {
        uid: uid.to_owned(),
        address,
        ports: state.target_direct_migration_node_ports.clone(),
        peer,
        copied_disks: copied_disks(&machine).into_iter().chain(migrated.cloned()).collect(),
        whole_disks: images_may_differ(&machine),
        limits: limits(&settings),
    })))
}

/// Next action of the target, once its launcher waits for the source.
pub(super) fn next_of_target(
    status: &Status,
    launcher: &launcher::State,
    end: Option<&MigrationEnd>,
) -> Option<Next> {
    let (uid, state) = open_migration(status, Role::Target)?;
    let source = state.source_certificate.clone().filter(|_| launcher.receives)?;
    let expected = end.filter(|end| end.uid == uid).and_then(|end| match &end.stage {
        Stage::Open { expects, .. } => Some(expects),
        Stage::Announced | Stage::Ordered | Stage::Aborting(_) | Stage::Cut | Stage::Refused(_) => None,
    });
    (expected != Some(&source)).then(|| Next::Open { uid: uid.to_owned(), source })
}

/// State of the migration as the source's node writes it; `None` if there is none to write.
pub(crate) fn source_state(
    status: &Status,
    launcher: Option<&launcher::State>,
    end: Option<&MigrationEnd>,
    now: &str,
) -> Option<MigrationState> {
    let (uid, state) = open_migration(status, Role::Guest)?;
    let mut new = state.clone();
    let end = end.filter(|end| end.uid == uid);
    if let Some(end) = end {
        new.source_certificate = Some(end.certificate.clone());
        if let Some((_, progress)) = &end.progress {
            new.progress = Some(progress.clone());
        }
    }
    let told = launcher.and_then(|launcher| migration_of(launcher, uid));
    let refused = end.and_then(|end| match &end.stage {
        Stage::Refused(why) => Some(why.clone()),
        Stage::Announced | Stage::Ordered | Stage::Aborting(_) | Stage::Cut | Stage::Open { .. } => None,
    });
    match (told, refused) {
        (Some(told), _) => {
            take_migration(&mut new, told, end.and_then(|end| end.findings.failure.as_deref()), now);
        }
        (None, Some(why)) => fail(&mut new, now, &why),
        // The guest may have left a launcher that is gone: its termination message does not tell the migration.
        (None, None)
            if new.abort_requested == Some(true)
                && launcher.is_some_and(|launcher| !launcher.life.is_final()) =>
        {
            let why = aborted(&new, None);
            fail(&mut new, now, &why);
            new.abort_status = Some(AbortStatus::Succeeded);
        }
        (None, None) => {}
    }
    Some(new)
}

/// State of the migration as the target's node writes it. `trouble`: the VMI cannot be prepared here at all.
pub(crate) fn target_state(
    status: &Status,
    launcher: Option<&launcher::State>,
    end: Option<&MigrationEnd>,
    trouble: Option<&str>,
    now: &str,
) -> Option<MigrationState> {
    let (uid, state) = open_migration(status, Role::Target)?;
    let mut new = state.clone();
    let end = end.filter(|end| end.uid == uid);
    if let Some(MigrationEnd { certificate, stage: Stage::Open { address, ports, .. }, .. }) = end {
        new.target_certificate = Some(certificate.clone());
        new.target_node_address = Some(address.clone());
        new.target_direct_migration_node_ports = ports.clone();
    }
    let runs = |launcher: &launcher::State| {
        matches!(launcher.life, launcher::Life::Running | launcher::Life::Paused)
    };
    if let Some(launcher) = launcher.filter(|launcher| runs(launcher)) {
        new.target_node_domain_detected = Some(true);
        // Of a guest that is held the source may have one that runs, until it has reported its end.
        let has_left = state.end_timestamp.is_some() && state.failed != Some(true);
        if !is_held(launcher) || has_left {
            new.target_node_domain_ready_timestamp.get_or_insert_with(|| now.to_owned());
        }
    }
    // A launcher that waits for its source has no guest, and without ports none comes to it.
    let waits = launcher.is_some_and(|launcher| launcher.receives);
    let closed = end.filter(|end| waits && end.findings.is_closed);
    let closed = closed.and_then(|end| end.findings.failure.as_deref());
    if let Some(why) = trouble.or(closed) {
        let why = crate::bounds::text(why, crate::bounds::SENTENCE);
        new.target_failure_reason = Some(why);
    }
    Some(new)
}

/// The migration of this uid, as its source's launcher tells it.
fn migration_of<'a>(launcher: &'a launcher::State, uid: &str) -> Option<&'a Migration> {
    launcher.migration.as_ref().filter(|told| told.id == uid)
}

/// True if the guest has gone to the target of its migration, or may have.
pub(crate) fn has_moved(status: &Status, launcher: &launcher::State) -> bool {
    let reason = launcher.reason.as_deref();
    let is_moved = reason.is_some_and(launcher::may_have_left);
    let Some(state) = status.migration_state.as_ref().filter(|_| is_moved) else { return false };
    let uid = state.migration_uid.as_deref().unwrap_or_default();
    match &launcher.migration {
        Some(told) => told.id == uid,
        // The termination message of a launcher whose state went with its pod has the reason alone. Both ends decide.
        None => !uid.is_empty() && state.completed != Some(true) && state.source_node == status.node_name,
    }
}

/// Takes what the source's launcher tells. `connections`: failure of the connections to the target.
fn take_migration(new: &mut MigrationState, told: &Migration, connections: Option<&str>, now: &str) {
    new.start_timestamp.get_or_insert_with(|| told.started.clone());
    new.mode = Some(mode(told.mode));
    let ended = told.ended.clone().unwrap_or_else(|| now.to_owned());
    match told.phase {
        MigrationPhase::Running => {}
        MigrationPhase::Aborting => new.abort_status = Some(AbortStatus::Aborting),
        // virt-controller decides by the target that the guest has arrived.
        MigrationPhase::Succeeded | MigrationPhase::Unknown => {
            new.end_timestamp = Some(ended);
            if let (MigrationPhase::Succeeded, Some(progress)) = (told.phase, &mut new.progress) {
                (progress.percent, progress.remaining_bytes) = (Some(100), Some(0));
            }
            if new.abort_requested == Some(true) {
                new.abort_status = Some(AbortStatus::Failed);
            }
        }
        MigrationPhase::Failed => {
            // libvirt does not know why its connection ended.
            let parts = told.message.as_deref().into_iter().chain(connections);
            let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
            fail(new, &ended, &parts.join("; "));
            // A limit of the migration was over.
            if new.abort_status == Some(AbortStatus::Aborting) {
                new.abort_status = Some(AbortStatus::Succeeded);
            }
        }
        MigrationPhase::Aborted => {
            let why = aborted(new, told.message.as_deref());
            fail(new, &ended, &why);
            new.abort_status = Some(AbortStatus::Succeeded);
        }
    }
}

/// Reason of a migration that was aborted. virt-controller has written why it asked for that, if not for a user.
fn aborted(new: &MigrationState, message: Option<&str>) -> String {
    new.failure_reason.as_deref().or(message).unwrap_or(ABORTED).to_owned()
}

fn fail(new: &mut MigrationState, ended: &str, why: &str) {
    new.start_timestamp.get_or_insert_with(|| ended.to_owned());
    new.end_timestamp = Some(ended.to_owned());
    (new.completed, new.failed) = (Some(true), Some(true));
    new.failure_reason = Some(crate::bounds::text(why, crate::bounds::SENTENCE));
}

fn mode(told: launcher::MigrationMode) -> MigrationMode {
    match told {
        launcher::MigrationMode::PreCopy => MigrationMode::PreCopy,
        launcher::MigrationMode::PostCopy => MigrationMode::PostCopy,
        launcher::MigrationMode::Paused => MigrationMode::Paused,
    }
}

fn progress(told: &launcher::MigrationProgress) -> MigrationProgress {
    let count = |count: u64| Some(i64::try_from(count).unwrap_or(i64::MAX));
    let done = u128::from(told.total.saturating_sub(told.remaining)) * 100;
    let percent = done.checked_div(u128::from(told.total)).and_then(|percent| i64::try_from(percent).ok());
    MigrationProgress {
        percent,
        total_bytes: count(told.total),
        remaining_bytes: count(told.remaining),
        bytes_per_second: count(told.bytes_per_second),
        dirty_bytes_per_second: count(told.dirty_bytes_per_second),
        iteration: count(told.iteration),
        downtime_ms: count(told.downtime_ms),
        ..MigrationProgress::default()
    }
}

/// Limits of the launcher by the settings of the migration.
fn limits(settings: &MigrationConfiguration) -> MigrationLimits {
    let seconds = |seconds: Option<i64>| seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let compression = settings.experimental.as_ref().and_then(|more| more.compression.clone());
    MigrationLimits {
        bandwidth: settings.bandwidth_per_migration.as_ref().and_then(|rate| rate.bytes()).unwrap_or(0),
        completion_seconds_per_gib: seconds(settings.completion_timeout_per_gib).unwrap_or(150),
        progress_seconds: seconds(settings.progress_timeout).unwrap_or(150),
        // As upstream: the default is QEMU's own.
        downtime_ms: seconds(settings.max_downtime_ms.filter(|limit| *limit != MAX_DOWNTIME)).unwrap_or(0),
        auto_converge: settings.allow_auto_converge == Some(true),
        // Post-copy needs /dev/userfaultfd, which a launcher pod does not have: the guest is paused in its place.
        post_copy: false,
        allow_pause: settings.allow_workload_disruption.or(settings.allow_post_copy) == Some(true),
        compress: compression == Some(Compression::Zstd),
        connections: 0,
    }
}

#[cfg(test)]
#[path = "migration_tests.rs"]
mod tests;
