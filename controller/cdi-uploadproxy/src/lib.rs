//! cdi-uploadproxy: passes an upload on to the upload pod of a PVC if the client has a token for that PVC.
//!
//! ```text
//!  client ── HTTPS ─► serve::transport ─► route     which path, which method; pure
//!                                           │
//!                                         bearer    the token: serve::token, by the keys that virt-api signs with
//!                                           │
//!                                         claim     the PVC, from the API server: is its pod ready? up to 10 s
//!                                           │
//!                                         upload ── pod: TLS both ways ─► https://NAME.NAMESPACE.svc:8443
//!                                           │        └ body: piece by piece, after the pod has said 100 Continue
//!  client ◄── status, headers, body ────────┘
//! ```
//!
//! **Guarantees.** No byte of a body is read before the token is verified and the pod wants the body: a
//! client that waits for `100 Continue` sends nothing in vain. Bytes that the pod does not take are not read
//! here: a slow volume slows down its client, and an upload of any size takes some 200 KiB here. If one
//! connection breaks, the other is closed at once: the pod never takes a partial body for a complete one. The
//! pod's answer is returned unchanged.
//!
//! **Who may call**: any client that reaches the port and has a token. The token names the PVC, and so the
//! one pod that is contacted. No text from the client becomes part of an address. The proxy verifies the pod
//! by its name and the authority of upload pods. The pod verifies the proxy by its client certificate. Only
//! client headers that an upload server reads are passed on, and the token is not among them.
//!
//! **Absent:** rights to write; Secrets of tenants; the processing of the bytes (`cdi-worker upload`);
//! storage of uploads: nothing is kept here, so each replica serves every client.

// Tests wait for events of their own processes only.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod args;
mod bearer;
mod body;
mod claim;
mod headers;
mod limits;
mod measures;
mod pod;
mod route;
mod upload;
