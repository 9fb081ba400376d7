//! Reads the kernel's device files without leaving `/sys`: links are followed only below the folder that
//! stands for `/sys`, names and texts are short and have a fixed form, and lists are bounded.

use crate::error::{Error, ErrorKind, Result};
use crate::pod::Folder;
use std::io::Read as _;
use std::path::Path;

/// Most devices of a bus that are read.
pub(super) const DEVICES: usize = 16384;
/// Longest text of an attribute.
const LONGEST: u64 = 4096;

/// The folder that stands for `/sys`.
pub(super) struct Sysfs(Folder);

impl Sysfs {
    pub(super) fn open(path: &Path) -> Result<Sysfs> {
        Folder::open(path).map(Sysfs)
    }

    /// Names in a folder. A missing folder is empty: the kernel has no such bus.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>> {
        match self.0.open_in_root(path) {
            Ok(folder) => folder.names(DEVICES),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    /// Folder of a device; links on the way are followed.
    pub(super) fn folder(&self, path: &str) -> Result<Folder> {
        self.0.open_in_root(path)
    }

    /// Number in the target of a link, if the link leads to the folder of that number in `folder`.
    pub(super) fn numbered(&self, device: &str, link: &str, folder: &str) -> Option<u32> {
        let text = self.folder(device).ok()?.link(link).ok()?;
        let number: u32 = decimal(text.rsplit('/').next()?)?;
        let there = self.folder(&format!("{device}/{link}")).ok()?;
        let own = self.folder(&format!("{folder}/{number}")).ok()?;
        there.is(&own).ok()?.then_some(number)
    }

    /// True if the driver of a PCI device is one of these. A device without a driver counts if `none`.
    pub(super) fn is_driven(&self, device: &str, drivers: &[&str], none: bool) -> bool {
        match self.folder(&format!("{device}/driver")) {
            Ok(driver) => drivers.iter().any(|name| {
                let own = self.folder(&format!("bus/pci/drivers/{name}"));
                own.is_ok_and(|own| driver.is(&own).unwrap_or(false))
            }),
            Err(e) => none && e.kind() == ErrorKind::NotFound,
        }
    }
}

/// Text of an attribute, trimmed.
pub(super) fn text(folder: &Folder, name: &str) -> Result<String> {
    let mut text = String::new();
    let cannot = || format!("cannot read {}", folder.display_path().join(name).display());
    folder.read(name)?.take(LONGEST).read_to_string(&mut text).map_err(|e| Error::io(cannot(), e))?;
    Ok(text.trim().to_owned())
}

/// Hexadecimal number of four digits: `0x10de` of PCI devices, `046d` of USB devices.
pub(super) fn hexadecimal(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_right = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_right.then(|| u16::from_str_radix(digits, 16).ok())?
}

/// Decimal number without sign or blanks.
pub(super) fn decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_right = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_right.then(|| text.parse().ok())?
}
