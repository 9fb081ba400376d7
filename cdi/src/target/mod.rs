//! Targets of a disk. No file has the final name until the disk is complete and durable.
//!
//! | name | file | order of writes | zeros |
//! |---|---|---|---|
//! | a path | `file.rs` | any | holes of a fresh `NAME.partial` |
//! | a block device | `block.rs` | any | BLKZEROOUT, or a punched hole that zeroes |
//! | `-` | `stdout.rs` | guest order | written |
//! | a layer of an image | `layer.rs` | guest order | written, and packed |
//! | nothing, to check a disk | `null.rs` | any | forgotten |
//!
//! ```text
//!  Destination::from_name(name) ─┬─ File ───► Claim::take ─► start(job, mode) ─► FileTarget + Journal + the mark to continue from
//!                   │            refuse.rs        journal/              │ disk.rs: Folder, Handle (real_folder.rs; sim.rs in tests)
//!                   ├─ Device ─► BlockTarget::open ─► start (with a folder for its journal) │ container_disk::write_behind: write-behind
//!                   └─ Stdout ─► StdoutTarget::new                      ▼
//!                                                       write, zero, mark … finish
//! ```
//!
//! `convert` starts and finishes the targets, and the engine writes to them. A target makes no decision about
//! formats: a qcow2 is written through a `FileTarget`, whose offsets are then those of the file. The package
//! `storage` finds the users of a file or a device, and the storage below it. After a
//! failed sync no other sync of the same target succeeds (`sync_guard.rs`): the run makes no more marks and
//! publishes nothing.
//!
//! | refused | kind |
//! |---|---|
//! | a link, a folder, a pipe, a file bound into place, a device that is too small, a target that contains the source | `Refused` |
//! | in use, no permission, read-only, too little room | `Failed`: it may work later |
//! | the folder does not exist | `NotFound` |
//! | not a file name, a URL, a terminal | `Usage` |

mod block;
pub(crate) mod disk;
mod file;
mod layer;
mod null;
mod place;
pub(crate) mod real_folder;
mod refuse;
#[cfg(test)]
mod sim;
mod stdout;
mod sync_guard;

pub use block::{BlockTarget, forget};
pub use file::{Claim, FileOptions, FileTarget, Started, discard};
pub(crate) use layer::mistaken;
pub use layer::{LayerTarget, SharedLayer};
pub use null::NullTarget;
pub use place::Destination;
pub use stdout::StdoutTarget;

use crate::Result;

/// A target for the guest's bytes. Writers call from several threads if [`Target::order`] is `Any`.
pub trait Target: Send + Sync {
    /// The order in which ranges must be written.
    fn order(&self) -> Order;

    /// Announces the final size, if it is known before the first byte. For targets that need it first.
    fn announce(&self, _size: u64) -> Result<()> {
        Ok(())
    }

    /// Writes guest bytes. The caller has already removed zeros.
    fn write(&self, guest: u64, data: &[u8]) -> Result<()>;

    /// Makes a range read as zeros. Free if the target is known to hold zeros there.
    fn zero(&self, guest: u64, len: u64) -> Result<()>;

    /// Sets the disk's size if it was not known when the target was made (the end of a raw stream). A target
    /// that needs the size from the start does nothing here.
    fn set_size(&self, _size: u64) -> Result<()> {
        Ok(())
    }

    /// Makes everything written before this call durable.
    fn sync(&self) -> Result<()>;

    /// Ends a complete disk: syncs it, renames it to its final name, syncs the folder. Not called on failure.
    fn finish(self: Box<Self>) -> Result<Finished>;
}

/// The order of writes that a target needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Any,
    /// By rising guest offset, without gaps: each range is written or zeroed.
    Guest,
}

/// The result of a finished target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Finished {
    /// Bytes the file takes on the disk (or were sent).
    pub allocated: u64,
}
