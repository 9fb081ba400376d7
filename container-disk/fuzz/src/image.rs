//! Invariants of any layers of an image.

use container_disk::image::{self, Recipe};
use container_disk::locate::{self, Options};
use container_disk::manifest::{Content, Descriptor, Document};
use container_disk::pack::{Compression, Layer};
use container_disk::place::{Blob, Place, Reference};
use container_disk::verify::{self, verify};
use container_disk::{Digest, Error, Result};
use disk_format::ReadAt;
use std::io::{Cursor, Read};
use std::sync::Arc;

/// Limit of bytes that a layer may decompress to.
const LIMIT: u64 = 4 << 20;

/// Input of the target: a byte of options, two bytes for the end of the first layer, then one or two layers.
pub(crate) fn image(input: &[u8]) {
    let Some((&[options, cut @ ..], input)) = input.split_first_chunk::<3>() else { return };
    let mut input = input.to_vec();
    if options & 1 == 0 {
        input.chunks_exact_mut(512).for_each(repair);
    }
    let cut = usize::from(u16::from_be_bytes(cut)) * 512;
    let mut layers = vec![input];
    if options & 2 != 0 && cut < layers[0].len() {
        let second = layers[0].split_off(cut);
        layers.push(second);
    }
    let path = (options & 4 != 0).then(|| "/disk/disk.img".to_owned());
    let found: Vec<_> = [(false, false), (false, true), (true, false), (true, true)]
        .map(|(seeks, one_pass)| read(&Memory::new(&layers, seeks), path.clone(), one_pass))
        .into();
    for other in &found[1..] {
        match (&found[0], other) {
            (Ok(one), Ok(other)) => assert!(one == other, "another way tells another disk"),
            (Err(_), Err(_)) => {}
            (one, other) => panic!("taken one way and refused another: {one:?}, {other:?}"),
        }
    }
    // The verification must end with a result. Wrong digests of the tars are among the failures.
    let options = verify::Options { limit: LIMIT, path, ..verify::Options::default() };
    let _ = verify(&Memory::new(&layers, false), &Reference::Tag("x".into()), &options);
}

/// Path and bytes of the disk.
fn read(place: &Memory, path: Option<String>, one_pass: bool) -> Result<(String, Vec<u8>)> {
    let Content::Manifest(manifest) = &place.document.content else { unreachable!("it is a manifest") };
    let options = Options { path, one_pass, reentry: one_pass, limit: LIMIT };
    let mut found = locate::disk(place, manifest, &options)?;
    let mut bytes = vec![];
    found.stream()?.read_to_end(&mut bytes).map_err(|e| Error::io("cannot read the disk", e))?;
    assert!(bytes.len() as u64 == found.size, "a disk has the size that is told");
    if let Some(at) = found.read_at() {
        let mut again = vec![0; bytes.len()];
        at?.read_exact_at(&mut again, 0).map_err(|e| Error::io("cannot read the disk", e))?;
        assert!(again == bytes, "by offset the disk is another");
    }
    Ok((found.path.clone(), bytes))
}

/// Corrects the checksum of a tar header, which would otherwise stop a fuzzer.
fn repair(block: &mut [u8]) {
    if block[257..].starts_with(b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

/// An image in memory.
struct Memory {
    document: Document,
    blobs: Vec<(String, Arc<Vec<u8>>)>,
    seeks: bool,
}

impl Memory {
    fn new(layers: &[Vec<u8>], seeks: bool) -> Memory {
        let made = layers.iter().map(|bytes| Layer {
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
            diff_id: Digest::of(bytes),
            tar_size: bytes.len() as u64,
            compression: match bytes.as_slice() {
                [0x1f, 0x8b, ..] => Compression::Gzip,
                [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
                _ => Compression::None,
            },
        });
        let recipe = Recipe::new("amd64", made.collect());
        let (config, document) = image::manifest(&recipe).expect("a manifest of layers");
        let all = layers.iter().chain([&config]);
        let blobs = all.map(|bytes| (Digest::of(bytes).to_string(), Arc::new(bytes.clone()))).collect();
        Memory { document, blobs, seeks }
    }
}

impl Place for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn document(&self, _: &Reference) -> Result<Document> {
        Ok(self.document.clone())
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
        let found = self.blobs.iter().find(|(digest, _)| *digest == descriptor.digest);
        let (_, bytes) = found.ok_or_else(|| Error::refused("no such blob"))?;
        Ok(Arc::new(Bytes { bytes: bytes.clone(), seeks: self.seeks }))
    }
}

struct Bytes {
    bytes: Arc<Vec<u8>>,
    seeks: bool,
}

impl Blob for Bytes {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        let mut bytes = Cursor::new(self.bytes.to_vec());
        bytes.set_position(from);
        Ok(Box::new(bytes))
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        self.seeks.then(|| self.bytes.clone() as Arc<dyn ReadAt>)
    }
}
