//! The aggregated API `subresources.kubevirt.io`: requests about one VM or VMI that no field of an object can
//! express, from `start` to `console`; and `upload.cdi.kubevirt.io`, for upload tokens. virt-api serves both
//! in addition to its webhooks (package `admission`).
//!
//! ```text
//!  request ─► routes ─► discovery                       documents, readable without authentication
//!               │
//!               ├─ requester   the user, as the API server's aggregator names it
//!               ├─ access      SubjectAccessReview: the user's right in the namespace
//!               │
//!               ├─ lifecycle   start, stop, restart ── pure ─► changes of a VM ─► api-server (guarded merge patches)
//!               ├─ evacuation  evacuate/cancel ── pure ─► a change of a VMI ─► api-server
//!               ├─ migration   migrate ── pure ─► a VirtualMachineInstanceMigration ─► api-server
//!               ├─ sizes       a VM with the values of its instance type and its preference
//!               ├─ vmi         preconditions on the VMI; pure
//!               ├─ guest       reports of the guest agent, in the fields of the API
//!               ├─ stats       resource usage of a VMI, by the names of its spec; pure
//!               ├─ running     pause, console, VNC, … ─► handlers ─► virt-handler of the node ─► launcher
//!               ├─ ports       a TCP or UDP port of the guest
//!               └─ uploadtoken UploadTokenRequest ─► a token, by serve::token; nothing is stored
//!                    ├ stream_limits: limits on streams of a VMI and of a namespace; sessions: metrics of streams
//!                    └ websocket: bytes both ways, pings, a close reason; datagrams: one per message
//! ```
//!
//! **Callers**: the API server's aggregator. virt-api trusts the user in a request's headers only if the
//! connection has a client certificate signed by the cluster's aggregation CA, with a permitted name.
//! Other clients get 401, except for the discovery documents.
//!
//! **Guarantees.** One SubjectAccessReview for each request; no object is read before its answer. A change of
//! a VM is guarded by the version that was read. A stream has its own small buffers, so that a stalled reader
//! does not delay other streams. Before a request waits for a guest or a launcher, its head is freed.
//!
//! **Absent:** validation of VMs (`admission`), and the execution of a written request (`virt-controller`).

// Tests wait for their own tasks only.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod access;
mod body;
mod datagrams;
mod discovery;
mod evacuation;
mod guest;
mod handlers;
mod lifecycle;
mod migration;
mod objects;
mod ports;
mod query;
mod refusal;
mod requester;
mod route;
mod routes;
mod running;
pub mod sessions;
mod sizes;
mod stats;
mod stream_limits;
mod unserved;
mod upload_token;
mod vmi;
mod websocket;

pub use handlers::Handlers;
pub use objects::RIGHTS;
pub use requester::Aggregation;
pub use routes::{Routes, is_ours};
