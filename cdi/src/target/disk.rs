//! The operations whose order decides what a power cut leaves behind, behind two small traits.
//!
//! The file target and the journal use nothing else to change a folder, so that a test can stand in a folder which
//! remembers what was truly durable, and cut the power after every single operation (`crash.rs`).

use crate::Result;
use container_disk::publish::Standing;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

/// The files of one folder.
pub(crate) trait Folder: Send + Sync {
    /// Opens a file for this process alone, and makes it if it is not there, such that nobody else may read it. Refused
    /// when another process has it. One that is not this user's alone is never used: somebody put it there.
    fn claim(&self, name: &OsStr, strangers: Strangers) -> Result<Claimed>;

    /// Opens a file that may not be there.
    fn open(&self, name: &OsStr) -> io::Result<Option<Box<dyn Handle>>>;

    /// Makes an empty file that nobody else may read, in place of one of that name.
    fn create(&self, name: &OsStr) -> io::Result<Box<dyn Handle>>;

    /// Gives a file another name, in place of whatever has that name.
    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Gives a whole file its final name, in place of `over` alone: `AlreadyExists` where another file has that name.
    fn publish(&self, from: &OsStr, to: &OsStr, over: Option<&Standing>) -> io::Result<()>;

    /// Removes a name, if it is there. Whether it was.
    fn remove(&self, name: &OsStr) -> io::Result<bool>;

    /// Names made, changed and removed before this call stay so after a power cut.
    fn sync(&self) -> io::Result<()>;

    /// Bytes that may still be written, as far as the file system tells.
    fn free(&self) -> io::Result<u64>;

    /// The path of a name, for messages.
    fn path(&self, name: &OsStr) -> PathBuf;
}

/// What becomes of a file that is not this user's alone and has a name of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strangers {
    /// It is removed, and one of ours takes its place.
    Replaced,
    /// It stays, and that is an error.
    Refused,
}

/// A file that [`Folder::claim`] opened.
pub(crate) struct Claimed {
    pub(crate) file: Box<dyn Handle>,
    /// It was not there before.
    pub(crate) created: bool,
}

/// An open file.
pub(crate) trait Handle: Send + Sync {
    /// Writes all of `data`.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;

    /// Fills `buf`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Makes a range read as zeros; `keep`: its blocks stay reserved.
    fn zero(&self, offset: u64, len: u64, keep: bool) -> io::Result<()>;

    /// Reserves blocks for the first `len` bytes.
    fn reserve(&self, len: u64) -> io::Result<()>;

    /// Cuts or grows (with a hole).
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// How long it is.
    fn len(&self) -> io::Result<u64>;

    /// Bytes it takes on the disk.
    fn allocated(&self) -> io::Result<u64>;

    /// Gives it the mode and the owner of the file that it will replace, or those of a new disk. From now on it is perhaps
    /// not this user's alone: what takes long comes before.
    fn take_after(&self, old: Option<&Kept>) -> io::Result<()>;

    /// Lets the system begin to write out what it holds, and forget what is on the device; promises nothing.
    fn write_out(&self);

    /// Writes what the page cache holds of it, and drops that: what is read and written from now on goes by the device. Pages that
    /// an earlier process could not write read as if they had been written; and where one is written again while it is in the
    /// cache, ext4 writes the block and never records that it holds data, so that the device reads as zeros there. That process
    /// may have left an error that nobody was told; it says nothing of what is written from now on.
    fn drop_cache(&self);

    /// What was written before this call, and the length, survive a power cut after it.
    fn sync(&self) -> io::Result<()>;

    /// The same, with its mode and owner.
    fn sync_all(&self) -> io::Result<()>;

    /// Why what it says cannot be believed: it is another user's, or others may write to it.
    fn strange(&self) -> io::Result<Option<String>>;

    /// Why its owner proves nothing: its file system shows everybody's files as this user's.
    fn doubt(&self) -> io::Result<Option<String>>;

    /// Tells this very file from any other that ever had its name.
    fn identity(&self) -> io::Result<String>;
}

/// The file whose place the new disk takes.
pub(crate) struct Replaced {
    pub(crate) standing: Standing,
    pub(crate) kept: Option<Kept>,
}

/// What the new disk takes over from the file whose place it takes, where that file can be trusted to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}
