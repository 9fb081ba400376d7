//! Protocol between virt-launcher and the program that runs it: `coracle run` on a laptop, virt-handler in a
//! cluster.
//!
//! HTTP and JSON on a unix socket, so that `curl --unix-socket` works:
//!
//! ```text
//! GET  /v1/info                 Info
//! PUT  /v1/vm                   Sync     ─► Answer   the VMI and its resolved parts; a repeated one starts nothing
//! GET  /v1/state                State                the current one
//! GET  /v1/state?watch          State, State, …      one JSON text a line, at once and after every change
//! POST /v1/requests             Request  ─► Answer
//! GET  /v1/stats                Stats                usage since the start of the VMI
//! GET  /v1/domain               Domain               as libvirt has it, for virsh in the launcher pod
//! GET  /v1/domain/stats         [[NAME, VALUE], …]   all of libvirt's statistics, by libvirt's names
//! POST /v1/domain/monitor       MonitorCommand ─► QEMU's answer, a JSON text
//! GET  /v1/screenshot[?wake]    image/png            wake: the pointer is moved first
//! GET  /v1/guest/info           GuestInfo            and /users, /filesystems: reports of the guest agent
//! POST /v1/guest/exec           Exec     ─► Executed
//! POST /v1/guest/file           GuestFile ─► GuestFileAnswer
//! POST /v1/guest/freeze         Freeze
//! POST /v1/guest/thaw           {}                   and /ping
//! GET  /v1/console[?WAY]        Upgrade: coracle-stream; the serial console, last screen first
//! GET  /v1/vnc[?WAY]            Upgrade: coracle-stream; RFB
//! GET  /v1/usbredir             Upgrade: coracle-stream; usbredir, of a USB device that the client has
//! ```
//!
//! Without a WAY a stream is read-only. `write` types, unless another client does. `take` takes the typing
//! over from that client, which can still read. `take&alone` closes all other streams that came to type.
//!
//! Each error is a status of 4xx or 5xx and a [`Refusal`]. Of `PUT /v1/vm` only a 422 with faults is final:
//! the VMI cannot run as it is. Other errors may pass: 507 without space, 503 of a launcher that ends, 500.

mod denial;
mod domain;
mod ending;
mod guest;
mod migration;
mod stats;

pub use denial::{Denial, DenialFacts, DenialReason};
pub use domain::{Domain, MonitorCommand};
pub use ending::Ending;
pub use guest::{
    Exec, Executed, Freeze, GuestCommand, GuestFile, GuestFileAnswer, GuestFilesystem, GuestInfo,
    GuestInterface, GuestLoad, GuestUser, LONGEST_FREEZE,
};
pub use migration::{
    Migrate, Migration, MigrationLimits, MigrationMode, MigrationPhase, MigrationProgress, MigrationSockets,
    Release, release_socket,
};
pub use stats::{DiskStats, InterfaceStats, MemoryStats, Stats, VcpuState, VcpuStats};

use crate::fault::Fault;
use crate::lease::{Lease, Lease6};
use crate::machine::hardware::Hardware;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Name of our stream protocol in the header `Upgrade`.
pub const STREAM: &str = "coracle-stream";

/// User and group of a launcher in its pod, and of its QEMU: the owner of a VMI's disks.
pub const USER: u32 = 107;

/// A VMI to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sync {
    pub vmi: Value,
    /// Generation of the object; a request with an older one than the last is refused.
    pub generation: u64,
    /// Disks, networks and devices of the VMI on this host.
    pub resolved: Resolved,
}

/// Disks, networks and devices of a VMI on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    pub accelerator: Accelerator,
    /// Volumes by name. Files that the launcher creates itself (seeds, empty disks) are not here, unless
    /// their texts come from elsewhere.
    #[serde(default)]
    pub volumes: BTreeMap<String, Source>,
    /// Sockets on which virtiofsd waits for QEMU, by the name of the file system.
    #[serde(default)]
    pub filesystems: BTreeMap<String, PathBuf>,
    /// Networks by the name of the interface.
    #[serde(default)]
    pub interfaces: BTreeMap<String, Link>,
    /// A kernel that is started without a boot loader.
    #[serde(default)]
    pub kernel: Option<Kernel>,
    /// Secrets and ConfigMaps that the VMI names without a volume (keys, passwords, texts of cloud-init): a folder
    /// each, one file per key.
    #[serde(default)]
    pub secrets: BTreeMap<String, PathBuf>,
    /// Context ID of the VMI's VSOCK device.
    #[serde(default)]
    pub vsock: Option<u32>,
    /// Files that outlive the VMI beside its disks. Unset: they lie with the launcher's own files.
    #[serde(default)]
    pub state: Option<StatePlace>,
    /// Settings of the cluster for the hardware of every VMI.
    #[serde(default)]
    pub hardware: Hardware,
    /// Hooks that change the domain before the VMI starts, in order.
    #[serde(default)]
    pub hooks: Vec<Hook>,
    /// Networks of the pod for hook sidecars, as JSON; `None` if no sidecar asks for them.
    #[serde(default)]
    pub network_info: Option<String>,
}

/// A program that changes the domain before the VMI starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Hook {
    /// A hook sidecar, reached by gRPC on its own socket.
    Sidecar {
        /// Name of the sidecar's container.
        container: String,
        /// Folder in which the sidecar creates its socket.
        folder: PathBuf,
    },
    /// A program of this host. Its arguments are the VMI and the domain; it prints the changed domain.
    Script { path: PathBuf },
}

/// Paths of the state that outlives a VMI. Missing files are created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePlace {
    /// File with the variables of the EFI firmware.
    pub variables: PathBuf,
    /// Folder with the state of the TPM.
    pub tpm: PathBuf,
}

/// Mode in which QEMU runs the guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// Hardware virtualization by KVM.
    Kvm,
    /// Software emulation by QEMU (TCG).
    #[default]
    Emulation,
}

/// Location of a volume's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Source {
    /// A disk image that is only read; the launcher puts an overlay over it.
    Image { path: PathBuf, format: Format },
    /// A disk image in a file that is written.
    File {
        path: PathBuf,
        format: Format,
        /// All blocks are allocated, so nothing is discarded.
        #[serde(default)]
        preallocated: bool,
    },
    /// A block device that is written.
    Block { path: PathBuf },
    /// A folder whose files become an ISO image.
    Folder { path: PathBuf },
    /// An optional ConfigMap or Secret that does not exist; the ISO image is empty.
    Absent,
}

/// Format of a disk image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    Raw,
    Qcow2,
}

/// Link of an interface to a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Link {
    /// An existing tap device.
    Tap {
        name: String,
        /// MAC address of the guest.
        mac: String,
        #[serde(default)]
        mtu: Option<u32>,
        /// DHCP lease of the guest; `None` if the guest gets its address from elsewhere.
        #[serde(default)]
        dhcp: Option<Box<Lease>>,
        /// DHCPv6 lease of the guest.
        #[serde(default)]
        dhcp6: Option<Box<Lease6>>,
    },
    /// A virtual function of a network card of this host, passed through to the guest.
    Device {
        /// PCI address of the device, such as `0000:65:00.2`.
        address: String,
        /// MAC address of the guest, if one is set.
        #[serde(default)]
        mac: Option<String>,
    },
    /// An interface that the sidecar of a network binding plugin adds to the domain.
    Sidecar {
        /// MAC address of the guest, if the VMI sets it.
        #[serde(default)]
        mac: Option<String>,
    },
    /// A passt process, which libvirt starts beside QEMU. The guest shares the addresses of a network card.
    Passt {
        /// Name of the network card.
        device: String,
        /// MAC address of the guest.
        mac: String,
    },
    /// A user-mode network of one guest: it needs no root, and allows outgoing connections and forwarded
    /// ports.
    User {
        /// MAC address of the guest.
        mac: String,
        /// The guest's network, like `10.0.2.0/24`.
        #[serde(default)]
        cidr: Option<String>,
        /// Ports of this host that are forwarded to the guest.
        #[serde(default)]
        forwards: Vec<Forward>,
        /// The guest has no outgoing connections, only the forwarded ports.
        #[serde(default)]
        isolated: bool,
    },
}

impl Link {
    /// Ports of this computer that lead to the guest, which a user-mode network alone has.
    pub fn forwards(&self) -> &[Forward] {
        match self {
            Link::User { forwards, .. } => forwards,
            Link::Tap { .. } | Link::Device { .. } | Link::Sidecar { .. } | Link::Passt { .. } => &[],
        }
    }
}

/// A port of this host that is forwarded to the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    /// Protocol: `tcp` or `udp`.
    pub protocol: String,
    /// The address to listen on.
    pub address: String,
    /// The port to listen on.
    pub port: u16,
    pub guest_port: u16,
}

/// A kernel on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    pub kernel: PathBuf,
    #[serde(default)]
    pub initrd: Option<PathBuf>,
    #[serde(default)]
    pub args: Option<String>,
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// Accepted; the state shows when it is done.
    Queued,
    /// Without effect, for this reason.
    Ignored { reason: String },
    /// Refused.
    Denied(Denial),
}

/// A request about the VMI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "camelCase")]
pub enum Request {
    /// Start the VMI again after it has stopped.
    Start,
    /// Ask the guest to shut down, and destroy the domain after the grace period. Of several requests the one
    /// with the earliest end counts.
    Shutdown {
        /// Seconds since the first such request reached the guest, by a monotonic clock. Unset: the VMI's own
        /// grace period.
        #[serde(default)]
        grace: Option<u64>,
    },
    /// Destroy the domain at once.
    Destroy,
    /// Ask the guest to reboot.
    Reboot,
    /// Press the reset button.
    Reset,
    Pause,
    Unpause,
    /// Stop the vCPUs, because the disk of the node is nearly full and the VMI's disks on it grow. State and
    /// condition have a reason of their own ([`PAUSED_BY_DISK_PRESSURE`]). A VMI that is paused already stays
    /// what it is.
    PauseForDiskPressure {
        /// Message of the state: cause, and what to do.
        message: String,
    },
    /// Let the vCPUs run after a pause for disk pressure. Ignored after any other pause.
    ResumeAfterDiskPressure,
    /// Eject the media of a CD-ROM drive.
    Eject {
        /// Name of the disk.
        disk: String,
    },
    /// Insert media into a CD-ROM drive.
    Insert {
        /// Name of the disk.
        disk: String,
        path: PathBuf,
        format: Format,
    },
    /// Plug the cable of an interface in, or unplug it.
    Link {
        /// Name of the interface.
        interface: String,
        /// True to plug the cable in.
        up: bool,
    },
    /// Add or remove a device. Not supported yet.
    Hotplug,
    /// Take a snapshot. Not supported yet.
    Snapshot,
    /// Migrate the VMI to another launcher. The state has its progress and its end.
    Migrate(Box<Migrate>),
    /// Abort a migration. Ignored where that one is not in progress.
    AbortMigration {
        /// Identity of the migration.
        id: String,
    },
    /// Let a VMI go on that has arrived from another launcher: its domain there is gone. Ignored in all other states than
    /// [`AWAITS_RELEASE`].
    Release(Release),
}

/// Value of [`State::reason`] for a VMI that failed to start …
pub const START_FAILED: &str = "StartFailed";
/// … and for one that cannot start as it is: a part of it is broken, hostile, or of the wrong kind.
pub const REFUSED: &str = "StartRefused";
/// … and of one in [`Life::Preparing`] whose start waits for room on a disk of its node: it is tried again and again.
pub const NO_SPACE: &str = "NoSpace";

/// The [`State::reason`] of a VMI that has gone to another launcher.
pub const MIGRATED: &str = "Migrated";
/// … and of one whose launcher ended while it migrated: where it runs is not known here.
pub const MIGRATION_UNKNOWN: &str = "MigrationUnknown";
/// … and of one that was to come from another launcher, and is not here.
pub const NOT_RECEIVED: &str = "NotReceived";
/// … and of one that has arrived from another launcher, and is paused until that one has none any more.
pub const AWAITS_RELEASE: &str = "AwaitsRelease";
/// … and of one that is paused until its memory is copied.
pub const PAUSED_BY_MIGRATION: &str = "PausedByMigrationMonitor";

/// True for the reason of a launcher whose guest has gone to the target of a migration, or may have.
pub fn may_have_left(reason: &str) -> bool {
    [MIGRATED, MIGRATION_UNKNOWN].contains(&reason)
}

/// The [`State::reason`] of a VMI that is paused because the disk of its node is nearly full.
pub const PAUSED_BY_DISK_PRESSURE: &str = "PausedByDiskPressure";

/// … and because QEMU could not read or write one of its disks, or the storage of one is full.
pub const PAUSED_BY_IO_ERROR: &str = "PausedIOError";

/// True for the reason of a pause that ends when the guest has gone to the target of a migration.
pub fn ends_with_source(reason: &str) -> bool {
    [PAUSED_BY_MIGRATION, PAUSED_BY_DISK_PRESSURE, PAUSED_BY_IO_ERROR].contains(&reason)
}

/// The state of the VMI.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Number that rises with every change.
    pub number: u64,
    /// Generation of the VMI object that this state is about.
    pub generation: u64,
    pub life: Life,
    /// CamelCase reason of it, the contract's where it has one: `PausedByUser`, `PausedIOError`,
    /// `GuestPanicked`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable message about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time of the last change of `life`, RFC 3339.
    pub since: String,
    /// Request that was accepted and is not done yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Grace period in seconds since the guest was first asked to shut down. Unset before that, and by older
    /// launchers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<u64>,
    /// The QEMU process of the VMI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu_pid: Option<u32>,
    /// Start of that process in clock ticks since the boot of its host, as in `/proc/PID/stat`. A later
    /// process with the same ID has another start. Unset by older launchers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu_started: Option<u64>,
    /// True if the guest agent answers.
    pub agent: bool,
    /// True if file systems of the guest are frozen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    /// SELinux context of the launcher's process, `none` on a host without SELinux. Unset by older launchers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selinux: Option<String>,
    /// Checksums of the kernel from a container image, for a VMI that boots one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_boot: Option<KernelChecksums>,
    /// Progress of the SSH keys and passwords into the guest; `None` if the guest agent does not set any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// True while the launcher listens for another one, which migrates the VMI here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub receives: bool,
    /// The last migration to another launcher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,
    /// Target names (`vda`) by disk.
    #[serde(default)]
    pub targets: BTreeMap<String, String>,
    /// Sizes in bytes of the disks that the guest writes to directly, as it sees them. Unset by older launchers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, u64>,
    /// True if the cable is plugged in, by interface. Interfaces whose cable cannot be unplugged are missing.
    #[serde(default)]
    pub links: BTreeMap<String, bool>,
    /// Times at which each phase of the life began, in order, RFC 3339. Of more than 32 the middle ones are left out.
    #[serde(default)]
    pub phases: Vec<(Life, String)>,
}

/// CRC-32 checksums (IEEE) of the files of a direct kernel boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelChecksums {
    /// Checksum of the kernel.
    pub kernel: u32,
    /// Checksum of the initial file system, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initrd: Option<u32>,
}

/// Progress of the SSH keys and passwords of a VMI into the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The guest has all of them, as in their Secrets.
    pub synchronized: bool,
    /// CamelCase reason why it has not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message about the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Value of [`Credentials::reason`] while the guest agent does not answer.
pub const AGENT_OFFLINE: &str = "GuestAgentOffline";

/// Phase of a VMI's life, as its launcher sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Life {
    /// No VMI is known yet.
    #[default]
    Empty,
    /// Disks and seeds are being prepared.
    Preparing,
    Running,
    /// The vCPUs are stopped, and can be resumed.
    Paused,
    /// The guest was asked to shut down.
    Stopping,
    /// The VMI ended in success.
    Succeeded,
    /// The VMI ended in a failure, or could not start.
    Failed,
}

impl Life {
    /// True after the end of the VMI.
    pub fn is_final(self) -> bool {
        matches!(self, Life::Succeeded | Life::Failed)
    }

    /// The phase of a VirtualMachineInstance for this life.
    pub fn phase(self) -> &'static str {
        match self {
            Life::Empty | Life::Preparing => "Scheduled",
            Life::Running | Life::Paused | Life::Stopping => "Running",
            Life::Succeeded => "Succeeded",
            Life::Failed => "Failed",
        }
    }
}

/// Identity of the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    pub version: String,
    /// Process ID of the launcher.
    pub pid: u32,
    pub libvirt: String,
    /// URI of the libvirt connection.
    pub uri: String,
    /// Folder with all files of the launcher.
    pub root: PathBuf,
}

/// Refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Text of the error, for users.
    pub error: String,
    /// Faults of the VMI, where they are the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Remedy, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
