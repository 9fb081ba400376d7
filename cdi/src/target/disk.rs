//! File operations whose order decides the state after a power cut, as two small traits.
//!
//! The file target and the journal use nothing else to change a folder. So a test can replace it by a
//! simulated folder that records the durable state, and cut the power after every single operation
//! (`crash.rs`).

use crate::Result;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use storage::publish::ExistingFile;

/// The files of one folder.
pub(crate) trait Folder: Send + Sync {
    /// Opens a file for this process alone, and creates it if missing, readable by this user only. Refused if
    /// another process has it. A file that other users own or can write is never used, since another user may
    /// have put it there.
    fn claim(&self, name: &OsStr, foreign: ForeignFile) -> Result<Claimed>;

    /// Opens a file that may not exist.
    fn open(&self, name: &OsStr) -> io::Result<Option<Box<dyn Handle>>>;

    /// Creates an empty file, readable by this user only, in place of one of that name.
    fn create(&self, name: &OsStr) -> io::Result<Box<dyn Handle>>;

    /// Renames a file, and replaces the file of the new name.
    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Removes a name. True if it existed.
    fn remove(&self, name: &OsStr) -> io::Result<bool>;

    /// Makes all earlier changes of names durable.
    fn sync(&self) -> io::Result<()>;

    /// Bytes that may still be written, by the file system.
    fn free(&self) -> io::Result<u64>;

    /// The path of a name, for messages.
    fn path(&self, name: &OsStr) -> PathBuf;
}

/// The treatment of a file of our name that other users own or can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignFile {
    /// The file is removed, and a new one takes its place.
    Replace,
    /// The file stays, and the run fails.
    Refuse,
}

/// A file that [`Folder::claim`] opened.
pub(crate) struct Claimed {
    pub(crate) file: Arc<dyn Handle>,
    /// True if it did not exist before.
    pub(crate) created: bool,
    /// False if its file system has no locks, so that another process may be writing it.
    pub(crate) is_locked: bool,
}

pub(crate) trait Handle: Send + Sync {
    /// Writes all of `data`.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Makes a range read as zeros; `keep`: its blocks stay reserved.
    fn zero(&self, offset: u64, len: u64, keep: bool) -> io::Result<()>;

    /// Reserves blocks for the first `len` bytes.
    fn reserve(&self, len: u64) -> io::Result<()>;

    /// Truncates or extends (with a hole).
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Bytes it takes on the disk.
    fn allocated(&self) -> io::Result<u64>;

    /// Sets mode and owner to those of the file that it will replace, or to those of a new disk. Other users
    /// may then have access, so slow steps come before.
    fn take_after(&self, old: Option<&OldAttributes>) -> io::Result<()>;

    /// Starts to write out cached data, and drops pages that are on the device; without guarantee.
    fn write_out(&self);

    /// Writes the cached data out and drops it, so that later reads and writes use the device. Pages that an
    /// earlier process could not write read as if they had been written. If such a page is written again
    /// while it is cached, ext4 writes the block and never records that it holds data, so the device reads as
    /// zeros there. That process may have left an unreported error, which does not concern later writes.
    fn drop_cache(&self);

    /// Makes all earlier writes and the length durable.
    fn sync(&self) -> io::Result<()>;

    /// Also makes mode and owner durable.
    fn sync_all(&self) -> io::Result<()>;

    /// The reason to distrust the content: another user owns the file, or can write to it.
    fn strange(&self) -> io::Result<Option<String>>;

    /// The reason why its owner proves nothing: its file system shows all files as this user's.
    fn doubt(&self) -> io::Result<Option<String>>;

    /// An ID that differs from those of all other files that ever had this name.
    fn identity(&self) -> io::Result<String>;

    /// Time since the last write, by the clock of the file system.
    fn age(&self) -> io::Result<Duration>;

    /// Renames this file, a complete disk, from `from` to its final name, and replaces `over` only: `NotFound`
    /// if `from` is not its name any more, `AlreadyExists` if another file has the final name, `ResourceBusy`
    /// if another process uses `over` by now.
    fn publish(&self, from: &OsStr, to: &OsStr, over: Option<&ExistingFile>) -> io::Result<()>;

    /// Removes a name of this file. False if the name is free, or another file's.
    fn remove(&self, name: &OsStr) -> io::Result<bool>;
}

/// The file that the new disk replaces.
pub(crate) struct Replaced {
    pub(crate) standing: ExistingFile,
    pub(crate) kept: Option<OldAttributes>,
}

/// Attributes that the new disk takes over from the file that it replaces, if that file can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OldAttributes {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}
