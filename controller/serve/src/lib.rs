//! Start of our programs, and their servers: for the API server (virt-api), for the kubelet and for monitors
//! (all programs).
//!
//! ```text
//!  program: log, runtime, TLS, client
//!
//!  client of the port ─────── HTTPS ─► transport: tls, limits ─► Answers: health, and the program's own beside it
//!                                          ▲                        │
//!                                     certificate                   ├─ health: /healthz, /readyz, /metrics
//!                                          ▲                        └─ authentication: who may read /metrics
//!                                   Secret ── watch
//! ```
//!
//! settings follows the parts of the KubeVirt object that configure a program: TLS, its log level, and its
//! rate of requests to the API server. bucket limits how often something may be done, and places how many
//! times at once. token signs and verifies upload tokens; mounted follows the files of mounted Secrets and
//! ConfigMaps.
//!
//! **May be called** by virt-controller, virt-handler, virt-api (`admission`, `subresources`) and
//! cdi-uploadproxy. **Absent:** answers other than health and metrics; the making of certificates:
//! virt-controller does that, and a new one needs no restart.

// Tests wait for events of their own processes only.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod authentication;
pub mod bucket;
pub mod certificate;
pub mod health;
pub mod mounted;
pub mod pace;
pub mod program;
pub mod settings;
pub mod settings_version;
pub mod slots;
pub mod token;
pub mod transport;
