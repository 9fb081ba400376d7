//! The hypervisor as a trait of ours: its verbs, its events, its errors.
//!
//! ```text
//!  vm::effort ──about a dozen verbs──►  trait Hypervisor  ◄──implements── libvirt/ (in the program virt-launcher alone)
//!             ◄──────────── Event ────                    ◄──implements── fake.rs  (records each call)
//! ```
//!
//! **Owns** the types [`Condition`], [`End`], [`Event`], [`Error`]. No type of libvirt leaves its implementation. A domain
//! is identified by its name; a missing one is [`ErrorKind::NotFound`], never a panic and never a text to search in.
//! **Verbs block,** some without an end: libvirt waits for QEMU, and QEMU for its storage. Callers use a thread of its own
//! (`launcher::threads`).
//! **Both implementations pass one suite**: `launcher/tests/hypervisor/main.rs`.

pub mod embed;
mod error;
pub mod fake;
pub mod passt;

pub use error::{Error, ErrorKind, Result};

use api::launcher::{Domain, MonitorCommand, Stats};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

fn unsupported(name: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("show the domain {name}"), "this hypervisor cannot")
}

/// Runs domains.
pub trait Hypervisor: Send + Sync + 'static {
    /// Version and URI.
    fn about(&self) -> Result<About>;

    /// True if a disk may have several IOThreads. May start QEMU to ask for its version.
    fn has_iothread_mapping(&self) -> Result<bool>;

    /// Sends the events of the domain from now on. Called from a thread of the hypervisor's; must not block.
    fn watch(&self, name: &str, tell: Tell) -> Result<()>;

    /// Defines a domain, or gives a defined one that does not run a new description.
    fn define(&self, xml: &str) -> Result<()>;

    /// Removes the definition of a domain that does not run.
    fn undefine(&self, name: &str) -> Result<()>;

    /// Starts a defined domain, with its vCPUs stopped: the serial console can be opened before the guest's first word.
    fn start(&self, name: &str) -> Result<()>;

    /// Opens the serial console of a domain that runs, if it has one.
    fn line(&self, name: &str) -> Result<Option<OwnedFd>>;

    /// The state of a domain.
    fn look(&self, name: &str) -> Result<Seen>;

    /// Presses the power button: the guest is asked to shut down.
    fn shutdown(&self, name: &str) -> Result<()>;

    /// Ends the domain at once.
    fn destroy(&self, name: &str) -> Result<()>;

    /// Asks the guest to reboot.
    fn reboot(&self, name: &str) -> Result<()>;

    /// Presses the reset button.
    fn reset(&self, name: &str) -> Result<()>;

    /// Stops the vCPUs.
    fn pause(&self, name: &str) -> Result<()>;

    /// Lets the vCPUs run.
    fn resume(&self, name: &str) -> Result<()>;

    /// Changes the media of a CD-ROM, or ejects them: `disk` is the new XML of the whole disk.
    fn change_media(&self, name: &str, disk: &str) -> Result<()>;

    /// Takes the link of an interface down or up: `interface` is the new XML of the whole interface.
    fn change_link(&self, name: &str, interface: &str) -> Result<()>;

    /// Sends a command to the guest agent: JSON in, JSON out.
    fn agent(&self, name: &str, command: &str, patience: Duration) -> Result<String>;

    /// Usage of a running domain since its start.
    fn stats(&self, name: &str) -> Result<Stats>;

    /// Facts of a defined domain, for `virsh`.
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

    /// Writes a screenshot: PNG where QEMU can (7.1 and later), else PPM.
    fn screenshot(&self, name: &str, into: &mut dyn Write) -> Result<()>;
}

/// The receiver of events.
pub type Tell = Box<dyn Fn(Event) + Send + Sync>;

/// Version and URI of a hypervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its version.
    pub version: String,
    /// The URI.
    pub uri: String,
}

/// The state of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Running, paused or off.
    pub condition: Condition,
    /// The process of QEMU.
    pub pid: Option<u32>,
    /// The start of that process, in clock ticks since boot.
    pub started: Option<u64>,
    /// True if the guest agent has opened its channel.
    pub agent: bool,
}

/// Running, paused or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The vCPUs run.
    Running,
    /// The vCPUs are stopped.
    Paused(Pause),
    /// The guest has shut down, its process still exists.
    Ending,
    /// There is no process.
    Off(End),
}

/// The reason of stopped vCPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// On request, or since the start.
    Asked,
    /// A disk could not be read or written.
    IoError,
    /// The guest did not answer its watchdog.
    Watchdog,
    /// The guest has panicked.
    Panicked,
    /// A short pause of the hypervisor's own.
    Passing,
}

/// The way in which a domain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest switched itself off.
    Shutdown,
    /// It was destroyed.
    Destroyed,
    /// The process died, or the guest panicked.
    Crashed,
    /// It could not start.
    Failed,
    /// It was saved or migrated away.
    Left,
    /// Unknown: it was never started, or ended while no launcher watched.
    Unknown,
}

/// An event of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process has started.
    Started,
    /// The vCPUs run.
    Resumed,
    /// The vCPUs were stopped.
    Paused(Pause),
    /// The guest has shut down; the process ends next.
    Ending,
    /// The guest has panicked.
    Panicked,
    /// The process has ended.
    Ended(End),
    /// The guest rebooted.
    Rebooted,
    /// A disk could not be read or written.
    IoError {
        /// The disk's name in the VM, where it has one.
        disk: Option<String>,
        /// The file or device.
        path: String,
        /// There is no space for the guest's writes.
        no_space: bool,
        /// The domain is paused for it.
        paused: bool,
    },
    /// The guest did not answer its watchdog.
    Watchdog {
        /// The domain is reset, and runs on.
        reset: bool,
    },
    /// The guest agent opened (or closed) its channel.
    Agent(bool),
    /// The connection to the hypervisor is gone.
    Lost(String),
}
