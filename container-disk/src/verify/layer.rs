//! Checks of one layer, which is read once: size and digest of the blob, media type, tar, diff-id, and the
//! format of each file that could be the disk. Everything is parsed on a confined thread.

use super::check::{Checks, Outcome, expect};
use super::format::{Verdict, judge};
use crate::background_hash::BackgroundHash;
use crate::confined::run_confined;
use crate::digest::Hasher;
use crate::locate::Image;
use crate::locate::scan::{self, Changes};
use crate::manifest::Descriptor;
use crate::members::Members;
use crate::pack::Compression;
use crate::place::{Blob, Place};
use crate::tar::Streamed;
use crate::{Digest, Error, ErrorKind, Result, layer_decoder};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

const BLOB: &str = "blob";
const MEDIA_TYPE: &str = "media type";
const TAR: &str = "tar";
const DIFF_ID: &str = "diff-id";

/// A layer to check.
pub(super) struct Layer<'a> {
    pub(super) place: &'a dyn Place,
    pub(super) at: usize,
    pub(super) descriptor: &'a Descriptor,
    pub(super) limit: u64,
}

/// Maximum number of reads of a layer that ends with a wrong digest.
const TRIES: u32 = 5;

/// The changes of a layer, and the results for its files.
type Contents = (Changes, Vec<FileVerdict>);

/// The failed check, and the error.
type Refusal = (&'static str, Error);

/// The result for one file of a layer.
pub(super) struct FileVerdict {
    pub(super) layer: usize,
    pub(super) path: String,
    pub(super) verdict: Verdict,
}

impl Layer<'_> {
    /// Checks the layer and returns its changes and the results for its files. `None` if it could not be read
    /// to its end.
    pub(super) fn check(
        &self,
        image: &Image,
        diff_id: Option<Result<Digest>>,
        checks: &mut Checks,
    ) -> Result<Option<(Changes, Vec<FileVerdict>)>> {
        let outer = checks.prefix.clone();
        checks.prefix = format!("{outer}layer {}: ", self.at + 1);
        let result = self.check_named(image, diff_id, checks);
        checks.prefix = outer;
        result
    }

    fn check_named(
        &self,
        image: &Image,
        diff_id: Option<Result<Digest>>,
        checks: &mut Checks,
    ) -> Result<Option<(Changes, Vec<FileVerdict>)>> {
        let Some(blob) = checks.record_part(BLOB, self.place.blob(self.descriptor))? else { return Ok(None) };
        let name = format!("layer {} of {}", self.at + 1, self.place.name());
        let told = diff_id.as_ref().and_then(|told| told.as_ref().ok());
        let mut read = self.read(&name, &*blob, image, told)?;
        for _ in 1..TRIES {
            match &read {
                // The wrong bytes of one registry do not count against the image if another registry has it.
                Err((_, e)) if e.kind() == ErrorKind::Refused && blob.is_elsewhere() => {
                    tracing::info!(error = %e, "a layer is read again");
                    read = self.read(&name, &*blob, image, told)?;
                }
                _ => break,
            }
        }
        match read {
            Ok((actual, found)) => {
                [BLOB, MEDIA_TYPE, TAR].into_iter().for_each(|name| checks.add(name, Outcome::Passed));
                match diff_id {
                    Some(told) => {
                        checks.record(DIFF_ID, compare(actual, told))?;
                    }
                    None => checks
                        .add(DIFF_ID, Outcome::NotChecked("there is no config that lists it".to_owned())),
                }
                Ok(Some(found))
            }
            Err((_, e)) if e.kind() != ErrorKind::Refused => Err(e),
            Err((stage, e)) => blame(&name, &*blob, stage, &e, checks).map(|()| None),
        }
    }

    /// Reads the whole layer. Returns the digest of the tar and its content, or the check that failed.
    fn read(
        &self,
        name: &str,
        blob: &dyn Blob,
        image: &Image,
        told: Option<&Digest>,
    ) -> Result<Result<(Digest, Contents), Refusal>> {
        let digest: Digest = self.descriptor.digest.parse()?;
        // The blob of an uncompressed layer is its tar, and the blob's digest is verified anyway.
        let plain = layer_decoder::from_media_type(name, &self.descriptor.media_type)
            .is_ok_and(|how| how == Compression::None);
        let is_same = plain && told.is_none_or(|told| told.algorithm() == digest.algorithm());
        let hash = (!is_same).then(|| BackgroundHash::new(told.map_or_else(Hasher::new, Hasher::like)));
        let hash = Arc::new(Mutex::new(hash));
        let tar = match layer_decoder::open(name, self.descriptor, blob, self.limit) {
            Ok(tar) => Hashing { inner: tar, hash: Arc::clone(&hash) },
            Err(e) => return Ok(Err((MEDIA_TYPE, e))),
        };
        let members = Members::new(name.to_owned(), Streamed::new(tar));
        match run_confined(|| self.scan(members, image))? {
            Ok(contents) => {
                let hash = hash.lock().unwrap_or_else(PoisonError::into_inner).take();
                Ok(Ok((hash.map_or(Ok(digest), BackgroundHash::finish)?, contents)))
            }
            Err(e) => Ok(Err((TAR, e))),
        }
    }

    fn scan(&self, members: Members, image: &Image) -> Result<Contents> {
        let mut found = vec![];
        let changes = scan::all(members, &image.interest, self.at, image.capacity(self.at), |path, file| {
            let verdict = judge(file)?;
            found.push(FileVerdict { layer: self.at, path: path.to_owned(), verdict });
            Ok(())
        })?;
        Ok((changes, found))
    }
}

/// Finds the cause of a layer that cannot be read: a wrong blob, or a wrong content of the right blob.
fn blame(name: &str, blob: &dyn Blob, stage: &'static str, e: &Error, checks: &mut Checks) -> Result<()> {
    let sound = checks.record(BLOB, read_to_end(name, blob))?.is_some();
    let not_checked = |checks: &mut Checks, names: &[&str], why: &str| {
        for name in names {
            checks.add(name, Outcome::NotChecked(why.to_owned()));
        }
    };
    if !sound {
        not_checked(checks, &[MEDIA_TYPE, TAR, DIFF_ID], "the blob does not match its descriptor");
    } else if stage == MEDIA_TYPE {
        checks.failed(MEDIA_TYPE, e.chain());
        not_checked(checks, &[TAR, DIFF_ID], "the type of the blob is unknown");
    } else {
        checks.add(MEDIA_TYPE, Outcome::Passed);
        checks.failed(TAR, e.chain());
        not_checked(checks, &[DIFF_ID], "the tar cannot be read to its end");
    }
    Ok(())
}

fn compare(actual: Digest, told: Result<Digest>) -> Result<()> {
    let told = told?;
    expect(actual == told, || format!("the tar has the digest {actual}, but the config has {told}"))
}

/// Reads a blob to its end, which verifies size and digest.
fn read_to_end(name: &str, blob: &dyn Blob) -> Result<()> {
    let mut stream = blob.stream(0)?;
    io::copy(&mut stream, &mut io::sink()).map_err(|e| Error::io(format!("cannot read {name}"), e))?;
    Ok(())
}

/// A reader that hashes the bytes.
struct Hashing {
    inner: Box<dyn Read + Send>,
    hash: Arc<Mutex<Option<BackgroundHash>>>,
}

impl Read for Hashing {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        if let Some(hash) = &mut *self.hash.lock().unwrap_or_else(PoisonError::into_inner) {
            hash.update(&out[..n])?;
        }
        Ok(n)
    }
}
