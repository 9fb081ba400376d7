//! What kind of target a name is.

use crate::{Error, Kind, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// Where a target's name leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `-`
    Stdout,
    /// A block device, or a link to one (`/dev/disk/by-id/…`, `/dev/mapper/…`).
    Device(PathBuf),
    /// Anything else; whether it can be a file is seen when it is claimed.
    File(PathBuf),
}

impl Place {
    /// Refuses what is no name of a target at all.
    pub fn of(name: &OsStr) -> Result<Self> {
        let bytes = name.as_bytes();
        if bytes == b"-" {
            return Ok(Place::Stdout);
        }
        if bytes.is_empty() {
            return Err(Error::new(Kind::Usage, "the name of the target is empty"));
        }
        if bytes.starts_with(b"http://") || bytes.starts_with(b"https://") {
            let what =
                "a disk cannot be written to a URL; name a file, a block device, or - for standard output";
            return Err(Error::new(Kind::Usage, what));
        }
        let path = PathBuf::from(name);
        match std::fs::metadata(&path) {
            Ok(meta) if meta.file_type().is_block_device() => Ok(Place::Device(path)),
            _ => Ok(Place::File(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let of = |name: &str| Place::of(OsStr::new(name));
        assert_eq!(of("-").unwrap(), Place::Stdout);
        assert_eq!(of("./-").unwrap(), Place::File("./-".into()));
        assert_eq!(of("/no/such/file").unwrap(), Place::File("/no/such/file".into()));
        assert_eq!(of("/dev/null").unwrap(), Place::File("/dev/null".into()));
        for name in ["", "http://x/y", "https://x/y"] {
            assert_eq!(of(name).unwrap_err().kind(), Kind::Usage);
        }
        match std::fs::read_dir("/dev").unwrap().flatten().find(|d| d.file_type().unwrap().is_block_device())
        {
            Some(device) => {
                assert_eq!(Place::of(device.path().as_os_str()).unwrap(), Place::Device(device.path()))
            }
            None => eprintln!("skipped: there is no block device here"),
        }
    }
}
