//! Search for the one disk in an image.
//!
//! ```text
//!  layers, lowest first ──scan──► changes of each ──merge──► tree ──rules──► the disk ──► its bytes
//!                         scan.rs                   tree.rs        rules.rs       stream.rs
//!                         links.rs  links, folders  detour.rs  members below links that lead to the disk
//! ```
//!
//! | layer | reading |
//! |---|---|
//! | uncompressed, in a place that reads at any offset | headers only |
//! | other | as a stream, to its end |
//! | largest of these, with [`Options::one_pass`] | up to the disk; the rest while the disk is read |
//!
//! With `one_pass` nothing is read twice. A reason to refuse the image that comes after the disk's last byte
//! (another disk, a wrong digest) is the error at the end of the disk's stream. A caller that keeps a disk
//! only after a clean end never keeps a wrong one.
//!
//! With [`Options::reentry`] the disk's stream reports positions from which a later run can resume
//! ([`Located::enter`]). The resumed run repeats all checks before the disk's first byte, from the beginning
//! of the layer.
//!
//! **Rules** that containerDisk readers share: a path that the caller gives; else the only file in `/disk`;
//! else, in an image without `/disk`, the only entry at the root if it is a file. Upper layers replace and
//! delete entries of lower ones. Links and devices are never accepted as a disk, and no name may lead out of
//! the image.
//!
//! **Layers that programs unpack in different ways** are refused if the difference could concern the disk:
//!
//! | in the layers | some programs | other programs |
//! |---|---|---|
//! | members below a link | follow the link | make a folder in its place |
//! | a file and its whiteout in one layer | delete the file | keep it |
//! | a folder and its whiteout in one layer | show the lower layers' content | hide it |
//! | an opaque whiteout at the root | show the lower layers' content | hide it |
//! | a whiteout of nothing, of `.` or of `..` | delete the folder itself | delete nothing |

mod boot;
mod detour;
mod links;
pub mod mounted;
mod rules;
pub(crate) mod scan;
mod stream;
#[cfg(test)]
mod tests;
pub(crate) mod tree;

pub use boot::{Boot, boot};

use crate::confined::run_confined;
use crate::image::Config;
use crate::layer_decoder::{self, ResumableLayer};
use crate::manifest::{Descriptor, Manifest};
use crate::members::Members;
use crate::pack::Compression;
use crate::place::{Blob, Place};
use crate::reentry::{self, Notes, OnReentry, Reentry};
use crate::section::Section;
use crate::tar::{BLOCK, Seekable, Streamed, quoted};
use crate::{Digest, Error, Result};
use detour::Detours;
use disk_format::{Format, Limits, ReadAt};
use scan::{Capacity, Changes, Interest};
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use stream::{Rest, Stream};
use tree::Tree;

/// Options for the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Path of the disk in the image. Unset: the rules choose the file.
    pub path: Option<String>,
    /// Allows checking the rest of the disk's layer while the disk is read.
    pub one_pass: bool,
    /// Makes the disk's stream report positions from which a later run can resume.
    pub reentry: bool,
    /// Maximum bytes that a layer may decompress to.
    pub limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { path: None, one_pass: false, reentry: false, limit: 16 << 40 }
    }
}

/// The disk that was found.
pub struct Located {
    /// Number of the layer, counted from 0, the lowest.
    pub layer: usize,
    /// Digest of that layer's blob.
    pub digest: Digest,
    /// Compression of that layer.
    pub compression: Compression,
    /// Path in the image, such as `disk/disk.img`.
    pub path: String,
    /// Bytes of the disk's file.
    pub size: u64,
    pub uid: u64,
    pub gid: u64,
    pub mode: u64,
    /// Offset of the file in the layer's tar.
    pub offset: u64,
    source: Source,
    image: Arc<Image>,
    /// The scan of the layer, paused at the disk's first byte.
    paused: Option<Box<Stream>>,
    /// Notes of the paused scan.
    notes: Option<Notes>,
}

/// Finds the disk of an image.
pub fn disk(place: &dyn Place, manifest: &Manifest, options: &Options) -> Result<Located> {
    let interest = Interest::new(options.path.as_deref())?;
    let sources = manifest.layers.iter().enumerate();
    let sources =
        sources.map(|(at, d)| Source::open(place, at, d, options.limit)).collect::<Result<Vec<_>>>()?;
    // With one_pass, the largest layer that must be streamed is read last, and only once.
    let carrier = (0..sources.len())
        .filter(|&at| options.one_pass && !sources[at].is_seekable())
        .max_by_key(|&at| sources[at].blob.size());
    let mut image = Image { name: place.name().to_owned(), interest, layers: vec![] };
    for (at, source) in sources.iter().enumerate() {
        let changes =
            if Some(at) == carrier { None } else { Some(source.scan(&image, at, |_, _| Ok(()))?) };
        image.layers.push(changes);
    }
    if let Some(at) = carrier {
        let source = &sources[at];
        let notes = options.reentry.then(Notes::default);
        let members = source.in_order(notes.as_ref())?;
        match source.run_confined(|| Stream::search(members, at, &image))?? {
            Rest::Paused(stream, path) => {
                let entry = stream.entry().clone();
                let located = located(source.clone(), at, path, &entry, Arc::new(image), Some(stream));
                return Ok(Located { notes, ..located });
            }
            Rest::Scanned(changes) => image.layers[at] = Some(*changes),
        }
    }
    let (path, entry) = image.judge()?;
    let source = sources[entry.layer].clone();
    Ok(located(source, entry.layer, path, &entry, Arc::new(image), None))
}

/// Checks that an image is usable: its layers are valid tars of the promised types whose members stay inside
/// it, and it has exactly one disk, or the kernel that its labels name. The disk's first bytes must be those
/// of a format that VMs can use, without references to other files. All layers are read. An artifact without
/// a root file system layer (such as a builder's attestation) is not an image and passes.
pub fn judge(place: &dyn Place, manifest: &Manifest) -> Result<()> {
    let mut layers = manifest.layers.iter();
    if !manifest.layers.is_empty()
        && layers.all(|layer| layer_decoder::from_media_type("", &layer.media_type).is_err())
    {
        return Ok(());
    }
    let boot = boot(&Config::read(place, manifest)?);
    let mut interest = Interest::new(None)?;
    for path in boot.iter().flat_map(|boot| [Some(&boot.kernel), boot.initrd.as_ref()]).flatten() {
        interest = interest.and(scan::clean(path));
    }
    let mut image = Image { name: place.name().to_owned(), interest, layers: vec![] };
    let mut refused = BTreeMap::new();
    for (at, descriptor) in manifest.layers.iter().enumerate() {
        let source = Source::open(place, at, descriptor, Options::default().limit)?;
        let is_apart = !source.is_seekable();
        let changes = source.scan(&image, at, |path, file| {
            let head = head_of(file)?;
            let judged = || disk_format::validate::head(&head, Limits::default());
            if let Err(e) = if is_apart { judged() } else { run_confined(judged)? } {
                refused.insert((at, path.to_owned()), e);
            }
            Ok(())
        })?;
        image.layers.push(Some(changes));
    }
    let fault = match boot.map(|_| image.tree()).transpose()?.map(|_| image.judge()) {
        // Next to a kernel there may be several files. The VM names the one to use.
        Some(Err(_)) => refused.pop_first().map(|((_, path), e)| (path, e)),
        disk => {
            let (path, entry) = disk.unwrap_or_else(|| image.judge())?;
            refused.remove(&(entry.layer, path.clone())).map(|e| (path, e))
        }
    };
    match fault {
        Some((path, e)) => Err(Error::refused(format!("the disk {} of {}: {e}", quoted(&path), image.name))),
        None => Ok(()),
    }
}

fn head_of(file: &mut Members) -> Result<Vec<u8>> {
    let mut head = vec![];
    let read = file.take(Format::HEAD as u64).read_to_end(&mut head);
    read.map_err(|e| Error::io("cannot read a file of a layer", e))?;
    Ok(head)
}

impl Located {
    /// True if the whole image has been scanned. Otherwise the end of the stream may be an error because this
    /// is not the image's only disk.
    pub fn is_settled(&self) -> bool {
        self.image.layers[self.layer].is_some()
    }

    /// The disk's bytes in order. A clean end means that the layer has the promised size and digest, and that
    /// nothing in it contradicts the choice of this disk.
    pub fn stream(&mut self) -> Result<Box<dyn Read + Send>> {
        Ok(self.begin(false)?.0)
    }

    /// Like [`Located::stream`], and calls `to` with positions for [`Located::enter`], in order.
    pub fn stream_noting(&mut self, to: OnReentry) -> Result<Box<dyn Read + Send>> {
        let (stream, notes) = self.begin(true)?;
        if let Some(notes) = notes {
            notes.tell(self.range(), to);
        }
        Ok(stream)
    }

    /// The disk's bytes from a position that an earlier run reported. A clean end means the same as that of
    /// [`Located::stream`]. If both runs together do not have the promised digest, the error is of kind
    /// `Changed`.
    pub fn enter(&mut self, place: &Reentry, to: OnReentry) -> Result<Box<dyn Read + Send>> {
        let (mut stream, _) = self.begin(false)?;
        let notes = Notes::default();
        notes.tell(self.range(), to);
        let tar = self.offset.checked_add(place.disk).filter(|_| place.disk <= self.size);
        let tar = tar.ok_or_else(|| reentry::odd(&self.source.name))?;
        let bytes = self.source.resumable(&notes).enter(self.compression, place, tar)?;
        stream.enter(Streamed::new(bytes), tar)?;
        Ok(stream)
    }

    fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.size)
    }

    /// A stream that is positioned at the disk's first byte.
    fn begin(&mut self, is_noted: bool) -> Result<(Box<Stream>, Option<Notes>)> {
        let (mut stream, notes) = match self.paused.take() {
            Some(stream) => (stream, self.notes.take()),
            None => {
                let notes = is_noted.then(Notes::default);
                let members = self.source.in_order(notes.as_ref())?;
                let again = run_confined(|| Stream::again(members, self.layer, &self.image, &self.path))??;
                (Box::new(again), notes)
            }
        };
        if stream.entry().at != self.offset || stream.entry().size != self.size {
            return Err(Error::refused(format!(
                "{} changed since it was first read; another program may have replaced it",
                self.source.name
            )));
        }
        stream.settle_by(Arc::clone(&self.image));
        Ok((stream, notes))
    }

    /// The disk's bytes at any offset, if its layer is uncompressed and its place supports that. **No digest
    /// is verified.** Use it only for places whose blobs were verified when they were stored (the store), or
    /// together with `verify`.
    pub fn read_at(&self) -> Option<Result<Arc<dyn ReadAt>>> {
        let bytes = self.source.seekable.clone()?;
        let section = Section::new(&self.path, bytes, self.offset, self.size);
        Some(section.map(|section| Arc::new(section) as Arc<dyn ReadAt>))
    }
}

fn located(
    source: Source,
    layer: usize,
    path: String,
    entry: &tree::Entry,
    image: Arc<Image>,
    paused: Option<Box<Stream>>,
) -> Located {
    let (digest, compression) = (source.digest, source.compression);
    let tree::Entry { size, uid, gid, mode, at: offset, .. } = *entry;
    let notes = None;
    Located { layer, digest, compression, path, size, uid, gid, mode, offset, source, image, paused, notes }
}

/// True if the path is one where all readers look for a disk: a file directly in `/disk`.
pub(crate) fn is_disk_path(path: &str) -> bool {
    path.strip_prefix("disk/").is_some_and(|name| !name.contains('/'))
}

/// The scanned layers of an image. A layer that has not been read to its end is `None`.
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) interest: Interest,
    pub(crate) layers: Vec<Option<Changes>>,
}

impl Image {
    /// Chooses the disk from the layers that were scanned.
    pub(crate) fn judge(&self) -> Result<(String, tree::Entry)> {
        self.judge_with(None)
    }

    /// Like `judge`, with other changes for one layer.
    fn judge_with(&self, other: Option<(usize, &Changes)>) -> Result<(String, tree::Entry)> {
        let layers = self.layers_with(other);
        let (tree, mut detours) = self.merged(&layers)?;
        let (path, entry) = rules::choose(&self.name, &tree, self.interest.path())?;
        let has_folders = layers.iter().any(|(_, changes)| changes.links.has_folders());
        if self.interest.path().is_none() && !path.contains('/') && has_folders {
            let what = format!(
                "{} is not a containerDisk: it has no folder /disk, and the only file at its root is not the only entry there",
                self.name
            );
            return Err(Error::refused(what));
        }
        detours.check_file(&path)?;
        detours.check_owner(&path, &entry)?;
        Ok((path, entry))
    }

    /// The merged tree of all scanned layers.
    pub(crate) fn tree(&self) -> Result<Tree> {
        Ok(self.merged(&self.layers_with(None))?.0)
    }

    /// The merged tree, and the links, after the check that no link affects the disk.
    fn merged<'a>(&'a self, layers: &[(usize, &'a Changes)]) -> Result<(Tree, Detours<'a>)> {
        let mut tree = Tree::default();
        for &(at, changes) in layers {
            tree.apply(&self.name, at, changes)?;
        }
        let mut detours =
            Detours::new(&self.name, layers.iter().map(|&(at, changes)| (at, &changes.links)).collect());
        let mut files = self.interest.beside().filter(|path| tree.kind(path) == Some(&tree::EntryKind::File));
        files.try_for_each(|path| detours.check_file(path))?;
        detours.check(&self.interest.leaves().collect::<Vec<_>>())?;
        Ok((tree, detours))
    }

    /// The scanned layers with their numbers.
    fn layers_with<'a>(&'a self, other: Option<(usize, &'a Changes)>) -> Vec<(usize, &'a Changes)> {
        let known = self.layers.iter().enumerate().filter_map(|(at, known)| match other {
            Some((layer, changes)) if layer == at => Some((at, changes)),
            _ => known.as_ref().map(|changes| (at, changes)),
        });
        known.collect()
    }

    /// The capacity that the other layers leave for one layer.
    pub(crate) fn capacity(&self, layer: usize) -> Capacity {
        let others = self.layers.iter().enumerate().filter(|(at, _)| *at != layer);
        Capacity::remaining(others.filter_map(|(_, known)| known.as_ref()))
    }
}

/// A layer, with everything that is needed to read it.
#[derive(Clone)]
struct Source {
    /// Name for messages: "layer 2 of docker://h/r".
    name: String,
    descriptor: Descriptor,
    digest: Digest,
    compression: Compression,
    blob: Arc<dyn Blob>,
    /// The tar at any offset, if the layer is uncompressed and the place supports that.
    seekable: Option<Arc<dyn ReadAt>>,
    limit: u64,
}

impl Source {
    fn open(place: &dyn Place, at: usize, descriptor: &Descriptor, limit: u64) -> Result<Source> {
        let name = format!("layer {} of {}", at + 1, place.name());
        let blob = place.blob(descriptor)?;
        let mut source = Source {
            digest: descriptor.digest.parse()?,
            descriptor: descriptor.clone(),
            compression: Compression::None,
            seekable: None,
            name,
            blob,
            limit,
        };
        match source.blob.read_at() {
            Some(bytes) => {
                let mut head = vec![0; bytes.size().min(BLOCK as u64) as usize];
                let read = bytes.read_exact_at(&mut head, 0);
                read.map_err(|e| Error::io(format!("cannot read {}", source.name), e))?;
                source.compression = layer_decoder::compression(&source.name, &descriptor.media_type, &head)?;
                source.seekable = (source.compression == Compression::None).then_some(bytes);
            }
            None => {
                source.compression = layer_decoder::from_media_type(&source.name, &descriptor.media_type)?
            }
        }
        Ok(source)
    }

    fn is_seekable(&self) -> bool {
        self.seekable.is_some()
    }

    /// Reads all members. `file` is called for each file that could be the disk.
    fn scan(
        &self,
        image: &Image,
        at: usize,
        file: impl FnMut(&str, &mut Members) -> Result<()> + Send,
    ) -> Result<Changes> {
        let members = self.members()?;
        self.run_confined(|| scan::all(members, &image.interest, at, image.capacity(at), file))?
    }

    /// Runs `work` on a confined thread if the layer must be decoded. An uncompressed layer is read in this
    /// thread, since reading it may need a server. Callers that parse more of it than headers use a confined
    /// thread for that part.
    fn run_confined<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        if self.is_seekable() { Ok(work()) } else { run_confined(work) }
    }

    /// The members, read in the cheapest way.
    fn members(&self) -> Result<Members> {
        match &self.seekable {
            Some(bytes) => Ok(Members::new(self.name.clone(), Seekable::new(Arc::clone(bytes)))),
            None => self.in_order(None),
        }
    }

    /// The members, read from the blob's start with all checks. `notes` record positions for a later run.
    fn in_order(&self, notes: Option<&Notes>) -> Result<Members> {
        let tar = match notes {
            Some(notes) => self.resumable(notes).open()?,
            None => layer_decoder::open(&self.name, &self.descriptor, &*self.blob, self.limit)?,
        };
        Ok(Members::new(self.name.clone(), Streamed::new(tar)))
    }

    fn resumable<'a>(&'a self, notes: &'a Notes) -> ResumableLayer<'a> {
        let Source { name, descriptor, digest, limit, .. } = self;
        ResumableLayer { name, descriptor, digest: *digest, blob: &*self.blob, limit: *limit, notes }
    }
}
