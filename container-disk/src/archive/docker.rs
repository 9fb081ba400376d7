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
use std::sync::Arc;

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

/// An open archive in the format of `docker save`.
pub struct DockerArchive {
    name: String,
    images: Vec<Image>,
    blobs: BTreeMap<Digest, Arc<dyn ReadAt>>,
}

struct Image {
    tags: Vec<String>,
    document: Document,
}

impl DockerArchive {
    /// Opens the archive and reads its member headers, `manifest.json` and the configs.
    pub fn open(path: &Path) -> Result<DockerArchive> {
        DockerArchive::from_contents(&Contents::open("docker-archive", path)?)
    }

    pub(super) fn from_contents(contents: &Contents) -> Result<DockerArchive> {
        let name = contents.name.clone();
        let list = contents.document(MANIFEST).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                Error::refused(format!("{name} is not a docker archive: it has no {MANIFEST}")).because(e)
            }
            _ => e,
        })?;
        let items: Vec<Item> = serde_json::from_slice(&list)
            .map_err(|e| Error::refused(format!("{MANIFEST} of {name} cannot be read")).because(e))?;
        let mut archive = DockerArchive { name, images: vec![], blobs: BTreeMap::new() };
        for item in items {
            let document = archive.image(contents, &item)?;
            archive.images.push(Image { tags: item.repo_tags.unwrap_or_default(), document });
        }
        Ok(archive)
    }

    /// The reference for a tag that the user gave (`NAME:TAG`, or `TAG` alone). Without a tag the archive
    /// must hold exactly one image.
    pub fn reference(&self, tag: Option<&str>) -> Result<Reference> {
        match (tag, self.images.as_slice()) {
            (Some(tag), _) => Ok(Reference::Tag(tag.to_owned())),
            (None, [one]) => Ok(Reference::Digest(one.document.digest)),
            (None, []) => Err(Error::new(ErrorKind::NotFound, format!("{} holds no image", self.name))),
            (None, _) => Err(Error::usage(format!(
                "{} holds several images; choose one of the tags: {}",
                self.name,
                self.tag_list()
            ))),
        }
    }

    fn image(&mut self, contents: &Contents, item: &Item) -> Result<Document> {
        let bytes = contents.document(&item.config)?;
        let config = Config::parse(&format!("{} of {}", quoted(&item.config), self.name), &bytes)?;
        let files = item.layers.as_deref().unwrap_or_default();
        if files.len() != config.rootfs.diff_ids.len() {
            let what = format!(
                "{} lists {} layers, but their config has {} diff-ids",
                self.name,
                files.len(),
                config.rootfs.diff_ids.len()
            );
            return Err(Error::refused(what));
        }
        let mut layers = vec![];
        for (at, file) in files.iter().enumerate() {
            layers.push(self.layer(contents, file, config.diff_id(at)?)?);
        }
        let digest = Digest::of(&bytes);
        let manifest = Manifest {
            media_type: Some(OCI_IMAGE_MEDIA_TYPE.to_owned()),
            config: descriptor(IMAGE_CONFIG_MEDIA_TYPE, &digest, bytes.len() as u64)?,
            layers,
            ..Manifest::default()
        };
        self.blobs.insert(digest, Arc::new(bytes));
        let text = serde_json::to_vec(&manifest).expect("text keys and values can be written");
        Document::parse(&format!("the manifest of {}", self.name), text, None)
    }

    fn layer(&mut self, contents: &Contents, file: &str, diff_id: Digest) -> Result<Descriptor> {
        let name = format!("layer {} of {}", quoted(file), self.name);
        let Some(bytes) = contents.file(file)? else {
            return Err(Error::refused(format!(
                "{} lists the layer {}, but does not contain it",
                self.name,
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
        self.blobs.insert(digest, bytes);
        descriptor(compression.media_type(), &digest, size)
    }

    fn tag_list(&self) -> String {
        let tags: Vec<&str> = self.images.iter().flat_map(|i| &i.tags).map(String::as_str).take(8).collect();
        if tags.is_empty() { "no names".to_owned() } else { tags.join(", ") }
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
        &self.name
    }

    fn document(&self, reference: &Reference) -> Result<Document> {
        let fits = |image: &&Image| match reference {
            Reference::Digest(digest) => image.document.digest == *digest,
            Reference::Tag(tag) => image
                .tags
                .iter()
                .any(|t| short(t) == short(tag) || t.rsplit_once(':').is_some_and(|t| t.1 == tag)),
        };
        let mut found = self.images.iter().filter(fits);
        let Some(image) = found.next() else {
            let what = format!("{} has no such image; it has {}", self.name, self.tag_list());
            return Err(Error::new(ErrorKind::NotFound, what));
        };
        if found.any(|other| other.document.digest != image.document.digest) {
            return Err(Error::usage(format!("{} has several such images: {}", self.name, self.tag_list())));
        }
        Ok(image.document.clone())
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
        let digest: Digest = descriptor.digest.parse()?;
        let Some(bytes) = self.blobs.get(&digest) else {
            return Err(Error::new(ErrorKind::NotFound, format!("{} has no blob {digest}", self.name)));
        };
        let name = format!("the blob {digest} of {}", self.name);
        if bytes.size() != manifest::size(&name, descriptor.size)? {
            return Err(Error::refused(format!(
                "{name} has {} bytes, not {}",
                bytes.size(),
                descriptor.size
            )));
        }
        Ok(Arc::new(OpenBlob { name, digest, bytes: Arc::clone(bytes) }))
    }
}
