//! The VMs of a cluster on a local web page: `coracle ui`. `coracle virt vnc --web` shows the screen of one
//! VM first.
//!
//! ```text
//!  browser ──127.0.0.1──► server ── authentication: is it the user's own page? ── route ─┬─ assets    the page itself
//!                                                                                 ├─ changes   list + watch ─► events
//!                                                                                 │    └ list, row: pure
//!                                                                                 ├─ details   one VM, its why, its events
//!                                                                                 ├─ power     start, stop, …
//!                                                                                 ├─ uploads   disks of the browser ─► tus 1.0
//!                                                                                 └─ bridge    console, screen: WebSockets
//!                                       virt (the user's kubeconfig) ◄────────────┘
//! ```
//!
//! **Guarantees.** The server listens on 127.0.0.1 alone, and only to programs of the same user (under sudo,
//! also of the user who called it). The printed address has a token which is good once and buys a session.
//! Without a session every response but the files of the page is 403, and closes the connection. The session
//! is not a cookie, which every other port of this address would see, including a guest's web server. Other
//! sites, and other names for this address, cannot use it: `Host` and `Origin` are checked. Only the API
//! server and the upload proxy are asked, with the permissions that the user has in kubectl. The number and
//! size of connections, streams, headers, bodies and lists is bounded. The page is made of `assets` alone,
//! and its policy lets the browser load nothing else. Text that a guest copies reaches the clipboard of the
//! computer by a button alone.
//!
//! **Absent:** state, but for running uploads. The page shows what the API server sent last; a new page
//! begins from the start.

mod answer;
mod assets;
mod authentication;
mod bridge;
mod changes;
mod details;
mod list;
mod power;
mod route;
mod row;
mod server;
mod uploads;

pub(crate) use server::{Scope, Server};
