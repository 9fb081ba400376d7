//! Verification of an image: every value that it states is computed again from its bytes and compared.
//!
//! ```text
//!  index ──each image──► manifest ──► config ──► layers, each read once ──► the disk
//!  sizes, digests        digest       platform   size, digest, media type   place, owner, mode
//!                                                diff-id, a sound tar       format, outside references
//!                                                layer.rs, format.rs        disk.rs
//! ```
//!
//! Each comparison is one [`Check`]: passed, failed with the reason, or not made with the reason. An error of
//! reading (a broken connection, a full disk) is the error of the whole verification, never a failed check.
//! No image can make the verification endless: documents, nested indexes and the decompressed size of a layer
//! are limited.
//!
//! | check | object | fails if |
//! |---|---|---|
//! | manifest | each document | it cannot be read, or differs from its descriptor in size, digest or type |
//! | config | an image | the same; or it is not a config |
//! | platform | an image | its system is not Linux, or differs from the index |
//! | a diff-id for each layer | an image | their numbers differ |
//! | blob | each layer | it differs from its descriptor in size or digest |
//! | media type | each layer | its bytes have another type |
//! | tar | each layer | it is broken, hostile, or decompresses to more than is allowed |
//! | diff-id | each layer | the tar's digest differs from the config |
//! | kernel, initrd | a kernel-boot image | a label does not name a file |
//! | one disk in its place | an image | `/disk` has no file, several, or another type of entry |
//! | owner, mode | the disk | it does not belong to QEMU's user, or that user cannot read it |
//! | format, no outside references | the disk | VMs cannot start from it, or it needs another file |

mod check;
mod disk;
mod format;
mod layer;
#[cfg(test)]
mod tests;

pub use check::{Check, Outcome};

use crate::image::{Config, choose};
use crate::locate::scan::{self, Interest};
use crate::locate::{Image, boot};
use crate::manifest::{
    self, Content, Document, IMAGE_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_CONFIG_MEDIA_TYPE, Index, IndexEntry,
    Manifest, Platform,
};
use crate::place::{Place, Reference};
use crate::{ErrorKind, Result};
use check::{Checks, expect};
use layer::Layer;

/// Options of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Verifies only the image for this architecture of an index (`amd64`, `arm64/v8`). Unset: all images.
    pub architecture: Option<String>,
    /// Path of the disk, if the rules would not find it.
    pub path: Option<String>,
    /// Maximum bytes that a layer may decompress to.
    pub limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        let crate::locate::Options { path, limit, .. } = crate::locate::Options::default();
        Options { architecture: None, path, limit }
    }
}

/// Verifies an image, or the images of an index. The checks are in the order in which they were made.
pub fn verify(place: &dyn Place, reference: &Reference, options: &Options) -> Result<Vec<Check>> {
    let mut checks = Checks::default();
    // A tag may refer to any document, which must also be found by its digest.
    let document = place.document(reference).and_then(|document| match reference {
        Reference::Tag(_) => place.document(&Reference::Digest(document.digest)),
        Reference::Digest(_) => Ok(document),
    });
    let document = match document {
        // A missing image is an error, not a failed check.
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(e),
        known => checks.record("manifest", known)?,
    };
    if let Some(document) = document {
        document_below(place, &document, options, &mut checks, DEPTH, None)?;
    }
    Ok(checks.list)
}

/// Maximum nesting of indexes.
const DEPTH: usize = 4;
/// Maximum number of entries that are checked for one image name, over all nested indexes.
const DOCUMENTS: usize = 256;

fn document_below(
    place: &dyn Place,
    document: &Document,
    options: &Options,
    checks: &mut Checks,
    depth: usize,
    platform: Option<&Platform>,
) -> Result<()> {
    match &document.content {
        Content::Manifest(manifest) => image(place, manifest, options, checks, platform),
        Content::Index(_) if depth == 0 => {
            checks.failed("indexes in indexes", format!("they are nested more than {DEPTH} deep"));
            Ok(())
        }
        Content::Index(index) => each(place, index, options, checks, depth),
    }
}

fn each(
    place: &dyn Place,
    index: &Index,
    options: &Options,
    checks: &mut Checks,
    depth: usize,
) -> Result<()> {
    let entries = match &options.architecture {
        Some(architecture) => vec![choose::fitting(place.name(), index, architecture)?],
        None => index.manifests.iter().collect(),
    };
    for entry in entries {
        let outer = checks.prefix.clone();
        let name = choose::platform(entry).unwrap_or_else(|| entry.digest.clone());
        checks.prefix = format!("{outer}{name}: ");
        checks.documents += 1;
        if checks.documents > DOCUMENTS {
            checks.failed("manifest", format!("the indexes lead to more than {DOCUMENTS} documents"));
            return Ok(());
        }
        if is_attestation(entry) {
            let why = "it has no platform: it is metadata of an image, not an image";
            checks.add("manifest", Outcome::NotChecked(why.to_owned()));
        } else if let Some(document) = checks.record("manifest", listed(place, entry))? {
            document_below(place, &document, options, checks, depth - 1, entry.platform.as_ref())?;
        }
        checks.prefix = outer;
    }
    Ok(())
}

/// Reads the document of an index entry, and compares the entry.
fn listed(place: &dyn Place, entry: &IndexEntry) -> Result<Document> {
    let document = place.document(&Reference::Digest(entry.digest.parse()?))?;
    let (size, told) = (document.bytes.len() as u64, manifest::size(place.name(), entry.size)?);
    expect(size == told, || format!("it has {size} bytes, but its index lists {told}"))?;
    expect(document.media_type == entry.media_type, || {
        format!("it has the type {}, but its index lists {}", document.media_type, entry.media_type)
    })?;
    Ok(document)
}

/// True for an attestation, which builders add to an index next to the images.
fn is_attestation(entry: &IndexEntry) -> bool {
    entry.platform.as_ref().is_some_and(|p| p.os.to_string() == "unknown")
}

fn image(
    place: &dyn Place,
    manifest: &Manifest,
    options: &Options,
    checks: &mut Checks,
    platform: Option<&Platform>,
) -> Result<()> {
    let config = checks.record("config", config_of(place, manifest))?;
    if let Some(config) = &config {
        checks.record("platform", self::platform(config, platform))?;
        let (told, layers) = (config.rootfs.diff_ids.len(), manifest.layers.len());
        checks.record(
            "a diff-id for each layer",
            expect(told == layers, || {
                format!("the image has {layers} layers, but the config has {told} diff-ids")
            }),
        )?;
    }
    let boot = config.as_ref().and_then(boot);
    let mut interest = Interest::new(options.path.as_deref())?;
    for path in boot.iter().flat_map(|boot| [Some(&boot.kernel), boot.initrd.as_ref()]).flatten() {
        interest = interest.and(scan::clean(path));
    }
    let mut image = Image { name: place.name().to_owned(), interest, layers: vec![] };
    let mut formats = vec![];
    for (at, descriptor) in manifest.layers.iter().enumerate() {
        let diff_id = config.as_ref().map(|config| config.diff_id(at));
        let layer = Layer { place, at, descriptor, limit: options.limit };
        match layer.check(&image, diff_id, checks)? {
            Some((changes, found)) => {
                image.layers.push(Some(changes));
                formats.extend(found);
            }
            None => image.layers.push(None),
        }
    }
    disk::check(&image, boot.as_ref(), &formats, checks)
}

fn config_of(place: &dyn Place, manifest: &Manifest) -> Result<Config> {
    let told = manifest.config.media_type.as_str();
    expect([IMAGE_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_CONFIG_MEDIA_TYPE].contains(&told), || {
        format!("it has the type {told}, not that of the config of an image with a root file system")
    })?;
    Config::read(place, manifest)
}

fn platform(config: &Config, said: Option<&Platform>) -> Result<()> {
    expect(config.os == "linux", || {
        format!("the config's os is {:?}; it must be linux, whatever system is on the disk", config.os)
    })?;
    expect(!config.architecture.is_empty(), || "the config has no architecture".to_owned())?;
    let Some(said) = said else { return Ok(()) };
    let known = |variant: &Option<String>| variant.clone().filter(|variant| !variant.is_empty());
    let variants = known(&config.variant).zip(known(&said.variant));
    let agree = said.architecture.to_string() == config.architecture && variants.is_none_or(|(a, b)| a == b);
    expect(agree, || {
        let name = |architecture: &str, variant: &Option<String>| match known(variant) {
            Some(variant) => format!("{architecture}/{variant}"),
            None => architecture.to_owned(),
        };
        let ours = name(&config.architecture, &config.variant);
        format!(
            "the config has {ours}, but the index {}",
            name(&said.architecture.to_string(), &said.variant)
        )
    })
}
