//! The documents that make layers an image: config, manifest, index. Everything but [`write()`] is pure, and the same
//! recipe gives the same bytes.
//!
//! ```text
//!   layers + Recipe ──► config   (config.rs)   architecture, labels, diff-ids
//!                   ──► manifest (document.rs) OCI, or Docker's schema 2
//!                   ──► index    (document.rs) one manifest per architecture, sorted; joined or replaced
//!   index ──architecture──► its manifest (choose.rs)
//! ```

pub mod choose;
mod config;
mod document;
#[cfg(test)]
mod tests;
pub mod time;

pub use config::{Config, History, RootFs, Runtime};
pub use document::{ManifestFormat, index, join, manifest};

use crate::manifest::{Content, Document};
use crate::pack::Layer;
use crate::place::Sink;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::io::Write as _;

/// What an image shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// OCI, or Docker's schema 2.
    pub kind: ManifestFormat,
    /// As Go calls it: `amd64`, `arm64`.
    pub architecture: String,
    /// `v8` and the like.
    pub variant: Option<String>,
    /// Seconds since 1970; without it, no date is written.
    pub created: Option<u64>,
    /// Labels of the config.
    pub labels: BTreeMap<String, String>,
    /// Environment of the config: hints for those who import the disk (see [`hint`]).
    pub env: BTreeMap<String, String>,
    /// Annotations of the manifest; Docker's schema has none.
    pub annotations: BTreeMap<String, String>,
    /// The layers, lowest first.
    pub layers: Vec<Layer>,
}

impl Recipe {
    /// An image of these layers and no more.
    pub fn new(architecture: &str, layers: Vec<Layer>) -> Recipe {
        Recipe {
            kind: ManifestFormat::Oci,
            architecture: architecture.to_owned(),
            variant: None,
            created: None,
            labels: BTreeMap::new(),
            env: BTreeMap::new(),
            annotations: BTreeMap::new(),
            layers,
        }
    }
}

/// The label of the kernel's path.
pub const KERNEL: &str = "io.coracle.kernel";
/// The label of the initrd's path.
pub const INITRD: &str = "io.coracle.initrd";
/// The label of the kernel's command line.
pub const CMDLINE: &str = "io.coracle.cmdline";

/// The name of the environment variable that tells importers a label of the object they make:
/// `instancetype.kubevirt.io/default-instancetype` becomes `INSTANCETYPE_KUBEVIRT_IO_DEFAULT_INSTANCETYPE`.
pub fn hint(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    label.chars().map(plain).collect()
}

/// The environment that tells importers those labels that are meant for them: labels of KubeVirt's domains.
pub fn hints(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let told = labels.iter().filter(|(name, _)| name.contains(HINTS));
    told.map(|(name, value)| (hint(name), value.clone())).collect()
}

/// Labels of this kind are told to importers through the environment, too.
pub const HINTS: &str = "kubevirt.io/";

/// Stores config and manifest of layers that the sink holds already, and gives the manifest each of the tags.
pub fn write(sink: &dyn Sink, recipe: &Recipe, tags: &[&str]) -> Result<Document> {
    let (config, document) = manifest(recipe)?;
    let Content::Manifest(parsed) = &document.content else {
        return Err(Error::failed("a manifest that is none"));
    };
    if !sink.has(&parsed.config)? {
        let mut blob = sink.begin(Some(&parsed.config))?;
        blob.write_all(&config).map_err(|e| Error::io("cannot store the config of the image", e))?;
        blob.finish()?;
    }
    put(sink, &document, tags)?;
    Ok(document)
}

/// Stores a document under each of the tags, or under none.
pub fn put(sink: &dyn Sink, document: &Document, tags: &[&str]) -> Result<()> {
    if tags.is_empty() {
        return sink.put(document, None);
    }
    tags.iter().try_for_each(|tag| sink.put(document, Some(tag)))
}
