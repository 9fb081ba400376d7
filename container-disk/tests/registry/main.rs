//! Registries as they are: Debian's docker-registry, alone, behind trouble, behind tokens, and a few that lie.

mod auth;
mod copy;
mod failover;
mod hostile;
mod pull;
mod push;
mod work;
