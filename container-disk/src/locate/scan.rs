//! What one layer changes, as far as it matters.

use super::is_disk_path;
use super::links::{Links, Room};
use super::tree::{Entry, EntryKind};
use crate::members::Members;
use crate::tar::{Member, What, quoted};
use crate::{Error, Result};
use std::collections::BTreeMap;

/// The folder that all readers look into.
const DISK: &str = "disk";
/// A name that begins so says something about another.
const WHITEOUT: &str = ".wh.";
/// What it says then: nothing below is to be seen through this folder.
pub(super) const OPAQUE: &str = ".wh..wh..opq";
/// Names that are kept of one layer. A disk needs two.
const KEPT: usize = 1 << 12;
/// Bytes of these names.
const KEPT_BYTES: usize = 1 << 18;
/// Members of one layer; the largest operating systems have a few hundred thousand.
const MEMBERS: u64 = 4 << 20;
/// Bytes of a layer beside the largest file that could be the disk.
const BESIDE: u64 = 64 << 30;

/// What matters.
pub(crate) struct Interest {
    path: Option<String>,
    /// Files that are to be found beside the disk.
    beside: Vec<String>,
}

impl Interest {
    pub(crate) fn new(path: Option<&str>) -> Result<Interest> {
        let clean = |path: &str| {
            clean(path)
                .ok_or_else(|| Error::usage(format!("{path:?} names no file of an image; write /disk/NAME")))
        };
        Ok(Interest { path: path.map(clean).transpose()?, beside: vec![] })
    }

    /// Kernels.
    pub(crate) fn and(mut self, path: Option<String>) -> Interest {
        self.beside.extend(path);
        self
    }

    pub(crate) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Whether it could be the disk, by its name alone.
    pub(crate) fn could_be_the_disk(&self, name: &str) -> bool {
        match &self.path {
            Some(path) => name == path,
            None => is_disk_path(name),
        }
    }

    /// Whether it is a file that the rules could choose.
    fn could_hold_the_disk(&self, member: &Member) -> bool {
        let at_root = !member.name.contains('/');
        member.what == What::File && (at_root || self.could_be_the_disk(&member.name))
    }

    /// Paths that make an image what it is; what lies below them is part of that.
    pub(super) fn leaves(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.path().unwrap_or(DISK)).chain(self.beside())
    }

    /// Files that are to be found beside the disk.
    pub(super) fn beside(&self) -> impl Iterator<Item = &str> {
        self.beside.iter().map(String::as_str)
    }

    /// Whether it is named like a part of such a path.
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

/// A path as names in a tar are; `None` for one that leads out of the image, or nowhere.
pub(crate) fn clean(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty() && !parts.contains(&"..")).then(|| parts.join("/"))
}

/// What one layer changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) entries: BTreeMap<String, Entry>,
    /// Paths of layers below that are gone.
    pub(crate) deleted: Vec<String>,
    /// Folders through which layers below are not seen.
    pub(crate) opaque: Vec<String>,
    pub(super) links: Links,
    members: u64,
    /// Bytes of the names that are kept.
    kept: usize,
    /// Bytes of all files, and of the largest that could be the disk.
    bytes: u64,
    largest: u64,
}

impl Changes {
    /// None yet.
    pub(crate) fn within(room: Room) -> Changes {
        Changes {
            entries: BTreeMap::new(),
            deleted: vec![],
            opaque: vec![],
            links: Links::within(room),
            members: 0,
            kept: 0,
            bytes: 0,
            largest: 0,
        }
    }

    /// One more member.
    pub(crate) fn take(&mut self, interest: &Interest, layer: usize, member: &Member) -> Result<()> {
        self.count(interest, layer, member)?;
        let (folder, name) = member.name.rsplit_once('/').unwrap_or(("", &member.name));
        self.links.lies_in(layer, folder)?;
        if name == OPAQUE {
            self.links.named(layer, &member.name)?;
            if folder.is_empty() || interest.keeps(folder) {
                self.kept += folder.len();
                self.opaque.push(folder.to_owned());
            }
        } else if let Some(name) = name.strip_prefix(WHITEOUT) {
            if matches!(name, "" | "." | "..") {
                // Some programs delete the folder itself then, or the one that it lies in.
                let what =
                    format!("layer {} deletes a file without a name, by {}", layer + 1, quoted(&member.name));
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
        let many = self.members > MEMBERS
            || beside > BESIDE
            || self.entries.len() + self.deleted.len() + self.opaque.len() > KEPT
            || self.kept > KEPT_BYTES;
        if many {
            let what =
                format!("layer {} holds far more than a disk: {} files so far", layer + 1, self.members);
            return Err(Error::refused(what));
        }
        Ok(())
    }
}

/// Reads a layer to its end. `file` is given each file that could be the disk: its name, and its bytes to read.
pub(crate) fn all(
    mut members: Members,
    interest: &Interest,
    layer: usize,
    room: Room,
    mut file: impl FnMut(&str, &mut Members) -> Result<()>,
) -> Result<Changes> {
    let mut changes = Changes::within(room);
    while let Some(member) = members.next()? {
        changes.take(interest, layer, &member)?;
        if interest.could_hold_the_disk(&member) {
            file(&member.name, &mut members)?;
        }
    }
    members.drain()?;
    Ok(changes)
}

/// The same from where it stands.
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
