//! Connections of a live migration between the virt-handlers of two nodes.
//!
//! ```text
//!  source pod                  source node                 target node                 target pod
//!  libvirt, QEMU ─unix socket─► SourceSockets ════TLS════► TargetPorts ─unix socket─► libvirtd, QEMU
//!                  │ a process of the pod   │ one connection     │ the source's      │ a process of the pod
//!                  │                        │ for each           │ certificate       │
//!                  └─ bound here, for uid 107                    └─ four ports of the node, for this migration
//! ```
//!
//! | port | named | carries |
//! |---|---|---|
//! | libvirt | 0 | libvirt's RPC; its end tells the target that the source has finished |
//! | memory | 49152 | the guest's memory, from QEMU to QEMU |
//! | disks | 49153 | blocks of copied disks (NBD) |
//! | release | 49154 | the source's word that its domain is gone, so that the guest goes on at the target |
//!
//! **Trust.** Each side has a certificate for one migration, whose fingerprint the other side reads in the VMI's
//! status. TLS 1.3 with both certificates, pinned; no CA, no names, no resumed sessions. The key stays in memory.
//! A stream begins when the target has connected it to its pod. It says so first, or it sends a sentence why
//! not, so the source never sends a byte of the guest to a target that cannot take it.
//!
//! **Limits.** [`MOST`] streams, and [`MOST_UNPROVEN`] handshakes at once, of which a flood closes its own first;
//! a handshake has 10 s. A peer that acknowledges nothing for a minute is lost (`peer_silence`). A peer that
//! reads slowly, or not at all for a while, is not: it slows down the other end.
//!
//! **May be called** by the keepers of VMIs. Dropping [`TargetPorts`] or [`SourceSockets`] ends all of it.
//! Errors of a stream are logged; the first one is in [`Findings`], for the migration's failure reason.

mod certificate;
mod peer_silence;
mod ports;
mod relay;
mod session;
mod source;
mod target;
#[cfg(test)]
mod tests;
mod tls;

pub use certificate::{Certificate, Fingerprint};
pub use ports::MigrationPorts;
pub use session::{Findings, StreamBytes};
pub use source::SourceSockets;
pub use target::TargetPorts;

use serve::transport::SILENCE;
use std::time::Duration;

/// Maximum number of streams of a migration.
pub const MOST: usize = 64;
/// Maximum number of connections whose client has not shown its certificate yet.
pub const MOST_UNPROVEN: usize = 4;

/// Time limits of connections.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Time limit of connecting and the TLS handshake.
    handshake: Duration,
    /// Time limit of the target's answer that its pod is connected. Longer than the target's own limit, so that
    /// the source receives its sentence.
    answer: Duration,
    /// Half of the time after which a silent peer is lost.
    silence: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        let seconds = Duration::from_secs;
        Limits { handshake: seconds(10), answer: seconds(20), silence: SILENCE }
    }
}
