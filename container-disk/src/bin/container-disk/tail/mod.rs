//! Copies the log of a VM's serial console to the standard output, where the container runtime keeps it for
//! `kubectl logs`.
//!
//! ```text
//!  QEMU ── appends ──► LOG ──── log ────► lines ──► stdout
//!                       ▲        ▲
//!  launcher ── cuts ────┘        └── LOG.old: the part that was cut off, if it was not read yet
//! ```
//!
//! **The end.** The program ends when no process holds the launcher's lock and everything was read. A signal
//! does not end it earlier. The launcher gets one at the same time, and the guest's last lines matter most.

mod lines;
mod log;
#[cfg(test)]
mod tests;

use lines::Lines;
use log::Tail;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

/// First and longest pause between two reads.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// Time after which an unfinished line is ended.
const SILENCE: Duration = Duration::from_secs(1);

/// Copies `log` to `out` as long as a process holds `lock`. `pause` waits at most that long, and returns true
/// if a signal has asked this program to end.
pub(crate) fn follow(
    log: &Path,
    lock: &Path,
    mut out: impl Write,
    mut pause: impl FnMut(Duration) -> bool,
) -> Result<(), String> {
    let mut tail: Option<Tail> = None;
    let mut lines = Lines::default();
    let (mut asked, mut next, mut silent) = (false, PAUSE.0, Duration::ZERO);
    let mut broken: Option<String> = None;
    loop {
        if tail.is_none() && broken.is_none() {
            match Tail::open(log) {
                Ok(found) => tail = found,
                Err(e) => broken = Some(format!("cannot read {}: {e}", log.display())),
            }
        }
        // Checked before the last read, so that bytes written under the lock are not missed.
        let over = match &tail {
            Some(_) => !is_held(lock),
            // A launcher that has not started has written nothing.
            None => asked,
        };
        let mut came = false;
        // A read error is final, but it must not end the VM: this program still waits for the end of the
        // launcher.
        if let Some(tail) = tail.as_mut().filter(|_| broken.is_none()) {
            match drain(tail, &mut lines, &mut out) {
                Ok(some) => came = some,
                Err(why) => broken = Some(why),
            }
        }
        if came {
            (next, silent) = (PAUSE.0, Duration::ZERO);
        }
        if (over || silent >= SILENCE) && broken.is_none() {
            let mut text = Vec::new();
            lines.end(&mut text);
            broken = write(&text, &mut out).err();
        }
        if over {
            return broken.map_or(Ok(()), Err);
        }
        asked |= pause(if asked { PAUSE.0 } else { next });
        silent += next;
        next = (next * 2).min(PAUSE.1);
    }
}

/// Writes all bytes that are there now. True if there were any.
fn drain(tail: &mut Tail, lines: &mut Lines, out: &mut impl Write) -> Result<bool, String> {
    let (mut piece, mut text) = (Vec::new(), Vec::new());
    let mut came = false;
    loop {
        tail.read(&mut piece).map_err(|e| format!("cannot read on: {e}"))?;
        if piece.is_empty() {
            return Ok(came);
        }
        came = true;
        text.clear();
        lines.take(&piece, &mut text);
        write(&text, out)?;
    }
}

fn write(text: &[u8], out: &mut impl Write) -> Result<(), String> {
    out.write_all(text).and_then(|()| out.flush()).map_err(|e| format!("cannot write what was read: {e}"))
}

/// True if a process holds the lock. A missing lock has no holder.
fn is_held(lock: &Path) -> bool {
    let Ok(file) = File::open(lock) else { return false };
    // SAFETY: the descriptor is open as long as `file` is. Closing it releases the lock if this call takes
    // it.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) != 0 }
}
