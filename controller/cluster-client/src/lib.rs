//! Client of the API server. No other package sends requests to it.
//!
//! ```text
//!  watch ── list, then watch, for ever ─────────────► WatchMessage ─► the receiver that keeps a cache
//!  Plan ──► carry_out ── step by step ─► Server ◄── Writer (one object at a time), or one in memory
//!  EventRecord ──► event ───────────────────┘
//!  ask ── requests that change nothing: a review, the existence of a kind's objects, a short list
//!              └── request: one time-out, one metric, one error for all of them
//! ```
//!
//! **Concurrent changes.** Every change is one merge patch of the fields that differ, guarded by the
//! `resourceVersion` that was read: if anything in the object has changed since, the server answers 409 and
//! nothing is written. Other fields (of other writers, or of a newer version) are not touched.
//! **No duplicates.** Names are derived from the purpose of an object. An existing object is fetched instead
//! of created again.

// Tests wait for their own tasks only.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod ask;
mod carry_out;
pub mod certificate;
mod deletion;
pub mod error;
mod event;
mod events;
pub mod history;
pub mod lease;
pub mod metrics;
mod object;
mod request;
mod server;
pub mod signing_key;
pub mod tenure;
pub mod union;
pub mod usage;
pub mod watch;
mod writer;

pub use ask::{has_any, list_few, review};
pub use carry_out::{PlanResult, carry_out};
pub use deletion::Deletion;
pub use event::Source;
pub use server::Server;
pub use writer::Writer;
