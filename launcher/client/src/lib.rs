//! The one client of a launcher: HTTP/1.1 on its unix socket, types of `api::launcher`. The other end is
//! `launcher/src/server`.
//!
//! ```text
//!  Door ──open──► a connection, and who listens (what the door knows of it: for virt-handler, a process of the pod)
//!    │
//!    ├─ info, state, sync, request, stats, exec, …   one connection a question, one time for all of it
//!    ├─ watch ──► States: State, State, …            one connection that stays until the launcher ends or breaks off
//!    └─ console, vnc ──► Stream                      bytes both ways after 101, read from the socket itself
//! ```
//!
//! **May be called** by virt-handler (a door into a pod's folder), by `coracle`, and by `virt-launcher probe` and
//! `virt-launcher console` (a door at a path). Whoever has no runtime waits by [`wait()`].
//!
//! **Guarantees.** No call blocks a thread of a runtime, connecting included; none begins a task, so that nothing of a
//! question outlives the future that asks it. No call waits without a time that its error names, except for the next state:
//! a launcher may have nothing to say for days. No more is read than is said beside each question. What a launcher says of
//! an answer or a refusal is one short line that does nothing on a terminal: a launcher in a cluster is a tenant's, and
//! repeats what a guest says.
//!
//! Absent: Kubernetes, pods, libvirt. The package is below virt-handler, which links none of the launcher.

mod client;
mod connect;
mod connection;
mod error;
mod states;
mod stream;
mod wait;
pub mod words;

pub use client::{Client, Console, LARGEST, Patience};
pub use connect::{AtPath, Cause, Door, Open, Pauses, is_listening, try_connect};
pub use error::{Error, ErrorKind, Result};
pub use states::{LONGEST, States};
pub use stream::Stream;
pub use wait::wait;

#[cfg(test)]
mod tests;
