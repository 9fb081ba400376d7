//! Reader for `docker-archive:FILE`. Such an archive has no OCI manifest. This module makes one from
//! `manifest.json`, the config and the layers, so that all other code sees an image like any other.
//!
//! The digest of an uncompressed layer is its diff-id, which the config lists and every reader verifies. A
//! compressed layer (some tools write them) is read once to compute its digest.

use super::contents::Contents;
use crate::background_hash::BackgroundHash;
use crate::digest::Hasher;
use crate::image::Config;
use crate::layout::blobs::OpenBlob;
use crate::manifest::{
    self, Descriptor, Document, IMAGE_CONFIG_MEDIA_TYPE, Manifest, OCI_IMAGE_MEDIA_TYPE, descriptor,
};
use crate::pack::Compression;
use crate::place::{Blob, Place, Reference};
use crate::section::Cursor;
use crate::tar::{BLOCK, quoted};
use crate::{Digest, Error, ErrorKind, Result, layer_decoder};
use disk_format::ReadAt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The archive's list of images.
pub(super) const MANIFEST: &str = "manifest.json";

/// An image in `manifest.json`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Item {
    pub(super) config: String,
    #[serde(default)]
    pub(super) repo_tags: Option<Vec<String>>,
    #[serde(default)]
    pub(super) layers: Option<Vec<String>>,
}

impl Item {
    fn tags(&self) -> &[String] {
        self.repo_tags.as_deref().unwrap_or_default()
    }

    fn has_tag(&self, tag: &str) -> bool {
        let is = |own: &str| short(own) == short(tag) || own.rsplit_once(':').is_some_and(|own| own.1 == tag);
        self.tags().iter().any(|own| is(own))
    }

    /// True for the same files: the same image under another name.
    pub(super) fn is_same(&self, other: &Item) -> bool {
        self.config == other.config && self.layers == other.layers
    }
}

/// Maximum number of images in an archive.
const IMAGES_MAX: usize = 256;

/// An open archive in the format of `docker save`. An image's config and layers are not read before the image
/// is asked for.
pub struct DockerArchive {
    contents: Contents,
    items: Vec<Item>,
    read: Mutex<ReadImages>,
}

/// The images that were asked for.
#[derive(Default)]
struct ReadImages {
    /// By their place in `manifest.json`.
    documents: BTreeMap<usize, Document>,
    blobs: Blobs,
}

type Blobs = BTreeMap<Digest, Arc<dyn ReadAt>>;

impl DockerArchive {
    /// Opens the archive and reads its member headers and `manifest.json`.
    pub fn open(path: &Path) -> Result<DockerArchive> {
        DockerArchive::from_contents(Contents::open("docker-archive", path)?)
    }

    pub(super) fn from_contents(contents: Contents) -> Result<DockerArchive> {
        let name = &contents.name;
        let list = contents.document(MANIFEST).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                Error::refused(format!("{name} is not a docker archive: it has no {MANIFEST}")).because(e)
            }
            _ => e,
        })?;
        let items: Vec<Item> = serde_json::from_slice(&list)
            .map_err(|e| Error::refused(format!("{MANIFEST} of {name} cannot be read")).because(e))?;
        if items.len() > IMAGES_MAX {
            let what = format!("{name} lists {} images; at most {IMAGES_MAX} are allowed", items.len());
            return Err(Error::refused(what));
        }
        Ok(DockerArchive { contents, items, read: Mutex::default() })
    }

    /// The reference for a tag that the user gave (`NAME:TAG`, or `TAG` alone). Without a tag the archive
    /// must hold exactly one image.
    pub fn reference(&self, tag: Option<&str>) -> Result<Reference> {
        match (tag, self.items.len()) {
            (Some(tag), _) => Ok(Reference::Tag(tag.to_owned())),
            (None, 1) => Ok(Reference::Digest(self.image(0)?.digest)),
            (None, 0) => Err(Error::new(ErrorKind::NotFound, format!("{} holds no image", self.name()))),
            (None, _) => Err(Error::usage(format!(
                "{} holds several images; choose one of the tags: {}",
                self.name(),
                self.tag_list()
            ))),
        }
    }

    /// The manifest of the image at a place in `manifest.json`.
    fn image(&self, at: usize) -> Result<Document> {
        let mut read = self.read_images();
        if let Some(document) = read.documents.get(&at) {
            return Ok(document.clone());
        }
        let document = self.read_image(&self.items[at], &mut read.blobs)?;
        read.documents.insert(at, document.clone());
        Ok(document)
    }

    fn read_image(&self, item: &Item, blobs: &mut Blobs) -> Result<Document> {
        let files = item.layers.as_deref().unwrap_or_default();
        manifest::few_layers(self.name(), files.len())?;
        let bytes = self.contents.document(&item.config)?;
        let config = Config::parse(&format!("{} of {}", quoted(&item.config), self.name()), &bytes)?;
        if files.len() != config.rootfs.diff_ids.len() {
            let what = format!(
                "{} lists {} layers, but their config has {} diff-ids",
                self.name(),
                files.len(),
                config.rootfs.diff_ids.len()
            );
            return Err(Error::refused(what));
        }
        let mut layers = vec![];
        for (at, file) in files.iter().enumerate() {
            layers.push(self.layer(file, config.diff_id(at)?, blobs)?);
        }
        let digest = Digest::of(&bytes);
        let manifest = Manifest {
            media_type: Some(OCI_IMAGE_MEDIA_TYPE.to_owned()),
            config: descriptor(IMAGE_CONFIG_MEDIA_TYPE, &digest, bytes.len() as u64)?,
            layers,
            ..Manifest::default()
        };
        if let Some(file) = self.contents.file(&item.config)? {
            blobs.insert(digest, file);
        }
        let text = serde_json::to_vec(&manifest).expect("text keys and values can be written");
        Document::parse(&format!("the manifest of {}", self.name()), text, None)
    }

    fn layer(&self, file: &str, diff_id: Digest, blobs: &mut Blobs) -> Result<Descriptor> {
        let name = format!("layer {} of {}", quoted(file), self.name());
        let Some(bytes) = self.contents.file(file)? else {
            return Err(Error::refused(format!(
                "{} lists the layer {}, but does not contain it",
                self.name(),
                quoted(file)
            )));
        };
        let cannot = |e| Error::io(format!("cannot read {name}"), e);
        let mut head = vec![0; bytes.size().min(BLOCK as u64) as usize];
        bytes.read_exact_at(&mut head, 0).map_err(cannot)?;
        let compression = layer_decoder::from_head(&name, &head)?;
        let digest = match compression {
            Compression::None => diff_id,
            _ => {
                let mut hash = BackgroundHash::new(Hasher::new());
                let mut cursor = Cursor::new(Arc::clone(&bytes), 0);
                let mut piece = vec![0; 256 << 10];
                loop {
                    match cursor.read(&mut piece).map_err(cannot)? {
                        0 => break hash.finish()?,
                        n => hash.update(&piece[..n])?,
                    }
                }
            }
        };
        let size = bytes.size();
        blobs.insert(digest, bytes);
        descriptor(compression.media_type(), &digest, size)
    }

    fn tag_list(&self) -> String {
        let tags: Vec<&str> = self.items.iter().flat_map(Item::tags).map(String::as_str).take(8).collect();
        if tags.is_empty() { "no names".to_owned() } else { tags.join(", ") }
    }

    fn read_images(&self) -> MutexGuard<'_, ReadImages> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn not_found(&self) -> Error {
        let what = format!("{} has no such image; it has {}", self.name(), self.tag_list());
        Error::new(ErrorKind::NotFound, what)
    }

    fn by_tag(&self, tag: &str) -> Result<Document> {
        let mut found = (0..self.items.len()).filter(|&at| self.items[at].has_tag(tag));
        let Some(at) = found.next() else { return Err(self.not_found()) };
        if found.any(|other| !self.items[other].is_same(&self.items[at])) {
            let what = format!("{} has several such images: {}", self.name(), self.tag_list());
            return Err(Error::usage(what));
        }
        self.image(at)
    }

    fn by_digest(&self, digest: &Digest) -> Result<Document> {
        let known = self.read_images().documents.values().find(|known| known.digest == *digest).cloned();
        if let Some(document) = known {
            return Ok(document);
        }
        let mut failed = None;
        for at in 0..self.items.len() {
            match self.image(at) {
                Ok(document) if document.digest == *digest => return Ok(document),
                Ok(_) => {}
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        Err(failed.unwrap_or_else(|| self.not_found()))
    }
}

/// Image name without the default host. Tools prepend `docker.io/library/` or `localhost/`.
fn short(name: &str) -> &str {
    match name.strip_prefix("docker.io/") {
        Some(name) => name.strip_prefix("library/").unwrap_or(name),
        None => name.strip_prefix("localhost/").unwrap_or(name),
    }
}

impl Place for DockerArchive {
    fn name(&self) -> &str {
        &self.contents.name
    }

    fn document(&self, reference: &Reference) -> Result<Document> {
        match reference {
            Reference::Digest(digest) => self.by_digest(digest),
            Reference::Tag(tag) => self.by_tag(tag),
        }
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
        let digest: Digest = descriptor.digest.parse()?;
        let Some(bytes) = self.read_images().blobs.get(&digest).map(Arc::clone) else {
            return Err(Error::new(ErrorKind::NotFound, format!("{} has no blob {digest}", self.name())));
        };
        let name = format!("the blob {digest} of {}", self.name());
        if bytes.size() != manifest::size(&name, descriptor.size)? {
            return Err(Error::refused(format!(
                "{name} has {} bytes, not {}",
                bytes.size(),
                descriptor.size
            )));
        }
        Ok(Arc::new(OpenBlob { name, digest, bytes }))
    }
}
