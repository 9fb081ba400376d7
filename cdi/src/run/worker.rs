//! A worker: turns a job's bytes into the guest's bytes, finds zeros, and writes (or packs) the rest.

use super::job::Job;
use super::sink::{EngineSink, Packed, Packer};
use super::sum::DiskSum;
use super::watch::Watch;
use crate::target::Target;
use crate::zeros;
use crate::{Error, Result};
use disk_format::{Data, Extent, Unpacker};

/// Decoded clusters are joined up to this size before they are written.
const JOIN: usize = 1 << 20;

/// The state of one thread.
pub(crate) struct Worker<'a> {
    sink: &'a EngineSink<'a>,
    watch: &'a Watch,
    unpacker: Unpacker,
    packer: Option<Box<dyn Packer + 'a>>,
    out: Vec<u8>,
    /// Bytes of data that the present job has written.
    written: u64,
    sum: Option<DiskSum>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(sink: &'a EngineSink<'a>, watch: &'a Watch, sum: bool) -> Self {
        let packer = match sink {
            EngineSink::Any(_) => None,
            EngineSink::Ordered(sink) => Some(sink.packer()),
        };
        let unpacker = Unpacker::default();
        Worker { sink, watch, unpacker, packer, out: Vec::new(), written: 0, sum: sum.then(DiskSum::default) }
    }

    /// Does a job. Returns the packed result in guest order, the bytes of data that were written in any order, and
    /// the sum.
    pub(crate) fn work(
        &mut self,
        job: &Job,
        packed: Option<Packed>,
    ) -> Result<(Option<Packed>, u64, DiskSum)> {
        self.written = 0;
        if let Some(sum) = &mut self.sum {
            *sum = DiskSum::default();
        }
        let packed = match (self.sink, packed) {
            (EngineSink::Any(target), _) => {
                self.place(*target, job)?;
                None
            }
            (EngineSink::Ordered(_), packed) => Some(self.assemble(job, packed.unwrap_or_default())?),
        };
        Ok((packed, self.written, self.sum.unwrap_or_default()))
    }

    /// Any order: every extent is written to its place; neighbours that were packed are written together.
    fn place(&mut self, target: &dyn Target, job: &Job) -> Result<()> {
        let mut joined = (0, 0);
        for e in &job.extents {
            match e.data {
                Data::Zero => target.zero(e.guest, e.len)?,
                Data::Raw { .. } => self.put(target, e.guest, bytes_of(job, e)?)?,
                Data::Packed { .. } => {
                    let (guest, len): (u64, usize) = joined;
                    let size = length(e)?;
                    if len > 0 && (guest + len as u64 != e.guest || len + size > JOIN) {
                        self.put_joined(target, guest, len)?;
                        joined = (e.guest, 0);
                    } else if len == 0 {
                        joined = (e.guest, 0);
                    }
                    self.unpack_to(job, e, joined.1)?;
                    joined.1 += size;
                }
            }
            self.watch.advance(e.len);
        }
        self.put_joined(target, joined.0, joined.1)
    }

    fn put_joined(&mut self, target: &dyn Target, guest: u64, len: usize) -> Result<()> {
        let out = std::mem::take(&mut self.out);
        let done = self.put(target, guest, &out[..len]);
        self.out = out;
        done
    }

    /// Writes data and zeroes the runs of zeros.
    fn put(&mut self, target: &dyn Target, guest: u64, data: &[u8]) -> Result<()> {
        if let Some(sum) = &mut self.sum {
            sum.add(guest, data);
        }
        for (range, zero) in zeros::runs(data, guest, zeros::GRANULARITY) {
            let (at, part) = (guest + range.start as u64, &data[range]);
            if zero {
                target.zero(at, part.len() as u64)?;
            } else {
                target.write(at, part)?;
                self.watch.count_written(part.len() as u64);
                self.written += part.len() as u64;
            }
        }
        Ok(())
    }

    /// Guest order: the stretch is assembled in one buffer and packed. A stretch of zeros costs nothing.
    fn assemble(&mut self, job: &Job, mut packed: Packed) -> Result<Packed> {
        let (guest, len) = (job.guest.start, job.guest.end - job.guest.start);
        packed.reset(guest, len);
        self.watch.advance(len);
        if job.extents.iter().all(|e| e.data == Data::Zero) {
            return Ok(packed);
        }
        // One plain extent needs no copy.
        if let [e] = job.extents[..]
            && let Data::Raw { .. } = e.data
        {
            self.pack(guest, bytes_of(job, &e)?, &mut packed)?;
            return Ok(packed);
        }
        let len = usize::try_from(len).map_err(|_| Error::failed("a stretch does not fit memory"))?;
        if self.out.len() < len {
            self.out.resize(len, 0);
        }
        for e in &job.extents {
            let at = (e.guest - guest) as usize;
            match e.data {
                Data::Zero => self.out[at..at + length(e)?].fill(0),
                Data::Raw { .. } => self.out[at..at + length(e)?].copy_from_slice(bytes_of(job, e)?),
                Data::Packed { .. } => self.unpack_to(job, e, at)?,
            }
        }
        let out = std::mem::take(&mut self.out);
        let done = self.pack(guest, &out[..len], &mut packed);
        self.out = out;
        done.map(|()| packed)
    }

    fn pack(&mut self, guest: u64, data: &[u8], packed: &mut Packed) -> Result<()> {
        if let Some(sum) = &mut self.sum {
            sum.add(guest, data);
        }
        // Reserved at once: a buffer that doubles leaves as much again behind it in the C library's heap.
        packed.bytes.reserve_exact(data.len());
        match &mut self.packer {
            Some(packer) => packer.pack(guest, data, packed),
            None => Err(Error::failed("a target without order was given a stretch to pack")),
        }
    }

    /// Unpacks a cluster to `self.out[at..]`.
    fn unpack_to(&mut self, job: &Job, e: &Extent, at: usize) -> Result<()> {
        let Data::Packed { codec, at: file, unpacked, .. } = e.data else {
            return Err(Error::failed("an extent that is not packed was to be unpacked"));
        };
        // The bytes past the extent (the disk ends inside the cluster) are overwritten or never used.
        let end = at + unpacked as usize;
        if self.out.len() < end {
            self.out.resize(end.max(JOIN), 0);
        }
        self.unpacker.unpack(codec, bytes_of(job, e)?, &mut self.out[at..end]).map_err(|cause| {
            Error::of_bytes(format!(
                "the compressed cluster at offset {file:#x} of the image (guest offset {:#x}) does not unpack to {unpacked} bytes",
                e.guest
            ))
            .because(cause)
        })
    }
}

fn length(e: &Extent) -> Result<usize> {
    usize::try_from(e.len).map_err(|_| Error::failed("an extent does not fit memory"))
}

fn bytes_of<'j>(job: &'j Job, e: &Extent) -> Result<&'j [u8]> {
    e.file_range().and_then(|r| job.slice(r)).ok_or_else(|| {
        Error::failed(format!("the bytes of guest offset {:#x} are not in the job that names them", e.guest))
    })
}
