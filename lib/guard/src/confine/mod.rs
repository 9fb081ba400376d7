//! Confinement: a parser that an attacker has taken over can reach nothing else.
//!
//! The author of an image chooses every byte that our parsers and the decoders below them (zstd, xz, deflate)
//! see. This module limits the damage if one of them has a fault that lets an image run its own code. It adds
//! two layers, each made of Landlock (files, TCP ports, signals), seccomp (system calls) and
//! no-new-privileges:
//!
//! ```text
//!  program ── Process::enter(): first thing, before the source is opened and before any other thread exists
//!     │         files:  read what the command line names, write in the target's folder, and nothing else
//!     │         calls:  no exec, no fork, no ptrace, no new sockets but TCP and UDP where the network is needed
//!     │
//!     └─ threads that parse or decode ── parser(), or a thread of run_confined()
//!               files:  none can be opened
//!               calls:  memory, threads, time, and reading and writing what is open already; no memory that is
//!                       both written and run
//! ```
//!
//! **Why it comes first.** Before its ABI 8 Landlock restricts the calling thread and the threads that it
//! starts, and no others. A thread that was started earlier would stay free, and one free thread is enough
//! for an attacker, since threads share their memory. So a command states beforehand which paths it will use
//! ([`Process`]), and everything is opened inside. Files that are needed late (the `.partial`, its journal,
//! the rename, the spool) lie below a folder that was named. The filter of system calls is applied to all
//! threads at once (`TSYNC`).
//!
//! **What the inner layer is worth.** Threads share their memory. An attacker in a parser's thread has no
//! call that opens anything, but may write into the memory of another thread of the program and hope to steer
//! it. The attacker then has the rights that the outer layer leaves. The outer layer is therefore the
//! promise: *the source, the target's folder, and the network where the source or target is there*. The inner
//! one makes it harder to get that far.
//!
//! **Modes and owners** of files are set by a separate process ([`set_attributes`]), and only of files that
//! were opened for writing. A file can be given to this user, or to the owner of a file that it replaces
//! ([`Process::replaces`]), and to no other user. That process can make no other calls.
//!
//! **A call that is not allowed fails with `EPERM`** and does not kill the program. The lists name the
//! allowed calls, so a C library newer than the list would otherwise end an import just for testing whether a
//! call exists; such callers cope with an error. An attacker gains nothing by trying again. Calls of another
//! architecture (32-bit ones) do kill, since no program of this project ever makes one. Calls by the x32
//! numbers are not in the lists.
//!
//! **Where the kernel has neither** (before 5.13, built without it, or a container's own filter forbids it)
//! the program works as before, and [`Process::enter`] logs that in one line at `-v`. [`offered`] reports the
//! support of this host. `CORACLE_CONFINE=off` leaves both layers out, to find out whether a fault comes from
//! here, and to measure. Any other value leaves both in; commands for users refuse values that they do not
//! know ([`check_switch`]).
//!
//! **Side effects.** Names that only a daemon behind a unix socket can resolve (mDNS, sssd) are not found. As
//! root, a `/etc/resolv.conf` that is replaced while a transfer runs is not read again; as an ordinary user
//! it is.
//!
//! Only Linux on x86_64 and aarch64 is supported. On other platforms every function here does nothing and
//! reports that.

mod process;
mod state;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "linux/mod.rs"]
mod system;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[path = "unsupported.rs"]
mod system;

pub use process::{Process, Use};
pub use state::{Confined, InForce};

use std::cell::Cell;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Once;
use std::thread;

/// Environment variable that switches the confinement off.
pub const SWITCH: &str = "CORACLE_CONFINE";

fn is_switched_off() -> bool {
    static OFF: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *OFF.get_or_init(|| std::env::var_os(SWITCH).is_some_and(|value| value == OFF_WORD))
}

const OFF_WORD: &str = "off";
const ON_WORD: &str = "on";

/// A value of the variable that has no meaning: the user expects an effect that it does not have.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownValue(OsString);

impl std::error::Error for UnknownValue {}

impl fmt::Display for UnknownValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownValue(value) = self;
        write!(
            f,
            "{SWITCH} is {value:?}; it can be {ON_WORD} (as if it were not set) or {OFF_WORD} (nothing is confined)"
        )
    }
}

/// Checks the value of the variable, if it is set.
pub fn check_switch() -> Result<(), UnknownValue> {
    check(std::env::var_os(SWITCH))
}

fn check(value: Option<OsString>) -> Result<(), UnknownValue> {
    match value {
        Some(value) if !value.is_empty() && value != ON_WORD && value != OFF_WORD => Err(UnknownValue(value)),
        _ => Ok(()),
    }
}

/// Confines the calling thread, and the threads that it starts from now on, to the calls that a parser needs.
/// A thread that sees foreign bytes calls it first: nothing can be opened afterwards.
pub fn parser() {
    thread_local!(static DONE: Cell<bool> = const { Cell::new(false) });
    if is_switched_off() || DONE.replace(true) {
        return;
    }
    let confined = system::parser();
    // The result is the same for every thread of a process, so it is logged once.
    static SAID: Once = Once::new();
    SAID.call_once(|| tracing::debug!("threads that parse are confined by {confined}"));
}

/// Runs `work` on a thread that is confined to the calls that a parser needs, and waits for it. A panic in it
/// is raised again here. The error means that no thread could be started.
pub fn run_confined<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if is_switched_off() {
        return Ok(work());
    }
    let confined = || {
        parser();
        work()
    };
    let done =
        thread::scope(|scope| thread::Builder::new().spawn_scoped(scope, confined).map(|it| it.join()))?;
    Ok(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// File attributes that [`set_attributes`] sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attributes {
    /// Permissions; never setuid, setgid or sticky.
    Mode(u32),
    /// User ID and group ID.
    Owner(u32, u32),
}

/// Sets the mode or the owner of a file that is open for writing, also in a confined program. A confined
/// program can give a file to this user only, and to the owners of files that it has named beforehand
/// ([`Process::replaces`]).
pub fn set_attributes(file: &File, wish: Attributes) -> io::Result<()> {
    system::set(file, wish)
}

/// The support of this host, tried on a thread that ends right after.
pub fn offered() -> Confined {
    if is_switched_off() {
        return Confined::off(&format!("{SWITCH}=off"));
    }
    let tried = thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, system::parser)?;
        thread.join().map_err(|_| io::Error::other("the thread that tried it ended with a fault"))
    });
    tried.unwrap_or_else(|e| Confined::off(&e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_means_nothing_is_refused_with_those_that_do() {
        for known in [None, Some(""), Some("on"), Some("off")] {
            assert_eq!(check(known.map(Into::into)), Ok(()), "{known:?}");
        }
        for unknown in ["banana", "OFF", "0", "off "] {
            let said = check(Some(unknown.into())).unwrap_err().to_string();
            assert!(said.contains(&format!("CORACLE_CONFINE is {unknown:?}")), "{said}");
            assert!(said.contains("it can be on (") && said.contains("or off ("), "{said}");
        }
    }
}
