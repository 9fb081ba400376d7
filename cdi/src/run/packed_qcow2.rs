//! A qcow2 file as an [`Ordered`] sink: workers compress, one thread appends.

use super::sink::{Ordered, Packed, Packer, Part, PartKind};
use super::watch::Watch;
use crate::target::Target;
use crate::{Error, Result};
use disk_format::qcow2::write::{self, FileSummary, Options, WriteAt, Writer};
use std::io;
use std::sync::{Mutex, PoisonError};

/// The file being written.
pub(crate) struct PackedQcow2<'a, W> {
    writer: Mutex<Writer<W>>,
    watch: &'a Watch,
    cluster: usize,
    disk: u64,
}

impl<'a> PackedQcow2<'a, Bytes<'a>> {
    /// Writes to a target whose own bytes are the image's.
    pub(crate) fn create(target: &'a dyn Target, options: Options, watch: &'a Watch) -> Result<Self> {
        PackedQcow2::to(Bytes(target), options, watch)
    }
}

impl<'a, W: WriteAt> PackedQcow2<'a, W> {
    pub(crate) fn to(out: W, options: Options, watch: &'a Watch) -> Result<Self> {
        let disk = options.virtual_size;
        let writer = Writer::create(out, options).map_err(of_target)?;
        Ok(PackedQcow2 { cluster: writer.cluster_size(), writer: Mutex::new(writer), watch, disk })
    }

    /// Writes the tables and the header.
    pub(crate) fn finish(self) -> Result<FileSummary> {
        self.writer.into_inner().unwrap_or_else(PoisonError::into_inner).finish().map_err(of_target)
    }
}

impl<W: WriteAt> Ordered for PackedQcow2<'_, W> {
    fn packer(&self) -> Box<dyn Packer + '_> {
        let packer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).packer();
        Box::new(Clusters {
            packer,
            cluster: self.cluster,
            disk: self.disk,
            scratch: Vec::new(),
            padded: Vec::new(),
        })
    }

    fn commit(&self, packed: &Packed) -> Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        for (guest, part, bytes) in packed.iter() {
            match part.kind {
                PartKind::Zero => {}
                PartKind::Plain => writer.append_plain(guest, bytes).map_err(of_target)?,
                PartKind::Compressed => writer.append_compressed(guest, bytes).map_err(of_target)?,
            }
            self.watch.count_written(bytes.len() as u64);
        }
        Ok(())
    }
}

/// Names the written image, since the source is not to blame.
fn of_target(e: disk_format::Error) -> Error {
    Error::from(e).of("the qcow2 that is written")
}

/// One worker's packer of clusters.
struct Clusters {
    packer: write::Packer,
    cluster: usize,
    disk: u64,
    scratch: Vec<u8>,
    padded: Vec<u8>,
}

impl Packer for Clusters {
    fn pack(&mut self, guest: u64, data: &[u8], out: &mut Packed) -> Result<()> {
        for (i, cluster) in data.chunks(self.cluster).enumerate() {
            let guest = guest + (i * self.cluster) as u64;
            let cluster = whole(cluster, self.cluster, self.disk - guest, &mut self.padded);
            let len = cluster.len() as u64;
            let (kind, bytes) = match self.packer.pack(cluster, &mut self.scratch).map_err(of_target)? {
                write::Packed::Zero => (PartKind::Zero, &[][..]),
                write::Packed::Plain => (PartKind::Plain, cluster),
                write::Packed::Compressed => (PartKind::Compressed, &self.scratch[..]),
            };
            out.bytes.extend_from_slice(bytes);
            match out.parts.last_mut() {
                // Plain neighbours are appended in one write.
                Some(last) if last.kind == kind && kind != PartKind::Compressed => {
                    last.len += len;
                    last.size += bytes.len();
                }
                _ => out.parts.push(Part { len, size: bytes.len(), kind }),
            }
        }
        Ok(())
    }
}

/// Fills a cluster up with zeros, if the source's end cuts it short and the (grown) disk's end does not.
fn whole<'d>(data: &'d [u8], cluster: usize, rest_of_disk: u64, padded: &'d mut Vec<u8>) -> &'d [u8] {
    let full = usize::try_from(rest_of_disk).unwrap_or(usize::MAX).min(cluster);
    if data.len() >= full {
        return data;
    }
    padded.clear();
    padded.extend_from_slice(data);
    padded.resize(full, 0);
    padded
}

/// A target's own bytes, for the qcow2 writer.
pub(crate) struct Bytes<'a>(&'a dyn Target);

impl WriteAt for Bytes<'_> {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write(offset, buf).map_err(Error::into)
    }
    fn zero_at(&self, len: u64, offset: u64) -> io::Result<()> {
        self.0.zero(offset, len).map_err(Error::into)
    }
}
