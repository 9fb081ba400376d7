//! The guest's bytes of an image, at any offset: for looking at what lies inside a disk, not for moving it.
//!
//! ```text
//!   read(offset) ──► window that covers it (kept) ──► extent ──┬─ Zero   ─► zeros
//!                                                             ├─ Raw    ─► the file's bytes
//!                                                             └─ Packed ─► a few unpacked clusters (kept)
//! ```
//!
//! [`GuestView`] needs an image whose file can be read at any offset. [`PrefixView`] needs only the front of the file
//! (what was decoded from a compressed stream) and shows as much of the guest's disk as that front tells.

mod prefix;

pub use prefix::PrefixView;

use crate::{Data, Error, ErrorKind, Extent, Format, Image, ReadAt, Result, Unpacker, Window};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Windows begin at multiples of this: the largest cluster of any format, so a multiple of every cluster size.
const ALIGN: u64 = 2 << 20;
/// How many windows are kept. A partition table, a superblock, an inode table and a directory lie far apart.
const WINDOWS: usize = 4;
/// How many unpacked clusters are kept.
const CLUSTERS: usize = 4;
/// The largest packed extent that is unpacked. No format has larger clusters.
const LARGEST: u64 = 16 << 20;

/// What the guest sees, read from the image file as it is asked for. Several threads may read; they wait for one
/// another only while tables are read and clusters are unpacked.
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

/// A window and what it covers.
struct Span {
    from: u64,
    end: u64,
    extents: Vec<Extent>,
}

impl GuestView {
    /// `bytes` are those the image was opened on.
    pub fn new(image: Box<dyn Image>, bytes: Arc<dyn ReadAt>) -> Self {
        GuestView { image, bytes, state: Mutex::default() }
    }

    /// The image that is shown.
    pub fn image(&self) -> &dyn Image {
        &*self.image
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a panicking thread left behind is a cache whose entries are each whole.
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
        let what = format!("the tables tell nothing about guest offset {guest}");
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

/// The last few unpacked clusters, and the decompressor.
#[derive(Default)]
struct Clusters {
    unpacker: Unpacker,
    kept: VecDeque<(u64, Vec<u8>)>,
}

impl Clusters {
    /// The bytes of a packed extent, and what may lie past it in its cluster.
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
