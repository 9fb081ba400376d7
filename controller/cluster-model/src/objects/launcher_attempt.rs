//! Attempt to run the guest of a VMI. Each attempt has a launcher pod of its own.

use api::meta::ObjectMeta;

/// Label of the launcher pod of a live migration, as upstream names it: the uid of the VirtualMachineInstanceMigration.
pub const MIGRATION_JOB: &str = "kubevirt.io/migrationJobUID";

/// Attempt to run the guest of a VMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherAttempt<'a> {
    /// Start of the VMI.
    Start,
    /// Live migration, with its uid.
    Migration(&'a str),
}

impl LauncherAttempt<'_> {
    /// Attempt of a launcher pod.
    pub fn from_pod(pod: &ObjectMeta) -> LauncherAttempt<'_> {
        pod.labels.get(MIGRATION_JOB).map_or(LauncherAttempt::Start, |uid| LauncherAttempt::Migration(uid))
    }
}
