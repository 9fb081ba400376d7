//! The links of one layer in a compact form, and hashes of the folders that its members lie in.
//! [`super::detour`] uses both to find members below links once all layers are known. Layers are scanned in
//! any order.
//!
//! | kept | of | as |
//! |---|---|---|
//! | name and target | each symbolic link, each hard link | text, one after the other |
//! | folders | all members and whiteouts | a hash each |
//! | names | members and whiteouts named like a part of the disk's path | a hash each |
//!
//! Two names with the same hash are treated as equal. That may refuse a valid image, and never accepts a bad
//! one.

use crate::tar::{Member, What};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher as _};

/// Limits for all layers of an image together. The base of an operating system has a few thousand links and
/// folders.
const CAPACITY: LinkCapacity = LinkCapacity { links: 1 << 15, bytes: 2 << 20, hashes: 1 << 17 };

/// The remaining capacity for links and folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkCapacity {
    links: usize,
    /// Bytes of link names and targets.
    bytes: usize,
    hashes: usize,
}

impl LinkCapacity {
    /// The capacity that other layers of the image leave.
    pub(super) fn remaining<'a>(others: impl Iterator<Item = &'a Links>) -> LinkCapacity {
        others.fold(CAPACITY, |capacity, other| LinkCapacity {
            links: capacity.links.saturating_sub(other.spans.len()),
            bytes: capacity.bytes.saturating_sub(other.text.len()),
            hashes: capacity.hashes.saturating_sub(other.folders.len() + other.names.len()),
        })
    }
}

/// User, group and mode of a hard link.
pub(super) type Owner = (u64, u64, u64);

/// The links of a layer, and the folders of its members.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Links {
    capacity: LinkCapacity,
    /// Concatenated names and targets of all links.
    text: String,
    spans: Vec<Span>,
    folders: BTreeSet<u64>,
    names: BTreeSet<u64>,
}

/// The positions of a link's name and target in the text.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    at: usize,
    name: usize,
    target: usize,
    hard: Option<Box<Owner>>,
}

/// A link as the layer has it, without resolving other links.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link<'a> {
    pub(super) path: &'a str,
    pub(super) to: &'a str,
    /// Owner and mode in the header, for a hard link.
    pub(super) hard: Option<&'a Owner>,
}

impl Links {
    pub(super) fn within(capacity: LinkCapacity) -> Links {
        Links {
            capacity,
            text: String::new(),
            spans: Vec::new(),
            folders: BTreeSet::new(),
            names: BTreeSet::new(),
        }
    }

    /// Adds a member if it is a link.
    pub(super) fn take(&mut self, layer: usize, member: &Member) -> Result<()> {
        let (to, hard) = match &member.what {
            What::Symlink(to) => (to, None),
            What::HardLink(to) => (to, Some(Box::new((member.uid, member.gid, member.mode)))),
            _ => return Ok(()),
        };
        let at = self.text.len();
        self.text.push_str(&member.name);
        self.text.push_str(to);
        self.spans.push(Span { at, name: member.name.len(), target: to.len(), hard });
        self.fits(layer)
    }

    /// Adds a folder that contains a member.
    pub(super) fn add_parents(&mut self, layer: usize, folder: &str) -> Result<()> {
        let mut left = folder;
        // A known folder's parents are known too.
        while !left.is_empty() && self.folders.insert(Hash::of(left).0) {
            left = left.rsplit_once('/').map_or("", |(above, _)| above);
        }
        self.fits(layer)
    }

    /// Adds the path of a member or of a whiteout.
    pub(super) fn named(&mut self, layer: usize, path: &str) -> Result<()> {
        self.names.insert(Hash::of(path).0);
        self.fits(layer)
    }

    fn fits(&self, layer: usize) -> Result<()> {
        let capacity = &self.capacity;
        let is_full = self.spans.len() > capacity.links
            || self.text.len() > capacity.bytes
            || self.folders.len() + self.names.len() > capacity.hashes;
        if !is_full {
            return Ok(());
        }
        let what = format!(
            "layer {} has too many links and folders: an image may have at most {} links of {} bytes, and {} folders; \
                 put the disk into an image without them",
            layer + 1,
            CAPACITY.links,
            CAPACITY.bytes,
            CAPACITY.hashes
        );
        Err(Error::refused(what))
    }

    pub(super) fn has_folders(&self) -> bool {
        !self.folders.is_empty()
    }

    /// True if a member lies below this folder, at any depth.
    pub(super) fn has_below(&self, folder: Hash) -> bool {
        self.folders.contains(&folder.0)
    }

    pub(super) fn has_named(&self, path: Hash) -> bool {
        self.names.contains(&path.0)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = Link<'_>> {
        self.spans.iter().map(|span| {
            let middle = span.at + span.name;
            Link {
                path: &self.text[span.at..middle],
                to: &self.text[middle..middle + span.target],
                hard: span.hard.as_deref(),
            }
        })
    }
}

/// The hash of a path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hash(u64);

impl Hash {
    pub(super) fn of(name: &str) -> Hash {
        let mut hasher = DefaultHasher::new();
        hasher.write(name.as_bytes());
        Hash(hasher.finish())
    }
}
