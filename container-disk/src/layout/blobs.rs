//! Blobs of a layout, in `blobs/ALGORITHM/HEX`: read by digest, renamed into place when complete and
//! verified.

use super::folder::Folder;
use super::ingest::{PART, Temp};
use crate::background_hash::BackgroundHash;
use crate::expected_blob::ExpectedBlob;
use crate::manifest::{self, Descriptor};
use crate::place::{Blob, BlobWriter, NamedReader, Reading};
use crate::section::Cursor;
use crate::verifying_reader::VerifyingReader;
use crate::write_behind::WriteBehind;
use crate::{Digest, Error, ErrorKind, Result};
use disk_format::ReadAt;
use disk_format::read_at::FileAt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

pub(crate) const BLOBS: &str = "blobs";

/// The folder of the blobs of one algorithm.
pub(crate) fn folder(top: &Folder, algorithm: &str) -> Result<Option<Folder>> {
    top.sub(BLOBS)?.map_or(Ok(None), |blobs| blobs.sub(algorithm))
}

/// Opens a blob's file and returns its size.
pub(crate) fn open(top: &Folder, digest: &Digest) -> Result<Option<(File, u64)>> {
    folder(top, digest.algorithm())?.map_or(Ok(None), |folder| folder.trusted_file(&digest.hex()))
}

/// Opens the blob of a descriptor and compares the size.
pub(crate) fn blob(top: &Folder, name: &str, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
    let digest: Digest = descriptor.digest.parse()?;
    let promised = manifest::size(name, descriptor.size)?;
    let Some((file, size)) = open(top, &digest)? else {
        return Err(Error::new(ErrorKind::NotFound, format!("{name} has no blob {digest}")));
    };
    if size != promised {
        let what =
            format!("the blob {digest} of {name} has {size} bytes, not the {promised} its manifest promises");
        return Err(Error::refused(what));
    }
    let name = format!("the blob {digest} of {name}");
    Ok(Arc::new(OpenBlob { name, digest, bytes: Arc::new(FileAt::new(file, size)) }))
}

/// True if the blob of a descriptor is there with the right bytes, which are all read. Disks and other
/// programs change bytes, and a blob that is only found is never downloaded again.
pub(crate) fn is_sound(top: &Folder, name: &str, descriptor: &Descriptor) -> Result<bool> {
    let read = blob(top, name, descriptor).and_then(|blob| {
        io::copy(&mut blob.stream(0)?, &mut io::sink())
            .map_err(|e| Error::io(format!("cannot read the blob {} of {name}", descriptor.digest), e))
    });
    match read {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) if e.kind() == ErrorKind::Refused => {
            tracing::warn!("{e}; it is written again");
            Ok(false)
        }
        Err(e) => Err(e),
    }
}

/// An open blob in a layout or an archive.
pub(crate) struct OpenBlob {
    pub(crate) name: String,
    pub(crate) digest: Digest,
    pub(crate) bytes: Arc<dyn ReadAt>,
}

impl OpenBlob {
    fn named_reader(&self, from: u64) -> NamedReader<Cursor> {
        let inner = Cursor::new(Arc::clone(&self.bytes), from);
        NamedReader { inner, name: self.name.clone(), expected: self.digest }
    }
}

impl Blob for OpenBlob {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        let reading = self.named_reader(from);
        Ok(match from {
            0 => Box::new(VerifyingReader::new(reading, self.name.clone(), self.digest, self.size())),
            _ => Box::new(reading),
        })
    }

    fn reading(&self, from: u64) -> Result<Box<dyn Reading>> {
        Ok(Box::new(self.named_reader(from)))
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        Some(Arc::clone(&self.bytes))
    }
}

/// A blob that is being written into a layout.
pub(crate) struct Writer<'a> {
    top: &'a Folder,
    // Before the file: its thread holds the file, and with it the lock on it.
    behind: WriteBehind,
    temp: Temp,
    hash: BackgroundHash,
    size: u64,
    promised: Option<ExpectedBlob>,
    /// Bytes from an earlier attempt.
    found: u64,
}

impl<'a> Writer<'a> {
    /// Starts a new blob.
    pub(crate) fn new(top: &'a Folder, promised: Option<&Descriptor>) -> Result<Writer<'a>> {
        let promised = promised.map(|d| promise(top, d)).transpose()?;
        let hash = BackgroundHash::new(ExpectedBlob::hasher(promised.as_ref()));
        let temp = Temp::new(top)?;
        Ok(Writer { top, behind: behind(&temp)?, temp, hash, size: 0, promised, found: 0 })
    }

    /// Resumes a blob from an earlier attempt, and returns the number of bytes that are there already. Starts
    /// a new blob while another process writes this one, and if the disk does not return the bytes that were
    /// written.
    pub(crate) fn resume(top: &'a Folder, promised: &Descriptor) -> Result<(u64, Writer<'a>)> {
        let promise = promise(top, promised)?;
        let Some(mut temp) = Temp::half(top, half_name(&promise.digest))? else {
            return Ok((0, Writer::new(top, Some(promised))?));
        };
        match hash_half(&temp, &promise) {
            Ok((have, hash)) => {
                let behind = behind(&temp)?;
                Ok((
                    have,
                    Writer { top, behind, temp, hash, size: have, promised: Some(promise), found: have },
                ))
            }
            Err(e) => {
                tracing::warn!("{e}; the blob is downloaded again from its start");
                temp.spoil();
                drop(temp);
                Ok((0, Writer::new(top, Some(promised))?))
            }
        }
    }
}

/// The size of a partial blob from an earlier attempt, and the hash of the bytes that the disk holds.
fn hash_half(temp: &Temp, promise: &ExpectedBlob) -> Result<(u64, BackgroundHash)> {
    let cannot = |e| Error::io(format!("cannot go on with {}", temp.path()), e);
    let mut hash = BackgroundHash::new(ExpectedBlob::hasher(Some(promise)));
    let (have, mut disk) = temp.settle()?;
    if have > promise.size {
        temp.file.set_len(0).map_err(cannot)?;
        return Ok((0, hash));
    }
    let mut at = 0;
    while at < have {
        let piece = disk.piece(at).map_err(cannot)?;
        if piece.is_empty() {
            return Err(cannot(io::ErrorKind::UnexpectedEof.into()));
        }
        hash.update(piece)?;
        at += piece.len() as u64;
    }
    Ok((have, hash))
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let after = self.size.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        if let Some(Err(e)) = self.promised.map(|promised| promised.allow(after)) {
            self.temp.spoil();
            return Err(e.into());
        }
        let written = self.temp.file.write_all_at(bytes, self.size);
        written.map_err(|e| Error::io(format!("cannot write {}", self.temp.path()), e))?;
        self.behind.count(bytes.len() as u64);
        self.hash.update(bytes)?;
        self.size = after;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BlobWriter for Writer<'_> {
    fn spoil(&mut self) {
        self.temp.spoil();
    }

    fn digest(&mut self) -> Result<Digest> {
        self.hash.digest()
    }

    fn finish(self: Box<Self>) -> Result<(Digest, u64)> {
        let Writer { top, behind, mut temp, hash, size, promised, found } = *self;
        drop(behind);
        let digest = hash.finish()?;
        if let Some(promised) = promised
            && let Err(e) = promised.check(&digest, size)
        {
            // A partial blob can be resumed. A complete one with the wrong digest is deleted.
            if promised.size == size {
                temp.spoil();
                if found > 0 {
                    // A power failure may have damaged the bytes of the earlier attempt.
                    let what = format!(
                        "the blob {} was resumed at byte {found} and has a wrong digest",
                        promised.digest
                    );
                    return Err(
                        Error::failed(format!("{what}; the partial blob is deleted, try again")).because(e)
                    );
                }
            }
            return Err(e);
        }
        let to = top.make_sub(BLOBS)?.make_sub(digest.algorithm())?;
        temp.rename(&to, &digest.hex())?;
        Ok((digest, size))
    }
}

fn behind(temp: &Temp) -> Result<WriteBehind> {
    WriteBehind::for_file(&temp.file).map_err(|e| Error::io(format!("cannot write {}", temp.path()), e))
}

/// File name of a partial blob.
pub(crate) fn half_name(digest: &Digest) -> String {
    format!("{PART}{}-{}", digest.algorithm(), digest.hex())
}

fn promise(top: &Folder, descriptor: &Descriptor) -> Result<ExpectedBlob> {
    ExpectedBlob::from_descriptor(&top.path().display().to_string(), descriptor)
}
