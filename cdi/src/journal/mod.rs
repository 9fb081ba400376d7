//! The journal, by which the same command can continue a run after kill -9 or a power cut:
//! `NAME.partial.journal`, beside `NAME.partial`. For a device it is `device-MAJOR-MINOR.journal`, in a
//! folder that the caller names (`target/block/start.rs`).
//!
//! ```text
//!  first record: Header — which source, which plan, which .partial        made durable before the first byte of data
//!  then:         Mark, Mark, Mark …   each appended only after the data up to it is durable
//! ```
//!
//! One record is one line, with its length and checksum in front (`frame.rs`). A torn last line counts as
//! never written. Only the last mark counts, so the file is rewritten when the older ones outweigh it.
//!
//! **Guarantee.** A mark is made only behind a successful sync of the data. After a failed mark a run makes
//! no other one, since the next sync does not cover the data that the failed one lost. The bytes of a failed
//! mark are cut off, or are torn and count as never written. A later run drops journal and target from the
//! page cache before it reads and writes them (`Handle::drop_cache`). It finds the last good mark on the
//! device, and writes everything behind that again.
//!
//! The claim of a target creates the journal (`target/file/claim.rs`), and the target removes it after the
//! rename. The engine calls [`Journal::mark`] through the closures of `convert/execute.rs`. `resume.rs`
//! decides, as a pure function, if a found journal may be followed.

mod frame;
mod resume;

pub use resume::{Mode, Resume, decide_resume};
pub(crate) use resume::{NO_MARK, begin_anew};

use crate::filter::Boundary;
use crate::filter::verify::SumAt;
use crate::run::pace::Took;
use crate::source::Identity;
use crate::target::Target;
use crate::target::disk::{Folder, Handle};
use crate::{Error, Result};
use disk_format::StreamPosition;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The layout of the records. A journal with another number is of another version of this program, and is not
/// followed.
const VERSION: u32 = 3;
/// Longest journal: a longer one was not written by this program.
const MAX_LEN: u64 = 64 << 20;
/// Below this length, old marks are kept.
const SMALL: u64 = if cfg!(test) { 1 << 10 } else { 256 << 10 };

/// The identity of a run, by which a later run can tell if it is the same conversion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversion {
    /// The name of the source, for messages: without a user, and without its query, which may hold a
    /// signature.
    pub source: String,
    /// Evidence that the source is the same, with a digest of its full name.
    pub identity: Option<Identity>,
    /// Everything else that decides the place of bytes in the target: format, size, flow, options. Compared
    /// as a whole.
    pub plan: String,
    /// The owner of the target's volume, for volumes that change owners: an earlier owner may have written
    /// any journal there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    journal: u32,
    #[serde(flatten)]
    job: Conversion,
    /// The identity of its `.partial`; a file that was copied or made anew has another one.
    partial: String,
}

/// The progress of a run. Everything before it is durable in the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Position where a later run goes on.
    pub position: Position,
    /// Bytes of data written before the position: a run that goes on there does not write them again. In a stream
    /// with zeros before the position these may be a few less than there are.
    pub written: u64,
    /// The sum of the disk up to here, if the run verifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<String>,
}

/// A position where a run can go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Position {
    /// A seekable image, read by its tables. The window that begins at this guest offset was in work. Of its
    /// extents, read in the order of the file, everything before the offset `done` is in the target. All
    /// windows before it are complete.
    Table {
        /// Guest offset where the window begins.
        window: u64,
        /// Offset in the image file.
        done: u64,
    },
    /// A stream that can be entered again here.
    Stream {
        /// The boundary where the decoder begins.
        boundary: Boundary,
        /// The guest's disk is complete up to here.
        guest: u64,
        /// The sum of the source's bytes at the boundary or before it, if a checksum is expected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<SumAt>,
        /// The sum at the boundary or behind it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        behind: Option<SumAt>,
        /// State of the reader of an image with tables, at the boundary or behind it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<Tables>,
    },
}

impl Position {
    /// Guest offset up to which the disk is complete.
    pub(crate) fn guest(&self) -> u64 {
        match self {
            Position::Table { window: guest, .. } | Position::Stream { guest, .. } => *guest,
        }
    }
}

/// [`disk_format::StreamPosition`] in its stored form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// Bytes at the front of the image that hold its tables.
    pub front: u64,
    /// The SHA-256 of these bytes in hex, as the first run read them. A later run requests them once more,
    /// and only the digest shows that they are the same. A journal without it is not followed.
    pub digest: String,
    /// Everything before this byte of the image is done.
    pub at: u64,
    /// Known data behind it: guest offset, bytes, offset in the image.
    pub pending: Vec<(u64, u64, u64)>,
}

impl Tables {
    /// `digest`: that of the bytes at the front.
    pub fn new(position: StreamPosition, digest: String) -> Tables {
        let StreamPosition { front, at, pending } = position;
        Tables { front, digest, at, pending }
    }

    /// The state of the reader.
    pub fn position(&self) -> StreamPosition {
        StreamPosition { front: self.front, at: self.at, pending: self.pending.clone() }
    }
}

/// The state that an earlier run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    Nothing,
    /// A journal that cannot be followed, with the reason as the end of a sentence.
    Useless(String),
    /// A conversion and its progress (`None`: it ended before its first mark).
    Run(Box<Conversion>, Option<Mark>),
}

/// The journal of the present run.
pub struct Journal {
    folder: Arc<dyn Folder>,
    name: OsString,
    /// The encoded header, for a rewrite.
    header: Vec<u8>,
    open: Mutex<Open>,
}

struct Open {
    file: Box<dyn Handle>,
    len: u64,
    /// True once a mark has failed; no further one is made.
    has_failed: bool,
}

impl Journal {
    /// Syncs everything that was written to `target` before this call, then makes `mark` durable. The caller
    /// must have written all data that `mark` covers. After one mark has failed, all later ones fail.
    pub fn mark(&self, target: &dyn Target, mark: &Mark) -> Result<Took> {
        let record = frame::encode(mark)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut open.has_failed, true) {
            let journal = self.folder.path(&self.name);
            let what = format!("nothing more is written to {}: it has failed in this run", journal.display());
            return Err(Error::failed(what));
        }
        let since = Instant::now();
        target.sync()?;
        let sync = since.elapsed();
        let least = self.header.len() as u64 + record.len() as u64;
        let done = if open.len > SMALL.max(4 * least) {
            self.rewrite(&mut open, &record)
        } else {
            append(&mut open, &record)
        };
        done.map_err(|e| Error::io(format!("cannot write {}", self.folder.path(&self.name).display()), e))?;
        open.has_failed = false;
        Ok(Took { sync, record: since.elapsed().saturating_sub(sync) })
    }

    /// Creates a journal, in place of an older one. The caller syncs the folder before the first mark.
    pub(crate) fn create(
        folder: Arc<dyn Folder>,
        name: &OsStr,
        job: &Conversion,
        partial: String,
    ) -> Result<Self> {
        let header = frame::encode(&Header { journal: VERSION, job: job.clone(), partial })?;
        let file = folder.create(name).and_then(|file| {
            file.write_at(&header, 0)?;
            file.sync()?;
            Ok(file)
        });
        let file = file.map_err(|e| {
            // A part of a header is of no use, and takes room.
            if let Err(e) = folder.remove(name) {
                tracing::warn!("{} is left behind: {e}", folder.path(name).display());
            }
            Error::io(format!("cannot make {}", folder.path(name).display()), e)
        })?;
        let open = Mutex::new(Open { file, len: header.len() as u64, has_failed: false });
        Ok(Journal { folder, name: name.to_owned(), header, open })
    }

    /// Reads the journal `name` of the file `partial`.
    pub(crate) fn read(folder: &dyn Folder, name: &OsStr, partial: &str) -> Result<Before> {
        match read(folder, name, partial) {
            Ok(Earlier::Nothing) => Ok(Before::Nothing),
            Ok(Earlier::Useless(why)) => Ok(Before::Useless(why)),
            Ok(Earlier::Whole(found)) => Ok(Before::Run(Box::new(found.header.job), found.mark)),
            Err(e) => Err(Error::io(format!("cannot read {}", folder.path(name).display()), e)),
        }
    }

    /// Opens the journal that [`Journal::read`] found, to continue it.
    pub(crate) fn reopen(folder: Arc<dyn Folder>, name: &OsStr, partial: &str) -> Result<Self> {
        let failed = |e| Error::io(format!("cannot go on with {}", folder.path(name).display()), e);
        let found = match read(&*folder, name, partial).map_err(failed)? {
            Earlier::Whole(found) => found,
            _ => return Err(failed(std::io::Error::other("it changed while it was read"))),
        };
        // A torn last line must not stand between the marks before it and those to come.
        found.file.set_len(found.len).map_err(failed)?;
        let header = frame::encode(&found.header)?;
        let open = Mutex::new(Open { file: found.file, len: found.len, has_failed: false });
        Ok(Journal { folder, name: name.to_owned(), header, open })
    }

    /// Writes the header and one mark to a new file and renames it: at every moment one of the two files is
    /// complete.
    fn rewrite(&self, open: &mut Open, record: &[u8]) -> std::io::Result<()> {
        let new = scratch_name(&self.name);
        let file = self.folder.create(&new)?;
        let bytes = [&self.header, record].concat();
        file.write_at(&bytes, 0)?;
        file.sync()?;
        self.folder.rename(&new, &self.name)?;
        (open.file, open.len) = (file, bytes.len() as u64);
        // Until this is durable, later marks may be lost with the new name; they are only lost, never wrong.
        self.folder.sync()
    }
}

/// Removes a journal durably, if there is one. Its marks are not true once other bytes are written, and must
/// not come back with the power.
pub(crate) fn forget(folder: &dyn Folder, name: &OsStr) -> std::io::Result<()> {
    if remove(folder, name)? { folder.sync() } else { Ok(()) }
}

fn remove(folder: &dyn Folder, name: &OsStr) -> std::io::Result<bool> {
    folder.remove(&scratch_name(name))?;
    folder.remove(name)
}

/// Removes the journal of the file `partial`. A journal of another file stays: its run is going on.
pub(crate) fn remove_of(folder: &dyn Folder, name: &OsStr, partial: &str) -> std::io::Result<()> {
    let Some(file) = folder.open(name)? else { return Ok(()) };
    let bytes = contents(&*file)?.unwrap_or_default();
    let header = frame::Records::new(&bytes).next().map(serde_json::from_slice::<Header>);
    if let Some(Ok(header)) = header
        && header.partial == partial
        && file.remove(name)?
    {
        folder.remove(&scratch_name(name))?;
    }
    Ok(())
}

/// Name of the journal of an unfinished file.
pub(crate) fn name_of(partial: &OsStr) -> OsString {
    let mut name = partial.to_owned();
    name.push(".journal");
    name
}

/// True if the file of this name is a journal that this user wrote; with `partial`, that of the file with this identity.
pub(crate) fn is_journal(folder: &dyn Folder, name: &OsStr, partial: Option<&str>) -> bool {
    let Ok(Some(file)) = folder.open(name) else { return false };
    let (Ok(None), Ok(Some(bytes))) = (file.strange(), contents(&*file)) else { return false };
    let header = frame::Records::new(&bytes).next().map(serde_json::from_slice::<Header>);
    matches!(header, Some(Ok(header)) if partial.is_none_or(|partial| header.partial == partial))
}

fn scratch_name(name: &OsStr) -> OsString {
    let mut new = name.to_owned();
    new.push("~");
    new
}

fn append(open: &mut Open, record: &[u8]) -> std::io::Result<()> {
    let appended = open.file.write_at(record, open.len).and_then(|()| open.file.sync());
    match appended {
        Ok(()) => open.len += record.len() as u64,
        // If the cut fails, the record is torn, or no sync has shown that it is there.
        Err(_) => drop(open.file.set_len(open.len)),
    }
    appended
}

enum Earlier {
    Nothing,
    Useless(String),
    Whole(Box<Whole>),
}

struct Whole {
    file: Box<dyn Handle>,
    header: Header,
    mark: Option<Mark>,
    /// Offset of the next record.
    len: u64,
}

fn read(folder: &dyn Folder, name: &OsStr, partial: &str) -> std::io::Result<Earlier> {
    let useless = |why: &str| Ok(Earlier::Useless(why.to_owned()));
    let file = match folder.open(name) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(Earlier::Nothing),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            return useless("its journal is not believed: it is another user's, and may not be read");
        }
        Err(e) => return Err(e),
    };
    if let Some(why) = file.strange()? {
        return Ok(Earlier::Useless(format!("its journal is not believed: {why}")));
    }
    // A mark that was never written to the device does not count.
    file.drop_cache();
    let Some(bytes) = contents(&*file)? else {
        return useless("its journal is larger than any that this program writes");
    };
    let mut records = frame::Records::new(&bytes);
    let Some(header) = records.next() else {
        // Torn before it was complete: the run did not come to its first byte.
        return Ok(Earlier::Nothing);
    };
    let Ok(version) = serde_json::from_slice::<Version>(header) else {
        return useless("its journal is not one of this program");
    };
    if version.journal != VERSION {
        return useless("its journal was written by another version of this program");
    }
    let Ok(header) = serde_json::from_slice::<Header>(header) else {
        return useless("its journal begins with a record that makes no sense");
    };
    if header.partial != partial {
        return useless("the .partial file is not the one its journal was written for");
    }
    let Some(mark) = records.by_ref().last().map(serde_json::from_slice::<Mark>).transpose().ok() else {
        return useless("the last mark in its journal makes no sense");
    };
    let len = records.end() as u64;
    Ok(Earlier::Whole(Box::new(Whole { file, header, mark, len })))
}

/// The bytes of a journal; `None` if there are more than this program writes.
fn contents(file: &dyn Handle) -> std::io::Result<Option<Vec<u8>>> {
    let len = file.len()?;
    if len > MAX_LEN {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(std::io::Error::other)?];
    file.read_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

#[derive(Deserialize)]
struct Version {
    journal: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_whose_tables_have_no_digest_is_not_gone_on_with() {
        let position = StreamPosition { front: 262_144, at: 4 << 20, pending: vec![(0, 65536, 4 << 20)] };
        let tables = Tables::new(position.clone(), "00ff".to_owned());
        assert_eq!(tables.position(), position);
        let text = serde_json::to_string(&tables).unwrap();
        assert_eq!(serde_json::from_str::<Tables>(&text).unwrap(), tables);
        let older = text.replace(r#""digest":"00ff","#, "");
        assert!(older != text && serde_json::from_str::<Tables>(&older).is_err(), "{older}");
    }
}
