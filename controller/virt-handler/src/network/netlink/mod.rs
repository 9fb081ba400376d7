//! The kernel's own language for links, addresses, routes and rules: no program is called, no library of C linked.
//!
//! ```text
//!  link.rs  rules.rs ──► Message (a header, attributes in attributes) ──► Socket ──► the namespace of this thread
//!                        Reply, attributes ◄──────────────────────────────┘
//! ```
//!
//! A socket belongs to the network namespace of the thread that opened it. Whatever comes back is read with bounds: it is
//! the kernel's, but its length fields are numbers like any other.

pub(super) mod link;
mod message;
pub(super) mod rules;
mod socket;

pub(super) use message::{Message, attributes, number, text};
pub(super) use socket::Socket;
