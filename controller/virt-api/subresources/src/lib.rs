//! The aggregated API `subresources.kubevirt.io`: requests about one VM or VMI that no field of an object can express, from
//! `start` to `console`; and `upload.cdi.kubevirt.io`, by which users get tokens for uploads. virt-api serves both beside its
//! webhooks (package `admission`).
//!
//! ```text
//!  request ─► routes ─► discovery                       documents that anybody may read
//!               │
//!               ├─ requester   the user, as the API server says who has let the request through
//!               ├─ access      SubjectAccessReview: may this user do that, here?
//!               │
//!               ├─ lifecycle   start, stop, restart ── pure ─► changes of a VM ─► api-server (guarded merge patches)
//!               ├─ evacuation  evacuate/cancel ── pure ─► a change of a VMI ─► api-server
//!               ├─ sizes       a VM with the values of its instance type and its preference
//!               ├─ vmi         may that be done to the VMI as it is? pure
//!               ├─ guest       words of the guest agent, in the fields of the API
//!               ├─ stats       what a VMI has used, by the names of its spec; pure
//!               ├─ running     pause, console, VNC, … ─► handlers ─► virt-handler of the node ─► launcher
//!               ├─ ports       a port of the guest, of TCP or UDP
//!               └─ uploadtoken UploadTokenRequest ─► a token, by serve::token; nothing is stored
//!                    ├ places: how many streams there may be, of a VMI and of a namespace; sessions: how many there are
//!                    └ websocket: bytes both ways, pings, an end with a reason; datagrams: one a message
//! ```
//!
//! **Who may call**: the API server's aggregator. virt-api believes what the request says of its user only where the
//! connection shows a certificate that the cluster's aggregation authority has signed, for a name that it permits.
//! Everybody else is answered 401, apart from the documents of discovery.
//!
//! **Guarantees.** One SubjectAccessReview for each request; nothing is looked up before it has been answered. A change of a
//! VM is guarded by the version that was looked at. A stream has small buffers of its own, so that a reader that stops
//! holds up nobody else. Before a request waits for a guest or a launcher, it has let go of its head.
//!
//! **Absent:** what VMs should be (`admission`), and what becomes of a request once it is written (`virt-controller`).

// Tests wait for nobody but themselves.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod access;
mod body;
mod datagrams;
mod discovery;
mod evacuation;
mod guest;
mod handlers;
mod lifecycle;
mod objects;
mod places;
mod ports;
mod query;
mod refused;
mod requester;
mod route;
mod routes;
mod running;
pub mod sessions;
mod sizes;
mod stats;
mod unserved;
mod uploadtoken;
mod vmi;
mod websocket;

pub use handlers::Handlers;
pub use objects::RIGHTS;
pub use requester::Aggregation;
pub use routes::{Routes, is_ours};
