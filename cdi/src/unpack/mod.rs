//! An archive → the files in a folder: what a DataVolume of the contentType `archive` asks for.
//!
//! ```text
//!  source ─► checksum ─► gzip, xz, zstd ─► tar ─► members.rs          a thread that can open nothing
//!                                                   │ Step: folder, file, bytes (a few at a time)
//!                                                   ▼
//!  folder/  .cdi-OWNER.partial/…    made step by step, links never followed        staging.rs
//!             │ all of it is there and durable                                     folder.rs
//!           .cdi-OWNER.whole/…  ── each name ──► the folder itself, and the mark .cdi-OWNER.done
//! ```
//!
//! **What is unpacked**: files and folders with their permissions (never setuid, setgid, sticky), owned by this user, holes
//! as holes. **What is refused**, with its name: links of both kinds, devices, pipes, names that lead out, names that come
//! twice or are in the folder already, more bytes than the folder holds, holes longer than any disk. Whoever wrote the archive can so neither reach out
//! of the folder nor change what is in it.
//!
//! **A run that broke off** leaves its `.partial`, which the next one removes: an archive is read from its beginning. When
//! everything was read and is durable it is `.whole`, and from there the next run only gives the names ([`go_on`]), without its
//! source; one that comes behind the end finds the mark. All hold the owner's name (the uid of the PVC), which whoever had the
//! volume before could not know.
//!
//! **Caveat.** An archive that is whole is this PVC's: another one, of a client that sends again, is not taken in its place.

#[cfg(test)]
mod disk;
mod folder;
mod members;
mod staging;
#[cfg(test)]
mod tests;

use crate::filter::progress::{Count, Counted};
use crate::filter::stack::{self, Stack};
use crate::filter::verify::Verify;
use crate::filter::{Budget, Layer, looks_like_tar};
use crate::plan::Wishes;
use crate::reach::Reach;
use crate::run::watch::{Phase, Watch};
use crate::size::human;
use crate::source::{self, Named, Options, Source};
use crate::{Error, Result};
use container_disk::apart;
use folder::Folder;
use staging::Staging;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Steps that wait to be taken, at most: as many pieces of [`members::PIECE`] bytes.
const STEPS: usize = 16;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Request {
    /// The source.
    pub source: Named,
    /// The folder that the files are unpacked into.
    pub folder: PathBuf,
    /// How the source is reached.
    pub options: Options,
    /// Its checksum, the memory, whose folder it is, and (`resize`) the most bytes of all files.
    pub wishes: Wishes,
}

impl Request {
    /// Files of the host that it uses.
    pub fn reach(&self) -> Result<Reach> {
        Ok(Reach::new().source(&self.source, &self.options)?.folder(&self.folder))
    }
}

/// An archive whose first bytes have been looked at, and the folder that takes it.
pub struct Prepared {
    folder: Folder,
    /// Nothing where an earlier run left it whole.
    archive: Option<Archive>,
}

/// What was unpacked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Files.
    pub files: u64,
    /// Folders that the archive names.
    pub folders: u64,
    /// Bytes of the files, holes aside.
    pub bytes: u64,
}

impl Unpacked {
    /// For people.
    pub fn sentence(&self) -> String {
        let Unpacked { files, folders, bytes } = self;
        format!("unpacked {files} files ({}) and {folders} folders", human(*bytes))
    }
}

struct Archive {
    source: Arc<dyn Source>,
    layers: Vec<Layer>,
    reader: Box<dyn Read + Send>,
    counted: Count,
    /// Bytes that its files may have.
    room: u64,
    /// The same with their holes.
    most: u64,
}

/// Opens the source and looks at its beginning. Nothing is written; what a run of the same owner left goes, since it takes room.
pub fn prepare(request: &Request, watch: &Watch) -> Result<Prepared> {
    watch.enter(Phase::Opening, 0);
    let folder = Folder::open(&request.folder, request.wishes.owner.as_deref().unwrap_or_default())?;
    folder.clear()?;
    if folder.is_whole()? || folder.is_done()? {
        // What a client sends now may be another archive.
        return match request.source {
            Named::Upload(_) => {
                Err(Error::failed("the volume has its archive already, of an earlier upload"))
            }
            _ => Ok(Prepared { folder, archive: None }),
        };
    }
    let source = source::open(&request.source, &request.options)?;
    let room = folder.room()?.min(request.wishes.resize.unwrap_or(u64::MAX));
    let name = source.facts().name.clone();
    let stream = source.stream(0)?;
    let archive = apart(|| peel(request, source, stream, room))?.map_err(|e| e.of(&name))?;
    Ok(Prepared { folder, archive: Some(archive) })
}

/// Gives an archive its names that an earlier run of this owner left whole. Whether there is one, with all its names now.
pub fn go_on(folder: &Path, owner: &str) -> Result<bool> {
    let folder = Folder::open(folder, owner)?;
    folder.publish()?;
    folder.is_done()
}

/// Whether an earlier run of this owner left an archive whole that lacks names.
pub fn is_left_whole(folder: &Path, owner: &str) -> Result<bool> {
    Folder::open(folder, owner)?.is_whole()
}

/// Takes the compression off, and looks whether an archive is inside.
fn peel(
    request: &Request,
    source: Arc<dyn Source>,
    stream: Box<dyn Read + Send>,
    room: u64,
) -> Result<Archive> {
    let wishes = &request.wishes;
    let counted = Count::default();
    let stream = Counted::new(stream, counted.clone());
    let input: Box<dyn Read + Send> = match &wishes.checksum {
        Some(checksum) => Box::new(Verify::new(stream, *checksum)),
        None => Box::new(stream),
    };
    let beside = (16 << 20).min(wishes.memory / 2);
    let budget = Budget { threads: wishes.threads, memory: wishes.memory - beside, beside };
    // Headers and padding take more than the files themselves only where these are tiny.
    let limit = room.saturating_mul(2).saturating_add(1 << 30);
    let options =
        stack::Options { budget, limit, on_boundary: None, decoded: request.options.decoded.clone() };
    let Stack { layers, reader, .. } = stack::stack_of_archive(input, &options)?;
    let head = reader.head();
    // An archive of nothing is zeros alone.
    if !looks_like_tar(head) && (head.is_empty() || head.iter().any(|&byte| byte != 0)) {
        let what = "this is not a tar archive, plain or in gzip, xz or zstd; a disk image wants contentType kubevirt";
        return Err(Error::of_bytes(what));
    }
    let most = room.max(wishes.max_size);
    Ok(Archive { source, layers, reader: Box::new(reader), counted, room, most })
}

impl Prepared {
    /// What will be done, for people.
    pub fn plan_text(&self) -> String {
        let folder = self.folder.path().display();
        let Some(archive) = &self.archive else {
            return format!(
                "the archive was unpacked by an earlier run; its files get their names in {folder}"
            );
        };
        let layers: Vec<_> = archive.layers.iter().map(|layer| layer.name()).collect();
        let packed = if layers.is_empty() { String::new() } else { format!(", in {}", layers.join(" in ")) };
        let (name, room) = (&archive.source.facts().name, human(archive.room));
        format!("the tar archive {name}{packed} is unpacked into {folder} while it arrives, at most {room}")
    }

    /// Unpacks it. After an error the folder is as it was before, unless its names were being given already.
    pub fn run(self, watch: &Watch) -> Result<Unpacked> {
        let Prepared { folder, archive } = self;
        let unpacked = match archive {
            None => Unpacked::default(),
            Some(archive) => {
                let done =
                    archive.unpack(&folder, watch).and_then(|unpacked| folder.seal().map(|()| unpacked));
                done.inspect_err(|_| {
                    if let Err(e) = folder.clear() {
                        tracing::warn!(
                            "what was unpacked until now stays in {}: {e}",
                            folder.path().display()
                        );
                    }
                })?
            }
        };
        folder.publish()?;
        Ok(unpacked)
    }
}

impl Archive {
    fn unpack(self, folder: &Folder, watch: &Watch) -> Result<Unpacked> {
        let Archive { source, reader, counted, room, most, .. } = self;
        let facts = source.facts();
        let mut staging = Staging::new(folder, folder.begin()?);
        watch.enter(Phase::Converting, facts.size.unwrap_or(0));
        watch.follow(Some(counted));
        let (steps, taken) = sync_channel(STEPS);
        let cannot = |e| Error::io("cannot start the thread that writes files", e);
        let (read, written) = thread::scope(|scope| {
            let writer = thread::Builder::new().name("files".into());
            let writer = writer.spawn_scoped(scope, || staging.take_all(taken, watch)).map_err(cannot)?;
            let read = apart(move || members::read(reader, members::Bounds { room, most }, watch, &steps));
            let read = read.map_err(Error::from).and_then(|read| read);
            let written = writer.join().map_err(|_| Error::failed("the thread that writes files has failed"));
            Ok::<_, Error>((read, written.and_then(|written| written)))
        })?;
        watch.follow(None);
        // Who stops because the other one did says less.
        let done = match (read, written) {
            (Ok(members::End::Stopped), Ok(_)) => Err(Error::failed("the archive was not read to its end")),
            (Ok(_), written) => written,
            (Err(e), Ok(_)) => Err(e),
            (Err(e), Err(other)) => Err(if watch.interrupted() { other } else { e }),
        };
        let done = done.map_err(|e| watch.outcome().err().unwrap_or(e).of(&facts.name));
        let unpacked = done.map_err(|e| source.unchanged().err().unwrap_or(e))?;
        source.unchanged()?;
        watch.enter(Phase::Finishing, 0);
        Ok(unpacked)
    }
}
