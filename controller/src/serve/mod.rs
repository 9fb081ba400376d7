//! What the API server asks us: the program `virt-api`.
//!
//! ```text
//!  API server ─── HTTPS ───► http ──► routes ──► admission: review in, review out (pure)
//!                             ▲                     ▲
//!                       tls: the certificate   live: the settings
//!                             └───── Secret ── watch ── KubeVirt
//! ```
//!
//! A request is answered from what is known already: nothing is asked of the API server while it waits for us (but
//! whether any machine is left, when the installation is to be deleted). The certificate and the settings are followed,
//! so neither needs a restart.
//!
//! Who may call: anybody who reaches the port. An admission review says only what the asker sent; nothing is written.

pub mod admission;
pub mod args;
pub mod http;
pub mod live;
pub mod measures;
pub mod rights;
mod routes;
pub mod tls;
