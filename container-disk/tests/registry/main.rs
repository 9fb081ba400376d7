//! Registries as they are: Debian's docker-registry, alone, behind trouble, behind tokens, and a few that lie.

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
mod work;
