//! The types that cross a process boundary. No I/O, no clock, no client.
//!
//! ```text
//! manifest, API server ──► vm, vmi, datavolume, … (forgiving: keep what they do not know)
//!                              │ defaults (one pure function)
//!                              ▼
//!                          machine (strict: Machine, or every fault with its field path)
//!
//! launcher                 what virt-launcher is told and what it tells
//! node                     what a machine can do, as virt-launcher found out
//! ```
//!
//! The objects are made with [`object!`](crate::object): one description of a struct gives reading (every fault with
//! its path), writing, and the fields that were kept without being known.

pub mod claim;
pub mod configmap;
pub mod datavolume;
pub mod defaults;
pub mod fault;
pub mod launcher;
pub mod machine;
pub mod meta;
pub mod node;
pub mod quantity;
pub mod secret;
pub mod uuid;
pub mod vm;
pub mod vmi;
pub mod wire;
