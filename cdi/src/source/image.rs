//! The disk inside a container image: `docker://…`, `oci:…`, `store:…` and the archives.
//!
//! ```text
//!   Name ─► place ─► the manifest for this host ─► locate: the one disk in its layers
//!     uncompressed layer in the store, checked before ─► ReadAt: tables first, as of any file
//!     any other                                         ─► Stream: unpacked and checked while it is read
//! ```
//!
//! The stream of a registry's image reports positions where a later run can enter it again. The digest then
//! covers both runs together ([`Reentry`]).
//!
//! A registry is never read by offset here: no digest could be checked, so a mirror could give forged bytes.
//! Wrong bytes of a mirror are found only at the end of the layer. The reader then begins anew, and gets the
//! layer from another mirror.

use super::{Identity, Source, SourceFacts};
use crate::filter::{Boundary, OnBoundary};
use crate::{Error, ErrorKind, Result};
use container_disk::locate::{self, Located};
use container_disk::manifest::{Content, Document};
use container_disk::open::{FoundImage, Places};
use container_disk::{Digest, Name, OnReentry, Reentry, image};
use disk_format::ReadAt;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

/// Choice of the image and of the file in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The architecture, by Go's name.
    pub arch: String,
    /// The digest that the name was resolved to before. It is read, even if the name leads elsewhere by now.
    pub digest: Option<Digest>,
    /// The file inside the image; unset: found by the rules.
    pub path: Option<String>,
    /// Limit for the size of an unpacked layer, in bytes.
    pub limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { arch: architecture().to_owned(), digest: None, path: None, limit: 16 << 40 }
    }
}

/// Go's name of this host's architecture.
pub fn architecture() -> &'static str {
    api::architecture::go_name(std::env::consts::ARCH)
}

/// A disk in an image.
pub struct ImageDisk {
    facts: SourceFacts,
    /// The disk as it was found: it gives its first stream without a second search. Later streams find it
    /// again.
    located: Mutex<Option<Located>>,
    bytes: Option<Arc<dyn ReadAt>>,
    found: FoundImage,
    document: Document,
    options: Options,
    /// True if the stream reports positions where it can be entered again.
    reentry: bool,
    file: ImageFile,
}

/// The file in an image that is its disk.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ImageFile {
    /// Path in the image, such as `disk/disk.img`.
    pub path: String,
    /// Number of the layer, counted from 0, the lowest.
    pub layer: usize,
    /// Compression of the layer.
    pub compression: &'static str,
    /// Bytes of the file.
    pub size: u64,
    /// User ID of the owner.
    pub uid: u64,
    /// Group ID of the owner.
    pub gid: u64,
    /// Permission bits as an octal number.
    pub mode: String,
}

impl ImageDisk {
    /// Finds the disk. Of a compressed layer only the bytes before the disk are read.
    pub fn open(places: &Places, name: &Name, options: &Options) -> Result<ImageDisk> {
        let found = places.find(name)?;
        let found = match options.digest {
            Some(digest) => found.exactly(digest),
            None => found,
        };
        // Only the store's layers, which were checked when they came, may be read by offset without a check.
        ImageDisk::find(found, name, options, matches!(name, Name::Store(_)))
    }

    /// Finds the disk in an image that was found before, for inspection only: it may be read by offset,
    /// without checks.
    pub fn inspect(found: FoundImage, name: &Name, options: &Options) -> Result<ImageDisk> {
        ImageDisk::find(found, name, options, true)
    }

    fn find(found: FoundImage, name: &Name, options: &Options, anywhere: bool) -> Result<ImageDisk> {
        let document = image::choose::manifest(&*found.place, &found.reference, &options.arch)?;
        let reentry = matches!(name, Name::Registry(_)) && !anywhere;
        let located = locate(&found, &document, options, reentry).or_else(|e| {
            if e.kind() != ErrorKind::Refused || !is_elsewhere(&found, &document) {
                return Err(e);
            }
            tracing::info!(error = %e, "{name} is read again");
            locate(&found, &document, options, reentry)
        })?;
        let bytes = if anywhere { located.read_at().transpose()? } else { None };
        let facts = SourceFacts {
            name: name.to_string(),
            size: Some(located.size),
            seekable: bytes.is_some(),
            remote: bytes.is_some() && matches!(name, Name::Registry(_)),
            reentry,
            plain: !located.path.trim_start_matches('/').starts_with("disk/"),
            identity: Some(Identity::of_content(
                format!("{}#{}", located.digest, located.path),
                Some(located.size),
            )),
        };
        let file = ImageFile {
            path: located.path.clone(),
            layer: located.layer,
            compression: located.compression.name(),
            size: located.size,
            uid: located.uid,
            gid: located.gid,
            mode: format!("{:04o}", located.mode),
        };
        let located = Mutex::new(Some(located));
        Ok(ImageDisk { facts, located, bytes, found, document, options: options.clone(), reentry, file })
    }

    /// The file in the image.
    pub fn file(&self) -> &ImageFile {
        &self.file
    }

    /// The disk as it was found, or found again.
    fn located(&self) -> Result<Located> {
        let waiting = self.located.lock().unwrap_or_else(PoisonError::into_inner).take();
        match waiting {
            Some(located) => Ok(located),
            None => locate(&self.found, &self.document, &self.options, self.reentry),
        }
    }
}

impl Source for ImageDisk {
    fn facts(&self) -> &SourceFacts {
        &self.facts
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        self.bytes.clone()
    }

    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        let mut stream = self.located()?.stream()?;
        let skipped = std::io::copy(&mut stream.by_ref().take(from), &mut std::io::sink());
        skipped.map_err(|e| Error::io(format!("cannot read {}", self.facts.name), e))?;
        Ok(stream)
    }

    fn stream_noting(&self, note: OnBoundary) -> Result<Box<dyn Read + Send>> {
        Ok(self.located()?.stream_noting(boundaries(note))?)
    }

    fn enter(&self, place: &Boundary, note: OnBoundary) -> Result<Box<dyn Read + Send>> {
        let name = &self.facts.name;
        let reentry: Option<Reentry> = serde_json::from_slice(&place.state).ok();
        let Some(reentry) = reentry.filter(|reentry| reentry.disk == place.output) else {
            let what = format!(
                "what was kept of an earlier reading of {name} makes no sense; it is read again from its start"
            );
            return Err(Error::failed(what).of_another_version());
        };
        Ok(self.located()?.enter(&reentry, boundaries(note))?)
    }

    fn is_elsewhere(&self) -> bool {
        is_elsewhere(&self.found, &self.document)
    }
}

/// True if a registry gave a wrong layer, and another mirror may have the right one.
fn is_elsewhere(found: &FoundImage, document: &Document) -> bool {
    let Content::Manifest(manifest) = &document.content else { return false };
    let mut layers = manifest.layers.iter();
    layers.any(|layer| found.place.blob(layer).is_ok_and(|blob| blob.is_elsewhere()))
}

/// Converts positions of the disk's stream to those of a journal.
fn boundaries(note: OnBoundary) -> OnReentry {
    Arc::new(move |reentry: Reentry| {
        // It consists of texts and numbers only, so this does not fail.
        let Ok(state) = serde_json::to_vec(&reentry) else { return };
        note(Boundary { input: reentry.disk, output: reentry.disk, state });
    })
}

fn locate(found: &FoundImage, document: &Document, options: &Options, reentry: bool) -> Result<Located> {
    let Content::Manifest(manifest) = &document.content else {
        return Err(Error::refused(format!(
            "{} is an index where an image was expected",
            found.place.name()
        )));
    };
    let how = locate::Options { path: options.path.clone(), one_pass: true, reentry, limit: options.limit };
    Ok(locate::disk(&*found.place, manifest, &how)?)
}
