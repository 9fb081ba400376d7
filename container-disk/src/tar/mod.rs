//! Tar, read and written: the form of a layer, and of an image in one file.
//!
//! ```text
//!   write.rs   folders and files with owner and mode ──► headers (ustar; PAX where a field is too small)
//!   read.rs    bytes in order, or at any offset ──► members, one after the other
//!     header.rs  one block of 512 bytes      pax.rs  extended headers      source.rs  the two kinds of bytes
//! ```
//!
//! An own reader, because it must be strict where unpackers are lenient: what two programs could read as two different
//! things is refused. Sparse members are refused too, since the usual container runtimes do not unpack them. Every
//! number is checked, and what a member makes us keep in memory is bounded.

mod header;
mod pax;
mod read;
mod source;
#[cfg(test)]
pub(crate) mod tests;
mod write;

pub(crate) use header::looks_like_tar;
pub(crate) use read::{Member, Members, What};
pub(crate) use source::{Seekable, Streamed};
pub(crate) use write::{BLOCK, END, Item, head, patched, rest};

/// A name as it is shown in a message: quoted, and not without end.
pub(crate) fn quoted(name: &str) -> String {
    const LONGEST: usize = 120;
    match name.char_indices().nth(LONGEST) {
        None => format!("{name:?}"),
        Some((at, _)) => format!("{:?}…", &name[..at]),
    }
}
