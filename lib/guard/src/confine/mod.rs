//! A parser that is taken over reaches nothing.
//!
//! Whoever makes an image chooses every byte that our parsers and the decoders below them (zstd, xz, deflate) see. This
//! module is for the day one of them has a fault that lets an image run its own code. Two layers, each made of Landlock
//! (files, TCP ports, signals), seccomp (system calls) and no-new-privileges:
//!
//! ```text
//!  program ── Process::enter(): first thing, before the source is opened and before any other thread exists
//!     │         files:  read what the command line names, write in the target's folder, and nothing else
//!     │         calls:  no exec, no fork, no ptrace, no new sockets but TCP and UDP where the network is needed
//!     │
//!     └─ threads that parse or decode ── parser(), or a thread of apart()
//!               files:  none can be opened
//!               calls:  memory, threads, time, and reading and writing what is open already; no memory that is
//!                       both written and run
//! ```
//!
//! **Why first thing.** Before its ABI 8 Landlock restricts the calling thread and the threads that it starts, and no
//! others. A thread that was started earlier would stay free, and one memory is all that a thief needs. So a command
//! states beforehand which paths it will use ([`Process`]), and everything is opened inside. What is needed late (the
//! `.partial`, its journal, the rename, the spool) lies below a folder that was named. The filter of system calls is
//! applied to all threads at once (`TSYNC`).
//!
//! **What the inner layer is worth.** Threads share their memory. A thief in a parser's thread has no call that opens
//! anything; he may still write into the memory of another thread of the program and hope to steer it, and then has what
//! the outer layer leaves. The outer layer is therefore the promise: *the source, the target's folder, and the network
//! where the source or target is there*. The inner one makes it harder to get that far.
//!
//! **Modes and owners** of files are set by a process of their own ([`set_attributes`]), of files alone that were opened to
//! be written. A file is given to this user, or to the owner of a file in whose place it comes ([`Process::replaces`]), and
//! to nobody else; that process can make no other calls.
//!
//! **A call that is not allowed fails with `EPERM`** and does not kill the program. The lists say what is allowed, so a
//! C library newer than the list would otherwise end somebody's import for asking whether a call exists; every such
//! caller copes with an error. A thief gains nothing by trying again. Calls of another architecture (32-bit ones) do
//! kill: nothing of ours ever makes one. Calls by the x32 numbers are not in the lists.
//!
//! **Where the kernel has neither** (before 5.13, built without it, or a container's own filter forbids it) the program
//! works as before, and [`Process::enter`] says so in one line at `-v`. [`offered`] reports the support of this host.
//! `CORACLE_CONFINE=off` leaves both layers out: to find out whether a fault comes from here, and to measure. Any other
//! value leaves both in; a program that people type refuses those it does not know ([`check_switch`]).
//!
//! **What is lost.** Names that only a daemon behind a unix socket can resolve (mDNS, sssd) are not found. As root, a
//! `/etc/resolv.conf` that is replaced while a transfer runs is not read again; as an ordinary user it is.
//!
//! Linux on x86_64 and aarch64. Anywhere else everything here does nothing, and says so.

mod reach;
mod state;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "linux/mod.rs"]
mod system;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[path = "elsewhere.rs"]
mod system;

pub use reach::{Process, Use};
pub use state::{Confined, InForce};

use std::cell::Cell;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Once;
use std::thread;

/// The variable that switches all of this off.
pub const SWITCH: &str = "CORACLE_CONFINE";

/// Whether the user has switched it off.
fn is_switched_off() -> bool {
    static OFF: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *OFF.get_or_init(|| std::env::var_os(SWITCH).is_some_and(|value| value == OFF_WORD))
}

const OFF_WORD: &str = "off";
const ON_WORD: &str = "on";

/// The variable has a value that means nothing: whoever set it believes something that is not so.
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

/// Whether the variable says something that is known, if it is set.
pub fn check_switch() -> Result<(), UnknownValue> {
    check(std::env::var_os(SWITCH))
}

fn check(value: Option<OsString>) -> Result<(), UnknownValue> {
    match value {
        Some(value) if !value.is_empty() && value != ON_WORD && value != OFF_WORD => Err(UnknownValue(value)),
        _ => Ok(()),
    }
}

/// Gives up, for the calling thread and all that it starts from now on, everything but what a parser needs. Call it first
/// thing in a thread that sees foreign bytes: nothing can be opened afterwards.
pub fn parser() {
    thread_local!(static DONE: Cell<bool> = const { Cell::new(false) });
    if is_switched_off() || DONE.replace(true) {
        return;
    }
    let confined = system::parser();
    // Every thread of a process fares alike: once is enough.
    static SAID: Once = Once::new();
    SAID.call_once(|| tracing::debug!("threads that parse are confined by {confined}"));
}

/// Runs `work` on a thread that has given up all but what a parser needs, and waits for it. A panic in it goes on here; an
/// error where no thread can be started.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
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

/// What is set of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attributes {
    /// Who may read it and write to it; never setuid, setgid or sticky.
    Mode(u32),
    /// User and group.
    Owner(u32, u32),
}

/// Sets the mode or the owner of a file that is open to be written, also in a program that has given up its rights; of
/// owners that one gives a file to this user, and to those that it has named beforehand.
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
