//! Image layouts made byte by byte: what no builder would make, a test can.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The media types of layers, plain and in gzip.
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// See [`LAYER`].
pub const LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// Of a manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Of an index.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// A tar, member by member.
#[derive(Debug, Clone, Default)]
pub struct Tar(Vec<u8>);

impl Tar {
    /// A file.
    pub fn file(self, name: &str, bytes: &[u8]) -> Tar {
        self.member(b'0', name, "", bytes.len() as u64, bytes)
    }

    /// A folder, a link, a device: something without bytes.
    pub fn other(self, kind: u8, name: &str, link: &str) -> Tar {
        self.member(kind, name, link, 0, b"")
    }

    /// A PAX header for the member that follows: `size=1`.
    pub fn pax(self, record: &str) -> Tar {
        // The length counts itself.
        let record = (record.len() + 3..)
            .map(|n| format!("{n} {record}\n"))
            .find(|line| line.split_once(' ').and_then(|(n, _)| n.parse().ok()) == Some(line.len()));
        let record = record.unwrap_or_default();
        self.member(b'x', "PaxHeader", "", record.len() as u64, record.as_bytes())
    }

    /// Any header, and any bytes after it.
    pub fn member(mut self, kind: u8, name: &str, link: &str, size: u64, bytes: &[u8]) -> Tar {
        let mut block = [0; 512];
        let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
        put(0, name.as_bytes());
        put(100, b"0000444\0");
        put(108, b"0000153\0");
        put(116, b"0000153\0");
        put(124, format!("{size:011o}\0").as_bytes());
        put(136, b"00000000000\0");
        put(148, b"        ");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&block);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// All of it, with its end.
    pub fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// `sha256:…` of bytes.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Bytes in gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    packed.write_all(bytes).and_then(|()| packed.finish()).expect("memory takes what is written")
}

/// A gzip that unpacks to a tar with one disk of so many times 64 MiB of zeros.
pub fn bomb(times: u64) -> Vec<u8> {
    const PIECE: usize = 64 << 20;
    let head = Tar::default().member(b'0', "disk/disk.img", "", times * PIECE as u64, b"").0;
    // Members of a gzip stand one after the other, so one is packed and comes many times.
    let piece = gzip(&vec![0; PIECE]);
    [gzip(&head), piece.repeat(times as usize)].concat()
}

/// A layout in a folder.
#[derive(Debug)]
pub struct Layout(PathBuf);

impl Layout {
    /// A new one, or another one in place of what was there.
    pub fn create(folder: &Path) -> Layout {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder.join("blobs/sha256")).expect("a folder can be made");
        fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)
            .expect("a file can be written");
        Layout(folder.to_owned())
    }

    /// The file of a blob.
    pub fn path(&self, digest: &str) -> PathBuf {
        self.0.join("blobs").join(digest.replace(':', "/"))
    }

    /// Keeps bytes; their descriptor.
    pub fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = digest(bytes);
        fs::write(self.path(&digest), bytes).expect("a blob can be written");
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }

    /// A manifest over these layers.
    pub fn manifest(&self, layers: &[Value]) -> Value {
        let config =
            json!({ "architecture": "amd64", "os": "linux", "rootfs": { "type": "layers", "diff_ids": [] } });
        let config = self.blob(CONFIG, config.to_string().as_bytes());
        json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers })
    }

    /// Names a document `1`, and nothing else.
    pub fn name(&self, document: &Value) {
        let media_type = document["mediaType"].as_str().unwrap_or(MANIFEST);
        let mut entry = self.blob(media_type, document.to_string().as_bytes());
        entry["annotations"] = json!({ "org.opencontainers.image.ref.name": "1" });
        self.index(&entry);
    }

    /// Names what a descriptor tells.
    pub fn index(&self, entry: &Value) {
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] });
        fs::write(self.0.join("index.json"), index.to_string()).expect("a file can be written");
    }

    /// An image of one layer.
    pub fn image(&self, media_type: &str, layer: &[u8]) {
        let layer = self.blob(media_type, layer);
        self.name(&self.manifest(&[layer]));
    }
}
