//! The real cdi-uploadproxy between well-behaved and hostile clients and upload pods: uploads that arrive,
//! uploads that are refused, and their cost.
//!
//! ```text
//!  clients ── TLS ─► cdi-uploadproxy, a process of its own ── TLS both ways ─► an upload pod, played
//!                       └─ HTTP ─► API server, played: PVCs, the certificate
//! ```
//!
//! No test depends on a clock: each waits for observations of the pod.

// The lint does not recognise helpers of tests.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr)]

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
