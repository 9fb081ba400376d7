//! The guest's disk as far as the beginning of an image file shows it.

use super::{Clusters, find};
use crate::{Data, Extent, Format, Limits, ReadAt, Result, StreamImage, image};
use std::io;
use std::sync::{Mutex, PoisonError};

/// A view of the guest's disk from a prefix of the image file: the data whose tables and bytes lie within the
/// prefix. Any other read fails with `UnexpectedEof`, as if the file had been truncated.
pub struct PrefixView {
    format: Format,
    bytes: Vec<u8>,
    size: Option<u64>,
    extents: Vec<Extent>,
    clusters: Mutex<Clusters>,
}

impl PrefixView {
    /// A view from the first bytes of an image file. `whole` is true if they are the complete file.
    pub fn new(format: Format, bytes: Vec<u8>, whole: bool, limits: Limits) -> Result<Self> {
        let mut stream = image::stream(format, limits)?;
        Self::of(&mut *stream, bytes, whole)
    }

    /// Like `new`, with a reader that has not been given any bytes.
    pub fn of(stream: &mut dyn StreamImage, bytes: Vec<u8>, whole: bool) -> Result<Self> {
        let mut extents = stream.push(0, &bytes, whole)?.extents;
        if whole {
            // The data that had to wait for its table lies in the same bytes.
            while let Some(more) = stream.leftover(&bytes)? {
                extents.extend(more);
            }
        }
        extents.sort_by_key(|e| e.guest);
        let (format, size) = (stream.format(), stream.virtual_size());
        Ok(PrefixView { format, bytes, size, extents, clusters: Mutex::default() })
    }

    /// The guest's size of the disk, if the prefix contains it.
    pub fn virtual_size(&self) -> Option<u64> {
        self.size
    }
}

impl ReadAt for PrefixView {
    /// The guest's size, or if that is unknown, the end of the known data.
    fn size(&self) -> u64 {
        self.size.unwrap_or_else(|| self.extents.last().map_or(0, Extent::end))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let (mut guest, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let extent = find(&self.extents, guest).ok_or(io::ErrorKind::UnexpectedEof)?;
            let skip = guest - extent.guest;
            let len = usize::try_from(extent.len - skip).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at_mut(len);
            match extent.data {
                Data::Zero => now.fill(0),
                Data::Raw { at } => {
                    let from = at.checked_add(skip).ok_or(io::ErrorKind::UnexpectedEof)?;
                    self.bytes.read_exact_at(now, from)?;
                }
                Data::Packed { .. } => {
                    let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
                    let cluster = clusters.get(self.format, &self.bytes, &extent)?;
                    let skip = skip as usize; // inside the cluster, which fits memory
                    let part = cluster.get(skip..skip + len).ok_or(io::ErrorKind::UnexpectedEof)?;
                    now.copy_from_slice(part);
                }
            }
            guest = guest.checked_add(len as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
            rest = later;
        }
        Ok(())
    }
}
