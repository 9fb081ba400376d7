//! Netlink, the kernel's interface for links, addresses, routes and rules: without external programs and C
//! libraries.
//!
//! ```text
//!  link.rs  rules.rs ──► Message (a header, attributes in attributes) ──► Socket ──► the namespace of this thread
//!                        Reply, attributes ◄──────────────────────────────┘
//! ```
//!
//! A socket belongs to the network namespace of the thread that opened it. Answers are parsed with bounds:
//! they come from the kernel, but their length fields are not trusted.

pub(super) mod link;
mod message;
pub(super) mod rules;
mod socket;

pub(super) use message::{Message, attributes, number, text};
pub(super) use socket::Socket;
