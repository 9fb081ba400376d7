//! Everything that talks to Kubernetes.
//!
//! ```text
//!             watch                 decide (pure)              carry out (the only writer)
//!  API server ─────► World ─────────────────────────► Plan ─────────────────────────► API server
//!                    one snapshot    cluster/*          steps, each a whole request
//!                    of what we      node/*
//!                    look at
//!
//!  cluster/   what is decided once per cluster: machines, their pods, replica sets, the settings   (virt-controller)
//!  node/      what is decided on each node: volumes, the launcher of each machine, devices         (virt-handler)
//!  install    everything that a cluster is given, as objects                                       (coracle manifests)
//!  serve/     what may be written, and what is filled in first                                     (virt-api)
//!  args       the command lines; run joins the parts of virt-controller, lease says which of its replicas acts
//! ```
//!
//! Whoever decides gets everything in its arguments and returns what is to be done: no clock, no client. Nothing but
//! `api_server` speaks with the API server. Objects are JSON on their way; what is looked into is a type of `api`, which keeps
//! what it does not know.

// Tests wait for nobody but themselves.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod api_server;
pub mod args;
pub mod bucket;
pub mod cluster;
pub mod error;
pub mod health;
pub mod install;
pub mod lease;
pub mod metrics;
pub mod node;
pub mod objects;
pub mod plan;
pub mod run;
pub mod serve;
#[cfg(test)]
mod tests;
