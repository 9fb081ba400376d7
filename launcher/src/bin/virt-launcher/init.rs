//! The first process of a pod: it reaps every child, passes signals on, and ends with the launcher.
//!
//! ```text
//!  PID 1 ──fork──► the launcher (libvirt, the socket)
//!    ▲                └─► QEMU, which leaves its parent and becomes PID 1's child
//!    └─ SIGCHLD: an ended child is reaped; if it was the launcher, this process ends with the same result
//! ```
//!
//! The launcher cannot be the first process itself: a process that reaps any child would take from libvirt the children
//! that libvirt waits for. The fork is before everything, so that the two share all their memory. When the first process
//! ends, the kernel ends all others of its pod: the death of a launcher ends its VM.
#![allow(unsafe_code)] // fork and signal sets, which no crate here has

use launcher::error::{Error, Result};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use std::io;
use std::process::ExitCode;

/// Forks if this is the first process. Returns the exit code in that process, and `None` in the launcher.
pub(crate) fn split() -> Result<Option<ExitCode>> {
    if std::process::id() != 1 {
        return Ok(None);
    }
    let signals = Signals::hold()?;
    // SAFETY: this process has one thread still.
    match unsafe { libc::fork() } {
        -1 => {
            Err(Error::io("cannot start the launcher beside the first process", io::Error::last_os_error()))
        }
        0 => {
            signals.let_go()?;
            Ok(None)
        }
        child => match Pid::from_raw(child) {
            Some(child) => Ok(Some(watch(child, &signals))),
            None => Err(Error::refused("the launcher beside the first process has no number")),
        },
    }
}

fn watch(launcher: Pid, signals: &Signals) -> ExitCode {
    loop {
        let signal = signals.next();
        if signal != libc::SIGCHLD {
            if let Some(signal) = Signal::from_named_raw(signal) {
                // The launcher may have ended at this moment.
                let _ = kill_process(launcher, signal);
            }
            continue;
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == launcher {
                let code =
                    status.exit_status().or_else(|| Some(128 + status.terminating_signal()?)).unwrap_or(1);
                return ExitCode::from(u8::try_from(code).unwrap_or(1));
            }
        }
    }
}

/// The signals that the first process waits for.
struct Signals {
    wanted: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals, so that none is lost between the fork and the first wait.
    fn hold() -> Result<Signals> {
        // SAFETY: the sets are written by the calls before they are read.
        let held = unsafe {
            let mut signals = Signals { wanted: std::mem::zeroed(), before: std::mem::zeroed() };
            libc::sigemptyset(&raw mut signals.wanted);
            for signal in [
                libc::SIGCHLD,
                libc::SIGTERM,
                libc::SIGINT,
                libc::SIGQUIT,
                libc::SIGHUP,
                libc::SIGUSR1,
                libc::SIGUSR2,
            ] {
                libc::sigaddset(&raw mut signals.wanted, signal);
            }
            (libc::sigprocmask(libc::SIG_BLOCK, &raw const signals.wanted, &raw mut signals.before) == 0)
                .then_some(signals)
        };
        held.ok_or_else(|| Error::io("cannot hold signals", io::Error::last_os_error()))
    }

    fn let_go(&self) -> Result<()> {
        // SAFETY: the set was written by `hold`.
        match unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(Error::io("cannot let signals go", io::Error::last_os_error())),
        }
    }

    /// The next signal. A signal outside of the set interrupts the wait; that is treated as the end of a
    /// child.
    fn next(&self) -> i32 {
        // SAFETY: the set was written by `hold`; the null pointer asks for the signal's number alone.
        match unsafe { libc::sigwaitinfo(&raw const self.wanted, std::ptr::null_mut()) } {
            -1 => libc::SIGCHLD,
            signal => signal,
        }
    }
}
