//! Helpers of the tests: settings, images in memory, and functions to read and write them.

use container_disk::manifest::{
    Content, Descriptor, Document, IMAGE_CONFIG_MEDIA_TYPE, IMAGE_LAYER_MEDIA_TYPE,
    OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE,
};
use container_disk::place::{Place, Reference, Sink};
use container_disk::reference::Remote;
use container_disk::registry::config::SettingsPaths;
use container_disk::registry::{Config, Registries, Registry};
use container_disk::{Digest, Error, Result};
use serde_json::{Value, json};
use std::io::Read;
use tests::http::pattern;

/// Size of a blob that is larger than a small one, with a few pieces.
pub(crate) const LARGE: usize = 9 << 20;

/// Settings from the text of a `registries.toml`, and from no other file.
pub(crate) fn registries(toml: &str) -> Registries {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("registries.toml");
    std::fs::write(&file, toml).unwrap();
    Registries::new(Config::read(&SettingsPaths::default(), Some(&file)).unwrap())
}

/// Settings for `os.example` with these registries, in this order.
pub(crate) fn mirrored(addresses: &[String], more: &str) -> Registries {
    let mut toml = format!("[host.\"os.example\"]\nfallback = false\n{more}\n");
    for address in addresses {
        toml += &format!("[[host.\"os.example\".mirror]]\nhost = \"{address}\"\n");
        toml += if address.starts_with("localhost") { "" } else { "plain-http = true\n" };
    }
    registries(&toml)
}

/// A repository of a registry, by its usual settings.
pub(crate) fn open(address: &str, repository: &str) -> Registry {
    let name = Remote::parse(&format!("{address}/{repository}")).unwrap();
    registries("").open(&name).unwrap()
}

/// The repository `os.example/r` with its mirrors.
pub(crate) fn example(registries: &Registries) -> Registry {
    registries.open(&Remote::parse("os.example/r").unwrap()).unwrap()
}

/// An image in memory.
pub(crate) struct Image {
    pub(crate) config: Vec<u8>,
    pub(crate) layer: Vec<u8>,
    pub(crate) manifest: Document,
}

impl Image {
    /// An image with one layer of `size` bytes. Another `seed` makes another image.
    pub(crate) fn new(size: usize, seed: u8) -> Image {
        let mut layer = pattern(size);
        layer.iter_mut().for_each(|byte| *byte ^= seed);
        let config = json!({ "architecture": "amd64", "os": "linux", "seed": seed }).to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_IMAGE_MEDIA_TYPE,
            "config": part(IMAGE_CONFIG_MEDIA_TYPE, &config),
            "layers": [part(IMAGE_LAYER_MEDIA_TYPE, &layer)],
        });
        let manifest =
            Document::parse("the test's manifest", manifest.to_string().into_bytes(), None).unwrap();
        Image { config, layer, manifest }
    }

    pub(crate) fn config_part(&self) -> Descriptor {
        descriptor(IMAGE_CONFIG_MEDIA_TYPE, &self.config)
    }

    pub(crate) fn layer_part(&self) -> Descriptor {
        descriptor(IMAGE_LAYER_MEDIA_TYPE, &self.layer)
    }

    /// Writes all of it.
    pub(crate) fn push(&self, to: &dyn Sink, tag: &str) -> Result<()> {
        for (part, bytes) in [(self.config_part(), &self.config), (self.layer_part(), &self.layer)] {
            send(to, Some(&part), bytes)?;
        }
        to.put(&self.manifest, Some(tag))
    }
}

/// An index of images for these architectures.
pub(crate) fn index(images: &[(&str, &Image)]) -> Document {
    let entries: Vec<Value> = images
        .iter()
        .map(|(arch, image)| {
            let mut entry = part(OCI_IMAGE_MEDIA_TYPE, &image.manifest.bytes);
            entry["platform"] = json!({ "architecture": arch, "os": "linux" });
            entry
        })
        .collect();
    let index = json!({ "schemaVersion": 2, "mediaType": OCI_IMAGE_INDEX_MEDIA_TYPE, "manifests": entries });
    let index = Document::parse("the test's index", index.to_string().into_bytes(), None).unwrap();
    assert!(matches!(index.content, Content::Index(_)));
    index
}

pub(crate) fn part(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": Digest::of(bytes).to_string(), "size": bytes.len() })
}

pub(crate) fn descriptor(media_type: &str, bytes: &[u8]) -> Descriptor {
    serde_json::from_value(part(media_type, bytes)).unwrap()
}

/// Writes one blob.
pub(crate) fn send(to: &dyn Sink, promised: Option<&Descriptor>, bytes: &[u8]) -> Result<(Digest, u64)> {
    let mut writer = to.begin(promised)?;
    for piece in bytes.chunks(100_000) {
        writer.write_all(piece).map_err(|e| Error::io("writing", e))?;
    }
    writer.finish()
}

/// Reads one blob, from a byte on.
pub(crate) fn fetch_from(from: &dyn Place, part: &Descriptor, at: u64) -> Result<Vec<u8>> {
    let mut out = vec![];
    let mut stream = from.blob(part)?.stream(at)?;
    stream.read_to_end(&mut out).map_err(|e| Error::io("reading", e))?;
    Ok(out)
}

/// Reads one blob.
pub(crate) fn fetch(from: &dyn Place, part: &Descriptor) -> Result<Vec<u8>> {
    fetch_from(from, part, 0)
}

pub(crate) fn tag(tag: &str) -> Reference {
    Reference::Tag(tag.to_owned())
}

/// Compares without printing megabytes.
#[track_caller]
pub(crate) fn same(found: &[u8], wanted: &[u8]) {
    assert_eq!(found.len(), wanted.len());
    let differs = found.iter().zip(wanted).position(|(a, b)| a != b);
    assert_eq!(differs, None, "the first byte that differs");
}
