//! The shipped virt-api with hostile clients: their responses, the cost, and whether an honest
//! `start` is served meanwhile.
//!
//! ```text
//!  clients, good and bad ── TLS ─► virt-api, a process of its own ── TLS ─► virt-handler, simulated: guests with consoles
//!                                     └─ HTTP ─► API server, simulated: objects, reviews, watches
//! ```
//!
//! No test depends on a clock: the honest request is answered before the hostile ones are released. The time
//! that this took is printed.

// The lint does not recognize helpers of tests as test code.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr)]

mod authority;
mod client;
mod console;
mod consoles;
mod crowds;
mod datagrams;
mod ends;
mod framing;
mod paths;
mod program;
mod scene;
mod slow;
mod tokens;
mod users;
mod virt_handler;
