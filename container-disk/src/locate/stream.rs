//! The disk's bytes from a layer, in order, with the checks at their end.

use super::Image;
use super::scan::{self, Changes};
use super::tree::Entry;
use crate::members::Members;
use crate::tar::Source;
use crate::{Error, Result};
use std::io::{self, Read};
use std::sync::Arc;

/// A layer that is positioned inside the disk.
pub(super) struct Stream {
    members: Members,
    layer: usize,
    /// Changes of the layer up to the disk, including it.
    changes: Changes,
    path: String,
    entry: Entry,
    /// The image for the check at the end. `None` once that is done.
    image: Option<Arc<Image>>,
}

/// Limit of files per layer that are tried as the disk before the layer's end. Each try evaluates the whole
/// image.
const CANDIDATES: u32 = 16;

/// The result of a search.
pub(super) enum Rest {
    /// The search stopped at the first byte of the disk, unless a later member contradicts that.
    Paused(Box<Stream>, String),
    /// The layer has ended.
    Scanned(Box<Changes>),
}

impl Stream {
    /// Reads a layer up to the disk.
    pub(super) fn search(mut members: Members, layer: usize, image: &Image) -> Result<Rest> {
        let mut changes = Changes::within(image.capacity(layer));
        let mut candidates = 0;
        while let Some(member) = members.next()? {
            changes.take(&image.interest, layer, &member)?;
            if !image.interest.could_be_the_disk(&member.name) || candidates == CANDIDATES {
                continue;
            }
            candidates += 1;
            // Evaluates the image as if the layer ended here. An upper layer may hide the file, or have
            // another disk.
            let Ok((path, entry)) = image.judge_with(Some((layer, &changes))) else { continue };
            if entry.layer == layer && path == member.name {
                let stream = Stream { members, layer, changes, path: path.clone(), entry, image: None };
                return Ok(Rest::Paused(Box::new(stream), path));
            }
        }
        members.drain()?;
        Ok(Rest::Scanned(Box::new(changes)))
    }

    /// Reads a layer up to the disk that an earlier scan has found.
    pub(super) fn again(mut members: Members, layer: usize, image: &Image, path: &str) -> Result<Stream> {
        let mut changes = Changes::within(image.capacity(layer));
        while let Some(member) = members.next()? {
            changes.take(&image.interest, layer, &member)?;
            if member.name == path
                && let Some(entry) = changes.entries.get(path).cloned()
            {
                return Ok(Stream { members, layer, changes, path: path.to_owned(), entry, image: None });
            }
        }
        Err(Error::refused(format!(
            "layer {} of {} no longer has its disk; another program may have replaced it",
            layer + 1,
            image.name
        )))
    }

    pub(super) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Continues inside the disk with `bytes`, which start at offset `at` of the layer's tar.
    pub(super) fn enter(&mut self, bytes: impl Source + 'static, at: u64) -> Result<()> {
        self.members.enter(bytes, at)
    }

    /// Sets the image for the check at the end.
    pub(super) fn settle_by(&mut self, image: Arc<Image>) {
        self.image = Some(image);
    }

    fn settle(&mut self, image: &Image) -> Result<()> {
        scan::rest(&mut self.members, &mut self.changes, &image.interest, self.layer)?;
        let (path, entry) = image.judge_with(Some((self.layer, &self.changes)))?;
        if path == self.path && entry == self.entry {
            return Ok(());
        }
        Err(Error::refused(format!("the disk of {} is {path:?}, but {:?} was read", image.name, self.path)))
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let n = self.members.read(out)?;
        if n == 0
            && let Some(image) = self.image.take()
        {
            self.settle(&image)?;
        }
        Ok(n)
    }
}
