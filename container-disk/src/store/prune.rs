//! Removal of blobs that no name needs: it marks from the index over the documents to the blobs, then removes
//! the rest. It stops if a document cannot be read, since that document might need any blob.

use super::{LOCK, closed, existing, lock_file};
use crate::layout::ingest::{self, Leftovers};
use crate::layout::lock::{Keeps, Locked};
use crate::layout::{Layout, blobs, index, is_layout};
use crate::manifest::Content;
use crate::place::{Place as _, Reference};
use crate::reference::Local;
use crate::{Digest, Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// The result of a prune.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Number of documents, configs and layers that were removed.
    pub blobs: u64,
    /// Bytes that were freed, including unfinished files of other processes.
    pub freed: u64,
}

/// Prunes the store in a folder, which stays as it is if it is empty. Fails while any process has it open,
/// this one included.
pub fn prune(path: &Path) -> Result<Pruned> {
    closed(path)?;
    if !is_layout(&existing(path)?)? {
        return Ok(Pruned::default());
    }
    let alone = Locked::at_once(lock_file(path)?, Keeps::All)
        .map_err(|e| Error::io(format!("cannot lock {}", path.join(LOCK).display()), e))?;
    if alone.is_none() {
        let what =
            format!("the store {} is in use; end the commands that use it, and prune again", path.display());
        return Err(Error::failed(what));
    }
    let layout = Layout::open_as(path, "the store".to_owned(), true)?;
    let needed = mark(&layout)?;
    let mut pruned = Pruned { blobs: 0, freed: ingest::clear(&layout.top, Leftovers::WithPartial)? };
    sweep(&layout, &needed, &mut pruned)?;
    Ok(pruned)
}

/// Maximum nesting of indexes.
const DEPTH: usize = 4;

/// The digests of everything that a name refers to.
fn mark(layout: &Layout) -> Result<BTreeSet<Digest>> {
    let mut marks = Marks { layout, needed: BTreeSet::new(), walked: BTreeSet::new() };
    for entry in index::read(&layout.top)?.manifests {
        let name = entry.tag().unwrap_or(&entry.digest).to_owned();
        // The index of which this image was pulled by its digest. Its other images are not needed.
        marks.needed.extend(Local::parse(&name).ok().and_then(|local| local.digest()));
        marks.walk(entry.digest.parse()?, DEPTH).map_err(|e| {
            let what = format!("{name} cannot be read, so nothing is removed; remove that name first (rmi)");
            Error::new(e.kind(), what).because(e)
        })?;
    }
    Ok(marks.needed)
}

struct Marks<'a> {
    layout: &'a Layout,
    /// Files that stay.
    needed: BTreeSet<Digest>,
    /// Documents whose content is marked. A needed file may be a document that nothing has read yet: an image
    /// may list the manifest of another one as its layer.
    walked: BTreeSet<Digest>,
}

impl Marks<'_> {
    fn walk(&mut self, digest: Digest, depth: usize) -> Result<()> {
        self.needed.insert(digest);
        if self.walked.contains(&digest) {
            return Ok(());
        }
        let document = match self.layout.document(&Reference::Digest(digest)) {
            Ok(document) => document,
            // An index may be incomplete if only some architectures were pulled.
            Err(e) if e.kind() == ErrorKind::NotFound && depth < DEPTH => return Ok(()),
            Err(e) => return Err(e),
        };
        match &document.content {
            Content::Manifest(manifest) => {
                for d in std::iter::once(&manifest.config).chain(&manifest.layers) {
                    self.needed.insert(d.digest.parse()?);
                }
            }
            Content::Index(_) if depth == 0 => {
                return Err(Error::refused(format!("{digest} lies more than {DEPTH} indexes deep")));
            }
            Content::Index(index) => {
                for entry in &index.manifests {
                    self.walk(entry.digest.parse()?, depth - 1)?;
                }
            }
        }
        self.walked.insert(digest);
        Ok(())
    }
}

fn sweep(layout: &Layout, needed: &BTreeSet<Digest>, pruned: &mut Pruned) -> Result<()> {
    let Some(all) = layout.top.sub(blobs::BLOBS)? else { return Ok(()) };
    for algorithm in all.names()? {
        let Some(folder) = all.sub(&algorithm)? else { continue };
        for hex in folder.names()? {
            // A file whose name is not a digest does not belong to the store.
            let Ok(digest) = format!("{algorithm}:{hex}").parse::<Digest>() else { continue };
            if needed.contains(&digest) {
                continue;
            }
            let size = folder.file(&hex)?.map_or(0, |(_, size)| size);
            if folder.remove(&hex)? {
                pruned.blobs += 1;
                pruned.freed += size;
            }
        }
        folder.sync()?;
    }
    Ok(())
}
