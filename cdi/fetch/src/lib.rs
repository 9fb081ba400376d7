//! Bytes by HTTP, for everything that reads disks and images from a server.
//!
//! ```text
//!   cdi/source/http (a file on a web server)      container-disk/registry (blobs and documents, from several servers)
//!        │                                             │
//!        └──────────────────────┬──────────────────────┘
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

mod connect;
pub mod error;
mod runtime;

pub use connect::{Connect, Connector, Unchecked};
pub use error::{Error, Kind, Result};
pub use runtime::runtime;
