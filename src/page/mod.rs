//! The VMs of a cluster, on a page in the browser of the user's own computer: `coracle ui`; `coracle virt vnc --web` shows
//! one of them, its screen first.
//!
//! ```text
//!  browser ──127.0.0.1──► server ── visitor: is it the user's own page? ── route ─┬─ assets    the page itself
//!                                                                                 ├─ changes   list + watch ─► events
//!                                                                                 │    └ list, row: pure
//!                                                                                 ├─ details   one VM, its why, its events
//!                                                                                 ├─ power     start, stop, …
//!                                                                                 ├─ uploads   disks of the browser ─► tus 1.0
//!                                                                                 └─ bridge    console, screen: WebSockets
//!                                       virt (the user's kubeconfig) ◄────────────┘
//! ```
//!
//! **Guarantees.** It listens on 127.0.0.1 alone, and to programs of the same user (under sudo, also of who called it). The
//! address that is printed has a token which is good once; what it buys is a session, and without that every answer but the
//! files of the page is 403, and the last of its connection. The session never travels as a cookie, which every other port of
//! this address would see: a guest's web server, too. Neither another site nor a name that leads here can use it: `Host` and
//! `Origin` are looked at. Nothing but the API server and the upload proxy is asked, as the user, who may here what he may with kubectl. Connections, streams,
//! heads, bodies and lists are bounded; what leaves the page is what `assets` has, and its policy lets the browser load nothing
//! else. What a guest copies comes into the clipboard of the computer by a button alone.
//!
//! **Absent:** state, but for uploads that are under way. What the page shows is what the API server said last; a new page
//! begins anew.

mod answer;
mod assets;
mod bridge;
mod changes;
mod details;
mod list;
mod power;
mod route;
mod row;
mod server;
mod uploads;
mod visitor;

pub(crate) use server::{Scope, Server};
