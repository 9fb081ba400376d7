//! Finds TCP peers that are gone without closing: a node that lost its power, or its network.
//!
//! The kernel's keepalive probes an idle connection, but not one with unsent bytes. For those the kernel goes on
//! for a quarter of an hour, or with `TCP_USER_TIMEOUT` also ends connections to living peers that read nothing
//! for so long: QEMU may wait for its storage. So the kernel is asked here when it heard the peer last.

use serve::transport::probe;
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Looks within one time of silence.
const LOOKS: u32 = 6;

/// Settings of a new connection: no delay of small packets, and probes after so much silence, which find an idle
/// peer gone in twice that time.
pub(super) fn prepare(tcp: &TcpStream, silence: Duration) {
    // Without it a small message waits for the acknowledgement of another one.
    let _ = tcp.set_nodelay(true);
    probe(tcp, silence);
}

/// Waits until the peer has acknowledged nothing for twice the time of silence, while bytes are on their way.
pub(super) async fn lost(tcp: impl AsFd, silence: Duration) {
    loop {
        sleep(silence / LOOKS).await;
        // Without an answer of the kernel, its own limits remain.
        if kernel::look(tcp.as_fd()).is_some_and(|seen| seen.is_lost(silence * 2)) {
            return;
        }
    }
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConnectionState {
    /// Packets without acknowledgement.
    unacknowledged: u32,
    /// Unanswered probes of a peer that takes no bytes now. A living one answers each at once.
    probes: u8,
    /// Time since the last packet of the peer.
    silent: Duration,
}

impl ConnectionState {
    /// The kernel's keepalive decides where nothing is on its way. The time between two probes of a peer that
    /// takes no bytes grows, up to two minutes, so one unanswered probe is not enough.
    fn is_lost(self, limit: Duration) -> bool {
        self.silent > limit && (self.unacknowledged > 0 || self.probes > 1)
    }
}

/// The kernel's information about a connection.
mod kernel {
    #![allow(unsafe_code)] // rustix has no TCP_INFO

    use super::ConnectionState;
    use std::mem::{size_of, zeroed};
    use std::os::fd::{AsRawFd as _, BorrowedFd};
    use std::time::Duration;

    /// State of a TCP connection; `None` if the kernel tells nothing.
    pub(super) fn look(tcp: BorrowedFd<'_>) -> Option<ConnectionState> {
        // SAFETY: a `tcp_info` has numbers only, of which each pattern of bits is one.
        let mut info: libc::tcp_info = unsafe { zeroed() };
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        let place: *mut libc::tcp_info = &raw mut info;
        // SAFETY: the kernel writes at most `length` bytes to a place that has them.
        let done = unsafe {
            libc::getsockopt(
                tcp.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                place.cast(),
                &raw mut length,
            )
        };
        (done == 0).then(|| ConnectionState {
            unacknowledged: info.tcpi_unacked,
            probes: info.tcpi_probes,
            silent: Duration::from_millis(info.tcpi_last_ack_recv.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_lost_that_answers_nothing_and_not_one_that_takes_nothing() {
        let minute = Duration::from_secs(60);
        let seen = |unacknowledged, probes, seconds| ConnectionState {
            unacknowledged,
            probes,
            silent: Duration::from_secs(seconds),
        };
        assert!(seen(1, 0, 61).is_lost(minute) && seen(0, 2, 61).is_lost(minute));
        assert!(!seen(1, 0, 59).is_lost(minute) && !seen(0, 3, 59).is_lost(minute));
        // One probe on its way after a long pause, and nothing on its way at all.
        assert!(!seen(0, 1, 120).is_lost(minute) && !seen(0, 0, 600).is_lost(minute));
    }
}
