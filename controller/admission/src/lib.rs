//! virt-api: what may be written of VMs, and what is filled in first.
//!
//! ```text
//!  API server ── HTTPS ─► serve::transport ─► routes ─► rules: review in, review out (pure)
//!                                               │         ▲
//!                                               │       live: the settings, our certificate ◄── watch
//!                                               └───► workloads: whether any VM is left
//! ```
//!
//! A review is answered from what is known already: nothing is asked of the API server while it waits for us (but
//! whether any VM is left, when the installation is to be deleted). The certificate and the settings are followed,
//! so neither needs a restart.
//!
//! Who may call: anybody who reaches the port. An admission review says only what the asker sent; nothing is written. What is
//! measured is for whom the API server lets read it. args is the command line, and joins the parts.
//!
//! **Absent:** the table of the webhooks, which virt-controller needs too ([`kubernetes::webhooks`]); and a World: a review
//! is judged by what it says and by the settings.

// Tests wait for nobody but themselves.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod args;
pub mod live;
mod measures;
mod rights;
pub mod routes;
pub mod rules;
mod workloads;
