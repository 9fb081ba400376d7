//! The guest's bytes of an image at any offset, for examining the content of a disk. Not meant for copying
//! it.
//!
//! ```text
//!   read(offset) ──► window that covers it (kept) ──► extent ──┬─ Zero   ─► zeros
//!                                                             ├─ Raw    ─► the file's bytes
//!                                                             └─ Packed ─► a few unpacked clusters (kept)
//! ```
//!
//! [`GuestView`] needs an image file that can be read at any offset. [`PrefixView`] only needs the beginning
//! of the file (such as the decoded beginning of a compressed stream), and shows the part of the guest's disk
//! that it covers.

mod prefix;

pub use prefix::PrefixView;

use crate::{Data, Error, ErrorKind, Extent, Format, Image, ReadAt, Result, Unpacker, Window};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Alignment of windows: the largest cluster of any format, and so a multiple of every cluster size.
const ALIGN: u64 = 2 << 20;
/// Number of windows that are kept. A partition table, a superblock, an inode table and a directory lie far
/// apart.
const WINDOWS: usize = 4;
/// Number of decompressed clusters that are kept.
const CLUSTERS: usize = 4;
/// Maximum size of a packed extent that is decompressed. No format has larger clusters.
const LARGEST: u64 = 16 << 20;

/// The guest's bytes, read from the image file on request. Several threads may read. They block one another
/// only while tables are read and clusters are decompressed.
pub struct GuestView {
    image: Box<dyn Image>,
    bytes: Arc<dyn ReadAt>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    windows: VecDeque<Span>,
    clusters: Clusters,
}

/// A window, with the range that it covers.
struct Span {
    from: u64,
    end: u64,
    extents: Vec<Extent>,
}

impl GuestView {
    /// A view of `image`. `bytes` must be those that the image was opened on.
    pub fn new(image: Box<dyn Image>, bytes: Arc<dyn ReadAt>) -> Self {
        GuestView { image, bytes, state: Mutex::default() }
    }

    /// The image of this view.
    pub fn image(&self) -> &dyn Image {
        &*self.image
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic the cache is still usable, since each entry is complete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The extent that covers `guest`, from a kept window or a new one.
    fn extent(&self, state: &mut State, guest: u64) -> Result<Extent> {
        if let Some(span) = state.windows.iter().find(|s| s.from <= guest && guest < s.end) {
            return span.extent(guest).ok_or_else(|| self.gap(guest));
        }
        let mut from = guest - guest % ALIGN;
        loop {
            let Window { extents, next } = self.image.window(from)?;
            let end = next.unwrap_or_else(|| self.image.virtual_size());
            if guest < end {
                let span = Span { from, end, extents };
                let extent = span.extent(guest);
                if state.windows.len() == WINDOWS {
                    state.windows.pop_front();
                }
                state.windows.push_back(span);
                return extent.ok_or_else(|| self.gap(guest));
            }
            match next {
                Some(next) if next > from => from = next,
                _ => return Err(self.gap(guest)),
            }
        }
    }

    fn gap(&self, guest: u64) -> Error {
        let what = format!("the tables do not cover guest offset {guest}");
        Error::new(ErrorKind::Malformed, self.image.format(), what)
    }
}

impl Span {
    fn extent(&self, guest: u64) -> Option<Extent> {
        find(&self.extents, guest)
    }
}

/// The extent that covers `guest`, among extents in guest order.
fn find(extents: &[Extent], guest: u64) -> Option<Extent> {
    let at = extents.partition_point(|e| e.guest <= guest).checked_sub(1)?;
    extents.get(at).copied().filter(|e| guest - e.guest < e.len)
}

impl ReadAt for GuestView {
    fn size(&self) -> u64 {
        self.image.virtual_size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|&end| end <= self.size());
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let (mut guest, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let mut state = self.state();
            let extent = self.extent(&mut state, guest)?;
            let skip = guest - extent.guest;
            let len = usize::try_from(extent.len - skip).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at_mut(len);
            match extent.data {
                Data::Zero => now.fill(0),
                Data::Raw { at } => {
                    drop(state);
                    let from = at.checked_add(skip).ok_or(io::ErrorKind::UnexpectedEof)?;
                    self.bytes.read_exact_at(now, from)?;
                }
                Data::Packed { .. } => {
                    let cluster = state.clusters.get(self.image.format(), &*self.bytes, &extent)?;
                    let skip = skip as usize; // inside the cluster, which fits memory
                    let part = cluster.get(skip..skip + len).ok_or(io::ErrorKind::UnexpectedEof)?;
                    now.copy_from_slice(part);
                }
            }
            guest += len as u64;
            rest = later;
        }
        Ok(())
    }
}

/// The most recent decompressed clusters, and the decompressor.
#[derive(Default)]
struct Clusters {
    unpacker: Unpacker,
    kept: VecDeque<(u64, Vec<u8>)>,
}

impl Clusters {
    /// The bytes of a packed extent, and any bytes after it in its cluster.
    fn get(&mut self, format: Format, bytes: &dyn ReadAt, extent: &Extent) -> Result<&[u8]> {
        let Data::Packed { at, size, codec, unpacked } = extent.data else { return Ok(&[]) };
        if let Some(i) = self.kept.iter().position(|(guest, _)| *guest == extent.guest) {
            return Ok(&self.kept[i].1);
        }
        if u64::from(unpacked) > LARGEST || u64::from(size) > 2 * LARGEST {
            let what = format!("a compressed cluster of {unpacked} bytes is larger than any format allows");
            return Err(Error::new(ErrorKind::Malformed, format, what).at(at));
        }
        let mut packed = vec![0; size as usize];
        bytes
            .read_exact_at(&mut packed, at)
            .map_err(|e| Error::io(format, "cannot read a compressed cluster", at, e))?;
        let mut out = vec![0; unpacked as usize];
        let done = self.unpacker.unpack(codec, &packed, &mut out);
        done.map_err(|e| Error::io(format, "a compressed cluster cannot be unpacked", at, e))?;
        if self.kept.len() == CLUSTERS {
            self.kept.pop_front();
        }
        self.kept.push_back((extent.guest, out));
        Ok(&self.kept[self.kept.len() - 1].1)
    }
}

#[cfg(test)]
mod tests;
