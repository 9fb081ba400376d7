//! USB devices that the node itself uses: its disks and its networks. A PCI device is known by its driver; a USB device loses its
//! driver only when QEMU takes it.

use super::sysfs::{DEVICES, text};
use crate::error::{Error, ErrorKind, Result};
use crate::pod::Folder;
use rustix::fs::FileType;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

/// Folders below a USB device: hosts, targets, disks, partitions.
const DEEPEST: usize = 12;
/// The longest list of mounts that is read.
const LONGEST: u64 = 16 << 20;

/// What is mounted on the node.
#[derive(Debug, Default)]
pub(super) struct InUse {
    /// Numbers of devices: `8:1`.
    mounted: BTreeSet<String>,
    /// Names of devices: `sdb1`.
    swap: BTreeSet<String>,
}

impl InUse {
    /// As the node's first process sees it. `proc`: what stands for `/proc`.
    pub(super) fn read(proc: &Path) -> Result<InUse> {
        let folder = Folder::open(proc)?;
        let mounts = listed(&folder, "1/mountinfo")?;
        let swaps = listed(&folder, "swaps")?;
        Ok(InUse {
            mounted: mounts.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect(),
            swap: swaps
                .lines()
                .filter_map(|line| line.split_whitespace().next()?.strip_prefix("/dev/"))
                .map(str::to_owned)
                .collect(),
        })
    }

    /// Why a USB device is the node's own; nothing where it is not. What cannot be told is taken for a use.
    pub(super) fn why(&self, device: &Folder) -> Option<String> {
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

/// Networks that are not down are in use.
fn networks(net: &Folder) -> Result<Option<String>> {
    for name in net.names(DEVICES)? {
        if text(&net.folder(&name)?, "operstate")? != "down" {
            return Ok(Some(format!("the network interface {name} on it is not down")));
        }
    }
    Ok(None)
}

fn listed(folder: &Folder, name: &str) -> Result<String> {
    let mut text = String::new();
    let cannot = || format!("cannot read {}", folder.shown().join(name).display());
    let read = folder.read(name)?.take(LONGEST).read_to_string(&mut text);
    let length = read.map_err(|e| Error::io(cannot(), e))?;
    if u64::try_from(length).unwrap_or(LONGEST) == LONGEST {
        return Err(Error::failed(format!("{}: it is longer than {LONGEST} bytes", cannot())));
    }
    Ok(text)
}
