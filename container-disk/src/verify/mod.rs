//! Every claim of an image, made again from its bytes and compared.
//!
//! ```text
//!  index ──each image──► manifest ──► config ──► layers, each read once ──► the disk
//!  sizes, digests        digest       platform   size, digest, media type   place, owner, mode
//!                                                diff-id, a sound tar       format, outside references
//!                                                layer.rs, format.rs        disk.rs
//! ```
//!
//! Each claim is one [`Check`]: passed, failed with the reason, or not checked with the reason. That something could
//! not be read at all (a broken connection, a full disk) is the error of the whole, never a failed check. Nothing that
//! an image says makes it endless: documents, indexes in indexes and what a layer unpacks to have their limits.
//!
//! | check | of | fails where |
//! |---|---|---|
//! | manifest | each document | it cannot be read, or is not of the size, digest and type that are told of it |
//! | config | an image | the same; or it is none |
//! | platform | an image | it is not Linux's, or not the index's |
//! | a diff-id for each layer | an image | their numbers differ |
//! | blob | each layer | it is not of the size and digest that the manifest tells |
//! | media type | each layer | its bytes are something else |
//! | tar | each layer | it is broken, hostile, or unpacks to more than is allowed |
//! | diff-id | each layer | the tar's digest is not what the config tells |
//! | kernel, initrd | a kernel-boot image | the labels name no file |
//! | one disk in its place | an image | `/disk` holds none, several, or something else |
//! | owner, mode | the disk | it is not qemu's, or qemu cannot get at it |
//! | format, no outside references | the disk | no VM starts from it, or it needs another file |

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
use crate::place::{Place, Which};
use crate::{ErrorKind, Result};
use check::{Checks, expect};
use layer::Layer;

/// What to verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which image of an index (`amd64`, `arm64/v8`); all without it.
    pub architecture: Option<String>,
    /// Where the disk is, where the rules would not find it.
    pub path: Option<String>,
    /// Bytes that a layer may unpack to.
    pub limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        let crate::locate::Options { path, limit, .. } = crate::locate::Options::default();
        Options { architecture: None, path, limit }
    }
}

/// Verifies what a name leads to: an image, or the images of an index. The checks come in the order they were made.
pub fn verify(place: &dyn Place, which: &Which, options: &Options) -> Result<Vec<Check>> {
    let mut checks = Checks::default();
    // A tag may lead anywhere; what it leads to must be found by its digest too.
    let document = place.document(which).and_then(|document| match which {
        Which::Tag(_) => place.document(&Which::Digest(document.digest)),
        Which::Digest(_) => Ok(document),
    });
    let document = match document {
        // An image that is not there claims nothing.
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(e),
        known => checks.of("manifest", known)?,
    };
    if let Some(document) = document {
        document_below(place, &document, options, &mut checks, DEPTH, None)?;
    }
    Ok(checks.list)
}

/// How deep an index may lie in another.
const DEPTH: usize = 4;
/// Documents that the indexes of one name may lead to.
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
            checks.failed("indexes in indexes", format!("they lie more than {DEPTH} deep"));
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
            let why = "it is for no platform: something about an image, not an image";
            checks.add("manifest", Outcome::NotChecked(why.to_owned()));
        } else if let Some(document) = checks.of("manifest", listed(place, entry))? {
            document_below(place, &document, options, checks, depth - 1, entry.platform.as_ref())?;
        }
        checks.prefix = outer;
    }
    Ok(())
}

/// What an entry of an index leads to.
fn listed(place: &dyn Place, entry: &IndexEntry) -> Result<Document> {
    let document = place.document(&Which::Digest(entry.digest.parse()?))?;
    let (size, told) = (document.bytes.len() as u64, manifest::size(place.name(), entry.size)?);
    expect(size == told, || format!("it has {size} bytes, and its index says {told}"))?;
    expect(document.media_type == entry.media_type, || {
        format!("it is a {}, and its index says {}", document.media_type, entry.media_type)
    })?;
    Ok(document)
}

/// Builders put these beside images.
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
    let config = checks.of("config", config_of(place, manifest))?;
    if let Some(config) = &config {
        checks.of("platform", self::platform(config, platform))?;
        let (told, layers) = (config.rootfs.diff_ids.len(), manifest.layers.len());
        checks.of(
            "a diff-id for each layer",
            expect(told == layers, || {
                format!("there are {layers} layers, and the config tells {told} diff-ids")
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
        format!("it is a {told}, not the config of an image with a root file system")
    })?;
    Config::read(place, manifest)
}

fn platform(config: &Config, said: Option<&Platform>) -> Result<()> {
    expect(config.os == "linux", || {
        format!("the config's os is {:?}; a disk comes as a Linux image, whatever system is on it", config.os)
    })?;
    expect(!config.architecture.is_empty(), || "the config tells no architecture".to_owned())?;
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
            "the config says {ours}, and its index {}",
            name(&said.architecture.to_string(), &said.variant)
        )
    })
}
