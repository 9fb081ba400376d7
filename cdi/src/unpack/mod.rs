//! An archive → the files in a folder, for a DataVolume of the contentType `archive`.
//!
//! ```text
//!  source ─► checksum ─► gzip, xz, zstd ─► tar ─► members.rs          a thread that can open nothing
//!                                                   │ Step: folder, file, bytes (a few at a time)
//!                                                   ▼
//!  folder/  .cdi-OWNER.partial/…    made step by step, links never followed        staging.rs
//!             │ all of it is complete, durable                                    folder.rs
//!           .cdi-OWNER.whole/…  ── each name ──► the folder itself, and the mark .cdi-OWNER.done
//! ```
//!
//! **Unpacked** are files and folders with their permissions (never setuid, setgid, sticky), owned by this
//! user, holes as holes. **Refused**, with their names, are links of both kinds, devices, pipes, names that
//! lead out of the folder, names that come twice or exist in the folder already, more bytes than the folder
//! holds, holes longer than any disk. So the author of the archive can neither reach out of the folder nor
//! change files in it.
//!
//! **A run that broke off** leaves its `.partial`, which the next one removes: an archive is read from its
//! beginning. Once everything was read and is durable it is `.whole`. From there the next run only publishes
//! the names ([`go_on`]), without the source; a run after the end finds the mark. All these names contain the
//! owner's name (the uid of the PVC), which earlier users of the volume could not know.
//!
//! **Caveat.** A complete archive belongs to its PVC: another archive, of a client that uploads again, does
//! not replace it.

#[cfg(test)]
mod disk;
mod folder;
mod members;
mod staging;
#[cfg(test)]
mod tests;

use crate::filter::progress::{Count, CountingReader};
use crate::filter::stack::{self, Stack};
use crate::filter::verify::Verify;
use crate::filter::{Budget, Layer, looks_like_tar};
use crate::permissions::Permissions;
use crate::plan::ConvertOptions;
use crate::run::watch::{Phase, Watch};
use crate::size::human;
use crate::source::{self, Options, Source, SourceSpec};
use crate::{Error, Result};
use container_disk::run_confined;
use folder::Folder;
use staging::Staging;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

/// The most steps that wait for the writer: as many pieces of [`members::PIECE`] bytes.
const STEPS: usize = 16;

/// Input of an unpacking.
#[derive(Debug, Clone)]
pub struct Request {
    pub source: SourceSpec,
    /// The folder that the files are unpacked into.
    pub folder: PathBuf,
    /// Options for opening the source.
    pub options: Options,
    /// Checksum, memory, owner of the folder, and (`resize`) the most bytes of all files.
    pub convert_options: ConvertOptions,
}

impl Request {
    /// Files of the host that the unpacking uses.
    pub fn permissions(&self) -> Result<Permissions> {
        Ok(Permissions::new().source(&self.source, &self.options)?.folder(&self.folder))
    }
}

/// An archive whose first bytes have been checked, and its target folder.
pub struct Prepared {
    folder: Folder,
    /// `None` if an earlier run left a complete archive.
    archive: Option<Archive>,
}

/// The result of an unpacking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub files: u64,
    /// Folders that the archive names.
    pub folders: u64,
    /// Bytes of the files, without holes.
    pub bytes: u64,
}

impl Unpacked {
    /// The result in one line of text.
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
    /// The most bytes of its files, without holes.
    room: u64,
    /// The most bytes with holes.
    most: u64,
}

/// Opens the source and checks its beginning. Nothing is written. The files of an earlier run of the same
/// owner are removed, since they take space.
pub fn prepare(request: &Request, watch: &Watch) -> Result<Prepared> {
    watch.enter(Phase::Opening, 0);
    let folder = Folder::open(&request.folder, request.convert_options.owner.as_deref().unwrap_or_default())?;
    folder.clear()?;
    if folder.is_whole()? || folder.is_done()? {
        // The client may be uploading another archive now.
        return match request.source {
            SourceSpec::Upload(_) => {
                Err(Error::failed("the volume has its archive already, of an earlier upload"))
            }
            _ => Ok(Prepared { folder, archive: None }),
        };
    }
    let source = source::open(&request.source, &request.options)?;
    let room = folder.room()?.min(request.convert_options.resize.unwrap_or(u64::MAX));
    let name = source.facts().name.clone();
    let stream = source.stream(0)?;
    let archive = run_confined(|| peel(request, source, stream, room))?.map_err(|e| e.of(&name))?;
    Ok(Prepared { folder, archive: Some(archive) })
}

/// Publishes the names of a complete archive that an earlier run of this owner left. True if there is one,
/// with all its names now.
pub fn go_on(folder: &Path, owner: &str) -> Result<bool> {
    let folder = Folder::open(folder, owner)?;
    folder.publish()?;
    folder.is_done()
}

/// True if an earlier run of this owner left a complete archive with unpublished names.
pub fn is_left_whole(folder: &Path, owner: &str) -> Result<bool> {
    Folder::open(folder, owner)?.is_whole()
}

/// Removes the compression, and checks that an archive is inside.
fn peel(
    request: &Request,
    source: Arc<dyn Source>,
    stream: Box<dyn Read + Send>,
    room: u64,
) -> Result<Archive> {
    let convert_options = &request.convert_options;
    let counted = Count::default();
    let stream = CountingReader::new(stream, counted.clone());
    let input: Box<dyn Read + Send> = match &convert_options.checksum {
        Some(checksum) => Box::new(Verify::new(stream, *checksum)),
        None => Box::new(stream),
    };
    let beside = (16 << 20).min(convert_options.memory / 2);
    let budget = Budget { threads: convert_options.threads, memory: convert_options.memory - beside, beside };
    // Headers and padding take more than the files themselves only if these are tiny.
    let limit = room.saturating_mul(2).saturating_add(1 << 30);
    let options =
        stack::Options { budget, limit, on_boundary: None, decoded: request.options.decoded.clone() };
    let Stack { layers, reader, .. } = stack::stack_of_archive(input, &options)?;
    let head = reader.head();
    // An archive of nothing consists of zeros.
    if !looks_like_tar(head) && (head.is_empty() || head.iter().any(|&byte| byte != 0)) {
        let what = "this is not a tar archive, plain or in gzip, xz or zstd; a disk image wants contentType kubevirt";
        return Err(Error::of_bytes(what));
    }
    let most = room.max(convert_options.max_size);
    Ok(Archive { source, layers, reader: Box::new(reader), counted, room, most })
}

impl Prepared {
    /// The plan as text.
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

    /// Unpacks the archive. After an error the folder is as it was before, unless the names were being
    /// published already.
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
            let read =
                run_confined(move || members::read(reader, members::Bounds { room, most }, watch, &steps));
            let read = read.map_err(Error::from).and_then(|read| read);
            let written = writer.join().map_err(|_| Error::failed("the thread that writes files has failed"));
            Ok::<_, Error>((read, written.and_then(|written| written)))
        })?;
        watch.follow(None);
        // The thread that stopped because of the other one has the less useful error.
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
