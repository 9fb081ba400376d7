//! HTTP between programs: what the servers share, two servers, and a client for one request at a time.
//!
//! ```text
//!            acceptor ─► connection: TLS, a Unix socket, loopback ─► Http1 ─► handler ─► answer, AnswerBody
//!               │                                                              └─► 101: the connection leaves HTTP
//!  local        │ few clients on this computer: so many connections, and one more waits
//!  network      │ many clients over a network: limits of connections, memory and time that a flood cannot use up
//!  cdi-worker   │ its own choice of connections, by certificate (cdi/src/bin/cdi-worker/connections.rs)
//!
//!  client ─► a connection, driven by the future that waits for the answer
//! ```
//!
//! | server | of | connections | time for a head | body of a request | TLS |
//! |---|---|---|---|---|---|
//! | [`LocalServer`] | virt-launcher | 128 on a Unix socket, from root and its own user | – | 4 MiB, whole | – |
//! | [`LocalServer`] | `coracle ui` | 64 on loopback, from the same user | 30 s | 4 KiB; a part of an upload is streamed | – |
//! | `network` | virt-api, virt-handler, virt-controller, cdi-uploadproxy | see its header | see its header | charged as it comes, or streamed | yes |
//! | `cdi-worker` | cdi-worker | 64, by certificate | 30 s | streamed | yes |
//!
//! **May be called** by every program. The feature `network` adds the server of `controller/`, with TLS and
//! HTTP/2; virt-launcher, cdi-worker and `coracle` are built without it. **Absent:** requests to the API server
//! (`cluster-client`) and to foreign servers (`fetch`), certificates, authentication.

mod acceptor;
mod answer_body;
pub mod client;
mod drain;
mod http1;
mod keepalive;
mod local;
#[cfg(feature = "network")]
pub mod network;
mod response;

pub use acceptor::{Acceptor, LogLimiter};
pub use answer_body::AnswerBody;
pub use drain::drain;
pub use http1::Http1;
pub use keepalive::{SILENCE, probe};
pub use local::LocalServer;
pub use response::{response, upgrade, upgrade_response, wants_upgrade};
