//! Names of the files in the folder of an image (`disks/sha256-…`).
//!
//! ```text
//!  HASH.disk       the disk at a path of the image
//!  HASH.boot       the kernel or the initrd at a path
//!  HASH.path       the file that has the disk at a path, as the manifest of a VM writes it
//!  default.path    the same, for an image that a VM names without a path
//!  ….lock  ….partial  …                beside one of these, while it is made
//! ```
//!
//! The hash is that of the whole path: no two paths have one name, and no path has that of another file. Older
//! versions made names of the letters of a path. Their files are not used any more.

use container_disk::Digest;
use std::ffi::OsStr;

/// Name of the file for the disk at a path of the image.
pub fn disk(path: &str) -> String {
    format!("{}.disk", hash(path))
}

/// Name of the file for the kernel or the initrd at a path of the image.
pub fn boot(path: &str) -> String {
    format!("{}.boot", hash(path))
}

/// Name of the note about the disk that a VM names by this path, or without one.
pub fn note(path: Option<&str>) -> String {
    format!("{}.path", path.map_or_else(|| DEFAULT.to_owned(), hash))
}

/// Name of the lock of another file, for the process that makes it.
pub fn lock(name: &str) -> String {
    format!("{name}.lock")
}

/// True for a name that this version gives.
pub(crate) fn is_known(name: &OsStr) -> bool {
    let Some((stem, _)) = name.to_str().and_then(|name| name.split_once('.')) else { return false };
    stem == DEFAULT || (stem.len() == 64 && stem.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

const DEFAULT: &str = "default";

fn hash(path: &str) -> String {
    Digest::of(path.as_bytes()).hex()
}
