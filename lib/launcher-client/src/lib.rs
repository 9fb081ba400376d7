//! The one client of a launcher: HTTP/1.1 on its unix socket, with the types of `api::launcher`. The server
//! is `launcher/src/server`, or virt-handler, which passes on virt-api's requests to the launchers of its
//! node.
//!
//! ```text
//!  Connector ──open──► a connection, and the process that listens (for virt-handler: a process of the pod)
//!    │
//!    │    Duplex: a unix socket, or TLS to the virt-handler of another node
//!    ├─ info, state, sync, request, stats, exec, …   one connection and one time limit for each request
//!    ├─ watch ──► States: State, State, …            one connection that stays until the launcher ends or breaks off
//!    └─ console, vnc ──► Stream                      bytes both ways after 101, read from the connection itself
//! ```
//!
//! **May be called** by virt-handler (a connector into a pod's folder), by virt-api (a connector to a node,
//! [`below`](Client::below) the path of a VMI), by `coracle`, and by `virt-launcher probe` and `virt-launcher
//! console` (a connector at a path). Programs without a runtime wait with [`wait()`].
//!
//! **Guarantees.** No call blocks a thread of a runtime, connecting included; none starts a task, so that no
//! part of a request outlives its future. Every call has a time limit, which its error names, except for the
//! next state: a launcher may have nothing to report for days. No more is read than the limit of each
//! request. Each text of an answer or a refusal is one short line without control characters: a launcher in a
//! cluster belongs to a tenant, and repeats words of its guest.
//!
//! Absent: Kubernetes, pods, libvirt. The package is below virt-handler, which links none of the launcher.

mod client;
mod connect;
mod connection;
mod duplex;
mod error;
pub mod process;
pub mod sanitize;
mod states;
mod stream;
mod wait;

pub use client::{Access, Client, LARGEST, Timeouts, vmi_path};
pub use connect::{AtPath, Cause, Connector, Open, Pauses, is_listening, try_connect};
pub use duplex::Duplex;
pub use error::{Error, ErrorKind, Result};
pub use states::{LONGEST, States};
pub use stream::Stream;
pub use wait::wait;

#[cfg(test)]
mod tests;
