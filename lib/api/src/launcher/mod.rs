//! What is said between virt-launcher and whoever runs it: `coracle run` on a laptop, virt-handler in a cluster.
//!
//! HTTP and JSON on a unix socket, so that `curl --unix-socket` works:
//!
//! ```text
//! GET  /v1/info                 Info
//! PUT  /v1/vm                   Sync     ─► Answer   the VMI and where its parts are; starts nothing twice
//! GET  /v1/state                State                as it is now
//! GET  /v1/state?watch          State, State, …      one JSON text a line, at once and after every change
//! POST /v1/requests             Request  ─► Answer
//! GET  /v1/stats                Stats                what it has used since it began
//! GET  /v1/domain               Domain               as libvirt has it, for virsh in the launcher pod
//! GET  /v1/domain/stats         [[NAME, VALUE], …]   all that libvirt counts of it, by libvirt's names
//! POST /v1/domain/monitor       MonitorCommand ─► QEMU's answer, a JSON text
//! GET  /v1/screenshot[?wake]    image/png            wake: the pointer is moved first
//! GET  /v1/guest/info           GuestInfo            and /users, /filesystems: what the guest agent says
//! POST /v1/guest/exec           Exec     ─► Executed
//! POST /v1/guest/freeze         Freeze
//! POST /v1/guest/thaw           {}                   and /ping
//! GET  /v1/console[?WAY]        Upgrade: coracle-stream; the serial console, last screen first
//! GET  /v1/vnc[?WAY]            Upgrade: coracle-stream; RFB
//! GET  /v1/usbredir             Upgrade: coracle-stream; usbredir, of a USB device that the client has
//! ```
//!
//! Without a WAY a stream is only read. `write` types, unless another client does; `take` types in its place, and the other
//! reads on; `take&alone` closes all that came to type.
//!
//! Whatever goes wrong is answered with a status of 4xx or 5xx and a [`Refusal`]. Of `PUT /v1/vm` a 422 with faults alone is final:
//! the VMI cannot run as it is. Everything else may pass: 507 while there is no room, 503 of a launcher that ends, 500.

mod domain;
mod ending;
mod guest;
mod stats;

pub use domain::{Domain, MonitorCommand};
pub use ending::Ending;
pub use guest::{
    Exec, Executed, Freeze, GuestCommand, GuestFilesystem, GuestInfo, GuestInterface, GuestLoad, GuestUser,
    LONGEST_FREEZE,
};
pub use stats::{DiskStats, InterfaceStats, MemoryStats, Stats, VcpuState, VcpuStats};

use crate::fault::Fault;
use crate::lease::{Lease, Lease6};
use crate::machine::hardware::Hardware;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a stream that leaves HTTP is called in `Upgrade`.
pub const STREAM: &str = "coracle-stream";

/// The user and the group of a launcher in its pod, and of its QEMU: the owner of a VMI's disks.
pub const USER: u32 = 107;

/// A VMI that should run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sync {
    /// The VirtualMachineInstance, as its object stands.
    pub vmi: Value,
    /// The object's generation; an older one than the last is refused.
    pub generation: u64,
    /// Where its parts are on this host.
    pub resolved: Resolved,
}

/// Where the parts of a VMI are on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// What runs the guest's instructions.
    pub accelerator: Accelerator,
    /// By the name of the volume. What the launcher makes itself (seeds, empty disks) is not here, unless its texts come
    /// from elsewhere.
    #[serde(default)]
    pub volumes: BTreeMap<String, Source>,
    /// By the name of the file system: the socket on which virtiofsd waits for QEMU.
    #[serde(default)]
    pub filesystems: BTreeMap<String, PathBuf>,
    /// By the name of the interface.
    #[serde(default)]
    pub interfaces: BTreeMap<String, Link>,
    /// A kernel that is started without a boot loader.
    #[serde(default)]
    pub kernel: Option<Kernel>,
    /// Secrets and ConfigMaps that the VMI names without a volume (keys, passwords, texts of cloud-init): a folder
    /// each, one file per key.
    #[serde(default)]
    pub secrets: BTreeMap<String, PathBuf>,
    /// The context ID of its VSOCK device.
    #[serde(default)]
    pub vsock: Option<u32>,
    /// What outlives the VMI beside its disks. Unset: it lies with what the launcher keeps itself.
    #[serde(default)]
    pub state: Option<StatePlace>,
    /// What the cluster says of the hardware of every VMI.
    #[serde(default)]
    pub hardware: Hardware,
    /// What changes the domain before the VMI starts, in order.
    #[serde(default)]
    pub hooks: Vec<Hook>,
    /// What hook sidecars are told of the networks of the pod, as JSON; nothing where none is told.
    #[serde(default)]
    pub network_info: Option<String>,
}

/// Something that changes the domain before the VMI starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Hook {
    /// A hook sidecar, which speaks gRPC on a socket of its own.
    Sidecar {
        /// The name of its container.
        container: String,
        /// The folder in which it makes its socket.
        folder: PathBuf,
    },
    /// A program of this host: it is given the VMI and the domain as arguments, and writes the domain.
    Script {
        /// The program.
        path: PathBuf,
    },
}

/// Where the state of a VMI that outlives it is kept. What is missing there is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePlace {
    /// The file with the variables of the EFI firmware.
    pub variables: PathBuf,
    /// The folder with the state of the TPM.
    pub tpm: PathBuf,
}

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// The processor itself.
    Kvm,
    /// QEMU.
    #[default]
    Emulation,
}

/// Where the bytes of a volume are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Source {
    /// A disk that is only read; the launcher lays an overlay over it.
    Image {
        /// The disk.
        path: PathBuf,
        /// How its bytes are laid out.
        format: Format,
    },
    /// A file that is written.
    File {
        /// The disk.
        path: PathBuf,
        /// How its bytes are laid out.
        format: Format,
        /// All its blocks are there: nothing is discarded.
        #[serde(default)]
        preallocated: bool,
    },
    /// A block device that is written.
    Block {
        /// The device.
        path: PathBuf,
    },
    /// A folder whose files become an ISO image.
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// An optional one that is not there: the ISO image is empty.
    Absent,
}

/// How the bytes of a disk are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    Raw,
    Qcow2,
}

/// How an interface is linked to a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Link {
    /// A tap device that is there.
    Tap {
        /// Its name.
        name: String,
        /// The guest's address.
        mac: String,
        /// The largest packet.
        #[serde(default)]
        mtu: Option<u32>,
        /// What the guest is told by DHCP; nothing where it finds its address elsewhere.
        #[serde(default)]
        dhcp: Option<Box<Lease>>,
        /// The same of DHCPv6.
        #[serde(default)]
        dhcp6: Option<Box<Lease6>>,
    },
    /// A virtual function of a card of this host, which the guest has whole.
    Device {
        /// Its PCI address: `0000:65:00.2`.
        address: String,
        /// The guest's address, where somebody says it.
        #[serde(default)]
        mac: Option<String>,
    },
    /// What the sidecar of a network binding plugin writes into the domain.
    Sidecar {
        /// The guest's address, where the VMI says it.
        #[serde(default)]
        mac: Option<String>,
    },
    /// A passt of the guest, which libvirt starts beside QEMU: it lends the guest the addresses of a card.
    Passt {
        /// The card's name.
        device: String,
        /// The guest's address.
        mac: String,
    },
    /// A network of one guest in user space: no root, only what the guest begins, and forwards.
    User {
        /// The guest's address.
        mac: String,
        /// The guest's network, like `10.0.2.0/24`.
        #[serde(default)]
        cidr: Option<String>,
        /// Ports of this host that lead to the guest.
        #[serde(default)]
        forwards: Vec<Forward>,
        /// The guest reaches nothing but this host's forwards.
        #[serde(default)]
        isolated: bool,
    },
}

/// A port of this host that leads to the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The address to listen on.
    pub address: String,
    /// The port to listen on.
    pub port: u16,
    /// The guest's port.
    pub guest_port: u16,
}

/// A kernel on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The kernel.
    pub kernel: PathBuf,
    /// Its initial file system.
    #[serde(default)]
    pub initrd: Option<PathBuf>,
    /// Its arguments.
    #[serde(default)]
    pub args: Option<String>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// It will be done; the state tells when.
    Queued,
    /// There is nothing to do.
    Ignored {
        /// Why.
        reason: String,
    },
    /// It will not be done.
    Denied {
        /// Why.
        reason: String,
    },
}

/// What is wanted of the VMI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "camelCase")]
pub enum Request {
    /// Start it again after it has stopped.
    Start,
    /// Ask the guest to end; cut it off after the grace period. Of several requests the one with the earliest end counts.
    Shutdown {
        /// In seconds since the first such request reached the guest, by a clock that nobody sets; else the VMI's own.
        #[serde(default)]
        grace: Option<u64>,
    },
    /// Cut it off.
    Destroy,
    /// Ask the guest to begin anew.
    Reboot,
    /// Press the button.
    Reset,
    /// Stop the processors.
    Pause,
    /// Let them run.
    Unpause,
    /// Eject the media of a CD-ROM drive.
    Eject {
        /// The disk's name.
        disk: String,
    },
    /// Insert media into a CD-ROM drive.
    Insert {
        /// The disk's name.
        disk: String,
        /// The media.
        path: PathBuf,
        /// How its bytes are laid out.
        format: Format,
    },
    /// Plug the cable of an interface in, or unplug it.
    Link {
        /// The interface's name.
        interface: String,
        /// It is plugged in.
        up: bool,
    },
    /// Add or remove a device. Not supported yet.
    Hotplug,
    /// Keep a moment. Not supported yet.
    Snapshot,
    /// Move it to another host. Not supported yet.
    Migrate,
}

/// The [`State::reason`] of a VMI that could not start …
pub const START_FAILED: &str = "StartFailed";
/// … and of one that cannot as it is: a part of it is broken, hostile, or not what it should be.
pub const REFUSED: &str = "StartRefused";
/// … and of one in [`Life::Preparing`] whose start waits for room on a disk of its node: it is tried again and again.
pub const NO_SPACE: &str = "NoSpace";

/// The state of the VMI.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Rises with every change.
    pub number: u64,
    /// The generation of the object that this is about.
    pub generation: u64,
    /// Where its life stands.
    pub life: Life,
    /// A word for it, in the contract's words where it has one: `PausedByUser`, `PausedIOError`, `GuestPanicked`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since when it stands so, RFC 3339.
    pub since: String,
    /// What was asked and is not done yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Seconds that the guest has to end, since it was first asked to; unset before, and by launchers that do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<u64>,
    /// The QEMU process of the VMI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu_pid: Option<u32>,
    /// Start of that process in clock ticks since the boot of its host, as `/proc/PID/stat` counts: another process that is
    /// given the same number later has another one. Unset by launchers that do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu_started: Option<u64>,
    /// The guest agent answers.
    pub agent: bool,
    /// File systems of the guest are frozen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    /// SELinux context of the launcher's process, `none` on a host without SELinux. Unset by launchers that do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selinux: Option<String>,
    /// Checksums of the kernel that a container image has, of a VMI that boots one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_boot: Option<KernelChecksums>,
    /// How far its keys and passwords are in the guest; nothing where the guest agent hands none over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// By disk: what the guest's driver would call it (`vda`).
    #[serde(default)]
    pub targets: BTreeMap<String, String>,
    /// By interface: its cable is plugged in. Those whose cable cannot be unplugged are not here.
    #[serde(default)]
    pub links: BTreeMap<String, bool>,
    /// When each life began, in order, RFC 3339.
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

/// How far the keys and passwords of a VMI are in the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The guest has all of them, as their Secrets say.
    pub synchronized: bool,
    /// A word for why it has not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The [`Credentials::reason`] while the guest agent does not answer.
pub const AGENT_OFFLINE: &str = "GuestAgentOffline";

/// Where the life of a VMI stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Life {
    /// Nothing is known of a VMI yet.
    #[default]
    Empty,
    /// Disks and seeds are made ready.
    Preparing,
    /// The processors run.
    Running,
    /// They are stopped, and may run on.
    Paused,
    /// The guest was asked to end.
    Stopping,
    /// It has ended as it should.
    Succeeded,
    /// It has ended as it should not, or could not begin.
    Failed,
}

impl Life {
    /// It has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Life::Succeeded | Life::Failed)
    }

    /// The phase of a VirtualMachineInstance that this is.
    pub fn phase(self) -> &'static str {
        match self {
            Life::Empty | Life::Preparing => "Scheduled",
            Life::Running | Life::Paused | Life::Stopping => "Running",
            Life::Succeeded => "Succeeded",
            Life::Failed => "Failed",
        }
    }
}

/// Who the launcher is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// libvirt's version.
    pub libvirt: String,
    /// The connection it holds.
    pub uri: String,
    /// The folder that holds all it keeps.
    pub root: PathBuf,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// In a sentence.
    pub error: String,
    /// What is wrong with the VMI, where that is why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
