//! Real registries: Debian's docker-registry, alone, behind faults, behind tokens, and some that send wrong
//! content.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod auth;
mod copy;
mod failover;
mod hostile;
mod log;
mod peers;
mod pull;
mod push;
mod settings;
mod update;
mod work;
