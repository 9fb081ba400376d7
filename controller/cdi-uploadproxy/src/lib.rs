//! cdi-uploadproxy: passes the bytes of a client on to the upload pod of a PVC, for whoever shows a token for that PVC.
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
//! **Guarantees.** No byte of a body is read before the token is right and the pod wants it: a client that waits for
//! `100 Continue` sends nothing in vain. What the pod does not take is not read here: a slow volume holds its client back,
//! and an upload has some 200 KiB here, however long it is. Where one end breaks off, the other is closed at once: the pod
//! never takes a part of a body for all of it. The pod's answer goes back as it is.
//!
//! **Who may call**: whoever reaches the port and has a token. The token names the PVC, and by it the one pod that is asked:
//! nothing that a client writes is a part of an address. The pod is known by its name and the authority of upload pods; it
//! knows this program by its client certificate. Of the client's headers only those go on that an upload server reads, the
//! token is not among them.
//!
//! **Absent:** any right to write; any Secret of a tenant; what becomes of the bytes (`cdi-worker upload`); uploads that are
//! kept: nothing is stored here, and each replica serves every client.

// Tests wait for nobody but themselves.
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
