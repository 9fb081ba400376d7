//! `oci:DIR[:TAG]`: an OCI image layout in a folder.
//!
//! ```text
//!  DIR/oci-layout                        {"imageLayoutVersion":"1.0.0"}
//!  DIR/index.json                        documents, and their tags             index.rs
//!  DIR/blobs/sha256/HEX                  documents, configs, layers            blobs.rs
//!  DIR/ingest/…                          unfinished files; removed at the end  ingest.rs
//! ```
//!
//! A blob is written into the ingest folder, synced and renamed. Only then a document that needs it may be
//! added, and only then the index may list that document. So a crash at any moment leaves at most unused
//! blobs, and never a dangling name. Two processes may write at once: the index is changed under a lock of
//! the folder.
//!
//! A layout from other tools is not trusted. Documents are bounded and must have the requested digest, a
//! blob's digest is verified as it streams, and no link inside the folder is followed (`folder.rs`). If every
//! user may write to one of its folders, a warning is logged, since any user can then replace the images in
//! it.

pub(crate) mod blobs;
pub(crate) mod folder;
pub(crate) mod index;
pub(crate) mod ingest;
pub(crate) mod lock;
mod owner;
#[cfg(test)]
pub(crate) mod tests;

use crate::digest::Hasher;
use crate::manifest::{self, Content, Descriptor, Document};
use crate::place::{Blob, BlobWriter, Place, Reference, Sink, SinkLock};
use crate::{Digest, Error, ErrorKind, Result};
use folder::Folder;
use guard::folder::FolderError;
use ingest::Leftovers;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

pub(crate) const OCI_LAYOUT: &str = "oci-layout";
pub(crate) const LAYOUT_VERSION: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// An image layout, to read and to write.
pub struct Layout {
    pub(crate) top: Folder,
    name: String,
    /// A store keeps its ingest folder, for partial blobs.
    is_store: bool,
}

impl Layout {
    /// Opens an existing layout.
    pub fn open(path: &Path) -> Result<Layout> {
        let layout = Layout::open_as(path, format!("oci:{}", path.display()), false)?;
        layout.warn_if_open();
        Ok(layout)
    }

    pub(crate) fn open_as(path: &Path, name: String, is_store: bool) -> Result<Layout> {
        let top = if is_store { Folder::open_owned(path) } else { Folder::open(path) }?;
        let Some((file, _)) = top.trusted_file(OCI_LAYOUT)? else {
            let what = format!("{} is not an image layout: it has no file {OCI_LAYOUT}", path.display());
            return Err(Error::refused(what));
        };
        let version = manifest::read_bounded(&name, file)?;
        check_version(&name, &version)?;
        Ok(Layout { top, name, is_store })
    }

    /// Opens a layout, or creates one in a folder that is empty or does not exist. Also in one in which an
    /// earlier process did not finish a layout.
    pub fn create(path: &Path) -> Result<Layout> {
        let layout = Layout::create_as(path, format!("oci:{}", path.display()), false)?;
        layout.warn_if_open();
        Ok(layout)
    }

    pub(crate) fn create_as(path: &Path, name: String, is_store: bool) -> Result<Layout> {
        let top = if is_store { Folder::create_owned(path) } else { Folder::create(path) }?;
        let is_old = is_layout(&top)?;
        if !is_old {
            top.make_sub(blobs::BLOBS)?.make_sub("sha256")?;
            index::change(&top, |_| Ok(()))?;
            index::write(&top, OCI_LAYOUT, LAYOUT_VERSION)?;
        }
        let cleared = if is_old && is_store { Leftovers::OfStore } else { Leftovers::Own };
        ingest::clear(&top, cleared)?;
        let layout = Layout { top, name, is_store };
        index::read(&layout.top)?;
        Ok(layout)
    }

    /// Warns if every user may write to the folder. The user chose this folder, so it is used all the same.
    fn warn_if_open(&self) {
        if let Err(open) = closed(self.top.path()) {
            tracing::warn!("{}: {open}", self.name);
        }
    }

    /// The reference for a tag that the user gave. Without a tag the layout must hold exactly one image.
    pub fn reference(&self, tag: Option<&str>) -> Result<Reference> {
        index::read(&self.top)?.reference(&self.name, tag)
    }

    /// All tags, in the order of the index.
    pub fn tags(&self) -> Result<Vec<String>> {
        let index = index::read(&self.top)?;
        Ok(index.manifests.iter().filter_map(|entry| entry.tag().map(str::to_owned)).collect())
    }

    /// Reads a document by digest. `said` is the media type in the index.
    fn by_digest(&self, digest: &Digest, said: Option<&str>) -> Result<Document> {
        let name = format!("{digest} of {}", self.name);
        let Some((file, _)) = blobs::open(&self.top, digest)? else {
            return Err(Error::new(ErrorKind::NotFound, format!("{} has no document {digest}", self.name)));
        };
        let bytes = manifest::read_bounded(&name, file)?;
        checked(&name, digest, bytes, said)
    }

    /// Fails unless the layout holds every document and blob that the document lists.
    fn check_whole(&self, document: &Document) -> Result<()> {
        for (digest, size) in needs(document) {
            let here = blobs::open(&self.top, &digest.parse()?)?;
            if here.is_none_or(|(_, here)| i64::try_from(here) != Ok(size)) {
                let what = format!(
                    "{} needs the blob {digest}, but {} does not contain it",
                    document.digest, self.name
                );
                return Err(Error::failed(what));
            }
        }
        Ok(())
    }
}

impl Place for Layout {
    fn name(&self) -> &str {
        &self.name
    }

    fn document(&self, reference: &Reference) -> Result<Document> {
        match reference {
            Reference::Digest(digest) => self.by_digest(digest, None),
            Reference::Tag(tag) => {
                let index = index::read(&self.top)?;
                let entry = index.find(&self.name, tag)?;
                let document = self.by_digest(&entry.digest.parse()?, entry.media_type.as_deref())?;
                if document.bytes.len() as u64 != entry.size {
                    let what = format!(
                        "the index of {} promises {} bytes for {}",
                        self.name, entry.size, entry.digest
                    );
                    return Err(Error::refused(what));
                }
                Ok(document)
            }
        }
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
        blobs::blob(&self.top, &self.name, descriptor)
    }
}

impl Sink for Layout {
    fn has(&self, descriptor: &Descriptor) -> Result<bool> {
        blobs::is_sound(&self.top, &self.name, descriptor)
    }

    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
        Ok(Box::new(blobs::Writer::new(&self.top, promised)?))
    }

    fn resume(&self, promised: &Descriptor) -> Result<(u64, Box<dyn BlobWriter + '_>)> {
        if !self.is_store {
            return Ok((0, self.begin(Some(promised))?));
        }
        let (have, writer) = blobs::Writer::resume(&self.top, promised)?;
        Ok((have, Box::new(writer)))
    }

    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()> {
        self.check_whole(document)?;
        let descriptor = document.descriptor()?;
        if !blobs::is_sound(&self.top, &self.name, &descriptor)? {
            let mut blob: Box<dyn BlobWriter> = Box::new(blobs::Writer::new(&self.top, Some(&descriptor))?);
            let written = blob.write_all(&document.bytes);
            written.map_err(|e| Error::io(format!("cannot write to {}", self.name), e))?;
            blob.finish()?;
        }
        match tag {
            Some(tag) => index::change(&self.top, |index| {
                index.set(tag, document);
                Ok(())
            }),
            None => Ok(()),
        }
    }

    fn lock(&self) -> Result<SinkLock> {
        // Not by the top folder, which each change of the index locks.
        Ok(SinkLock::by(self.top.make_sub(blobs::BLOBS)?.lock()?))
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        if !self.is_store {
            self.top.remove_empty(ingest::INGEST);
        }
    }
}

/// True if the folder is a layout, false if one can be created there. Fails if it has other content.
pub(crate) fn is_layout(top: &Folder) -> Result<bool> {
    if top.trusted_file(OCI_LAYOUT)?.is_some() {
        return Ok(true);
    }
    let Some(other) = other_content(top)? else { return Ok(false) };
    // Another process may have finished the same layout by now.
    if top.trusted_file(OCI_LAYOUT)?.is_some() {
        return Ok(true);
    }
    let what =
        format!("{} holds {other:?} and is not an image layout; name an empty folder", top.path().display());
    Err(Error::usage(what))
}

/// An entry of a folder that no layout has before its file `oci-layout` is written. It has the folders for
/// blobs and for unfinished files, an empty lock, and an index without documents.
fn other_content(top: &Folder) -> Result<Option<String>> {
    for name in top.names()? {
        let is_begun = match name.as_str() {
            blobs::BLOBS => {
                holds_only(top.sub(&name)?, |below| below == "sha256")?
                    && holds_only(blobs::folder(top, "sha256")?, |_| false)?
            }
            ingest::INGEST => holds_only(top.sub(&name)?, ingest::is_own)?,
            index::INDEX => index::read(top).is_ok_and(|index| index.manifests.is_empty()),
            "lock" => top.file(&name)?.is_none_or(|(_, size)| size == 0),
            _ => false,
        };
        if !is_begun {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn holds_only(folder: Option<Folder>, is_known: impl Fn(&str) -> bool) -> Result<bool> {
    let names = folder.map_or(Ok(vec![]), |folder| folder.names())?;
    Ok(names.iter().all(|name| is_known(name)))
}

/// Fails if every user may write to one of the layout's folders.
pub(crate) fn closed(top: &Path) -> Result<(), FolderError> {
    let below = [blobs::BLOBS, "blobs/sha256", "blobs/sha512", ingest::INGEST].map(|name| top.join(name));
    guard::folder::refuse_shared(top)?;
    below.iter().try_for_each(|folder| guard::folder::refuse_shared(folder))
}

/// Parses a document and verifies that it has the requested digest.
pub(crate) fn checked(name: &str, digest: &Digest, bytes: Vec<u8>, said: Option<&str>) -> Result<Document> {
    let mut hash = Hasher::like(digest);
    hash.update(&bytes);
    let actual = hash.finish();
    if actual != *digest {
        return Err(Error::refused(format!(
            "the document {name} has the digest {actual}; its bytes were changed"
        )));
    }
    Ok(Document::parse(name, bytes, said)?.listed_as(*digest))
}

/// Digests and sizes of the documents and blobs that a document lists.
pub(crate) fn needs(document: &Document) -> Vec<(&str, i64)> {
    match &document.content {
        Content::Manifest(m) => {
            std::iter::once(&m.config).chain(&m.layers).map(|d| (d.digest.as_str(), d.size)).collect()
        }
        Content::Index(i) => i.manifests.iter().map(|m| (m.digest.as_str(), m.size)).collect(),
    }
}

/// Fails unless the layout has version 1, the only one that exists.
pub(crate) fn check_version(name: &str, oci_layout: &[u8]) -> Result<()> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct LayoutFile {
        image_layout_version: String,
    }
    let file: LayoutFile = serde_json::from_slice(oci_layout)
        .map_err(|e| Error::refused(format!("the file {OCI_LAYOUT} of {name} cannot be read")).because(e))?;
    if file.image_layout_version.starts_with("1.") {
        return Ok(());
    }
    let version = file.image_layout_version;
    Err(Error::refused(format!(
        "{name} is an image layout of version {version:?}; only 1.x versions are supported"
    )))
}
