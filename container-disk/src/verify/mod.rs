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
//! not be read at all (a broken connection, a full disk) is the error of the whole, never a failed check.

mod disk;
mod format;
mod layer;
#[cfg(test)]
mod tests;

use crate::image::Config;
use crate::locate::Image;
use crate::locate::scan::Interest;
use crate::manifest::{self, Content, Document, Index, Manifest, Platform};
use crate::place::{Place, Which};
use crate::{Digest, Error, Kind, Result};
use layer::Layer;

/// One claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// "amd64: layer 1: size and digest".
    pub name: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is true.
    Passed,
    /// It is not, because.
    Failed(String),
    /// Nobody knows, because.
    NotChecked(String),
}

/// What to verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the disk is, where the rules would not find it.
    pub path: Option<String>,
    /// Bytes that a layer may unpack to.
    pub limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        let crate::locate::Options { path, limit, .. } = crate::locate::Options::default();
        Options { path, limit }
    }
}

/// Verifies what a name leads to: an image, or all images of an index. The checks come in the order they were made.
pub fn verify(place: &dyn Place, which: &Which, options: &Options) -> Result<Vec<Check>> {
    let mut checks = Checks { prefix: String::new(), list: vec![] };
    let document = checks.of("the manifest can be read", place.document(which))?;
    if let Some(document) = document {
        checks.of("digest of the manifest", document_digest(&document, which))?;
        document_below(place, &document, options, &mut checks, DEPTH, None)?;
    }
    Ok(checks.list)
}

/// How deep an index may lie in another.
const DEPTH: usize = 4;

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
            checks.failed("depth of indexes", format!("an index lies more than {DEPTH} deep"));
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
    for entry in &index.manifests {
        let outer = checks.prefix.clone();
        let platform = entry.platform.as_ref();
        let name = platform.map_or_else(|| entry.digest.clone(), |p| p.architecture.to_string());
        checks.prefix = format!("{outer}{name}: ");
        let which = Which::Digest(entry.digest.parse()?);
        if let Some(document) = checks.of("the manifest can be read", place.document(&which))? {
            let same = document_digest(&document, &which).and_then(|()| {
                let size = manifest::size(place.name(), entry.size)?;
                expect(document.bytes.len() as u64 == size, || {
                    format!("it has {} bytes, and its index says {size}", document.bytes.len())
                })?;
                expect(document.media_type == entry.media_type, || {
                    format!("it is a {}, and its index says {}", document.media_type, entry.media_type)
                })
            });
            checks.of("size, digest and media type of the manifest", same)?;
            document_below(place, &document, options, checks, depth - 1, platform)?;
        }
        checks.prefix = outer;
    }
    Ok(())
}

fn image(
    place: &dyn Place,
    manifest: &Manifest,
    options: &Options,
    checks: &mut Checks,
    platform: Option<&Platform>,
) -> Result<()> {
    let config = checks.of("size and digest of the config", Config::read(place, manifest))?;
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
    let interest = Interest::new(options.path.as_deref())?;
    let mut image = Image { name: place.name().to_owned(), interest, layers: vec![] };
    let mut formats = vec![];
    for (at, descriptor) in manifest.layers.iter().enumerate() {
        let diff_id = config.as_ref().map(|config| config.diff_id(at));
        let layer = Layer { place, at, descriptor, limit: options.limit };
        match layer.check(&image.interest, diff_id, checks)? {
            Some((changes, found)) => {
                image.layers.push(Some(changes));
                formats.extend(found);
            }
            None => image.layers.push(None),
        }
    }
    disk::check(&image, config.as_ref(), &formats, checks)
}

fn platform(config: &Config, said: Option<&Platform>) -> Result<()> {
    expect(config.os == "linux", || {
        format!("the config's os is {:?}; a disk comes as a Linux image, whatever system is on it", config.os)
    })?;
    expect(!config.architecture.is_empty(), || "the config tells no architecture".to_owned())?;
    let Some(said) = said else { return Ok(()) };
    expect(said.architecture.to_string() == config.architecture, || {
        format!("the config says {}, and its index {}", config.architecture, said.architecture)
    })
}

fn document_digest(document: &Document, which: &Which) -> Result<()> {
    let Which::Digest(promised) = which else { return Ok(()) };
    let mut hash = crate::digest::Hasher::like(promised);
    hash.update(&document.bytes);
    let actual: Digest = hash.finish();
    expect(actual == *promised, || format!("its bytes have the digest {actual}, not {promised}"))
}

/// A claim that can be told by looking.
fn expect(is_true: bool, why: impl FnOnce() -> String) -> Result<()> {
    if is_true { Ok(()) } else { Err(Error::refused(why())) }
}

/// The checks so far.
struct Checks {
    prefix: String,
    list: Vec<Check>,
}

impl Checks {
    /// One more. The value is there if it passed; an error that is not the image's fault ends all.
    fn of<T>(&mut self, name: &str, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => {
                self.add(name, Outcome::Passed);
                Ok(Some(value))
            }
            Err(e) if matches!(e.kind(), Kind::Refused | Kind::NotFound) => {
                self.failed(name, reason(&e));
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn failed(&mut self, name: &str, why: String) {
        self.add(name, Outcome::Failed(why));
    }

    fn add(&mut self, name: &str, outcome: Outcome) {
        self.list.push(Check { name: format!("{}{name}", self.prefix), outcome });
    }
}

/// An error with its causes, in one line.
fn reason(e: &Error) -> String {
    let mut text = e.to_string();
    let mut cause = std::error::Error::source(e);
    while let Some(e) = cause {
        text.push_str(&format!(": {e}"));
        cause = e.source();
    }
    text
}
