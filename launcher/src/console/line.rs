//! The line to QEMU: one end of a terminal, which the hypervisor opens before the guest begins.
//!
//! A terminal, and not a unix socket: a guest writes byte by byte, and waits 10 ms for a byte to go before it writes the
//! next one over it. A unix socket takes some 280 such bytes before it makes QEMU wait for us; a terminal takes 12,000.
//! On a busy host that is the difference between what the guest said and half of it. What a terminal does not do is keep
//! the last words of a QEMU that is gone: those are taken from QEMU's own log (`pump.rs`).

use std::io;
use std::os::fd::OwnedFd;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;

/// Where lines are given in: one for each QEMU.
pub type Give = mpsc::UnboundedSender<OwnedFd>;
/// Where the relay takes them.
pub type Lines = mpsc::UnboundedReceiver<OwnedFd>;

/// The way of lines from whoever opens them to the relay.
pub fn lines() -> (Give, Lines) {
    mpsc::unbounded_channel()
}

/// What QEMU says, and what it is told. Whatever can be waited for is read and written as a pipe is.
pub(super) fn open(end: OwnedFd) -> io::Result<(Receiver, Sender)> {
    rustix::io::ioctl_fionbio(&end, true)?;
    let told = Sender::from_owned_fd_unchecked(end.try_clone()?)?;
    Ok((Receiver::from_owned_fd_unchecked(end)?, told))
}
