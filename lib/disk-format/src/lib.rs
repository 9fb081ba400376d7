//! Readers and writers of disk formats.
//!
//! ```text
//!   bytes (ReadAt) ──probe──► Format ──open──► Image ──windows──► Extents   (tables first, then data)
//!   bytes in order ──────────────────────────► StreamImage ─────► Extents   (as they arrive)
//!   Extents + bytes ──Unpacker──► the guest's bytes
//!   the guest's bytes ──qcow2::write──► a qcow2 file
//! ```
//!
//! **Owns** the meaning of the bytes in an image file. **Independent of** networks, targets, threads and
//! terminals; the caller moves the bytes. An image is treated as hostile: every number is checked before it
//! is used, no file that an image refers to is opened, memory is bounded by [`Limits`], and every refusal
//! names the field and the offset.

pub mod codec;
mod deflate;
pub mod error;
pub mod extent;
pub mod format;
pub mod guest;
pub mod image;
pub mod inspect;
pub mod qcow2;
pub mod raw;
pub mod read_at;
pub mod rebuild;
pub mod validate;

pub use codec::{Codec, Unpacker};
pub use error::{Error, ErrorKind, Result};
pub use extent::{Data, Extent, Window};
pub use format::Format;
pub use guest::{GuestView, PrefixView};
pub use image::{Image, Limits, StreamImage, StreamPosition, UNREAD, open, stream};
pub use inspect::{DiskFacts, inspect};
pub use read_at::ReadAt;
