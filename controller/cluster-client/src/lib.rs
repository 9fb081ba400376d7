//! Everything that our programs ask of the API server. No other module has a request to send.
//!
//! ```text
//!  watch ── list, then watch, for ever ─────────────► Seen ─► whoever keeps a picture
//!  Plan ──► carry_out ── step by step ─► Server ◄── Writer (one object at a time), or one in memory
//!  Note ──► event ──────────────────────────┘
//!  ask ── questions that change nothing: a review, whether there is any object of a kind, the few that there are
//!              └── request: one time-out, one measure, one error for all of them
//! ```
//!
//! **How fields that change hands are kept safe.** Every change is one merge patch of the fields that differ, guarded by
//! the `resourceVersion` that was looked at: if anything in the object has changed since, the server answers 409 and
//! nothing is written. What the patch does not name (other people's fields, fields of a newer version) is not touched.
//! **How nothing is made twice.** Names follow from what an object is made for; one that is there already is fetched.

// Tests wait for nobody but themselves.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod answer;
mod ask;
mod carry_out;
pub mod certificate;
pub mod error;
mod event;
mod events;
pub mod history;
pub mod lease;
pub mod metrics;
mod request;
mod server;
pub mod signing_key;
pub mod usage;
pub mod watch;
mod writer;

pub use ask::{has_any, review, some};
pub use carry_out::{Done, carry_out};
pub use event::Source;
pub use server::Server;
pub use writer::Writer;
