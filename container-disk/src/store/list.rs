//! List of the images in the store. An image that cannot be read is listed with the error.

use crate::layout::{Layout, index};
use crate::manifest::{self, Content, Document};
use crate::place::{Place as _, Reference};
use crate::{Digest, Result, image};
use std::collections::BTreeMap;

/// A named image in the store.
#[derive(Debug)]
pub struct Listed {
    /// The image's name, as `NAME:TAG`.
    pub name: String,
    /// Digest of its manifest or index.
    pub digest: Digest,
    /// Facts about the image, or the error of reading it.
    pub facts: Result<ListedFacts>,
}

/// Facts about a listed image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFacts {
    /// Total size of all its documents and blobs in bytes, each counted once.
    pub size: u64,
    /// Architectures from its configs, in the order of the index.
    pub architectures: Vec<String>,
    /// The first creation date among its configs, in its original form.
    pub created: Option<String>,
}

pub(super) fn list(layout: &Layout) -> Result<Vec<Listed>> {
    let mut listed = vec![];
    for entry in index::read(&layout.top)?.manifests {
        let Some(name) = entry.tag() else { continue };
        let digest: Digest = entry.digest.parse()?;
        listed.push(Listed { name: name.to_owned(), digest, facts: facts(layout, &digest) });
    }
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(listed)
}

fn facts(layout: &Layout, digest: &Digest) -> Result<ListedFacts> {
    let mut sizes = BTreeMap::new();
    let mut facts = ListedFacts { size: 0, architectures: vec![], created: None };
    for document in documents(layout, digest)? {
        sizes.insert(document.digest.to_string(), document.bytes.len() as u64);
        let Content::Manifest(manifest) = &document.content else { continue };
        for d in std::iter::once(&manifest.config).chain(&manifest.layers) {
            sizes.insert(d.digest.clone(), manifest::size(layout.name(), d.size)?);
        }
        let config = image::Config::read(layout, manifest)?;
        facts.created = facts.created.or(config.created);
        facts.architectures.push(config.architecture);
    }
    facts.size = sizes.values().fold(0, |sum: u64, size| sum.saturating_add(*size));
    Ok(facts)
}

/// A document and the documents that it lists.
fn documents(layout: &Layout, digest: &Digest) -> Result<Vec<Document>> {
    let top = layout.document(&Reference::Digest(*digest))?;
    let mut all = vec![];
    if let Content::Index(index) = &top.content {
        for entry in &index.manifests {
            all.push(layout.document(&Reference::Digest(entry.digest.parse()?))?);
        }
    }
    all.insert(0, top);
    Ok(all)
}
