//! virt-api as it is shipped, among clients that mean it ill: what they are answered, what it costs, and whether an honest
//! `start` is answered meanwhile.
//!
//! ```text
//!  clients, good and bad ── TLS ─► virt-api, a process of its own ── TLS ─► virt-handler, played: guests with consoles
//!                                     └─ HTTP ─► API server, played: objects, reviews, watches
//! ```
//!
//! No test fails by a clock: the honest request is answered before the hostile ones are let go of, and how long that took
//! is printed.

// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr)]

mod api_server;
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
