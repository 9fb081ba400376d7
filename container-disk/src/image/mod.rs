//! The documents that turn layers into an image: config, manifest, index. Everything but [`write()`] and
//! [`put()`] is pure, and the same recipe gives the same bytes.
//!
//! ```text
//!   layers + Recipe ──► config   (config.rs)   architecture, labels, diff-ids
//!                   ──► manifest (document.rs) OCI, or Docker's schema 2
//!                   ──► index    (document.rs) one manifest per architecture, sorted; joined or replaced
//!   index ──architecture──► its manifest (choose.rs)
//!   document ──► all documents and blobs below it (contents.rs), bounded
//! ```

pub mod choose;
mod config;
pub(crate) mod contents;
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

/// The properties of an image to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// OCI, or Docker's schema 2.
    pub kind: ManifestFormat,
    /// Architecture in Go's spelling: `amd64`, `arm64`.
    pub architecture: String,
    /// Variant of the architecture, such as `v8`.
    pub variant: Option<String>,
    /// Creation date in seconds since 1970. Unset: no date is written.
    pub created: Option<u64>,
    /// Labels of the config.
    pub labels: BTreeMap<String, String>,
    /// Environment of the config: hints for importers of the disk (see [`hint`]).
    pub env: BTreeMap<String, String>,
    /// Annotations of the manifest. Docker's schema has none.
    pub annotations: BTreeMap<String, String>,
    /// The layers, lowest first.
    pub layers: Vec<Layer>,
}

impl Recipe {
    /// A recipe with these layers and no other properties.
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

/// Environment variable that passes a label to importers. Importers set the label on the PVC or DataVolume:
/// `instancetype.kubevirt.io/default-instancetype` becomes `INSTANCETYPE_KUBEVIRT_IO_DEFAULT_INSTANCETYPE`.
pub fn hint(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    label.chars().map(plain).collect()
}

/// Environment variables for all labels of KubeVirt's domains.
pub fn hints(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let told = labels.iter().filter(|(name, _)| name.contains(HINTS));
    told.map(|(name, value)| (hint(name), value.clone())).collect()
}

/// Domain of the labels that are passed to importers as environment variables.
pub const HINTS: &str = "kubevirt.io/";

/// Stores config and manifest in the sink, which must hold the layers already, and sets each of the tags on
/// the manifest.
pub fn write(sink: &dyn Sink, recipe: &Recipe, tags: &[&str]) -> Result<Document> {
    let (config, document) = manifest(recipe)?;
    let Content::Manifest(parsed) = &document.content else {
        return Err(Error::failed(
            "the new manifest was parsed as an index; this is a bug, please report it",
        ));
    };
    if !sink.has(&parsed.config)? {
        let mut blob = sink.begin(Some(&parsed.config))?;
        blob.write_all(&config).map_err(|e| Error::io("cannot store the config of the image", e))?;
        blob.finish()?;
    }
    put(sink, &document, tags)?;
    Ok(document)
}

/// Stores a document under each of the tags, or without a tag if the list is empty.
pub fn put(sink: &dyn Sink, document: &Document, tags: &[&str]) -> Result<()> {
    if tags.is_empty() {
        return sink.put(document, None);
    }
    tags.iter().try_for_each(|tag| sink.put(document, Some(tag)))
}
