//! USB devices that the node itself uses: its disks and its networks. A PCI device is known by its driver; a USB device loses its
//! driver only when QEMU takes it.

use super::sysfs::{DEVICES, text};
use crate::error::{Error, ErrorKind, Result};
use crate::pod::Folder;
use rustix::fs::FileType;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

/// Folders below a USB device: hosts, targets, disks, partitions.
const DEEPEST: usize = 12;
/// The flag of a network interface that is up (IFF_UP).
const UP: u32 = 1;
/// The longest list of mounts that is read.
const LONGEST: u64 = 64 << 20;

/// What is mounted on the node.
#[derive(Debug, Default)]
pub(super) struct InUse {
    /// Numbers of devices: `8:1`.
    mounted: BTreeSet<String>,
    /// Names of devices: `sdb1`.
    swap: BTreeSet<String>,
    /// Names of devices that a btrfs has: its mounts have numbers of their own, and it holds its devices in no list of theirs.
    btrfs: BTreeSet<String>,
    /// Why all this is not known.
    unknown: Option<String>,
}

impl InUse {
    /// As the node's first process sees it. `sysfs` and `proc`: what stands for `/sys` and `/proc`.
    /// Where it cannot be read, every device counts as used.
    pub(super) fn read(sysfs: &Path, proc: &Path) -> InUse {
        let read = || {
            let folder = Folder::open(proc)?;
            let swap = |line: &str| line.split_whitespace().next()?.strip_prefix("/dev/").map(str::to_owned);
            Ok(InUse {
                mounted: each(&folder, "1/mountinfo", |line| line.split(' ').nth(2).map(str::to_owned))?,
                swap: each(&folder, "swaps", swap)?,
                btrfs: btrfs(sysfs)?,
                unknown: None,
            })
        };
        read().unwrap_or_else(|e: Error| InUse { unknown: Some(e.chain()), ..InUse::default() })
    }

    /// Every device counts as used.
    pub(super) fn unknown(why: &str) -> InUse {
        InUse { unknown: Some(why.to_owned()), ..InUse::default() }
    }

    /// Why a USB device is the node's own; nothing where it is not. What cannot be told is taken for a use.
    pub(super) fn why(&self, device: &Folder) -> Option<String> {
        if let Some(why) = &self.unknown {
            return Some(format!("what the node uses cannot be told: {why}"));
        }
        let mut left = DEVICES;
        self.below(device, DEEPEST, &mut left)
            .unwrap_or_else(|e| Some(format!("what it is cannot be told: {}", e.chain())))
    }

    fn below(&self, folder: &Folder, deep: usize, left: &mut usize) -> Result<Option<String>> {
        for name in folder.names(DEVICES)? {
            let Some(rest) = left.checked_sub(1).filter(|_| deep > 0) else {
                return Ok(Some("too much is below it".to_owned()));
            };
            *left = rest;
            // Links lead to drivers and to what is above.
            if folder.look(&name)?.kind() != FileType::Directory {
                continue;
            }
            let inner = folder.folder(&name)?;
            let why = match name.as_str() {
                "block" => self.disks(&inner)?,
                "net" => networks(&inner)?,
                _ => self.below(&inner, deep - 1, left)?,
            };
            if why.is_some() {
                return Ok(why);
            }
        }
        Ok(None)
    }

    /// Disks, and their partitions.
    fn disks(&self, block: &Folder) -> Result<Option<String>> {
        for disk in block.names(DEVICES)? {
            let folder = block.folder(&disk)?;
            if let Some(why) = self.disk(&folder, &disk)? {
                return Ok(Some(why));
            }
            for name in folder.names(DEVICES)? {
                let is_partition =
                    name.starts_with(&disk) && folder.look(&name)?.kind() == FileType::Directory;
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

/// The devices of each btrfs that is mounted, as `fs/btrfs/UUID/devices` names them.
fn btrfs(sysfs: &Path) -> Result<BTreeSet<String>> {
    let all = match Folder::open(sysfs)?.folder("fs/btrfs") {
        Ok(all) => all,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(e) => return Err(e),
    };
    let mut found = BTreeSet::new();
    for name in all.names(DEVICES)? {
        // `features` beside them has no devices.
        match all.folder(&format!("{name}/devices")) {
            Ok(devices) => found.extend(devices.names(DEVICES)?),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

/// Network interfaces that are up are in use; and those that are of another network namespace, such as the node's own, which are not seen
/// here: then the folder is empty.
fn networks(net: &Folder) -> Result<Option<String>> {
    let names = net.names(DEVICES)?;
    if names.is_empty() {
        return Ok(Some("it has a network interface in a network that cannot be seen".to_owned()));
    }
    for name in names {
        // What an administrator has brought up is used, with a carrier or without.
        let flags = text(&net.folder(&name)?, "flags")?;
        let flags = flags.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if flags.is_none_or(|flags| flags & UP != 0) {
            return Ok(Some(format!("the network interface {name} on it is up")));
        }
    }
    Ok(None)
}

/// What is read of each line of a list. Other parts of a line are tenants': the paths of what their pods mount.
fn each(folder: &Folder, name: &str, read: fn(&str) -> Option<String>) -> Result<BTreeSet<String>> {
    let shown = folder.shown().join(name);
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
