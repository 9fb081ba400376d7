//! What the guest's network needs on this side: someone who answers when the guest asks for its address.
//!
//! ```text
//!  Lease (node agent) ┐
//!  dhcpOptions        ├─► DhcpSettings ─► dhcp::answer(question) ─► answer        pure
//!  resolv.conf, name  ┘             ▲               │
//!                                   └─ serve ◄──────┘   UDP 67 on the bridge, for the one guest
//! ```
//!
//! A socket on port 67 is open to a launcher without rights because the node agent lets everyone in the pod open it
//! (`ip_unprivileged_port_start`), or because the program carries the capability.

pub mod dhcp;
mod resolv;
mod serve;
mod told;

pub use serve::{Servers, serve};
