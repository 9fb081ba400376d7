//! Reading and writing of tar: the format of a layer, of an image in one file, and of a packed disk.
//!
//! ```text
//!   write.rs   folders and files with owner and mode ──► headers (ustar; PAX where a field is too small)
//!   read.rs    bytes in order, or at any offset ──► members, one after the other
//!     header.rs  one block of 512 bytes      pax.rs     extended headers      sparse.rs  maps of sparse files
//!     member.rs  type, name                  source.rs  input streams         fault.rs   errors
//! ```
//!
//! **The only reader of tar headers in this tree**: `crate::members` reads layers and images with it, and
//! `cdi::filter` reads archives around a disk. It is strict where unpackers are lenient: an archive that two
//! programs read in different ways is refused. Every number is checked, and the memory of a member is
//! bounded. Names are never used to open files.
//!
//! | in the archive | treatment |
//! |---|---|
//! | ustar, GNU, v7 headers | read; only ustar names have a prefix. Refused: any other magic that begins with
//! `ustar`, GNU times that Go would read as a prefix, and star headers with another end of the prefix |
//! | checksum | must be right, over unsigned or signed bytes |
//! | numbers | octal between blanks, or base 256 (0x80 first); at most 63 bits; an empty field is 0 |
//! | PAX (`x`), long name and link (`L`, `K`) | read, at most 1 MiB and 64 KiB, each once per member; a name
//! in two of them, or a repeated record, is refused |
//! | PAX for all members (`g`) | skipped; refused if it sets names, sizes, owners or holes, or stands between
//! a member and its extended headers |
//! | attributes of overlay file systems (PAX) | refused: they hide files, or show others |
//! | sparse: old GNU, PAX 0.0, 0.1, 1.0 | a map, checked; other kinds (star, Solaris) are refused |
//! | names | UTF-8, relative, without `..`, not empty, at most 4096 bytes, 255 in a part; a file is never the
//! root |
//! | a file (`0`, `7`) whose name ends with a slash | refused: a folder for some programs, a file for others;
//! a v7 one is a folder |
//! | a size on anything but a file | refused, except for a GNU list of a folder (`D`) |
//! | other types (Solaris' `X`, which Go does not read), members continued from another volume | refused |
//! | the end | two empty blocks, then only zeros; [`End`] sets whether the bytes may end without them |
//! | repeated names, links | returned; the caller judges them |

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

/// A name from an archive for a message: quoted, and shortened if it is long.
pub fn quoted(name: &str) -> String {
    const LONGEST: usize = 120;
    match name.char_indices().nth(LONGEST) {
        None => format!("{name:?}"),
        Some((at, _)) => format!("{:?}…", &name[..at]),
    }
}
