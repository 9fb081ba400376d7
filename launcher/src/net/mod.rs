//! The guest's network on this side: a DHCP server that gives the guest its address.
//!
//! ```text
//!  Lease (virt-handler) ┐
//!  dhcpOptions          ├─► DhcpSettings ─► dhcp::answer(request) ─► answer         pure
//!  resolv.conf, name    ┘             ▲               │
//!                                     └─ serve ◄──────┘   UDP 67 on the bridge, for the one guest
//! ```
//!
//! A launcher without privileges can open port 67 because virt-handler allows it to every process of the pod
//! (`ip_unprivileged_port_start`), or because the program carries the capability.

pub mod dhcp;
mod resolv;
mod serve;
mod told;

pub use serve::{Servers, serve};
