//! How our programs are begun, and how they are reached: by the API server (virt-api), by the kubelet and by monitors (all
//! of them).
//!
//! ```text
//!  program: log, runtime, TLS, client
//!
//!  whoever reaches the port ── HTTPS ─► transport: tls, limits ─► Answers: health, and the program's own beside it
//!                                          ▲                        │
//!                                     certificate                   ├─ health: /healthz, /readyz, /metrics
//!                                          ▲                        └─ authentication: who may read /metrics
//!                                   Secret ── watch
//! ```
//!
//! settings follows what the KubeVirt object says of a program itself: TLS, its log, and the pace at which it asks the API
//! server. bucket says how often something may be done, and places by how many at once. token signs and verifies upload tokens;
//! mounted follows the files of mounted Secrets and ConfigMaps.
//!
//! **May be called** by virt-controller, virt-handler, virt-api (`admission`, `subresources`) and
//! cdi-uploadproxy. **Absent:** what is
//! answered beside health, and who made the certificate: virt-controller does, and a new one takes no restart.

// Tests wait for nobody but themselves.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod authentication;
pub mod bucket;
pub mod certificate;
pub mod health;
pub mod mounted;
pub mod pace;
pub mod places;
pub mod program;
pub mod settings;
pub mod settings_version;
pub mod token;
pub mod transport;
