//! Where a disk ends up: nothing stands under the final name until it is whole and durable.
//!
//! | name | file | order of writes | zeros |
//! |---|---|---|---|
//! | a path | `file.rs` | any | holes of a fresh `NAME.partial` |
//! | a block device | `block.rs` | any | BLKZEROOUT, or a punched hole that zeroes |
//! | `-` | `stdout.rs` | guest order | written |
//! | a layer of an image | `layer.rs` | guest order | written, and packed |
//! | nowhere, to check a disk | `nowhere.rs` | any | forgotten |
//!
//! ```text
//!  Destination::of(name) ─┬─ File ───► Claim::take ─► start(job, mode) ─► FileTarget + Journal + the mark to go on from
//!                   │            refuse.rs        journal/              │ disk.rs: Folder, Handle (real.rs; sim.rs in tests)
//!                   ├─ Device ─► BlockTarget::open ─► start (with a folder for its journal) │ container_disk::behind: write-behind
//!                   └─ Stdout ─► StdoutTarget::new                      ▼
//!                                                       write, zero, mark … finish
//! ```
//!
//! `convert` starts and finishes these, and the engine writes to them. A target makes no decision about formats; whoever writes a format (qcow2) into a file
//! writes it through a `FileTarget`, whose offsets are then those of the file. `held.rs` tells who else has a file or a
//! device, for the sentences of refusals; `storage.rs` what lies below it. Behind a sync that failed, none of the same target
//! succeeds (`sync_guard.rs`): nothing is marked or named any more in that run.
//!
//! | refused | kind |
//! |---|---|
//! | a link, a folder, a pipe, a file bound into place, a device that is too small, a place that the source is stored in | `Refused` |
//! | in use, no permission, read-only, too little room | `Failed`: it may work later |
//! | the folder does not exist | `NotFound` |
//! | no name of a file, a URL, a terminal | `Usage` |

mod block;
pub(crate) mod disk;
mod file;
mod held;
mod layer;
mod nowhere;
mod place;
mod real;
mod refuse;
#[cfg(test)]
mod sim;
mod stdout;
pub(crate) mod storage;
mod sync_guard;

pub use block::{BlockTarget, forget};
pub use file::{Claim, FileOptions, FileTarget, Started, discard};
pub use layer::{LayerTarget, Made};
pub use nowhere::Nowhere;
pub use place::Destination;
pub use stdout::StdoutTarget;

use crate::Result;

/// A place for the guest's bytes. Writers call from several threads where [`Target::order`] is `Any`.
pub trait Target: Send + Sync {
    /// Whether ranges may be written in any order.
    fn order(&self) -> Order;

    /// The size of what will be written, where that is known before the first byte. For targets that want it first.
    fn announce(&self, _size: u64) -> Result<()> {
        Ok(())
    }

    /// Writes guest bytes. The caller has already looked for zeros: `data` is worth writing.
    fn write(&self, guest: u64, data: &[u8]) -> Result<()>;

    /// Makes a range read as zeros. Free where the target is known to hold zeros there.
    fn zero(&self, guest: u64, len: u64) -> Result<()>;

    /// Tells the disk's size where it was not known when the target was made (the end of a raw stream). A target that
    /// needs to know it from the start does nothing here.
    fn set_size(&self, _size: u64) -> Result<()> {
        Ok(())
    }

    /// Everything written before this call survives a power cut after it.
    fn sync(&self) -> Result<()>;

    /// The disk is whole: sync, put it under its final name, sync the folder. Not called on failure.
    fn finish(self: Box<Self>) -> Result<Finished>;
}

/// The order a target wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Any.
    Any,
    /// By rising guest offset, without gaps: each range is written or zeroed.
    Guest,
}

/// What a finished target tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Finished {
    /// Bytes the file takes on the disk (or were sent).
    pub allocated: u64,
}
