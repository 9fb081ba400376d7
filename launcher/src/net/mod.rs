//! The guest's network in the launcher: DHCP servers that give the guest its addresses.
//!
//! ```text
//!  Lease (virt-handler) ┐
//!  dhcpOptions          ├─► DhcpSettings ─► dhcp::answer(request) ─► answer         pure
//!  resolv.conf, name    ┘             ▲               │
//!                                     └─ serve ◄──────┘   UDP 67 on the bridge, for the one guest
//! ```
//!
//! IPv6 is the same with a `Lease6`, `dhcp6::answer` and UDP 547.
//!
//! A launcher without privileges can open these ports because virt-handler allows it to every process of the pod
//! (`ip_unprivileged_port_start`), or because the program carries the capability.

pub mod dhcp;
pub mod dhcp6;
mod dhcp_settings;
mod resolv;
mod serve;

pub use serve::{Servers, serve};
