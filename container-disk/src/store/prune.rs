//! Removes what no name needs: mark from the index through the documents to the blobs, then sweep. When in doubt it
//! stops: a document that cannot be read might need anything.

use super::{LOCK, closed, lock_file};
use crate::layout::lock::{Keeps, Locked};
use crate::layout::{Layout, blobs, index, ingest};
use crate::manifest::Content;
use crate::place::{Place as _, Which};
use crate::{Digest, Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// What a prune did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Documents, configs and layers that were removed.
    pub blobs: u64,
    /// Bytes of these, and of what others left half done.
    pub freed: u64,
}

/// Prunes the store in a folder. Refused while any process has it open, this one included.
pub fn prune(path: &Path) -> Result<Pruned> {
    closed(path)?;
    let alone = Locked::at_once(lock_file(path)?, Keeps::All)
        .map_err(|e| Error::io(format!("cannot lock {}", path.join(LOCK).display()), e))?;
    if alone.is_none() {
        let what = format!("the store {} is in use; prune it when nothing else uses it", path.display());
        return Err(Error::failed(what));
    }
    let layout = Layout::create_as(path, "the store".to_owned(), true)?;
    let needed = mark(&layout)?;
    let mut pruned = Pruned { blobs: 0, freed: ingest::clear(&layout.top, true)? };
    sweep(&layout, &needed, &mut pruned)?;
    Ok(pruned)
}

/// How deep an index may lie in another.
const DEPTH: usize = 4;

/// The digests of everything a name leads to.
fn mark(layout: &Layout) -> Result<BTreeSet<Digest>> {
    let mut needed = BTreeSet::new();
    for entry in index::read(&layout.top)?.manifests {
        let name = entry.tag().unwrap_or(&entry.digest).to_owned();
        walk(layout, entry.digest.parse()?, DEPTH, &mut needed).map_err(|e| {
            let what = format!("{name} cannot be read, so nothing is removed; remove that name first (rmi)");
            Error::new(e.kind(), what).because(e)
        })?;
    }
    Ok(needed)
}

fn walk(layout: &Layout, digest: Digest, depth: usize, needed: &mut BTreeSet<Digest>) -> Result<()> {
    if !needed.insert(digest) {
        return Ok(());
    }
    let document = match layout.document(&Which::Digest(digest)) {
        Ok(document) => document,
        // An index of which only some architectures were brought.
        Err(e) if e.kind() == ErrorKind::NotFound && depth < DEPTH => return Ok(()),
        Err(e) => return Err(e),
    };
    match &document.content {
        Content::Manifest(manifest) => {
            for d in std::iter::once(&manifest.config).chain(&manifest.layers) {
                needed.insert(d.digest.parse()?);
            }
        }
        Content::Index(_) if depth == 0 => {
            return Err(Error::refused(format!("{digest} lies more than {DEPTH} indexes deep")));
        }
        Content::Index(index) => {
            for entry in &index.manifests {
                walk(layout, entry.digest.parse()?, depth - 1, needed)?;
            }
        }
    }
    Ok(())
}

fn sweep(layout: &Layout, needed: &BTreeSet<Digest>, pruned: &mut Pruned) -> Result<()> {
    let Some(all) = layout.top.sub(blobs::BLOBS)? else { return Ok(()) };
    for algorithm in all.names()? {
        let Some(folder) = all.sub(&algorithm)? else { continue };
        for hex in folder.names()? {
            // What has no digest for a name is not ours.
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
