//! The terminal in raw mode, so that every key goes to the guest.
//!
//! The earlier mode is restored when [`Raw`] is dropped, and by [`restore`] when a signal ends the program.

use crate::error::{Error, Result};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use std::sync::{Mutex, PoisonError};

/// Mode of the terminal before it became raw.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Guard of the raw mode, which ends when this is dropped.
pub(crate) struct Raw(());

impl Raw {
    /// Switches the terminal to raw mode; `None` if standard input is not a terminal.
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

/// Restores the earlier mode of the terminal, if it is raw.
pub(crate) fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        // It fails if the terminal has hung up, and then nothing needs to be restored.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, &before);
    }
}
