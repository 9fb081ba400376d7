//! The relevant changes of one layer: entries near the disk, whiteouts and links.

use super::is_disk_path;
use super::links::{LinkCapacity, Links};
use super::tree::{Entry, EntryKind};
use crate::members::Members;
use crate::tar::{Member, What, quoted};
use crate::{Error, Result};
use std::collections::BTreeMap;

/// The folder of the disk in a containerDisk.
const DISK: &str = "disk";
/// Prefix of a whiteout's name.
const WHITEOUT: &str = ".wh.";
/// Name of an opaque whiteout, which hides the content of its folder in the layers below.
pub(super) const OPAQUE: &str = ".wh..wh..opq";
/// Limit of names that are kept per layer. A disk needs two.
const KEPT: usize = 1 << 12;
/// Limit of bytes of these names.
const KEPT_BYTES: usize = 1 << 18;
/// Limit of names that are kept of all layers together.
const ALL_KEPT: usize = 1 << 14;
/// Limit of bytes of these names.
const ALL_KEPT_BYTES: usize = 1 << 20;
/// Limit of members per layer. The largest operating systems have a few hundred thousand.
const MEMBERS: u64 = 4 << 20;
/// Limit of bytes in a layer, without the largest file that could be the disk.
const BESIDE: u64 = 64 << 30;

/// The paths that a scan looks for.
pub(crate) struct Interest {
    path: Option<String>,
    /// Other files to find, besides the disk.
    beside: Vec<String>,
}

impl Interest {
    pub(crate) fn new(path: Option<&str>) -> Result<Interest> {
        let clean = |path: &str| {
            clean(path).ok_or_else(|| {
                Error::usage(format!("{path:?} is not the path of a file in an image; write /disk/NAME"))
            })
        };
        Ok(Interest { path: path.map(clean).transpose()?, beside: vec![] })
    }

    /// Adds the path of a kernel or initrd.
    pub(crate) fn and(mut self, path: Option<String>) -> Interest {
        self.beside.extend(path);
        self
    }

    pub(crate) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// True if a file of this name could be the disk.
    pub(crate) fn could_be_the_disk(&self, name: &str) -> bool {
        match &self.path {
            Some(path) => name == path,
            None => is_disk_path(name),
        }
    }

    /// True if the rules could choose this member as the disk.
    fn could_hold_the_disk(&self, member: &Member) -> bool {
        let at_root = !member.name.contains('/');
        member.what == What::File && (at_root || self.could_be_the_disk(&member.name))
    }

    /// Paths whose content, including everything below them, determines the result.
    pub(super) fn leaves(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.path().unwrap_or(DISK)).chain(self.beside())
    }

    /// The paths of other files to find.
    pub(super) fn beside(&self) -> impl Iterator<Item = &str> {
        self.beside.iter().map(String::as_str)
    }

    /// True if the name equals a component of one of the leaves.
    fn watches(&self, name: &str) -> bool {
        self.leaves().any(|leaf| leaf.split('/').any(|part| part == name))
    }

    fn keeps(&self, name: &str) -> bool {
        let on_the_way =
            |path: &str| path == name || path.strip_prefix(name).is_some_and(|r| r.starts_with('/'));
        !name.contains('/')
            || name.starts_with("disk/")
            || self.path().is_some_and(on_the_way)
            || self.beside.iter().any(|path| on_the_way(path))
    }
}

/// A path in the form of member names in a tar. `None` if it leads out of the image, or is empty.
pub(crate) fn clean(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty() && !parts.contains(&"..")).then(|| parts.join("/"))
}

/// The remaining capacity for names and links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    names: usize,
    bytes: usize,
    links: LinkCapacity,
}

impl Capacity {
    /// The capacity that other layers of the image leave.
    pub(super) fn remaining<'a>(others: impl Iterator<Item = &'a Changes> + Clone) -> Capacity {
        let links = LinkCapacity::remaining(others.clone().map(|other| &other.links));
        let all = Capacity { names: ALL_KEPT, bytes: ALL_KEPT_BYTES, links };
        others.fold(all, |capacity, other| Capacity {
            names: capacity.names.saturating_sub(other.names()),
            bytes: capacity.bytes.saturating_sub(other.kept),
            links,
        })
    }
}

/// The relevant changes that one layer makes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) entries: BTreeMap<String, Entry>,
    /// Paths whose entries in lower layers are deleted.
    pub(crate) deleted: Vec<String>,
    /// Folders whose content in lower layers is hidden.
    pub(crate) opaque: Vec<String>,
    pub(super) links: Links,
    capacity: Capacity,
    members: u64,
    /// Bytes of the kept names.
    kept: usize,
    /// Bytes of all files.
    bytes: u64,
    /// Bytes of the largest file that could be the disk.
    largest: u64,
}

impl Changes {
    /// No changes yet. `capacity` limits names and links.
    pub(crate) fn within(capacity: Capacity) -> Changes {
        Changes {
            entries: BTreeMap::new(),
            deleted: vec![],
            opaque: vec![],
            links: Links::within(capacity.links),
            capacity,
            members: 0,
            kept: 0,
            bytes: 0,
            largest: 0,
        }
    }

    /// Adds the changes of one member.
    pub(crate) fn take(&mut self, interest: &Interest, layer: usize, member: &Member) -> Result<()> {
        self.count(interest, layer, member)?;
        let (folder, name) = member.name.rsplit_once('/').unwrap_or(("", &member.name));
        self.links.add_parents(layer, folder)?;
        if name == OPAQUE {
            self.links.named(layer, &member.name)?;
            if folder.is_empty() || interest.keeps(folder) {
                self.kept += folder.len();
                self.opaque.push(folder.to_owned());
            }
        } else if let Some(name) = name.strip_prefix(WHITEOUT) {
            if matches!(name, "" | "." | "..") {
                // Some programs then delete the folder itself, or its parent.
                let what = format!(
                    "layer {} has a whiteout without a file name: {}",
                    layer + 1,
                    quoted(&member.name)
                );
                return Err(Error::refused(what));
            }
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            if interest.watches(name) {
                self.links.named(layer, &path)?;
            }
            if interest.keeps(&path) {
                self.kept += path.len();
                self.deleted.push(path);
            }
        } else {
            if interest.watches(name) {
                self.links.named(layer, &member.name)?;
            }
            self.links.take(layer, member)?;
            if !member.name.is_empty() && interest.keeps(&member.name) {
                self.keep(layer, member)?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, layer: usize, member: &Member) -> Result<()> {
        let kind = match &member.what {
            What::File => EntryKind::File,
            What::Folder => EntryKind::Folder,
            What::HardLink(to) => EntryKind::Other(format!("a hard link to {}", quoted(to))),
            What::Symlink(to) => EntryKind::Other(format!("a link to {}", quoted(to))),
            What::Special(kind) => EntryKind::Other(format!("a {kind}")),
            What::Note(kind) => EntryKind::Other(format!("a note of the type {kind:?}")),
        };
        let &Member { size, at, uid, gid, mode, .. } = member;
        let both_folders = |old: &Entry| old.kind == EntryKind::Folder && kind == EntryKind::Folder;
        if self.entries.get(&member.name).is_some_and(|old| !both_folders(old)) {
            let what = format!("layer {} holds {} twice", layer + 1, quoted(&member.name));
            return Err(Error::refused(what));
        }
        self.kept += member.name.len();
        self.entries.insert(member.name.clone(), Entry { kind, layer, at, size, uid, gid, mode });
        Ok(())
    }

    fn count(&mut self, interest: &Interest, layer: usize, member: &Member) -> Result<()> {
        self.members += 1;
        self.bytes = self.bytes.saturating_add(member.size);
        if interest.could_hold_the_disk(member) {
            self.largest = self.largest.max(member.size);
        }
        let beside = self.bytes - self.largest.min(self.bytes);
        let many = self.members > MEMBERS || beside > BESIDE || self.names() > KEPT || self.kept > KEPT_BYTES;
        if many {
            let what = format!(
                "layer {} is too large for a containerDisk: {} files so far",
                layer + 1,
                self.members
            );
            return Err(Error::refused(what));
        }
        if self.names() > self.capacity.names || self.kept > self.capacity.bytes {
            let what = format!(
                "the image has too many names in its layers up to layer {}: its root and /{DISK} may have at most \
                 {ALL_KEPT} names of {ALL_KEPT_BYTES} bytes; put the disk into an image without them",
                layer + 1
            );
            return Err(Error::refused(what));
        }
        Ok(())
    }

    /// Number of kept names.
    fn names(&self) -> usize {
        self.entries.len() + self.deleted.len() + self.opaque.len()
    }
}

/// Reads a layer to its end. `file` is called for each file that could be the disk, with its name and a
/// reader of its bytes.
pub(crate) fn all(
    mut members: Members,
    interest: &Interest,
    layer: usize,
    capacity: Capacity,
    mut file: impl FnMut(&str, &mut Members) -> Result<()>,
) -> Result<Changes> {
    let mut changes = Changes::within(capacity);
    while let Some(member) = members.next()? {
        changes.take(interest, layer, &member)?;
        if interest.could_hold_the_disk(&member) {
            file(&member.name, &mut members)?;
        }
    }
    members.drain()?;
    Ok(changes)
}

/// Reads the rest of a layer from its current position.
pub(crate) fn rest(
    members: &mut Members,
    changes: &mut Changes,
    interest: &Interest,
    layer: usize,
) -> Result<()> {
    while let Some(member) = members.next()? {
        changes.take(interest, layer, &member)?;
    }
    members.drain()
}
