//! The hypervisor in our words: what is asked of it, what it says, how it fails.
//!
//! ```text
//!  vm::driver ──about a dozen verbs──►  trait Hypervisor  ◄──implements── libvirt.rs (in the program virt-launcher alone)
//!             ◄──────────── Event ────                    ◄──implements── fake.rs    (records the conversation)
//! ```
//!
//! **Owns** the words: [`Condition`], [`End`], [`Event`], [`Error`]. No type of libvirt passes this line. A domain is
//! named by its name; one that is not there is [`ErrorKind::NotFound`], never a panic and never a text to search in.
//! **Verbs block.** Whoever calls them does so on a thread of its own ([`tokio::task::spawn_blocking`] in the driver).
//! **Both implementations pass one suite**: `launcher/tests/hypervisor/conformance.rs`.

pub mod embed;
mod error;
pub mod fake;

pub use error::{Error, ErrorKind, Result};

use api::launcher::Stats;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Runs machines.
pub trait Hypervisor: Send + Sync + 'static {
    /// Who it is.
    fn about(&self) -> Result<About>;

    /// Tells what happens to the machine from now on. Called from a thread of the hypervisor's; must not block.
    fn watch(&self, name: &str, tell: Tell) -> Result<()>;

    /// Makes a machine known, or gives a known one that does not run a new description.
    fn define(&self, xml: &str) -> Result<()>;

    /// Forgets a machine that does not run.
    fn undefine(&self, name: &str) -> Result<()>;

    /// Starts a known machine. Its processors wait until they are let run: whoever listens to it can be there first.
    fn start(&self, name: &str) -> Result<()>;

    /// Opens the serial line of a machine that runs, if it has one.
    fn line(&self, name: &str) -> Result<Option<OwnedFd>>;

    /// How it is with a machine.
    fn look(&self, name: &str) -> Result<Seen>;

    /// Presses the power button: the guest is asked to end.
    fn shutdown(&self, name: &str) -> Result<()>;

    /// Cuts it off.
    fn destroy(&self, name: &str) -> Result<()>;

    /// Asks the guest to begin anew.
    fn reboot(&self, name: &str) -> Result<()>;

    /// Presses the reset button.
    fn reset(&self, name: &str) -> Result<()>;

    /// Stops the processors.
    fn pause(&self, name: &str) -> Result<()>;

    /// Lets them run.
    fn resume(&self, name: &str) -> Result<()>;

    /// Gives a drive another disc, or none: the XML of the whole disk as it shall be.
    fn change_media(&self, name: &str, disk: &str) -> Result<()>;

    /// Hands a command to the guest's agent: JSON in, JSON out.
    fn agent(&self, name: &str, command: &str, patience: Duration) -> Result<String>;

    /// What a machine that runs has used since it began.
    fn stats(&self, name: &str) -> Result<Stats>;

    /// Writes the screen as a picture: PNG where QEMU can (7.1 and later), else PPM.
    fn screenshot(&self, name: &str, into: &mut dyn Write) -> Result<()>;
}

/// Takes events.
pub type Tell = Box<dyn Fn(Event) + Send + Sync>;

/// Who a hypervisor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Its version.
    pub version: String,
    /// Where it was found.
    pub uri: String,
}

/// How it is with a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether it runs.
    pub condition: Condition,
    /// Its process.
    pub pid: Option<u32>,
    /// The guest's agent has opened its channel.
    pub agent: bool,
}

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Its processors run.
    Running,
    /// They are stopped.
    Paused(Pause),
    /// The guest has ended, its process not yet.
    Ending,
    /// There is no process.
    Off(End),
}

/// Why processors are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Somebody asked for it, or it began so.
    Asked,
    /// A disk could not be read or written.
    IoError,
    /// The guest did not answer its watchdog.
    Watchdog,
    /// The guest has panicked.
    Panicked,
    /// Something of the hypervisor's own that passes.
    Passing,
}

/// How a machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest switched itself off.
    Shutdown,
    /// It was cut off.
    Destroyed,
    /// Its process died, or the guest panicked.
    Crashed,
    /// It could not begin.
    Failed,
    /// It was saved or moved away.
    Left,
    /// Nobody knows: it was never started, or ended while nobody watched.
    Unknown,
}

/// What happens to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its process is there.
    Started,
    /// Its processors run.
    Resumed,
    /// They were stopped.
    Paused(Pause),
    /// The guest is about to end; its process follows.
    Ending,
    /// The guest has panicked.
    Panicked,
    /// There is no process any more.
    Ended(End),
    /// The guest began anew.
    Rebooted,
    /// A disk could not be read or written.
    IoError {
        /// The disk's name in the machine, where it has one.
        disk: Option<String>,
        /// The file or device.
        path: String,
        /// There is no space for what the guest writes.
        no_space: bool,
        /// The machine is paused for it.
        paused: bool,
    },
    /// The guest did not answer its watchdog.
    Watchdog {
        /// The machine is reset, and runs on.
        reset: bool,
    },
    /// The guest's agent opened (or closed) its channel.
    Agent(bool),
    /// The guest opened (or closed) a drive.
    Tray {
        /// The disk's name in the machine.
        disk: String,
        /// It is open.
        open: bool,
    },
    /// The connection to the hypervisor is gone.
    Lost(String),
}
