//! USB devices that the node itself uses: its disks and its network interfaces. A PCI device in use is known
//! by its driver, but a USB device loses its driver only when QEMU opens it.

use super::sysfs::{DEVICES, text};
use crate::error::{Error, ErrorKind, Result};
use crate::pod::Folder;
use rustix::fs::FileType;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

/// Most levels of folders below a USB device: hosts, targets, disks, partitions.
const DEEPEST: usize = 12;
/// Flag of a network interface that is up (IFF_UP).
const UP: u32 = 1;
/// Longest list of mounts that is read.
const LONGEST: u64 = 64 << 20;

/// Devices that the node has mounted or uses as swap.
#[derive(Debug, Default)]
pub(super) struct InUse {
    /// Device numbers of mounted file systems, such as `8:1`.
    mounted: BTreeSet<String>,
    /// Names of swap devices, such as `sdb1`.
    swap: BTreeSet<String>,
    /// Names of devices of mounted btrfs file systems. Their mounts have device numbers of their own, and the
    /// kernel does not list them as holders.
    btrfs: BTreeSet<String>,
    /// Reason why the uses are unknown.
    unknown: Option<String>,
}

impl InUse {
    /// Reads the uses that the node's first process sees. `sysfs` and `proc`: the node's `/sys` and `/proc`.
    /// If they cannot be read, every device counts as used.
    pub(super) fn read(sysfs: &Path, proc: &Path) -> InUse {
        let read = || {
            let folder = Folder::open(proc)?;
            let swap = |line: &str| line.split_whitespace().next()?.strip_prefix("/dev/").map(str::to_owned);
            Ok(InUse {
                mounted: collect_column(&folder, "1/mountinfo", |line| {
                    line.split(' ').nth(2).map(str::to_owned)
                })?,
                swap: collect_column(&folder, "swaps", swap)?,
                btrfs: btrfs(sysfs)?,
                unknown: None,
            })
        };
        read().unwrap_or_else(|e: Error| InUse { unknown: Some(e.chain()), ..InUse::default() })
    }

    /// Uses are unknown: every device counts as used.
    pub(super) fn unknown(why: &str) -> InUse {
        InUse { unknown: Some(why.to_owned()), ..InUse::default() }
    }

    /// Reason why the node uses a USB device; `None` if it does not. A device that cannot be checked counts
    /// as used.
    pub(super) fn reason(&self, device: &Folder) -> Option<String> {
        if let Some(why) = &self.unknown {
            return Some(format!("cannot find out which devices the node uses: {why}"));
        }
        let mut left = DEVICES;
        self.reason_below(device, DEEPEST, &mut left)
            .unwrap_or_else(|e| Some(format!("cannot find out whether the node uses it: {}", e.chain())))
    }

    fn reason_below(&self, folder: &Folder, deep: usize, left: &mut usize) -> Result<Option<String>> {
        for name in folder.names(DEVICES)? {
            let Some(rest) = left.checked_sub(1).filter(|_| deep > 0) else {
                return Ok(Some("too much is below it".to_owned()));
            };
            *left = rest;
            // Links point to drivers and to parent devices.
            if folder.metadata(&name)?.kind() != FileType::Directory {
                continue;
            }
            let inner = folder.folder(&name)?;
            let why = match name.as_str() {
                "block" => self.disks(&inner)?,
                "net" => networks(&inner)?,
                _ => self.reason_below(&inner, deep - 1, left)?,
            };
            if why.is_some() {
                return Ok(why);
            }
        }
        Ok(None)
    }

    /// Use of a disk and its partitions.
    fn disks(&self, block: &Folder) -> Result<Option<String>> {
        for disk in block.names(DEVICES)? {
            let folder = block.folder(&disk)?;
            if let Some(why) = self.disk(&folder, &disk)? {
                return Ok(Some(why));
            }
            for name in folder.names(DEVICES)? {
                let is_partition =
                    name.starts_with(&disk) && folder.metadata(&name)?.kind() == FileType::Directory;
                if is_partition && let Some(why) = self.disk(&folder.folder(&name)?, &name)? {
                    return Ok(Some(why));
                }
            }
        }
        Ok(None)
    }

    fn disk(&self, folder: &Folder, name: &str) -> Result<Option<String>> {
        if self.mounted.contains(&text(folder, "dev")?) {
            return Ok(Some(format!("{name} on it is mounted on the node")));
        }
        if self.btrfs.contains(name) {
            return Ok(Some(format!("{name} on it is part of a btrfs of the node")));
        }
        if self.swap.contains(name) {
            return Ok(Some(format!("{name} on it is swap of the node")));
        }
        let holders = match folder.folder("holders") {
            Ok(holders) => holders.names(DEVICES)?,
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(e),
        };
        Ok((!holders.is_empty()).then(|| format!("{name} on it is part of another disk of the node")))
    }
}

/// Devices of each mounted btrfs, by the names in `fs/btrfs/UUID/devices`.
fn btrfs(sysfs: &Path) -> Result<BTreeSet<String>> {
    let all = match Folder::open(sysfs)?.folder("fs/btrfs") {
        Ok(all) => all,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(e) => return Err(e),
    };
    let mut found = BTreeSet::new();
    for name in all.names(DEVICES)? {
        // The folder `features` beside them has no devices.
        match all.folder(&format!("{name}/devices")) {
            Ok(devices) => found.extend(devices.names(DEVICES)?),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

/// Use of network interfaces. Interfaces that are up are in use. So are those of another network namespace,
/// such as the node's own, which are not visible here: then the folder is empty.
fn networks(net: &Folder) -> Result<Option<String>> {
    let names = net.names(DEVICES)?;
    if names.is_empty() {
        return Ok(Some("it has a network interface in a network namespace that is not visible".to_owned()));
    }
    for name in names {
        // An interface that an administrator has set up is in use, with a carrier or without.
        let flags = text(&net.folder(&name)?, "flags")?;
        let flags = flags.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if flags.is_none_or(|flags| flags & UP != 0) {
            return Ok(Some(format!("the network interface {name} on it is up")));
        }
    }
    Ok(None)
}

/// Collects one value of each line of a list. Other parts of a line may come from tenants, such as the paths
/// of mounts of their pods.
fn collect_column(folder: &Folder, name: &str, read: fn(&str) -> Option<String>) -> Result<BTreeSet<String>> {
    let shown = folder.display_path().join(name);
    let cannot = |e| Error::io(format!("cannot read {}", shown.display()), e);
    let mut list = BufReader::new(folder.read(name)?.take(LONGEST));
    let (mut found, mut line, mut length) = (BTreeSet::new(), Vec::new(), 0_u64);
    loop {
        line.clear();
        match list.read_until(b'\n', &mut line).map_err(cannot)? {
            0 => return Ok(found),
            more => length = length.saturating_add(u64::try_from(more).unwrap_or(LONGEST)),
        }
        if length >= LONGEST {
            return Err(Error::failed(format!("{} is longer than {LONGEST} bytes", shown.display())));
        }
        found.extend(read(&String::from_utf8_lossy(&line)));
    }
}
