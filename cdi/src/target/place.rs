//! The kind of a target, decided once by its name.

use crate::{Error, ErrorKind, Result};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The destination of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Standard output, written `-` by the user.
    Stdout,
    /// A block device, or a link to one (`/dev/disk/by-id/…`, `/dev/mapper/…`).
    Device(PathBuf),
    /// A file; `file::claim` checks if it can be one.
    File(PathBuf),
    /// A layer of the image with this name. [`Destination::from_name`] never returns it, since images are built.
    Image(String),
    /// None: the disk is only read and checked.
    Null,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Stdout => f.write_str("standard output"),
            Destination::Device(path) | Destination::File(path) => path.display().fmt(f),
            Destination::Image(name) => f.write_str(name),
            Destination::Null => f.write_str("nowhere"),
        }
    }
}

impl Destination {
    /// The destination by its name; refuses names that no target can have.
    pub fn from_name(name: &OsStr) -> Result<Self> {
        let bytes = name.as_bytes();
        if bytes == b"-" {
            return Ok(Destination::Stdout);
        }
        if bytes.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "the name of the target is empty"));
        }
        if bytes.starts_with(b"http://") || bytes.starts_with(b"https://") {
            let what =
                "a disk cannot be written to a URL; name a file, a block device, or - for standard output";
            return Err(Error::new(ErrorKind::Usage, what));
        }
        let path = PathBuf::from(name);
        match std::fs::metadata(&path) {
            Ok(meta) if meta.file_type().is_block_device() => Ok(Destination::Device(path)),
            _ => Ok(Destination::File(path)),
        }
    }

    /// The path, if it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Destination::Device(path) | Destination::File(path) => Some(path),
            Destination::Stdout | Destination::Image(_) | Destination::Null => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let of = |name: &str| Destination::from_name(OsStr::new(name));
        assert_eq!(of("-").unwrap(), Destination::Stdout);
        assert_eq!(of("./-").unwrap(), Destination::File("./-".into()));
        assert_eq!(of("/no/such/file").unwrap(), Destination::File("/no/such/file".into()));
        assert_eq!(of("/dev/null").unwrap(), Destination::File("/dev/null".into()));
        for (destination, shown, path) in [
            (Destination::Stdout, "standard output", None),
            (Destination::Device("/dev/sda".into()), "/dev/sda", Some("/dev/sda")),
            (Destination::File("disk.img".into()), "disk.img", Some("disk.img")),
            (Destination::Image("os:1".to_owned()), "os:1", None),
            (Destination::Null, "nowhere", None),
        ] {
            assert_eq!((destination.to_string().as_str(), destination.path()), (shown, path.map(Path::new)));
        }
        for name in ["", "http://x/y", "https://x/y"] {
            assert_eq!(of(name).unwrap_err().kind(), ErrorKind::Usage);
        }
        match std::fs::read_dir("/dev").unwrap().flatten().find(|d| d.file_type().unwrap().is_block_device())
        {
            Some(device) => {
                assert_eq!(
                    Destination::from_name(device.path().as_os_str()).unwrap(),
                    Destination::Device(device.path())
                )
            }
            None => eprintln!("skipped: there is no block device here"),
        }
    }
}
