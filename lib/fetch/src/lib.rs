//! HTTP transfers, for everything that reads disks and images from a server.
//!
//! ```text
//!   cdi/source/http (a file on a web server)      container-disk/registry (blobs and documents, from several servers)
//!        │                                             │
//!        └──────────────────────┬──────────────────────┘
//!                               ▼
//!      Ordered: in order, several ranges at once; ReadAt: at any offset                    ordered.rs queue.rs read_at.rs cache.rs
//!      over a Ranged file: which bytes, of which version                                  ranged.rs range.rs validators.rs
//!      Concurrency: how many requests at once                                             concurrency.rs
//!                               ▼
//!                            Client: one request, redirects, credentials                 client.rs authorize/
//!                            Attempts; the kinds of a Fault                                 attempts.rs retry.rs fault.rs
//!                            limits of a body's time, of silence                           silence.rs body.rs
//!                            and of a low rate                                             least_rate.rs
//!                            URLs, and the targets that a redirect may have                location.rs redirect.rs host.rs
//!                            the end of a redirect, asked first from then on               resolved.rs
//!                               ▼
//!                            Connector: TLS, proxies, timeouts; allowed addresses       connect.rs addresses.rs
//!                               ▼
//!                            the one runtime of the process                              runtime.rs
//! ```
//!
//! The package owns connections and the runtime below them. It does not know disks, images and command lines:
//! callers pass trusted certificates and timeouts.
//!
//! All functions are for plain threads: calls block, and panic inside an async task.

mod addresses;
mod attempts;
pub mod authorize;
pub mod body;
mod cache;
mod client;
mod concurrency;
mod connect;
pub mod error;
mod fault;
mod host;
pub mod least_rate;
mod location;
pub mod ordered;
pub mod queue;
mod range;
mod ranged;
mod read_at;
pub mod redirect;
mod resolved;
pub mod retry;
mod runtime;
mod secret;
mod silence;
mod validators;

pub use addresses::{Addresses, is_barred};
pub use attempts::{Attempts, GOOD_PROGRESS, Retry};
pub use client::{Client, Fetched, Messages, Payload, Rejected, Request, UnfollowedRedirect};
pub use concurrency::{Concurrency, Permit};
pub use connect::{Connect, Connector, Unchecked};
pub use error::{Error, ErrorKind, Result};
pub use fault::{Fault, FaultKind};
pub use host::{host_of, is_loopback};
pub use least_rate::{Decoded, LeastRate, RateJudge};
pub use location::{Location, UserInfo};
pub use range::ContentRange;
pub use ranged::{Expect, Part, PartSink, Ranged};
pub use read_at::ReadAt;
pub use resolved::Resolved;
pub use runtime::runtime;
pub use secret::Secret;
pub use silence::{NextPiece, Silence};
pub use validators::Validators;
