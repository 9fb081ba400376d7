//! The one disk in an image.
//!
//! ```text
//!  layers, lowest first ──scan──► changes of each ──merge──► tree ──rules──► the disk ──► its bytes
//!                         scan.rs                   tree.rs        rules.rs       stream.rs
//!                         links.rs  links, folders  detour.rs  members below links that lead to the disk
//! ```
//!
//! | layer | is read |
//! |---|---|
//! | not compressed, where the place reads at any offset | headers only |
//! | any other | as a stream, to its end |
//! | the largest of these, with [`Options::one_pass`] | up to the disk; the rest while the disk is read |
//!
//! With `one_pass` nothing is read twice: what would refuse the image after the disk's last byte (another disk, a wrong
//! digest) is the error that ends the disk's stream. Whoever keeps a disk only after a clean end never keeps a wrong
//! one.
//!
//! With [`Options::reentry`] the disk's stream tells places from which a later run reads it on ([`Located::enter`]). What is judged
//! before the disk's first byte is judged again then, from the beginning of the layer.
//!
//! **Rules**, those of the readers that images are made for: a path that is asked for; else the one file in `/disk`;
//! else, where there is no `/disk`, the one file at the root and nothing beside it. Upper layers replace and delete
//! what is below. Links and devices are never taken for a disk, and no name may lead out of the image.
//!
//! **What programs that unpack layers make of an image in different ways** is refused where it could concern the disk:
//!
//! | in the layers | some | others |
//! |---|---|---|
//! | members below a link | follow it | make a folder in its place |
//! | a file and its whiteout in one layer | delete it | keep it |
//! | a folder and its whiteout in one layer | show what is below | do not |
//! | nothing below is seen through the root | show what is below | do not |
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

use crate::apart::apart;
use crate::image::Config;
use crate::manifest::{Descriptor, Manifest};
use crate::members::Members;
use crate::pack::Compression;
use crate::peel::{self, Peeled};
use crate::place::{Blob, Place};
use crate::reentry::{self, Notes, OnReentry, Reentry};
use crate::section::Section;
use crate::tar::{BLOCK, Seekable, Streamed, quoted};
use crate::{Digest, Error, Result};
use detour::Detours;
use disk_format::{Format, Limits, ReadAt};
use links::Room;
use scan::{Changes, Interest};
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use stream::{Rest, Stream};
use tree::Tree;

/// What to look for, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The file, where it is not for the rules to decide.
    pub path: Option<String>,
    /// Whether what follows the disk in its layer may be judged while the disk is read.
    pub one_pass: bool,
    /// Whether the disk's stream tells where it can be entered again.
    pub reentry: bool,
    /// Bytes that a layer may unpack to.
    pub limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { path: None, one_pass: false, reentry: false, limit: 16 << 40 }
    }
}

/// Where the disk is.
pub struct Located {
    /// Which layer, counted from 0, the lowest.
    pub layer: usize,
    /// Of that layer.
    pub digest: Digest,
    /// Of that layer.
    pub compression: Compression,
    /// `disk/disk.img`.
    pub path: String,
    /// Bytes of the disk's file.
    pub size: u64,
    /// Owner.
    pub uid: u64,
    /// Group.
    pub gid: u64,
    /// Permissions.
    pub mode: u64,
    /// Where the file begins in the layer's tar.
    pub offset: u64,
    source: Source,
    image: Arc<Image>,
    /// The scan as it stands at the disk's first byte.
    paused: Option<Box<Stream>>,
    /// Of that scan.
    notes: Option<Notes>,
}

/// Layers of one image; what runs containers takes no more.
const LAYERS: usize = 128;

/// Finds the disk of an image.
pub fn disk(place: &dyn Place, manifest: &Manifest, options: &Options) -> Result<Located> {
    let interest = Interest::new(options.path.as_deref())?;
    few_layers(place, manifest)?;
    let sources = manifest.layers.iter().enumerate();
    let sources =
        sources.map(|(at, d)| Source::open(place, at, d, options.limit)).collect::<Result<Vec<_>>>()?;
    // The layer that is worth reading but once, and so is read last.
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
        match source.apart(|| Stream::search(members, at, &image))?? {
            Rest::Paused(stream, path) => {
                let entry = stream.entry().clone();
                let located = located(source.clone(), at, path, &entry, Arc::new(image), Some(stream));
                return Ok(Located { notes, ..located });
            }
            Rest::Scanned(changes) => image.layers[at] = Some(changes),
        }
    }
    let (path, entry) = image.judge()?;
    let source = sources[entry.layer].clone();
    Ok(located(source, entry.layer, path, &entry, Arc::new(image), None))
}

/// Whether an image is one that can be used: its layers are sound tars of the promised types, which lead nowhere out of
/// it, and it has one disk, or the kernel that its labels name. The disk's first bytes are those of a disk that VMs have,
/// which needs no other file. All of it is read. What holds no layer of a root file system (a builder's notes on an image)
/// is not an image, and is let be.
pub fn judge(place: &dyn Place, manifest: &Manifest) -> Result<()> {
    let mut layers = manifest.layers.iter();
    if !manifest.layers.is_empty() && layers.all(|layer| peel::told("", &layer.media_type).is_err()) {
        return Ok(());
    }
    let boot = boot(&Config::read(place, manifest)?);
    let mut interest = Interest::new(None)?;
    for path in boot.iter().flat_map(|boot| [Some(&boot.kernel), boot.initrd.as_ref()]).flatten() {
        interest = interest.and(scan::clean(path));
    }
    few_layers(place, manifest)?;
    let mut image = Image { name: place.name().to_owned(), interest, layers: vec![] };
    let mut refused = BTreeMap::new();
    for (at, descriptor) in manifest.layers.iter().enumerate() {
        let source = Source::open(place, at, descriptor, Options::default().limit)?;
        let is_apart = !source.is_seekable();
        let changes = source.scan(&image, at, |path, file| {
            let head = head_of(file)?;
            let judged = || disk_format::judge::head(&head, Limits::default());
            if let Err(e) = if is_apart { judged() } else { apart(judged)? } {
                refused.insert((at, path.to_owned()), e);
            }
            Ok(())
        })?;
        image.layers.push(Some(changes));
    }
    let fault = match boot.map(|_| image.tree()).transpose()?.map(|_| image.judge()) {
        // Beside a kernel there may be several files, and a VM names the one that it takes.
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

/// Each layer costs a reading, though it may be the same blob again and again.
fn few_layers(place: &dyn Place, manifest: &Manifest) -> Result<()> {
    match manifest.layers.len() {
        0..=LAYERS => Ok(()),
        more => {
            let what = format!("{} has {more} layers; more than {LAYERS} are refused", place.name());
            Err(Error::refused(what))
        }
    }
}

impl Located {
    /// Whether the whole image has been looked at. If not, an error at the end of the stream may tell that this is not
    /// its one disk.
    pub fn is_settled(&self) -> bool {
        self.image.layers[self.layer].is_some()
    }

    /// The disk's bytes, in order. Its end tells that the layer has the size and the digest the manifest promises, and
    /// that nothing in it speaks against this disk.
    pub fn stream(&mut self) -> Result<Box<dyn Read + Send>> {
        Ok(self.begin(false)?.0)
    }

    /// The same. `to` is told places, in order, for [`Located::enter`].
    pub fn stream_noting(&mut self, to: OnReentry) -> Result<Box<dyn Read + Send>> {
        let (stream, notes) = self.begin(true)?;
        if let Some(notes) = notes {
            notes.tell(self.range(), to);
        }
        Ok(stream)
    }

    /// The disk's bytes from a place on that an earlier reading has told. Its end tells what that of [`Located::stream`] does;
    /// where the two readings together have not the promised digest, it is an error of the kind `Changed`.
    pub fn enter(&mut self, place: &Reentry, to: OnReentry) -> Result<Box<dyn Read + Send>> {
        let (mut stream, _) = self.begin(false)?;
        let notes = Notes::default();
        notes.tell(self.range(), to);
        let tar = self.offset.checked_add(place.disk).filter(|_| place.disk <= self.size);
        let tar = tar.ok_or_else(|| reentry::odd(&self.source.name))?;
        let bytes = self.source.peeled(&notes).enter(self.compression, place, tar)?;
        stream.enter(Streamed::new(bytes), tar)?;
        Ok(stream)
    }

    fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.size)
    }

    /// A stream at the disk's first byte.
    fn begin(&mut self, is_noted: bool) -> Result<(Box<Stream>, Option<Notes>)> {
        let (mut stream, notes) = match self.paused.take() {
            Some(stream) => (stream, self.notes.take()),
            None => {
                let notes = is_noted.then(Notes::default);
                let members = self.source.in_order(notes.as_ref())?;
                let again = apart(|| Stream::again(members, self.layer, &self.image, &self.path))??;
                (Box::new(again), notes)
            }
        };
        if stream.entry().at != self.offset || stream.entry().size != self.size {
            return Err(Error::refused(format!(
                "{} is not what it was when it was first read",
                self.source.name
            )));
        }
        stream.settle_by(Arc::clone(&self.image));
        Ok((stream, notes))
    }

    /// The disk's bytes at any offset, where its layer is not compressed and its place can do that. **No digest is
    /// checked**: only for places whose blobs were checked when they came (the store), or together with `verify`.
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

/// Whether that is where all readers look for a disk.
pub(crate) fn is_disk_path(path: &str) -> bool {
    path.strip_prefix("disk/").is_some_and(|name| !name.contains('/'))
}

/// What is known of an image's layers. One that has not been read to its end is missing.
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) interest: Interest,
    pub(crate) layers: Vec<Option<Changes>>,
}

impl Image {
    /// The disk, by all that is known.
    pub(crate) fn judge(&self) -> Result<(String, tree::Entry)> {
        self.judge_with(None)
    }

    /// The same, with another idea of one layer.
    fn judge_with(&self, other: Option<(usize, &Changes)>) -> Result<(String, tree::Entry)> {
        let layers = self.layers_with(other);
        let (tree, mut detours) = self.merged(&layers)?;
        let (path, entry) = rules::choose(&self.name, &tree, self.interest.path())?;
        let has_folders = layers.iter().any(|(_, changes)| changes.links.has_folders());
        if self.interest.path().is_none() && !path.contains('/') && has_folders {
            let what = format!(
                "{} is no containerDisk: it has no folder /disk, and its one file at the root lies beside folders",
                self.name
            );
            return Err(Error::refused(what));
        }
        detours.check_file(&path)?;
        detours.check_owner(&path, &entry)?;
        Ok((path, entry))
    }

    /// The layers merged.
    pub(crate) fn tree(&self) -> Result<Tree> {
        Ok(self.merged(&self.layers_with(None))?.0)
    }

    /// Layers merged, and their links, none of which leads astray.
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

    /// Those that are known, each with its number.
    fn layers_with<'a>(&'a self, other: Option<(usize, &'a Changes)>) -> Vec<(usize, &'a Changes)> {
        let known = self.layers.iter().enumerate().filter_map(|(at, known)| match other {
            Some((layer, changes)) if layer == at => Some((at, changes)),
            _ => known.as_ref().map(|changes| (at, changes)),
        });
        known.collect()
    }

    /// What the other layers leave for the links of one.
    pub(crate) fn room_of(&self, layer: usize) -> Room {
        let others = self.layers.iter().enumerate().filter(|(at, _)| *at != layer);
        Room::beside(others.filter_map(|(_, known)| known.as_ref()).map(|changes| &changes.links))
    }
}

/// A layer, and the ways to read it.
#[derive(Clone)]
struct Source {
    /// "layer 2 of docker://h/r".
    name: String,
    descriptor: Descriptor,
    digest: Digest,
    compression: Compression,
    blob: Arc<dyn Blob>,
    /// Its tar at any offset.
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
                source.compression = peel::compression(&source.name, &descriptor.media_type, &head)?;
                source.seekable = (source.compression == Compression::None).then_some(bytes);
            }
            None => source.compression = peel::told(&source.name, &descriptor.media_type)?,
        }
        Ok(source)
    }

    fn is_seekable(&self) -> bool {
        self.seekable.is_some()
    }

    /// `file` is given each file that could be the disk.
    fn scan(
        &self,
        image: &Image,
        at: usize,
        file: impl FnMut(&str, &mut Members) -> Result<()> + Send,
    ) -> Result<Changes> {
        let members = self.members()?;
        self.apart(|| scan::all(members, &image.interest, at, image.room_of(at), file))?
    }

    /// A layer that must be decoded is looked at by a thread that can open nothing. One that is plain may be read from a
    /// server by whoever looks at it: what reads more of it than names does that apart.
    fn apart<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        if self.is_seekable() { Ok(work()) } else { apart(work) }
    }

    /// Its members in the cheapest way.
    fn members(&self) -> Result<Members> {
        match &self.seekable {
            Some(bytes) => Ok(Members::new(self.name.clone(), Seekable::new(Arc::clone(bytes)))),
            None => self.in_order(None),
        }
    }

    /// Its members with all checks. `notes`: of a reading that a later one may go on with.
    fn in_order(&self, notes: Option<&Notes>) -> Result<Members> {
        let tar = match notes {
            Some(notes) => self.peeled(notes).open()?,
            None => peel::open(&self.name, &self.descriptor, &*self.blob, self.limit)?,
        };
        Ok(Members::new(self.name.clone(), Streamed::new(tar)))
    }

    fn peeled<'a>(&'a self, notes: &'a Notes) -> Peeled<'a> {
        let Source { name, descriptor, digest, limit, .. } = self;
        Peeled { name, descriptor, digest: *digest, blob: &*self.blob, limit: *limit, notes }
    }
}
