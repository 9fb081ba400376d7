//! The tar inside a layer's blob. Both the media type and the first bytes of the blob tell its compression.
//! If they differ, the image is refused, since two readers would see two different contents.
//!
//! ```text
//!  blob.stream(0) ──► reading thread ──► decoder ──► limit ──► the tar
//!  (size, digest)     read_ahead.rs                  ends a decompression bomb
//! ```
//!
//! A layer that a later run may resume ([`ResumableLayer`]) is decoded unit by unit (`units.rs`), with notes of the
//! positions (`reentry.rs`).
//!
//! A reader that reaches the end has had the blob's size and digest verified, and the checksums of the
//! compression. After a decoder error the rest of the blob is read nevertheless: if its digest is wrong, that
//! is the error to report.

use crate::manifest::{
    Descriptor, IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE, IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE,
    IMAGE_LAYER_GZIP_MEDIA_TYPE, IMAGE_LAYER_MEDIA_TYPE, IMAGE_LAYER_ZSTD_MEDIA_TYPE,
};
use crate::pack::Compression;
use crate::place::Blob;
use crate::read_ahead::ReadAhead;
use crate::reentry::{self, Notes, Reentry};
use crate::tar::{BLOCK, begins_as_tar};
use crate::units::{Units, WINDOW_LOG};
use crate::verifying_reader::VerifyingReader;
use crate::{Digest, Error, Result};
use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Opens a layer's tar. `limit` is the number of bytes of tar after which it counts as a decompression bomb.
pub(crate) fn open(
    name: &str,
    descriptor: &Descriptor,
    blob: &dyn Blob,
    limit: u64,
) -> Result<Box<dyn Read + Send>> {
    let stream = blob.stream(0)?;
    let mut bytes: Box<dyn Read + Send> =
        Box::new(ReadAhead::new(NamedReader { inner: stream, name: name.to_owned() }));
    let head = front(name, &mut bytes)?;
    let compression = compression(name, &descriptor.media_type, &head)?;
    let whole = Cursor::new(head).chain(bytes);
    let tar = Limited { inner: decode(name, compression, whole)?, name: name.to_owned(), left: limit, limit };
    Ok(Box::new(tar))
}

/// A layer whose reading a later run may resume.
pub(crate) struct ResumableLayer<'a> {
    pub(crate) name: &'a str,
    pub(crate) descriptor: &'a Descriptor,
    pub(crate) digest: Digest,
    pub(crate) blob: &'a dyn Blob,
    pub(crate) limit: u64,
    pub(crate) notes: &'a Notes,
}

impl ResumableLayer<'_> {
    /// Opens the tar from its beginning.
    pub(crate) fn open(&self) -> Result<Box<dyn Read + Send>> {
        let reading = self.blob.reading(0)?;
        let checked = VerifyingReader::new(reading, self.name, self.digest, self.blob.size());
        let mut bytes = self.ahead(checked.noting(self.notes));
        let head = front(self.name, &mut bytes)?;
        let compression = compression(self.name, &self.descriptor.media_type, &head)?;
        Ok(self.tar(compression, Cursor::new(head).chain(bytes), (0, 0)))
    }

    /// Opens the tar at a position of an earlier run. `tar` is the position's offset in the tar.
    pub(crate) fn enter(
        &self,
        compression: Compression,
        place: &Reentry,
        tar: u64,
    ) -> Result<Box<dyn Read + Send>> {
        let Reentry { input, before, after, .. } = place;
        let odd = || reentry::odd(self.name);
        let between = input.checked_sub(before.at).ok_or_else(odd)?;
        let reading = self.blob.reading(before.at)?;
        let checked =
            VerifyingReader::resumed(reading, self.name, self.digest, self.blob.size(), (before, after))?;
        let mut bytes = self.ahead(checked.noting(self.notes));
        let passed = io::copy(&mut bytes.by_ref().take(between), &mut io::sink());
        if passed.map_err(|e| Error::io(format!("cannot read {}", self.name), e))? < between {
            return Err(odd());
        }
        Ok(self.tar(compression, bytes, (*input, tar)))
    }

    fn ahead(&self, inner: impl Read + Send + 'static) -> ReadAhead {
        ReadAhead::new(NamedReader { inner, name: self.name.to_owned() })
    }

    fn tar(
        &self,
        compression: Compression,
        bytes: impl Read + Send + 'static,
        at: (u64, u64),
    ) -> Box<dyn Read + Send> {
        let bytes = Shared(Arc::new(Mutex::new(bytes)));
        let rest = Box::new(bytes.clone());
        let inner = Box::new(Units::new(bytes, compression, at, self.notes));
        let name = self.name.to_owned();
        let decoded = Box::new(Decoded { inner, rest, name: name.clone(), compression });
        let left = self.limit.saturating_sub(at.1);
        Box::new(Limited { inner: decoded, name, left, limit: self.limit })
    }
}

/// The compression of a layer that begins with `head`. Fails if the media type differs.
pub(crate) fn compression(name: &str, media_type: &str, head: &[u8]) -> Result<Compression> {
    let told = from_media_type(name, media_type)?;
    let seen = from_head(name, head)?;
    if told == seen {
        return Ok(seen);
    }
    let what =
        format!("{name} has the media type {media_type}, but its bytes are {}", compression_name(seen));
    Err(Error::refused(what))
}

/// The compression of bytes that begin with `head`. Fails if they are not a tar, compressed or not.
pub(crate) fn from_head(name: &str, head: &[u8]) -> Result<Compression> {
    match head {
        [0x1f, 0x8b, ..] => Ok(Compression::Gzip),
        // A frame, or a skippable frame.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Compression::Zstd),
        head if begins_as_tar(head) => Ok(Compression::None),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Err(unsupported(name, "xz")),
        [b'B', b'Z', b'h', ..] => Err(unsupported(name, "bzip2")),
        _ => Err(Error::refused(format!(
            "{name} is not a tar, neither plain nor compressed with gzip or zstd"
        ))),
    }
}

/// The decompressed bytes of a stream.
pub(crate) fn decode(
    name: &str,
    compression: Compression,
    bytes: impl Read + Send + 'static,
) -> Result<Box<dyn Read + Send>> {
    let bytes = Shared(Arc::new(Mutex::new(bytes)));
    let rest = Box::new(bytes.clone());
    let decoder: Box<dyn Read + Send> = match compression {
        Compression::None => return Ok(rest),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        Compression::Zstd => {
            let cannot = |e| Error::io("cannot start the zstd decoder", e);
            let mut decoder = zstd::Decoder::new(bytes).map_err(cannot)?;
            decoder.window_log_max(WINDOW_LOG).map_err(cannot)?;
            Box::new(decoder)
        }
    };
    Ok(Box::new(Decoded { inner: decoder, rest, name: name.to_owned(), compression }))
}

/// The compression that a media type stands for.
pub(crate) fn from_media_type(name: &str, media_type: &str) -> Result<Compression> {
    // Layers with distribution restrictions have the same content.
    let plain = media_type.replace("layer.nondistributable.", "layer.").replace("rootfs.foreign.", "rootfs.");
    match plain.as_str() {
        IMAGE_LAYER_MEDIA_TYPE | IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE => Ok(Compression::None),
        IMAGE_LAYER_GZIP_MEDIA_TYPE | IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE => Ok(Compression::Gzip),
        IMAGE_LAYER_ZSTD_MEDIA_TYPE => Ok(Compression::Zstd),
        "application/vnd.docker.image.rootfs.diff.tar.zstd" => Ok(Compression::Zstd),
        _ => Err(Error::refused(format!("{name} is a {media_type}, not a layer of a root file system"))),
    }
}

/// The first bytes, as many as identify the compression, or all if there are fewer.
fn front(name: &str, bytes: &mut impl Read) -> Result<Vec<u8>> {
    let mut head = Vec::with_capacity(BLOCK);
    let read = bytes.take(BLOCK as u64).read_to_end(&mut head);
    read.map_err(|e| Error::io(format!("cannot read {name}"), e))?;
    Ok(head)
}

fn compression_name(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "not compressed",
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
    }
}

fn unsupported(name: &str, what: &str) -> Error {
    Error::refused(format!(
        "{name} is compressed with {what}, which no container runtime reads; use gzip or zstd"
    ))
}

/// Names the blob in errors of reading it.
struct NamedReader<R> {
    inner: R,
    name: String,
}

impl<R: Read> Read for NamedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.inner.read(out).map_err(|e| Error::io(format!("cannot read {}", self.name), e).into())
    }
}

/// Names the layer in errors of the decoder.
struct Decoded {
    inner: Box<dyn Read + Send>,
    /// The input of the decoder.
    rest: Box<dyn Read + Send>,
    name: String,
    compression: Compression,
}

impl Read for Decoded {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.inner.read(out).map_err(|e| match e.downcast::<Error>() {
            Ok(ours) => ours.into(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => e,
            Err(e) => {
                // The bytes themselves may be wrong. The digest at their end shows that.
                if let Err(e) = io::copy(&mut self.rest, &mut io::sink()) {
                    return e;
                }
                let what = format!("the {} of {} is broken or cut short", self.compression.name(), self.name);
                Error::refused(what).because(e).into()
            }
        })
    }
}

/// A reader with two owners.
struct Shared<R>(Arc<Mutex<R>>);

impl<R> Clone for Shared<R> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<R: Read> Read for Shared<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read(out)
    }
}

/// Stops a decompression bomb.
struct Limited {
    inner: Box<dyn Read + Send>,
    name: String,
    left: u64,
    limit: u64,
}

impl Read for Limited {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        match self.left.checked_sub(n as u64) {
            Some(left) => self.left = left,
            None => {
                let what =
                    format!("{} decompresses to more than the allowed {} bytes", self.name, self.limit);
                return Err(Error::refused(what).into());
            }
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GZIP: &[u8] = &[0x1f, 0x8b, 8, 0];
    const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

    #[test]
    fn bytes_and_media_type_must_agree() {
        let empty = [0; BLOCK];
        for (media_type, head, want) in [
            (IMAGE_LAYER_MEDIA_TYPE, &empty[..], Ok(Compression::None)),
            (IMAGE_LAYER_GZIP_MEDIA_TYPE, GZIP, Ok(Compression::Gzip)),
            (IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE, GZIP, Ok(Compression::Gzip)),
            ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", GZIP, Ok(Compression::Gzip)),
            (IMAGE_LAYER_ZSTD_MEDIA_TYPE, ZSTD, Ok(Compression::Zstd)),
            (IMAGE_LAYER_MEDIA_TYPE, GZIP, Err("its bytes are gzip")),
            (IMAGE_LAYER_GZIP_MEDIA_TYPE, ZSTD, Err("its bytes are zstd")),
            (IMAGE_LAYER_ZSTD_MEDIA_TYPE, &empty, Err("not compressed")),
            (IMAGE_LAYER_MEDIA_TYPE, b"\xfd7zXZ\0", Err("xz")),
            (IMAGE_LAYER_MEDIA_TYPE, b"BZh9", Err("bzip2")),
            (IMAGE_LAYER_MEDIA_TYPE, b"QFI\xfb", Err("not a tar")),
            (IMAGE_LAYER_MEDIA_TYPE, b"", Err("not a tar")),
            ("application/vnd.wasm.content.layer.v1+wasm", GZIP, Err("not a layer")),
        ] {
            match (compression("layer 1", media_type, head), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{media_type}"),
                (Err(e), Err(why)) => assert!(e.to_string().contains(why), "{media_type}: {e}"),
                (got, want) => panic!("{media_type}: {got:?}, not {want:?}"),
            }
        }
    }
}
