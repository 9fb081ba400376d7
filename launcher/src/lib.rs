//! Runs one VM: defines its domain, starts it, watches it, answers requests about it.
//!
//! ```text
//!  server (HTTP + JSON on a unix socket, types of `api::launcher`)
//!     │ Sync, Request                                   ▲ State
//!     ▼                                                 │
//!  vm::queue (pure) ─► vm::driver (the one loop) ─► vm::publish
//!                         │  seed    small ISOs
//!                         │  domain  Machine + Resolved ─► XML (pure)
//!                         ▼
//!                      hypervisor (a trait; libvirt only in the program virt-launcher, or a fake)
//!
//!  console  serial console, between one QEMU and many clients; screen  VNC and screenshots; seats  readers and writers of both
//!  hooks    programs that change the domain before it is defined; termination  end of the VM, for the kubelet
//!  net      DHCP for the guest; redirection  USB devices of clients
//!  threads  calls that may never return, each on its own thread
//! ```
//!
//! The library links no C library: `libvirt/` belongs to the program `virt-launcher` alone.

pub mod clock;
pub mod console;
pub mod domain;
pub mod error;
pub mod hooks;
pub mod hypervisor;
pub mod net;
pub mod node;
pub mod redirection;
pub mod root;
pub mod screen;
pub mod seats;
pub mod seed;
mod selinux;
pub mod server;
pub mod termination;
mod threads;
pub mod vm;
pub mod xml_tags;
