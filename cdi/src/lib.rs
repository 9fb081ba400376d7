//! Bytes from anywhere to one disk, in one pass.
//!
//! ```text
//!  source/ ──Stream──► filter/ (gzip xz zstd tar …) ──► disk-format StreamImage ─┐
//!     │                                                                         ├─► jobs ─► workers ─► target/
//!     └────ReadAt───────────────────────────────────► disk-format Image ────────┘   decode, zero-scan, write
//! ```
//!
//! facts → [`plan`] (pure) → [`run`] → report. The plan says before a byte moves how the bytes flow, what memory and
//! extra disk they can need, and why. [`import`] makes a conversion of a DataVolume's job, or, for an archive of files,
//! an [`unpack`]ing; [`export`] makes an image of a PVC. Nothing here prints, and nothing here speaks to Kubernetes.

pub mod build;
pub mod convert;
pub mod error;
pub mod export;
pub mod filter;
pub mod import;
pub mod inspect;
pub mod journal;
pub mod mark;
pub mod plan;
pub mod reach;
pub mod run;
pub mod size;
pub mod source;
pub mod spool;
mod sys;
pub mod target;
pub mod unpack;
pub mod zeros;

pub use error::{Detail, Error, ErrorKind, Result};
