//! The hypervisor as a trait of ours: its verbs, its events, its errors.
//!
//! ```text
//!  vm::blocking_work ──about a dozen verbs──►  trait Hypervisor  ◄──implements── libvirt/ (in the program virt-launcher alone)
//!             ◄──────────── Event ────                    ◄──implements── fake.rs  (records each call)
//! ```
//!
//! **Owns** the types [`Condition`], [`End`], [`Event`], [`Error`]. No type of libvirt leaves its implementation. A domain
//! is identified by its name; a missing one is [`ErrorKind::NotFound`], never a panic and never a text to search in.
//! **Verbs block,** some without an end: libvirt waits for QEMU, and QEMU for its storage. Callers use a
//! separate thread
//! (`launcher::threads`).

pub mod embed;
mod error;
pub mod fake;
pub mod passt;
pub mod receiver;

pub use error::{Error, ErrorKind, Result};

use api::launcher::{Domain, Migrate, MigrationMode, MigrationProgress, MonitorCommand, Stats};
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

fn unsupported(name: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("show the domain {name}"), "this hypervisor cannot")
}

/// A hypervisor that runs domains.
pub trait Hypervisor: Send + Sync + 'static {
    /// Version of libvirt, and URI of the connection.
    fn about(&self) -> Result<About>;

    /// True if a disk may have several IOThreads. May start QEMU to ask for its version.
    fn has_iothread_mapping(&self) -> Result<bool>;

    /// Registers the receiver of the domain's events. It is called from a thread of the hypervisor, and must
    /// not block.
    fn watch(&self, name: &str, tell: Tell) -> Result<()>;

    /// Defines a domain, or changes the definition of one that does not run.
    fn define(&self, xml: &str) -> Result<()>;

    /// Removes the definition of a domain that does not run.
    fn undefine(&self, name: &str) -> Result<()>;

    /// Starts a defined domain with stopped vCPUs, so that the serial console can be opened before the
    /// guest's first output.
    fn start(&self, name: &str) -> Result<()>;

    /// Opens the serial console of a running domain, if it has one.
    fn line(&self, name: &str) -> Result<Option<OwnedFd>>;

    /// Gives QEMU an open file. QEMU keeps it under this label until its process ends, and does nothing with it.
    fn keep_file(&self, name: &str, label: &str, file: BorrowedFd<'_>) -> Result<()>;

    /// The state of a domain.
    fn state(&self, name: &str) -> Result<DomainState>;

    /// Presses the power button, which asks the guest to shut down.
    fn shutdown(&self, name: &str) -> Result<()>;

    /// Ends the domain at once.
    fn destroy(&self, name: &str) -> Result<()>;

    /// Asks the guest to reboot.
    fn reboot(&self, name: &str) -> Result<()>;

    /// Presses the reset button.
    fn reset(&self, name: &str) -> Result<()>;

    fn pause(&self, name: &str) -> Result<()>;

    fn resume(&self, name: &str) -> Result<()>;

    /// Changes the media of a CD-ROM, or ejects them. `disk`: new XML of the whole disk.
    fn change_media(&self, name: &str, disk: &str) -> Result<()>;

    /// Takes the link of an interface down or up. `interface`: new XML of the whole interface.
    fn change_link(&self, name: &str, interface: &str) -> Result<()>;

    /// Sends a command to the guest agent, JSON in and out.
    fn agent(&self, name: &str, command: &str, patience: Duration) -> Result<String>;

    /// Resource usage of a running domain since its start.
    fn stats(&self, name: &str) -> Result<Stats>;

    /// Data of a defined domain, for `virsh`.
    fn domain(&self, name: &str) -> Result<Domain> {
        Err(unsupported(name))
    }

    /// All statistics of a domain, by libvirt's names, for `virsh`.
    fn records(&self, name: &str) -> Result<Vec<(String, String)>> {
        Err(unsupported(name))
    }

    /// Sends a command to QEMU's monitor, and returns its answer.
    fn monitor(&self, name: &str, command: &MonitorCommand) -> Result<String> {
        let _ = command;
        Err(unsupported(name))
    }

    /// Migrates a running domain to the driver behind the order's sockets. Blocks until it has gone, or has stayed.
    /// `disks`: targets (`vda`) of the disks that are copied.
    fn migrate(&self, name: &str, order: &Migrate, disks: &[String]) -> Result<()> {
        let _ = (order, disks);
        Err(unsupported(name))
    }

    /// Progress of the domain's migration; `None` before its first pass.
    fn migration_progress(&self, name: &str) -> Result<Option<MigrationProgress>> {
        Err(unsupported(name))
    }

    /// Aborts the domain's migration. The call to [`migrate`](Self::migrate) returns later.
    fn abort_migration(&self, name: &str) -> Result<()> {
        Err(unsupported(name))
    }

    /// Limits the pause of the guest at the end of its migration.
    fn limit_downtime(&self, name: &str, limit: Duration) -> Result<()> {
        let _ = limit;
        Err(unsupported(name))
    }

    /// Lets the guest go on at the target, before all of its memory is there.
    fn start_post_copy(&self, name: &str) -> Result<()> {
        Err(unsupported(name))
    }

    /// Receives a domain that another launcher migrates here, through `socket`, as this `domain`. `listens` is called when that launcher may
    /// connect. Blocks until the domain is here; an error means that it is not, [`ErrorKind::Ended`] that its guest has run here. All other
    /// verbs fail before. False where the domain is here and paused, since that launcher has not said that its own domain is gone.
    fn receive(&self, name: &str, domain: &str, socket: &Path, listens: &mut dyn FnMut()) -> Result<bool> {
        let _ = (domain, socket, listens);
        Err(unsupported(name))
    }

    /// Gives a reception up. A domain that is here already stays, paused.
    fn stop_receiving(&self) {}

    /// Writes a screenshot: PNG if QEMU supports it (7.1 and later), else PPM.
    fn screenshot(&self, name: &str, into: &mut dyn Write) -> Result<()>;
}

/// The receiver of events.
pub type Tell = Box<dyn Fn(Event) + Send + Sync>;

/// Version and URI of a hypervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    pub version: String,
    pub uri: String,
}

/// The state of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainState {
    pub condition: Condition,
    /// Process ID of QEMU.
    pub pid: Option<u32>,
    /// Start time of that process, in clock ticks since boot.
    pub started: Option<u64>,
    /// True if the guest agent has opened its channel.
    pub agent: bool,
}

/// State of a domain's process and vCPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Running,
    /// The vCPUs are stopped.
    Paused(Pause),
    /// The guest has shut down, and its process still exists.
    Ending,
    /// The process does not exist.
    Off(End),
}

/// Reason why the vCPUs are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// A request, or the start.
    Asked,
    /// A read or write error of a disk.
    IoError,
    /// A watchdog that the guest did not feed.
    Watchdog,
    /// A panic of the guest.
    Panicked,
    /// A short pause by the hypervisor itself.
    Passing,
}

/// Cause of a domain's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest shut down.
    Shutdown,
    Destroyed,
    /// The process crashed, or the guest panicked.
    Crashed,
    Failed,
    /// The domain was saved or migrated away.
    Left,
    /// Unknown: never started, or ended while no launcher watched.
    Unknown,
}

/// An event of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process has started.
    Started,
    /// The vCPUs were resumed.
    Resumed,
    /// The vCPUs were stopped.
    Paused(Pause),
    /// The guest has shut down; the process ends next.
    Ending,
    /// The guest has panicked.
    Panicked,
    /// The process has ended.
    Ended(End),
    Rebooted,
    /// A disk had a read or write error.
    IoError {
        /// Name of the disk in the VM, if it has one.
        disk: Option<String>,
        /// Path of the file or device.
        path: String,
        /// True if the host has no space for the guest's writes.
        no_space: bool,
        /// True if the domain is paused by the error.
        paused: bool,
    },
    /// The guest did not feed its watchdog.
    Watchdog {
        /// True if the domain is reset, and runs on.
        reset: bool,
    },
    /// The guest agent opened (`true`) or closed its channel.
    Agent(bool),
    /// The socket of the reception is ready: the other launcher may connect.
    Receives,
    /// Progress of the domain's migration, and the mode of its monitor, which tells it.
    Migrating {
        progress: MigrationProgress,
        mode: MigrationMode,
    },
    /// A limit of the domain's migration is over, and its monitor aborts it.
    MigrationAborts,
    /// The connection to the hypervisor is lost, for this reason.
    Lost(String),
}
