//! A claim's file system and the disk in it: `disk.img`, made sparse where it is missing, grown where the claim grew.
//!
//! ```text
//!  missing    capacity, less what the file system keeps for itself     sparse; refused where too little of it fits (`Files`)
//!  smaller    the claim grew: as large as it may be now                a guest sees it at its next start
//!  larger     left alone
//! ```
//!
//! | what is found | a claim's `disk.img` | the file of a hostDisk |
//! |---|---|---|
//! | missing | made, the launcher's | made where the volume says so, the launcher's |
//! | the launcher's | used | used |
//! | somebody else's | given: the PVC is the VM's, and other tools fill it as root | refused, and said whose it is |
//! | has a second name | refused | refused |
//! | another namespace's | – | refused, and said whose it is |
//! | `NAME.partial` is locked | waited for: the engine fills it | the same |
//! | `NAME.partial` holds data | waited for: an import did not end, and can go on | the same |

use crate::error::{Error, ErrorKind, Result};
use crate::pod::Folder;
use crate::pod::beneath::{Access, Held, LAUNCHER, give};
use api::machine::Files;
use api::vmi::ClaimInfo;
use rustix::fs::{FlockOperation, SeekFrom, XattrFlags, fgetxattr, flock, fsetxattr, seek};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The disk in a claim.
pub const DISK: &str = "disk.img";
/// The extended attribute of the file of a hostDisk with the namespace whose VMIs may have it.
const NAMESPACE: &str = "trusted.kubevirt.namespace";
/// What a file system is taken to keep for itself where the cluster does not say, in percent.
const OVERHEAD: f64 = 0.06;
/// How often a name may turn out to be another file's.
const TRIES: usize = 100;
/// Disks end at whole mebibytes.
const WHOLE: u64 = 1 << 20;

/// What is wanted of a claim's disk.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedDisk {
    claim: String,
    /// Bytes that were asked for.
    capacity: Option<u64>,
    /// The part of them that the file system keeps.
    overhead: f64,
    /// It is there and stays as it is.
    readonly: bool,
    /// How one is made.
    files: Files,
}

impl ClaimedDisk {
    /// By what the cluster knows of the claim.
    pub fn of(claim: &str, info: Option<&ClaimInfo>, readonly: bool, files: Files) -> ClaimedDisk {
        let bytes = |list: &std::collections::BTreeMap<String, api::quantity::Quantity>| {
            list.get("storage").and_then(api::quantity::Quantity::bytes)
        };
        let of = |info: &ClaimInfo| match (bytes(&info.requests), bytes(&info.capacity)) {
            (Some(request), Some(capacity)) => Some(request.min(capacity)),
            (request, capacity) => capacity.or(request),
        };
        let overhead = info.and_then(|info| info.filesystem_overhead.as_ref()?.parse().ok());
        ClaimedDisk {
            claim: claim.to_owned(),
            capacity: info.and_then(of),
            overhead: overhead.filter(|part| (0.0..1.0).contains(part)).unwrap_or(OVERHEAD),
            readonly,
            files,
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
pub fn ready(folder: &Folder, wish: &ClaimedDisk) -> Result<(Held, Option<String>)> {
    let unusable = |e: Error| {
        let what = format!("the claim {} has no disk that can be used", wish.claim);
        Error::new(e.kind(), what).because(e)
    };
    let held = match folder.held(DISK) {
        Err(e) if e.kind() == ErrorKind::NotFound && !wish.readonly => return make(folder, wish),
        held => held.map_err(unusable)?,
    };
    // A claim that is only read may lie on a file system that is, too.
    if wish.readonly {
        return held.open(Access::Read).map_err(unusable).map(|_| (held, None));
    }
    let file = held.open(Access::Write).map_err(unusable)?;
    let found = sole(&file, folder, DISK)?;
    if found.uid() != LAUNCHER {
        // The PVC is the VM's own; whoever filled it need not have known for whom.
        let shown = folder.shown().join(DISK);
        give(file.as_fd())
            .map_err(|e| Error::io(format!("cannot make {} the launcher's", shown.display()), e))?;
    }
    if let Some(capacity) = wish.capacity {
        grow(&file, folder, found.len(), wish.largest(capacity).min(folder.capacity()?))?;
    }
    Ok((held, None))
}

/// Makes the file of a hostDisk ready. `create` is the size of one that may be made. The file is that namespace's from then on.
pub fn host_disk(
    folder: &Folder,
    file: &str,
    create: Option<u64>,
    files: Files,
    namespace: &str,
) -> Result<Held> {
    let held = match (folder.held(file), create) {
        (Ok(held), _) => {
            is_launchers(&held.open(Access::Write)?, folder, file)?;
            held
        }
        (Err(e), Some(bytes)) if e.kind() == ErrorKind::NotFound => {
            let (size, _) = fitting(folder, file, bytes, files)?;
            return sized(folder, file, size, Some(namespace));
        }
        (Err(e), _) => return Err(e),
    };
    is_namespaces(&held.open(Access::Write)?, held.shown(), namespace)?;
    Ok(held)
}

/// Notes on a file of the host which namespace's it is, unless it is another's. Only who may administer the node can change
/// the note, and it goes with the file.
pub(super) fn is_namespaces(file: &File, shown: &Path, namespace: &str) -> Result<()> {
    let shown = shown.display();
    let cannot = |e: Errno| match e {
        Errno::OPNOTSUPP => Error::refused(format!(
            "{shown} cannot be a hostDisk: its file system keeps no extended attribute {NAMESPACE}, which says whose \
             namespace's the file is; choose a folder on another file system"
        )),
        e => Error::io(format!("cannot tell which namespace's {shown} is"), e),
    };
    match fsetxattr(file, NAMESPACE, namespace.as_bytes(), XattrFlags::CREATE) {
        Ok(()) => return Ok(()),
        Err(Errno::EXIST) => {}
        Err(e) => return Err(cannot(e)),
    }
    let mut owner = [0_u8; 256];
    let length = fgetxattr(file, NAMESPACE, &mut owner[..]).map_err(cannot)?;
    let owner = String::from_utf8_lossy(&owner[..length]);
    match owner == namespace {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "{shown} belongs to VMIs of the namespace {owner:?}: a VMI of the namespace {namespace} needs a hostDisk of its own. \
             (To hand the file over: setfattr -x {NAMESPACE} FILE, on the node)"
        ))),
    }
}

fn make(folder: &Folder, wish: &ClaimedDisk) -> Result<(Held, Option<String>)> {
    let Some(capacity) = wish.capacity else {
        let what = format!("the claim {} has no disk.img, and how large it is, is not known yet", wish.claim);
        return Err(Error::new(ErrorKind::NotFound, what));
    };
    let (size, note) = fitting(folder, &wish.claim, capacity, wish.files)?;
    Ok((sized(folder, DISK, size, None)?, note))
}

/// As much of `wanted` as there is room for, where that is nearly all of it.
fn fitting(folder: &Folder, name: &str, wanted: u64, files: Files) -> Result<(u64, Option<String>)> {
    let Files { tolerated, reserve } = files;
    let room = folder.room()?.saturating_sub(reserve);
    if room >= wanted {
        return Ok((wanted, None));
    }
    let least = wanted - wanted / 100 * tolerated.min(100);
    if room < least {
        let what = format!(
            "there is no room for the disk of {name}: {wanted} bytes are asked for and {room} are free, which is less even \
             after a tolerance of {tolerated} %"
        );
        return Err(Error::new(ErrorKind::NoSpace, what));
    }
    let size = room / 4096 * 4096;
    let note = format!(
        "the volume of {name} is a little too small: {wanted} bytes were asked for, the disk has {size}, which is tolerated"
    );
    Ok((size, Some(note)))
}

/// A new sparse file, which is not there until it has its size: a guest would take a shorter one for its disk. One of a namespace
/// is not there until that is noted on it.
fn sized(folder: &Folder, name: &str, size: u64, namespace: Option<&str>) -> Result<Held> {
    let partial = format!("{name}.partial");
    let cannot = |e| Error::io(format!("cannot make {}", folder.shown().join(name).display()), e);
    let file = begun(folder, &partial)?;
    file.set_len(size).map_err(cannot)?;
    if let Some(namespace) = namespace {
        is_namespaces(&file, &folder.shown().join(&partial), namespace)?;
    }
    file.sync_all().map_err(cannot)?;
    folder.rename(&partial, name)?;
    Held::of(&file, folder.shown().join(name))
}

/// The file that becomes a disk. It is locked, as the engine locks one that it fills: each waits for the other.
fn begun(folder: &Folder, partial: &str) -> Result<File> {
    for _ in 0..TRIES {
        if let Some(file) = try_begin(folder, partial)? {
            return Ok(file);
        }
    }
    let shown = folder.shown().join(partial);
    Err(Error::failed(format!("{} keeps being made and removed by others", shown.display())))
}

/// One try; nothing, when the name is another file's by now.
fn try_begin(folder: &Folder, partial: &str) -> Result<Option<File>> {
    let is_there = || folder.look(partial).is_ok();
    let (file, is_new) = match folder.write(partial) {
        Ok(file) => (file, false),
        Err(e) if e.kind() == ErrorKind::NotFound => match folder.create(partial) {
            Ok(file) => (file, true),
            Err(_) if is_there() => return Ok(None),
            Err(e) => return Err(e),
        },
        Err(e) => return Err(e),
    };
    let shown = folder.shown().join(partial);
    let shown = shown.display();
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let what = format!("{shown} is being written by another process: an import into it is under way");
            return Err(Error::failed(what));
        }
        // A file system without locks: what was made a moment ago is ours all the same.
        Err(_) if is_new => {}
        Err(e) => return Err(Error::io(format!("cannot see whether {shown} is being written"), e)),
    }
    let found = sole(&file, folder, partial)?;
    // Between opening and locking, another may have finished it, and it has the disk's own name now.
    if !folder.look(partial).is_ok_and(|now| now.is(&found)) {
        return Ok(None);
    }
    // Left by one of us that was killed; or by an import, and then it is not ours to begin anew.
    if !is_new && (found.uid() != LAUNCHER || holds_data(&file)) {
        let what = format!(
            "{shown} was left by an import that did not end, and belongs to the user {}: let it be imported again, or \
             remove the file",
            found.uid()
        );
        return Err(Error::failed(what));
    }
    Ok(Some(file))
}

/// A byte of it was written. (Where that cannot be seen, one may have been.)
fn holds_data(file: &File) -> bool {
    seek(file, SeekFrom::Data(0)) != Err(Errno::NXIO)
}

/// What is known of a regular file that has one name alone. One with a second may be somebody else's under that one.
fn sole(file: &File, folder: &Folder, name: &str) -> Result<Metadata> {
    let shown = folder.shown().join(name);
    let found = file.metadata().map_err(|e| Error::io(format!("cannot look at {}", shown.display()), e))?;
    match found.nlink() {
        0 | 1 => Ok(found),
        names => Err(Error::refused(format!(
            "{} has {names} names (hard links): a disk that is written has one; copy it, or remove the others",
            shown.display()
        ))),
    }
}

/// A file of the host that was there before must be the launcher's already: nobody here gives away what is the host's.
fn is_launchers(file: &File, folder: &Folder, name: &str) -> Result<()> {
    let found = sole(file, folder, name)?;
    if found.uid() == LAUNCHER {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{} belongs to the user {}, and a hostDisk is given to nobody: it must belong to the user {LAUNCHER} (chown \
         {LAUNCHER}:{LAUNCHER}), which VMIs run as",
        folder.shown().join(name).display(),
        found.uid()
    )))
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
