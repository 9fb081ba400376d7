//! One virtual machine: drawn, started, watched, spoken to.
//!
//! ```text
//!  server (HTTP + JSON on a unix socket, types of `api::launcher`)
//!     │ Sync, Request                                   ▲ State
//!     ▼                                                 │
//!  vm::queue (pure) ─► vm::driver (the one loop) ─► vm::publish
//!                         │  seed    small ISOs
//!                         │  domain  Machine + Resolved ─► XML (pure)
//!                         ▼
//!                      hypervisor (a trait in our words; libvirt only in the program virt-launcher, or a fake)
//!
//!  console  the serial line and the screen, between one QEMU and many readers
//!  net      what the guest's network needs on this side
//! ```
//!
//! The library links no C library: `libvirt.rs` belongs to the program `virt-launcher` alone.

pub mod clock;
pub mod console;
pub mod domain;
pub mod error;
pub mod hypervisor;
pub mod net;
pub mod node;
pub mod root;
pub mod screen;
pub mod seed;
pub mod server;
pub mod vm;
