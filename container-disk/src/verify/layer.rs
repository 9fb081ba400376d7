//! One layer, read once: size and digest of the blob, media type, the tar, its diff-id; and the format of each file
//! that could be the disk, as it passes.

use super::format::{Verdict, judge};
use super::{Checks, Outcome, expect};
use crate::aside::Aside;
use crate::digest::Hasher;
use crate::locate::scan::{Changes, Interest};
use crate::manifest::Descriptor;
use crate::place::{Blob, Place};
use crate::tar::{Members, Streamed, What};
use crate::{Digest, Error, Result, peel};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// A layer to check.
pub(super) struct Layer<'a> {
    pub(super) place: &'a dyn Place,
    pub(super) at: usize,
    pub(super) descriptor: &'a Descriptor,
    pub(super) limit: u64,
}

/// What a file of a layer is.
pub(super) struct Found {
    pub(super) layer: usize,
    pub(super) path: String,
    pub(super) verdict: Verdict,
}

impl Layer<'_> {
    /// What it changes, and what its files are; `None` if it could not be read to its end.
    pub(super) fn check(
        &self,
        interest: &Interest,
        diff_id: Option<Result<Digest>>,
        checks: &mut Checks,
    ) -> Result<Option<(Changes, Vec<Found>)>> {
        let outer = checks.prefix.clone();
        checks.prefix = format!("{outer}layer {}: ", self.at + 1);
        let result = self.check_named(interest, diff_id, checks);
        checks.prefix = outer;
        result
    }

    fn check_named(
        &self,
        interest: &Interest,
        diff_id: Option<Result<Digest>>,
        checks: &mut Checks,
    ) -> Result<Option<(Changes, Vec<Found>)>> {
        const BLOB: &str = "size and digest";
        let Some(blob) = checks.of("the blob is there", self.place.blob(self.descriptor))? else {
            return Ok(None);
        };
        let name = format!("layer {} of {}", self.at + 1, self.place.name());
        let tar = checks.of("media type", peel::open(&name, self.descriptor, &*blob, self.limit))?;
        let Some(tar) = tar else {
            checks.of(BLOB, whole(&name, &*blob))?;
            return Ok(None);
        };
        let hash = Arc::new(Mutex::new(Some(Aside::new(Hasher::new()))));
        let members =
            Members::new(name.clone(), Streamed::new(Hashing { inner: tar, hash: Arc::clone(&hash) }));
        match self.scan(members, interest) {
            Ok(found) => {
                checks.add(BLOB, Outcome::Passed);
                checks.add("a sound tar", Outcome::Passed);
                let hash = hash.lock().unwrap_or_else(PoisonError::into_inner).take();
                let actual = hash.map(Aside::finish).transpose()?;
                checks.of("diff-id", compare(actual, diff_id))?;
                Ok(Some(found))
            }
            // Whose fault it is, the blob's own bytes tell.
            Err(e) => {
                if checks.of(BLOB, whole(&name, &*blob))?.is_some() {
                    checks.of::<()>("a sound tar", Err(e))?;
                }
                checks.add("diff-id", Outcome::NotChecked("the layer cannot be read to its end".to_owned()));
                Ok(None)
            }
        }
    }

    fn scan(&self, mut members: Members, interest: &Interest) -> Result<(Changes, Vec<Found>)> {
        let mut changes = Changes::default();
        let mut found = vec![];
        while let Some(member) = members.next()? {
            changes.take(interest, self.at, &member)?;
            let at_root = !member.name.contains('/');
            if member.what == What::File && (at_root || interest.could_be_the_disk(&member.name)) {
                let verdict = judge(&mut members)?;
                found.push(Found { layer: self.at, path: member.name, verdict });
            }
        }
        members.drain()?;
        Ok((changes, found))
    }
}

fn compare(actual: Option<Digest>, told: Option<Result<Digest>>) -> Result<()> {
    let told = told.ok_or_else(|| Error::refused("there is no config that could tell it"))??;
    expect(actual == Some(told), || {
        let actual = actual.map_or_else(String::new, |digest| digest.to_string());
        format!("the tar has the digest {actual}, and the config says {told}")
    })
}

/// Reads a blob to its end, where size and digest are checked.
fn whole(name: &str, blob: &dyn Blob) -> Result<()> {
    let mut stream = blob.stream(0)?;
    io::copy(&mut stream, &mut io::sink()).map_err(|e| Error::io(format!("cannot read {name}"), e))?;
    Ok(())
}

/// Hashes what is read.
struct Hashing {
    inner: Box<dyn Read + Send>,
    hash: Arc<Mutex<Option<Aside>>>,
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
