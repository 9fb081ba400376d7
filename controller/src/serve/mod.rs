//! What our programs answer: to the API server (the program `virt-api`), to the kubelet and to monitors (all of them).
//!
//! ```text
//!  API server ── HTTPS ─► transport ──► routes ──► admission: review in, review out (pure)
//!  kubelet, monitors ──►  tls, limits     │            ▲
//!                             ▲           └► health    live: the settings
//!                       certificate           ▲          ▲
//!                             ▲        authentication: who may read /metrics
//!                             └────── Secret ── watch ── KubeVirt
//! ```
//!
//! A review is answered from what is known already: nothing is asked of the API server while it waits for us (but
//! whether any machine is left, when the installation is to be deleted). The certificate and the settings are followed,
//! so neither needs a restart.
//!
//! Who may call: anybody who reaches the port. An admission review says only what the asker sent; nothing is written. What is
//! measured is for whom the API server lets read it.

pub mod admission;
pub mod args;
pub mod authentication;
pub mod certificate;
pub mod live;
pub mod measures;
pub mod rights;
pub mod routes;
pub mod transport;
mod workloads;
