//! Everything that talks to Kubernetes.
//!
//! ```text
//!             watch                 decide (pure)              apply (the only writer)
//!  API server ─────► World ─────────────────────────► Plan ─────────────────────────► API server
//!                    one snapshot    cluster/*          steps, each a whole request
//!                    of what we      node/*
//!                    look at
//!
//!  cluster/   what is decided once per cluster: machines, their pods, replica sets, the settings   (virt-controller)
//!  node/      what is decided on each node: volumes, the launcher of each machine, devices         (virt-handler)
//! ```
//!
//! Whoever decides gets everything in its arguments and returns what is to be done: no clock, no client. Nothing but
//! `apply` writes to the API server.

pub mod node;
