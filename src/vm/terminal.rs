//! The terminal as a VM's console: every key goes to the guest, and nobody leaves it that way.
//!
//! The terminal is put back when [`Raw`] is dropped, and by [`restore`] when a signal ends the program.

use cdi::{Error, Result};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use std::sync::{Mutex, PoisonError};

/// How the terminal was, while it is raw.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The terminal passes every key on, until this is dropped.
pub(crate) struct Raw(());

impl Raw {
    /// Makes the terminal raw; `None` where standard input is none.
    pub(crate) fn of_stdin() -> Result<Option<Raw>> {
        let stdin = std::io::stdin();
        if !isatty(&stdin) {
            return Ok(None);
        }
        let cannot = |e: rustix::io::Errno| Error::io("cannot use the terminal", e);
        let before = tcgetattr(&stdin).map_err(cannot)?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        tcsetattr(&stdin, OptionalActions::Flush, &raw).map_err(cannot)?;
        Ok(Some(Raw(())))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back to how it was, if it is raw.
pub(crate) fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, &before);
    }
}
