//! Tar, read and written: the form of a layer, of an image in one file, and of a disk that was packed with its notes.
//!
//! ```text
//!   write.rs   folders and files with owner and mode ──► headers (ustar; PAX where a field is too small)
//!   read.rs    bytes in order, or at any offset ──► members, one after the other
//!     header.rs  one block of 512 bytes      pax.rs     extended headers      sparse.rs  maps of sparse files
//!     member.rs  type, name                  source.rs  the kinds of bytes    fault.rs   why it is not read on
//! ```
//!
//! **The only reader of tar headers in this tree**: `crate::members` reads layers and images with it, `cdi::filter` archives
//! around a disk. It is strict where unpackers are lenient: what two programs read as two different things is refused.
//! Every number is checked, and what a member keeps in memory is bounded. Names are never used to open anything.
//!
//! | in the archive | is |
//! |---|---|
//! | ustar, GNU, v7 headers | read; the prefix of a name in ustar alone; any other magic that begins with `ustar` is refused, and so is what Go would take for a prefix in GNU's times, or another end of it in star's |
//! | checksum | must be right, over unsigned or signed bytes |
//! | numbers | octal between blanks, or base 256 (0x80 first); at most 63 bits; an empty field is 0 |
//! | PAX (`x`), long name and link (`L`, `K`) | read, 1 MiB and 64 KiB at most, each once before a member; a name told by two of them, or a record told twice, is refused |
//! | PAX for all members (`g`) | read over, unless it tells names, sizes, owners or holes, or stands between a member and what is told of it: refused |
//! | attributes of overlay file systems (PAX) | refused: they hide files, or show others |
//! | sparse: old GNU, PAX 0.0, 0.1, 1.0 | a map, checked; other kinds (star, Solaris) are refused |
//! | names | UTF-8, relative, without `..`, not empty, at most 4096 bytes, 255 in a part; a file is never the root |
//! | a file (`0`, `7`) whose name ends with a slash | refused: a folder for some programs, a file for others; a v7 one is a folder |
//! | anything but a file with a size | refused, but for a GNU list of a folder (`D`) |
//! | other types (Solaris' `X`, which Go does not read), members continued from another volume | refused |
//! | the end | two empty blocks, then zeros alone; [`End`] tells whether the bytes may end without them |
//! | names that come twice, links | told; the caller's to judge |

mod fault;
mod header;
mod member;
mod pax;
mod read;
mod source;
mod sparse;
#[cfg(test)]
pub(crate) mod tests;
mod write;

pub use fault::Fault;
pub(crate) use header::begins_as_tar;
pub use header::looks_like_tar;
pub use member::{Member, What};
pub use read::{Archive, End, Rules};
pub use source::{Seekable, Source, Streamed};
pub use sparse::Map;
pub use write::BLOCK;
pub(crate) use write::{END, Item, head, patched, rest};

/// A name from an archive as it is shown in a message: quoted, and not without end.
pub fn quoted(name: &str) -> String {
    const LONGEST: usize = 120;
    match name.char_indices().nth(LONGEST) {
        None => format!("{name:?}"),
        Some((at, _)) => format!("{:?}…", &name[..at]),
    }
}
