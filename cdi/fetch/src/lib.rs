//! Bytes by HTTP, for everything that reads disks and images from a server.
//!
//! ```text
//!   cdi/source/http (a file on a web server)      container-disk/registry (blobs and documents, from several servers)
//!        │                                             │
//!        └──────────────────────┬──────────────────────┘
//!                               ▼
//!                            one server: Attempts, Silence; what a Fault means           attempts.rs retry.rs fault.rs
//!                            where a request goes, and where a redirect may lead          location.rs redirect.rs host.rs
//!                               ▼
//!                            Connector: TLS, proxies, time-outs                          connect.rs
//!                               ▼
//!                            the one runtime of the process                              runtime.rs
//! ```
//!
//! **Owns** connections and the runtime below them. **Knows nothing of** disks, images and command lines: callers hand in
//! what to trust and how long to wait.
//!
//! Everything is for plain threads: calls block, and panic inside an async task.

mod attempts;
mod connect;
pub mod error;
mod fault;
mod host;
mod location;
pub mod redirect;
pub mod retry;
mod runtime;

pub use attempts::{Attempts, Retry, Silence, TooQuiet};
pub use connect::{Connect, Connector, Unchecked};
pub use error::{Error, Kind, Result};
pub use fault::{Fault, Why, chain};
pub use host::{host_of, is_loopback};
pub use location::{Location, UserInfo};
pub use runtime::runtime;
