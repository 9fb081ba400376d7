//! A layer that is being written into a sink.

use super::lanes::{DEPTH, Lanes};
use super::packer::{Compression, PIECE};
use super::{BOOT, DISK, OWNER, OWNER_NAME, Options};
use crate::background_hash::BackgroundHash;
use crate::digest::Hasher;
use crate::place::{BlobWriter, Sink};
use crate::tar::{END, Item, head, rest};
use crate::{Digest, Error, Result};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Digests and sizes of a finished layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Digest of the blob.
    pub digest: Digest,
    /// Size of the blob in bytes.
    pub size: u64,
    /// Digest of the uncompressed tar.
    pub diff_id: Digest,
    /// Size of the uncompressed tar in bytes.
    pub tar_size: u64,
    /// Compression of the blob.
    pub compression: Compression,
}

/// Writer of a layer: begin a file, write exactly its announced size, begin the next, finish. Dropping it
/// earlier leaves nothing in the sink.
pub struct LayerWriter<'a> {
    tar: Tar<'a>,
    created: u64,
    names: BTreeSet<String>,
    /// The file that is being written.
    name: String,
    size: u64,
    left: u64,
}

impl<'a> LayerWriter<'a> {
    /// Starts an empty layer.
    pub fn new(sink: &'a dyn Sink, options: &Options) -> Result<LayerWriter<'a>> {
        let tar = Tar::new(sink.begin(None)?, options)?;
        let created = options.created;
        Ok(LayerWriter { tar, created, names: BTreeSet::new(), name: String::new(), size: 0, left: 0 })
    }

    /// Starts a layer with a single disk. Write its `size` bytes, then finish.
    pub fn disk(sink: &'a dyn Sink, options: &Options, size: u64) -> Result<LayerWriter<'a>> {
        let mut layer = LayerWriter::new(sink, options)?;
        layer.folder("disk")?;
        layer.file(DISK, size)?;
        Ok(layer)
    }

    /// Starts a layer with the folder for kernels. Continue with [`LayerWriter::boot_file`].
    pub fn boot(sink: &'a dyn Sink, options: &Options) -> Result<LayerWriter<'a>> {
        let mut layer = LayerWriter::new(sink, options)?;
        layer.folder(BOOT)?;
        Ok(layer)
    }

    /// Begins a kernel or an initrd. Returns its path in KubeVirt's form, such as `/boot/vmlinuz`.
    pub fn boot_file(&mut self, name: &str, size: u64) -> Result<String> {
        let ok = !name.is_empty()
            && !name.contains('/')
            && name != "."
            && name != ".."
            && !name.starts_with(".wh.");
        if !ok {
            return Err(Error::usage(format!("{name:?} cannot be the name of a file in /{BOOT}")));
        }
        let path = format!("{BOOT}/{name}");
        self.file(&path, size)?;
        Ok(format!("/{path}"))
    }

    /// Adds a folder with mode 0555.
    pub fn folder(&mut self, name: &str) -> Result<()> {
        self.end_file()?;
        self.head(&format!("{name}/"), 0, 0o555)
    }

    /// Begins a file with mode 0444.
    pub fn file(&mut self, name: &str, size: u64) -> Result<()> {
        self.end_file()?;
        self.head(name, size, 0o444)?;
        name.clone_into(&mut self.name);
        (self.size, self.left) = (size, size);
        Ok(())
    }

    /// Completes the layer after its last file.
    pub fn finish(mut self) -> Result<Layer> {
        self.end_file()?;
        self.tar.write(&END)?;
        self.tar.finish()
    }

    fn head(&mut self, name: &str, size: u64, mode: u32) -> Result<()> {
        let path = name.trim_end_matches('/');
        if !self.names.insert(path.to_owned()) {
            let what = format!("the layer would hold {path} twice; give one of the two files another name");
            return Err(Error::usage(what));
        }
        let item = Item { name, size, mode, mtime: self.created, owner: (OWNER, OWNER_NAME) };
        self.tar.write(&head(&item))
    }

    fn end_file(&mut self) -> Result<()> {
        if self.left > 0 {
            let what =
                format!("{} ends after {} of its {} bytes", self.name, self.size - self.left, self.size);
            return Err(Error::failed(what));
        }
        let padding = rest(self.size);
        self.size = 0;
        self.tar.write(&END[..padding])
    }
}

impl Write for LayerWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            let what = format!("{} is longer than the {} bytes announced for it", self.name, self.size);
            return Err(Error::failed(what).into());
        }
        self.tar.write(bytes)?;
        self.left -= bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The tar on its way through hash and compression into the blob.
struct Tar<'a> {
    blob: Box<dyn BlobWriter + 'a>,
    compression: Compression,
    /// `None` for an uncompressed layer, whose tar is the blob itself with a single digest.
    packing: Option<Packing>,
    size: u64,
}

struct Packing {
    diff_id: BackgroundHash,
    lanes: Lanes,
    /// Bytes of the unfinished piece.
    plain: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

impl<'a> Tar<'a> {
    fn new(blob: Box<dyn BlobWriter + 'a>, options: &Options) -> Result<Tar<'a>> {
        let packing = match options.compression {
            Compression::None => None,
            how => {
                let lanes = Lanes::new(how, lane_count(how, options))?;
                Some(Packing {
                    diff_id: BackgroundHash::new(Hasher::new()),
                    lanes,
                    plain: vec![],
                    spare: vec![],
                })
            }
        };
        Ok(Tar { blob, compression: options.compression, packing, size: 0 })
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let size = self.size.checked_add(bytes.len() as u64);
        self.size = size.ok_or_else(|| Error::usage("a layer cannot be that large"))?;
        let Some(packing) = &mut self.packing else {
            return self.blob.write_all(bytes).map_err(cannot_store);
        };
        packing.diff_id.update(bytes)?;
        while !bytes.is_empty() {
            let plain = &mut packing.plain;
            let n = bytes.len().min(PIECE - plain.len());
            plain.reserve_exact(PIECE - plain.len());
            plain.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if plain.len() == PIECE {
                packing.hand_over(&mut *self.blob)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Layer> {
        let diff_id = match self.packing.take() {
            None => None,
            Some(mut packing) => {
                if !packing.plain.is_empty() {
                    packing.hand_over(&mut *self.blob)?;
                }
                while packing.take(&mut *self.blob)? {}
                Some(packing.diff_id.finish()?)
            }
        };
        let (digest, size) = self.blob.finish()?;
        let diff_id = diff_id.unwrap_or(digest);
        Ok(Layer { digest, size, diff_id, tar_size: self.size, compression: self.compression })
    }
}

impl Packing {
    /// Passes on a piece that is full, or the last one.
    fn hand_over(&mut self, blob: &mut dyn BlobWriter) -> Result<()> {
        if self.lanes.is_full() {
            self.take(blob)?;
        }
        let next = self.spare.pop().unwrap_or_default();
        self.lanes.bring(std::mem::replace(&mut self.plain, next))
    }

    /// Stores the next compressed piece. False if all are stored.
    fn take(&mut self, blob: &mut dyn BlobWriter) -> Result<bool> {
        let Some(mut packed) = self.lanes.take()? else { return Ok(false) };
        blob.write_all(&packed).map_err(cannot_store)?;
        packed.clear();
        self.spare.push(packed);
        Ok(true)
    }
}

/// Number of compressing threads: the requested number, limited by memory.
fn lane_count(how: Compression, options: &Options) -> usize {
    let compressor = if how == Compression::Zstd { 5 } else { 1 } * PIECE;
    let each = (DEPTH + 1) * PIECE + compressor;
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    threads.min(options.memory / each).max(1)
}

fn cannot_store(e: io::Error) -> Error {
    Error::io("cannot store the layer", e)
}
