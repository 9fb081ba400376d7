//! cdi-uploadproxy as it is shipped, between clients and an upload pod, good and bad: what comes through, what does not, and
//! what it costs.
//!
//! ```text
//!  clients ── TLS ─► cdi-uploadproxy, a process of its own ── TLS both ways ─► an upload pod, played
//!                       └─ HTTP ─► API server, played: PVCs, the certificate
//! ```
//!
//! Nothing fails by a clock: what is waited for is what the pod has seen.

// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr)]

#[path = "../../../virt-api/tests/hostile_clients/api_server.rs"]
#[allow(dead_code, reason = "the suite of virt-api uses the rest")]
mod api_server;
#[path = "../../../virt-api/tests/hostile_clients/authority.rs"]
#[allow(dead_code, reason = "the suite of virt-api uses the rest")]
mod authority;
mod breaks;
mod client;
mod crowd;
mod ends;
mod flow;
mod http2;
mod passes;
mod pod;
mod program;
mod refused;
mod scene;
mod smuggled;
