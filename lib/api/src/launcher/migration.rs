//! Migration of a running VMI to another launcher: its order, and its progress in the state of the source.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Order to migrate the VMI. The target is a launcher that waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Migrate {
    /// Identity of the migration. A launcher makes one attempt for each.
    pub id: String,
    /// Sockets of this host that lead to the target.
    pub sockets: MigrationSockets,
    /// Names of the disks whose bytes are copied. The others are at the same place for both launchers.
    #[serde(default)]
    pub copied_disks: Vec<String>,
    /// All bytes of these disks are copied, also those of the images below their overlays: the images at the target may differ.
    #[serde(default)]
    pub whole_disks: bool,
    #[serde(default)]
    pub limits: MigrationLimits,
}

/// Sockets that lead to the target of a migration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationSockets {
    /// libvirt's own connection.
    pub libvirt: PathBuf,
    /// The guest's memory, between the two QEMUs.
    pub memory: PathBuf,
    /// The bytes of copied disks.
    pub disks: PathBuf,
    /// The source's [`Release`].
    pub release: PathBuf,
}

/// Message of the source to the target, once its own domain is gone. The target's guest is paused until then: at no time do both
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// True for a guest that ran before its migration.
    pub runs: bool,
}

/// Socket for the source's [`Release`], beside the one through which its libvirt comes.
pub fn release_socket(libvirt: &Path) -> PathBuf {
    let mut path = libvirt.as_os_str().to_owned();
    path.push("-release");
    path.into()
}

/// Limits of a migration, and the means to keep to them. Zero is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationLimits {
    /// Bytes in each second.
    pub bandwidth: u64,
    /// Seconds for each GiB of memory and copied disks, after which the migration is hurried or ends.
    pub completion_seconds_per_gib: u64,
    /// Seconds without progress, after which the migration ends.
    pub progress_seconds: u64,
    /// Longest pause of the guest at the end, in milliseconds.
    pub downtime_ms: u64,
    /// The guest is slowed down while it writes memory faster than the link carries it.
    pub auto_converge: bool,
    /// The guest may go on at the target before all of its memory is there.
    pub post_copy: bool,
    /// The guest may be paused when the time is over.
    pub allow_pause: bool,
    /// Memory is compressed (zstd).
    pub compress: bool,
    /// Parallel connections for the memory; 0 and 1 are a single one.
    pub connections: u32,
}

/// The last migration of a VMI, in the state of its source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// Identity, from the order.
    pub id: String,
    pub phase: MigrationPhase,
    pub mode: MigrationMode,
    /// Time of the begin, RFC 3339.
    pub started: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Cause of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default)]
    pub progress: MigrationProgress,
}

/// Phase of a migration, as the source sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MigrationPhase {
    #[default]
    Running,
    /// The source was asked to abort it.
    Aborting,
    /// The VMI runs at the target.
    Succeeded,
    /// The VMI runs at the source.
    Failed,
    /// The VMI runs at the source, since the migration was aborted by request.
    Aborted,
    /// The launcher of the source ended meanwhile: the VMI runs at the target, at the source, or nowhere.
    Unknown,
}

impl MigrationPhase {
    /// True while the VMI may still go to the target.
    pub fn is_open(self) -> bool {
        matches!(self, MigrationPhase::Running | MigrationPhase::Aborting | MigrationPhase::Unknown)
    }
}

/// Means by which a migration comes to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MigrationMode {
    /// Memory is copied while the guest runs at the source.
    #[default]
    PreCopy,
    /// The guest runs at the target, and its memory follows.
    PostCopy,
    /// The guest is paused until its memory is copied.
    Paused,
}

/// Progress of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationProgress {
    /// Bytes of memory and copied disks.
    pub total: u64,
    /// Bytes sent so far, repeated ones among them.
    pub processed: u64,
    /// Bytes still to send. It rises where the guest writes faster.
    pub remaining: u64,
    /// Bytes of memory sent in each second.
    pub bytes_per_second: u64,
    /// Bytes of memory that the guest writes in each second.
    pub dirty_bytes_per_second: u64,
    /// Pass over the memory, from 1.
    pub iteration: u64,
    /// Pause of the guest in milliseconds: the one to expect, and at the end the one that was.
    pub downtime_ms: u64,
}
