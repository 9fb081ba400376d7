//! Conversion of a disk from any source to one target, in one pass.
//!
//! ```text
//!  source/ ──Stream──► filter/ (gzip xz zstd tar …) ──► disk-format StreamImage ─┐
//!     │                                                                         ├─► jobs ─► workers ─► target/
//!     └────ReadAt───────────────────────────────────► disk-format Image ────────┘   decode, zero-scan, write
//! ```
//!
//! facts → [`plan`] (pure) → [`run`] → report. Before a byte moves the plan states how the bytes flow, what
//! memory and extra disk they can need, and why. [`import`] turns a DataVolume's job into a conversion, or,
//! for an archive of files, into an unpacking ([`unpack`]). [`export`] makes an image of a PVC. The library
//! prints nothing, and does not speak to Kubernetes.

pub mod build;
pub mod convert;
pub mod device;
pub mod done_marker;
pub mod error;
pub mod export;
pub mod filter;
pub mod import;
pub mod inspect;
pub mod journal;
pub mod permissions;
pub mod plan;
pub mod run;
pub mod size;
pub mod source;
pub mod spool;
mod sys;
pub mod target;
pub mod unpack;
pub mod zeros;

pub use error::{Detail, Error, ErrorKind, Result};
