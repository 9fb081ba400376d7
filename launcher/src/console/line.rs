//! The line to QEMU: the launcher's end of a terminal, which the hypervisor opens before the guest begins.
//!
//! The line is a terminal and not a unix socket. A guest writes byte by byte, and waits 10 ms for a byte to
//! go before it overwrites it. A unix socket takes some 280 such bytes before QEMU has to wait for the
//! launcher; a terminal takes 12,000. On a busy host that decides between all of the guest's output and half
//! of it. A terminal does not keep the last output of a QEMU that is gone, so that is read from QEMU's own
//! log (`pump.rs`).

use std::io;
use std::os::fd::OwnedFd;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;

/// The sender of lines: one line for each QEMU.
pub type Give = mpsc::UnboundedSender<OwnedFd>;
/// The receiver of lines, for the relay.
pub type Lines = mpsc::UnboundedReceiver<OwnedFd>;

/// A channel that hands lines to the relay.
pub fn lines() -> (Give, Lines) {
    mpsc::unbounded_channel()
}

/// Opens QEMU's output and input. Any file that can be polled is read and written like a pipe.
pub(super) fn open(end: OwnedFd) -> io::Result<(Receiver, Sender)> {
    rustix::io::ioctl_fionbio(&end, true)?;
    let told = Sender::from_owned_fd_unchecked(end.try_clone()?)?;
    Ok((Receiver::from_owned_fd_unchecked(end)?, told))
}
