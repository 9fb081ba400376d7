//! Writer for `docker-archive:FILE`: `manifest.json`, configs and uncompressed layers, as `docker load` and
//! other readers of such files expect. Compressed layers are decompressed while they are written.

use super::docker::{Item, MANIFEST};
use super::growing::{Growing, Growth};
use crate::background_hash::BackgroundHash;
use crate::digest::Hasher;
use crate::expected_blob::ExpectedBlob;
use crate::image::Config;
use crate::manifest::{self, Content, Descriptor, Document, Manifest};
use crate::pack::Compression;
use crate::place::{BlobWriter, Sink};
use crate::tar::{BLOCK, begins_as_tar};
use crate::units::WINDOW_LOG;
use crate::{Digest, Error, Result, layer_decoder};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum size of all configs together. The archive keeps them in memory.
const CONFIGS_MAX: u64 = 32 << 20;

/// A new archive in the format of `docker load`. `close` replaces an older file of the same name.
pub struct DockerArchiveSink {
    name: String,
    file: Growing,
    /// Maximum bytes that a layer may decompress to.
    limit: u64,
    state: Mutex<SinkState>,
}

#[derive(Default)]
struct SinkState {
    /// Blobs by the digest under which they were added.
    blobs: BTreeMap<Digest, Stored>,
    /// Names of the members in the archive.
    names: BTreeSet<String>,
    /// Bytes of all configs.
    configs: u64,
    items: Vec<Item>,
}

#[derive(Clone)]
struct Stored {
    /// Size of the blob as it was added, before decompression.
    size: u64,
    name: String,
    content: StoredContent,
}

#[derive(Clone)]
enum StoredContent {
    /// The bytes, shared by their readers.
    Config(Arc<[u8]>),
    /// Digest of the uncompressed layer.
    Layer(Digest),
}

impl DockerArchiveSink {
    /// Creates `FILE.partial`. `close` renames it to `FILE`.
    pub fn create(file: &Path) -> Result<DockerArchiveSink> {
        DockerArchiveSink::limited(file, crate::locate::Options::default().limit)
    }

    /// A sink that decompresses no layer to more than `limit` bytes.
    pub(super) fn limited(file: &Path, limit: u64) -> Result<DockerArchiveSink> {
        let name = format!("docker-archive:{}", file.display());
        Ok(DockerArchiveSink { name, file: Growing::create(file)?, limit, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, SinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn item(&self, manifest: &Manifest) -> Result<Item> {
        let state = self.state();
        let find = |d: &Descriptor| -> Result<Stored> {
            let stored = state.blobs.get(&d.digest.parse()?).cloned();
            stored.ok_or_else(|| {
                Error::failed(format!(
                    "the image needs the blob {}, but {} does not contain it",
                    d.digest, self.name
                ))
            })
        };
        let stored = find(&manifest.config)?;
        let StoredContent::Config(config) = stored.content else {
            return Err(Error::refused(format!(
                "the blob {} is the config of the image, but holds a layer",
                manifest.config.digest
            )));
        };
        let config = Config::parse(&format!("the config {}", manifest.config.digest), &config)?;
        let mut layers = vec![];
        for (at, d) in manifest.layers.iter().enumerate() {
            let layer = find(d)?;
            let StoredContent::Layer(diff_id) = layer.content else {
                return Err(Error::refused(format!(
                    "layer {} is not a tar; an image has no other layers",
                    at + 1
                )));
            };
            if config.diff_id(at)? != diff_id {
                let what = format!(
                    "layer {} has the diff-id {diff_id}, but the config of the image lists another one",
                    at + 1
                );
                return Err(Error::refused(what));
            }
            layers.push(layer.name);
        }
        Ok(Item { config: stored.name, repo_tags: None, layers: Some(layers) })
    }
}

impl Sink for DockerArchiveSink {
    fn has(&self, descriptor: &Descriptor) -> Result<bool> {
        let size = manifest::size(&self.name, descriptor.size)?;
        Ok(self.state().blobs.get(&descriptor.digest.parse()?).is_some_and(|stored| stored.size == size))
    }

    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
        let promised = promised.map(|d| ExpectedBlob::from_descriptor(&self.name, d)).transpose()?;
        Ok(Box::new(Blob {
            sink: self,
            size: 0,
            hash: BackgroundHash::new(ExpectedBlob::hasher(promised.as_ref())),
            promised,
            head: vec![],
            body: Body::Undecided,
        }))
    }

    /// Adds the image. `tag` is `NAME:TAG`, or `TAG` alone, which takes the image name from the file name.
    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()> {
        let Content::Manifest(manifest) = &document.content else {
            let what = format!("{} cannot hold several architectures; choose one by --arch", self.name);
            return Err(Error::usage(what));
        };
        let item = self.item(manifest)?;
        let mut state = self.state();
        let at = state.items.iter().position(|other| other.is_same(&item));
        let at = at.unwrap_or_else(|| {
            state.items.push(item);
            state.items.len() - 1
        });
        if let Some(tag) = tag {
            let tag = full_name(&self.name, tag);
            for item in &mut state.items {
                item.repo_tags.iter_mut().for_each(|tags| tags.retain(|other| *other != tag));
            }
            state.items[at].repo_tags.get_or_insert_default().push(tag);
        }
        Ok(())
    }

    fn close(&self) -> Result<()> {
        let list = serde_json::to_vec(&self.state().items).expect("text keys and values can be written");
        self.file.close(&[(MANIFEST, &list)])
    }
}

/// The tag with an image name. `docker load` ignores tags without one.
fn full_name(archive: &str, tag: &str) -> String {
    if tag.contains(':') {
        return tag.to_owned();
    }
    let file = archive.rsplit(['/', ':']).next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let stem: String = stem.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let stem = stem.trim_matches('-');
    format!("localhost/{}:{tag}", if stem.is_empty() { "image" } else { stem })
}

/// A blob that is being written. Its first bytes tell whether it is a layer or a config.
struct Blob<'a> {
    sink: &'a DockerArchiveSink,
    promised: Option<ExpectedBlob>,
    size: u64,
    /// Hash of the blob as it was added.
    hash: BackgroundHash,
    head: Vec<u8>,
    body: Body<'a>,
}

enum Body<'a> {
    Undecided,
    /// Kept in memory, limited to the size of documents.
    Config(Vec<u8>),
    Plain(Box<Layer<'a>>),
    Gzip(Box<flate2::write::MultiGzDecoder<Layer<'a>>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Layer<'a>>>),
}

impl<'a> Blob<'a> {
    fn decide(&mut self) -> Result<()> {
        let head = std::mem::take(&mut self.head);
        let is_tar = begins_as_tar(&head);
        let compression = if is_tar { None } else { layer_decoder::from_head("the blob", &head).ok() };
        let layer = || -> Result<Layer<'a>> {
            let limit = if is_tar { u64::MAX } else { self.sink.limit };
            let name = layer_name(&Digest::of(&[]));
            Ok(Layer {
                growth: self.sink.file.begin(&name)?,
                hash: BackgroundHash::new(Hasher::new()),
                limit,
            })
        };
        self.body = match compression {
            _ if is_tar => Body::Plain(Box::new(layer()?)),
            Some(Compression::Gzip) => Body::Gzip(Box::new(flate2::write::MultiGzDecoder::new(layer()?))),
            Some(Compression::Zstd) => {
                let cannot = |e| Error::io("cannot start the zstd decoder", e);
                let mut decoder = zstd::stream::write::Decoder::new(layer()?).map_err(cannot)?;
                decoder.window_log_max(WINDOW_LOG).map_err(cannot)?;
                Body::Zstd(Box::new(decoder))
            }
            _ => Body::Config(vec![]),
        };
        self.pass(&head)
    }

    fn pass(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match &mut self.body {
            Body::Undecided => return Ok(()),
            Body::Config(config) => {
                if (config.len() + bytes.len()) as u64 > manifest::DOCUMENT_MAX {
                    return Err(Error::refused("a blob is neither a layer nor a config"));
                }
                config.extend_from_slice(bytes);
                return Ok(());
            }
            Body::Plain(layer) => layer.write_all(bytes),
            Body::Gzip(decoder) => decoder.write_all(bytes),
            Body::Zstd(decoder) => decoder.write_all(bytes),
        };
        written.map_err(broken)
    }
}

impl Write for Blob<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.size = self.size.saturating_add(bytes.len() as u64);
        if let Some(promised) = &self.promised {
            promised.allow(self.size)?;
        }
        self.hash.update(bytes)?;
        if let Body::Undecided = self.body {
            self.head.extend_from_slice(bytes);
            if self.head.len() >= BLOCK {
                self.decide()?;
            }
        } else {
            self.pass(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BlobWriter for Blob<'_> {
    fn digest(&mut self) -> Result<Digest> {
        self.hash.digest()
    }

    fn finish(mut self: Box<Self>) -> Result<(Digest, u64)> {
        if let Body::Undecided = self.body {
            self.decide()?;
        }
        let Blob { sink, promised, size, hash, body, .. } = *self;
        let digest = hash.finish()?;
        if let Some(promised) = &promised {
            promised.check(&digest, size)?;
        }
        let layer = match body {
            Body::Undecided => return Ok((digest, size)),
            Body::Config(config) => {
                sink.reserve_config(config.len() as u64)?;
                // Also of a config by SHA-512, as this archive names its image.
                let name = format!("{}.json", Digest::of(&config).hex());
                if sink.is_new(&name) {
                    sink.file.add(&name, &config)?;
                }
                let stored = Stored { size, name, content: StoredContent::Config(config.into()) };
                sink.state().blobs.insert(digest, stored);
                return Ok((digest, size));
            }
            Body::Plain(layer) => *layer,
            Body::Gzip(decoder) => decoder.finish().map_err(broken)?,
            Body::Zstd(mut decoder) => {
                decoder.flush().map_err(broken)?;
                decoder.into_inner()
            }
        };
        let diff_id = layer.hash.finish()?;
        let name = layer_name(&diff_id);
        if sink.is_new(&name) {
            layer.growth.finish(&name, diff_id)?;
        }
        sink.state().blobs.insert(digest, Stored { size, name, content: StoredContent::Layer(diff_id) });
        Ok((digest, size))
    }
}

/// Name of a layer's member in the archive.
fn layer_name(diff_id: &Digest) -> String {
    format!("{}.tar", diff_id.hex())
}

impl DockerArchiveSink {
    /// Records the member name. True if the archive did not have it before.
    fn is_new(&self, name: &str) -> bool {
        self.state().names.insert(name.to_owned())
    }

    /// Counts a config that will be kept.
    fn reserve_config(&self, size: u64) -> Result<()> {
        let mut state = self.state();
        state.configs = state.configs.saturating_add(size);
        if state.configs <= CONFIGS_MAX {
            return Ok(());
        }
        Err(Error::refused(format!(
            "the image has more than {} MiB of blobs that are neither layers nor its config",
            CONFIGS_MAX >> 20
        )))
    }
}

/// A layer's uncompressed tar, on its way into the archive.
struct Layer<'a> {
    growth: Growth<'a>,
    hash: BackgroundHash,
    /// Maximum size of the tar.
    limit: u64,
}

impl Write for Layer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.growth.size().saturating_add(bytes.len() as u64) > self.limit {
            let what = format!("a layer decompresses to more than the allowed {} bytes", self.limit);
            return Err(Error::refused(what).into());
        }
        self.growth.write(bytes)?;
        self.hash.update(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn broken(e: io::Error) -> Error {
    match e.downcast::<Error>() {
        Ok(ours) => ours,
        Err(e) => Error::refused("a compressed layer is broken or cut short").because(e),
    }
}
