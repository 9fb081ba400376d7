//! A claim's file system and the disk in it: `disk.img`, made sparse where it is missing, grown where the claim grew.
//!
//! ```text
//!  missing    capacity, less what the file system keeps for itself     sparse; refused where less than 90 % of it fits
//!  smaller    the claim grew: as large as it may be now                a guest sees it at its next start
//!  larger     left alone
//! ```

use crate::node::error::{Error, Kind, Result};
use crate::node::pod::Folder;
use crate::node::pod::beneath::{Access, Held, LAUNCHER, give};
use api::vmi::ClaimInfo;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

/// The disk in a claim.
pub const DISK: &str = "disk.img";
/// Bytes that are left to the file system where a disk is made to fill it.
const RESERVE: u64 = 128 << 10;
/// How much smaller than asked a disk may be, in percent.
const TOLERATED: u64 = 10;
/// What a file system is taken to keep for itself where the cluster does not say, in percent.
const OVERHEAD: f64 = 0.06;
/// Disks end at whole mebibytes.
const WHOLE: u64 = 1 << 20;

/// What is wanted of a claim's disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    claim: String,
    /// Bytes that were asked for.
    capacity: Option<u64>,
    /// The part of them that the file system keeps.
    overhead: f64,
    /// It is there and stays as it is.
    readonly: bool,
}

impl Wish {
    /// By what the cluster knows of the claim.
    pub fn of(claim: &str, info: Option<&ClaimInfo>, readonly: bool) -> Wish {
        let bytes = |list: &std::collections::BTreeMap<String, api::quantity::Quantity>| {
            list.get("storage").and_then(api::quantity::Quantity::bytes)
        };
        let of = |info: &ClaimInfo| match (bytes(&info.requests), bytes(&info.capacity)) {
            (Some(request), Some(capacity)) => Some(request.min(capacity)),
            (request, capacity) => capacity.or(request),
        };
        let overhead = info.and_then(|info| info.filesystem_overhead.as_ref()?.parse().ok());
        Wish {
            claim: claim.to_owned(),
            capacity: info.and_then(of),
            overhead: overhead.filter(|part| (0.0..1.0).contains(part)).unwrap_or(OVERHEAD),
            readonly,
        }
    }

    /// How large a disk may be without filling the file system to its last byte.
    fn largest(&self, capacity: u64) -> u64 {
        // A part of a whole: no more than it, and exact enough for mebibytes.
        let usable = (capacity as f64 * (1.0 - self.overhead)) as u64;
        usable.min(capacity) / WHOLE * WHOLE
    }
}

/// Makes the disk of a claim ready. Gives back the file that was looked at, and what a person should know.
pub fn ready(folder: &Folder, wish: &Wish) -> Result<(Held, Option<String>)> {
    let unusable = |e: Error| {
        let what = format!("the claim {} has no disk that can be used", wish.claim);
        Error::new(e.kind(), what).because(e)
    };
    let held = match folder.held(DISK) {
        Err(e) if e.kind() == Kind::NotFound && !wish.readonly => return make(folder, wish),
        held => held.map_err(unusable)?,
    };
    // A claim that is only read may lie on a file system that is, too.
    if wish.readonly {
        return held.open(Access::Read).map_err(unusable).map(|_| (held, None));
    }
    let file = held.open(Access::Write).map_err(unusable)?;
    let size = size(&file, folder)?;
    if let Some(capacity) = wish.capacity {
        grow(&file, folder, size, wish.largest(capacity))?;
    }
    own(&file, folder, DISK)?;
    Ok((held, None))
}

/// Makes the file of a hostDisk ready. `create` is the size of one that may be made.
pub fn host_disk(folder: &Folder, file: &str, create: Option<u64>) -> Result<Held> {
    match (folder.held(file), create) {
        (Ok(held), _) => {
            own(&held.open(Access::Write)?, folder, file)?;
            Ok(held)
        }
        (Err(e), Some(bytes)) if e.kind() == Kind::NotFound => {
            let (size, _) = fitting(folder, file, bytes)?;
            sized(folder, file, size)
        }
        (Err(e), _) => Err(e),
    }
}

fn make(folder: &Folder, wish: &Wish) -> Result<(Held, Option<String>)> {
    let Some(capacity) = wish.capacity else {
        let what = format!("the claim {} has no disk.img, and how large it is, is not known yet", wish.claim);
        return Err(Error::new(Kind::NotFound, what));
    };
    let (size, note) = fitting(folder, &wish.claim, capacity)?;
    Ok((sized(folder, DISK, size)?, note))
}

/// As much of `wanted` as there is room for, where that is nearly all of it.
fn fitting(folder: &Folder, name: &str, wanted: u64) -> Result<(u64, Option<String>)> {
    let room = folder.room()?.saturating_sub(RESERVE);
    if room >= wanted {
        return Ok((wanted, None));
    }
    let least = wanted - wanted / 100 * TOLERATED;
    if room < least {
        let what = format!(
            "there is no room for the disk of {name}: {wanted} bytes are asked for and {room} are free, which is less even \
             after a tolerance of {TOLERATED} %"
        );
        return Err(Error::new(Kind::NoSpace, what));
    }
    let size = room / 4096 * 4096;
    let note = format!(
        "the volume of {name} is a little too small: {wanted} bytes were asked for, the disk has {size}, which is tolerated"
    );
    Ok((size, Some(note)))
}

/// A new sparse file, which is not there until it has its size: a guest would take a shorter one for its disk.
fn sized(folder: &Folder, name: &str, size: u64) -> Result<Held> {
    let partial = format!("{name}.partial");
    // Left by one of us that was killed.
    folder.remove(&partial)?;
    let cannot = |e| Error::io(format!("cannot make {}", folder.shown().join(name).display()), e);
    let file = folder.create(&partial)?;
    file.set_len(size).and_then(|()| file.sync_all()).map_err(cannot)?;
    folder.rename(&partial, name)?;
    Held::of(&file, folder.shown().join(name))
}

fn grow(file: &File, folder: &Folder, size: u64, largest: u64) -> Result<()> {
    if largest <= size {
        return Ok(());
    }
    let shown = folder.shown().join(DISK);
    tracing::info!("{} grows from {size} to {largest} bytes", shown.display());
    let grown = file.set_len(largest).and_then(|()| file.sync_all());
    grown.map_err(|e| Error::io(format!("cannot grow {} to {largest} bytes", shown.display()), e))
}

/// The launcher can write to the disk: it is no root, and nor is whoever made the file.
fn own(file: &File, folder: &Folder, name: &str) -> Result<()> {
    let shown = folder.shown().join(name);
    let found = file.metadata().map_err(|e| Error::io(format!("cannot look at {}", shown.display()), e))?;
    if found.uid() == LAUNCHER {
        return Ok(());
    }
    give(file.as_fd()).map_err(|e| Error::io(format!("cannot make {} the launcher's", shown.display()), e))
}

fn size(file: &File, folder: &Folder) -> Result<u64> {
    let found = file.metadata();
    found
        .map(|found| found.len())
        .map_err(|e| Error::io(format!("cannot look at {}", folder.shown().join(DISK).display()), e))
}
