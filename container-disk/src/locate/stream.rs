//! The disk's bytes out of a layer in order, and the judgement at their end.

use super::Image;
use super::scan::{self, Changes};
use super::tree::Entry;
use crate::members::Members;
use crate::tar::Source;
use crate::{Error, Result};
use std::io::{self, Read};
use std::sync::Arc;

/// A layer that stands inside the disk.
pub(super) struct Stream {
    members: Members,
    layer: usize,
    /// Up to and with the disk.
    changes: Changes,
    path: String,
    entry: Entry,
    /// Who judges at the end; `None` once that is done.
    image: Option<Arc<Image>>,
}

/// Files of a layer that are tried as the disk before the layer's end; each try looks at all that is known of the image.
const CANDIDATES: u32 = 16;

/// Where a search ends.
pub(super) enum Rest {
    /// At the first byte of what is the disk, if nothing that follows speaks against it.
    Paused(Box<Stream>, String),
    /// At the end of the layer.
    Scanned(Changes),
}

impl Stream {
    /// Reads a layer up to the disk.
    pub(super) fn search(mut members: Members, layer: usize, image: &Image) -> Result<Rest> {
        let mut changes = Changes::within(image.room_of(layer));
        let mut candidates = 0;
        while let Some(member) = members.next()? {
            changes.take(&image.interest, layer, &member)?;
            if !image.interest.could_be_the_disk(&member.name) || candidates == CANDIDATES {
                continue;
            }
            candidates += 1;
            // Were this all: would it be the disk? An upper layer may hide it, or have another.
            let Ok((path, entry)) = image.judge_with(Some((layer, &changes))) else { continue };
            if entry.layer == layer && path == member.name {
                let stream = Stream { members, layer, changes, path: path.clone(), entry, image: None };
                return Ok(Rest::Paused(Box::new(stream), path));
            }
        }
        members.drain()?;
        Ok(Rest::Scanned(changes))
    }

    /// Reads a layer up to the disk that was found in it before.
    pub(super) fn again(mut members: Members, layer: usize, image: &Image, path: &str) -> Result<Stream> {
        let mut changes = Changes::within(image.room_of(layer));
        while let Some(member) = members.next()? {
            changes.take(&image.interest, layer, &member)?;
            if member.name == path
                && let Some(entry) = changes.entries.get(path).cloned()
            {
                return Ok(Stream { members, layer, changes, path: path.to_owned(), entry, image: None });
            }
        }
        Err(Error::refused(format!(
            "layer {} of {} has lost its disk since it was read",
            layer + 1,
            image.name
        )))
    }

    pub(super) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Goes on inside the disk with other bytes of the layer, which stand at this byte of its tar.
    pub(super) fn enter(&mut self, bytes: impl Source + 'static, at: u64) -> Result<()> {
        self.members.enter(bytes, at)
    }

    /// Judges at the end by what is known of the image.
    pub(super) fn settle_by(&mut self, image: Arc<Image>) {
        self.image = Some(image);
    }

    fn settle(&mut self, image: &Image) -> Result<()> {
        scan::rest(&mut self.members, &mut self.changes, &image.interest, self.layer)?;
        let (path, entry) = image.judge_with(Some((self.layer, &self.changes)))?;
        if path == self.path && entry == self.entry {
            return Ok(());
        }
        Err(Error::refused(format!(
            "the disk of {} is {path:?}, not {:?}, which was read",
            image.name, self.path
        )))
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
