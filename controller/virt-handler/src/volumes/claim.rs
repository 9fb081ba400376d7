//! Disk `disk.img` in the file system of a PVC: created sparse if missing, and grown with the PVC.
//!
//! ```text
//!  missing    capacity, less what the file system keeps for itself     sparse; refused where too little of it fits (`Files`)
//!  smaller    the claim grew: as large as it may be now                a guest sees it at its next start
//!  larger     left alone
//!  a live migration copies to it                  as large as at the source
//!  of a guest that migrates here, and not copied  there, and as large as at the source; otherwise refused: the storage is not shared
//! ```
//!
//! | existing file | a claim's `disk.img` | the file of a hostDisk |
//! |---|---|---|
//! | missing | created for the launcher | created for the launcher, if the volume permits it |
//! | owned by the launcher | used | used |
//! | owned by another user | given to the launcher: the PVC is the VM's, and other tools fill it as root | refused; the error names the owner |
//! | has a second hard link | refused | refused |
//! | belongs to another namespace | – | refused; the error names the namespace |
//! | `NAME.partial` is locked | waited for: the engine fills it | the same |
//! | `NAME.partial` holds data | waited for: an import did not finish, and can continue | the same |

use super::image_locks::{DiskAccess, refuse_in_use};
use crate::error::{Error, ErrorKind, Result};
use crate::pod::Folder;
use crate::pod::confined::{Access, LAUNCHER, PathHandle, give_to_launcher};
use api::machine::Files;
use api::vmi::ClaimInfo;
use rustix::fs::{FlockOperation, SeekFrom, XattrFlags, fgetxattr, flock, fsetxattr, seek};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// File name of the disk in a claim.
pub const DISK: &str = "disk.img";
/// Extended attribute of a hostDisk's file: the namespace whose VMIs may use it.
const NAMESPACE: &str = "trusted.kubevirt.namespace";
/// Default file system overhead, as a fraction.
const OVERHEAD: f64 = 0.06;
/// Most retries if another process replaces the file.
const TRIES: usize = 100;
/// Disks end at whole mebibytes.
const WHOLE: u64 = 1 << 20;

/// Requirements for a claim's disk.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedDisk {
    claim: String,
    /// Bytes that the PVC requests.
    capacity: Option<u64>,
    /// Fraction of them that the file system keeps.
    overhead: f64,
    /// The disk must exist and is not changed.
    readonly: bool,
    origin: DiskOrigin,
    /// Settings for new files.
    files: Files,
}

/// Origin of a disk's content.
#[derive(Clone, Copy, Debug, PartialEq)]
enum DiskOrigin {
    /// The claim alone: a missing disk is made, and one of a claim that grew is made larger.
    Claim,
    /// A live migration copies it here. It has as many bytes as at the source. Before the guest has arrived, what the claim has is
    /// overwritten.
    Copy { bytes: u64, has_arrived: bool },
    /// The guest migrates here, and has it at the source in the same claim. The number of its bytes, once the source has told it.
    Source { bytes: Option<u64> },
}

impl ClaimedDisk {
    /// Requirements according to the cluster's information about the claim.
    pub fn from_claim(claim: &str, info: Option<&ClaimInfo>, readonly: bool, files: Files) -> ClaimedDisk {
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
            origin: DiskOrigin::Claim,
            files,
        }
    }

    /// The disk of the source of a live migration, which reaches the same file. Its size is known once the source has told it.
    pub fn of_source(mut self, bytes: Option<u64>) -> ClaimedDisk {
        self.origin = DiskOrigin::Source { bytes };
        self
    }

    /// A disk that a live migration copies here, with as many bytes as at the source.
    pub fn copied(mut self, bytes: u64, has_arrived: bool) -> ClaimedDisk {
        self.origin = DiskOrigin::Copy { bytes, has_arrived };
        self
    }

    /// Size of the largest disk that leaves the file system's overhead free.
    fn largest(&self, capacity: u64) -> u64 {
        // A fraction of the capacity: at most the capacity, and precise enough for mebibytes.
        let usable = (capacity as f64 * (1.0 - self.overhead)) as u64;
        usable.min(capacity) / WHOLE * WHOLE
    }
}

/// Prepares the disk of a claim. Returns the checked file, and a note for the user.
pub fn prepare(folder: &Folder, wish: &ClaimedDisk) -> Result<(PathHandle, Option<String>)> {
    let unusable = |e: Error| {
        let what = format!("cannot use the disk of the claim {}", wish.claim);
        Error::new(e.kind(), what).because(e)
    };
    if let DiskOrigin::Source { bytes } = wish.origin {
        return same(folder, wish, bytes).map(|held| (held, None));
    }
    let held = match folder.held(DISK) {
        Err(e) if e.kind() == ErrorKind::NotFound && !wish.readonly => return make(folder, wish),
        held => held.map_err(unusable)?,
    };
    // A read-only claim may be on a read-only file system.
    if wish.readonly {
        return held.open(Access::Read).map_err(unusable).map(|_| (held, None));
    }
    let file = held.open(Access::Write).map_err(unusable)?;
    let found = single_link_metadata(&file, folder, DISK)?;
    if found.uid() != LAUNCHER {
        // The PVC is the VM's own; the program that filled it need not have known the launcher's user.
        let shown = folder.display_path().join(DISK);
        give_to_launcher(file.as_fd()).map_err(|e| {
            Error::io(format!("cannot make the launcher the owner of {}", shown.display()), e)
        })?;
    }
    if let DiskOrigin::Copy { bytes: size, has_arrived } = wish.origin {
        // Of an earlier attempt, where it has this size: a guest that has just arrived may have it. A larger one is of a PVC that the
        // VM names.
        let is_replaced = found.len() > size && !has_arrived;
        if is_replaced {
            let access = DiskAccess { writes: true, is_shareable: false };
            refuse_in_use(&file, &folder.display_path().join(DISK), access)?;
        }
        if found.len() < size || is_replaced {
            let what = || format!("cannot give the disk of {} the size of its source", wish.claim);
            file.set_len(size).map_err(|e| Error::io(what(), e))?;
        }
    } else if let Some(capacity) = wish.capacity {
        grow(&file, folder, found.len(), wish.largest(capacity).min(folder.capacity()?))?;
    }
    Ok((held, None))
}

/// The disk that the guest has at the source of its migration. Nothing is made, grown or given away: what is missing here is not
/// on storage that both nodes have, whatever the access modes of the claim say.
fn same(folder: &Folder, wish: &ClaimedDisk, at_source: Option<u64>) -> Result<PathHandle> {
    let other = |what: String| {
        Error::refused(format!(
            "{what}: the claim {} is not the same storage on this node and on the node of the guest, although its access modes say so",
            wish.claim
        ))
    };
    let held = match folder.held(DISK) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(other("there is no disk.img".to_owned())),
        held => held?,
    };
    let found = held.open(Access::Read)?.metadata();
    let found =
        found.map_err(|e| Error::io(format!("cannot read the size of the claim {}", wish.claim), e))?.len();
    match at_source {
        Some(bytes) if bytes != found => {
            Err(other(format!("disk.img has {found} bytes, and {bytes} at the source")))
        }
        _ => Ok(held),
    }
}

/// Prepares the file of a hostDisk. `create` is the size of a file that may be created. From then on the file
/// belongs to that namespace.
pub fn host_disk(
    folder: &Folder,
    file: &str,
    create: Option<u64>,
    files: Files,
    namespace: &str,
) -> Result<PathHandle> {
    let held = match (folder.held(file), create) {
        (Ok(held), _) => {
            check_owner(&held.open(Access::Write)?, folder, file)?;
            held
        }
        (Err(e), Some(bytes)) if e.kind() == ErrorKind::NotFound => {
            let (size, _) = fitting(folder, file, bytes, files)?;
            return sized(folder, file, size, Some(namespace));
        }
        (Err(e), _) => return Err(e),
    };
    claim_for_namespace(&held.open(Access::Write)?, held.display_path(), namespace)?;
    Ok(held)
}

/// Records in an attribute of a host's file which namespace it belongs to, and refuses a file of another
/// namespace. Only an administrator of the node can change the attribute, and it moves with the file.
pub(super) fn claim_for_namespace(file: &File, shown: &Path, namespace: &str) -> Result<()> {
    let shown = shown.display();
    let cannot = |e: Errno| match e {
        Errno::OPNOTSUPP => Error::refused(format!(
            "{shown} cannot be a hostDisk: its file system keeps no extended attribute {NAMESPACE}, which says whose \
             namespace's the file is; choose a folder on another file system"
        )),
        e => Error::io(format!("cannot read or write the namespace attribute of {shown}"), e),
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

fn make(folder: &Folder, wish: &ClaimedDisk) -> Result<(PathHandle, Option<String>)> {
    if let DiskOrigin::Copy { bytes: size, .. } = wish.origin {
        // The size of the source is kept where a tolerated part of it has no room: the disk is sparse there, too.
        fitting(folder, &wish.claim, size, wish.files)?;
        return Ok((sized(folder, DISK, size, None)?, None));
    }
    let Some(capacity) = wish.capacity else {
        let what = format!("the claim {} has no disk.img, and its size is not known yet", wish.claim);
        return Err(Error::new(ErrorKind::NotFound, what));
    };
    let (size, note) = fitting(folder, &wish.claim, capacity, wish.files)?;
    Ok((sized(folder, DISK, size, None)?, note))
}

/// The wanted size, or a little less if the space is tolerably smaller.
fn fitting(folder: &Folder, name: &str, wanted: u64, files: Files) -> Result<(u64, Option<String>)> {
    let Files { tolerated, reserve } = files;
    let room = folder.free_space()?.saturating_sub(reserve);
    if room >= wanted {
        return Ok((wanted, None));
    }
    let least = wanted - wanted / 100 * tolerated.min(100);
    if room < least {
        let what = format!(
            "there is no room for the disk of {name}: {wanted} bytes are needed and {room} are free, which is too little \
             even with the tolerance of {tolerated} %"
        );
        return Err(Error::new(ErrorKind::NoSpace, what));
    }
    let size = room / 4096 * 4096;
    let note = format!(
        "the volume of {name} is a little too small: {wanted} bytes were asked for, the disk has {size}, which is tolerated"
    );
    Ok((size, Some(note)))
}

/// A new sparse file, which gets its final name after its size is set: a guest would take a shorter one for
/// its disk. A hostDisk also gets its namespace attribute before its final name.
fn sized(folder: &Folder, name: &str, size: u64, namespace: Option<&str>) -> Result<PathHandle> {
    let partial = format!("{name}.partial");
    let cannot = |e| Error::io(format!("cannot make {}", folder.display_path().join(name).display()), e);
    let file = open_partial(folder, &partial)?;
    file.set_len(size).map_err(cannot)?;
    if let Some(namespace) = namespace {
        claim_for_namespace(&file, &folder.display_path().join(&partial), namespace)?;
    }
    file.sync_all().map_err(cannot)?;
    folder.rename(&partial, name)?;
    PathHandle::from_file(&file, folder.display_path().join(name))
}

/// Opens the file that becomes a disk, and locks it as the engine locks a file that it fills: each waits for
/// the other.
fn open_partial(folder: &Folder, partial: &str) -> Result<File> {
    for _ in 0..TRIES {
        if let Some(file) = try_begin(folder, partial)? {
            return Ok(file);
        }
    }
    let shown = folder.display_path().join(partial);
    Err(Error::failed(format!("{} is repeatedly created and removed by other processes", shown.display())))
}

/// Tries once; `None` if the name belongs to another file by now.
fn try_begin(folder: &Folder, partial: &str) -> Result<Option<File>> {
    let is_there = || folder.metadata(partial).is_ok();
    let (file, is_new) = match folder.write(partial) {
        Ok(file) => (file, false),
        Err(e) if e.kind() == ErrorKind::NotFound => match folder.create(partial) {
            Ok(file) => (file, true),
            Err(_) if is_there() => return Ok(None),
            Err(e) => return Err(e),
        },
        Err(e) => return Err(e),
    };
    let shown = folder.display_path().join(partial);
    let shown = shown.display();
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let what = format!("{shown} is being written by another process: an import into it is under way");
            return Err(Error::failed(what));
        }
        // A file system without locks: a file that was just created is ours all the same.
        Err(_) if is_new => {}
        Err(e) => return Err(Error::io(format!("cannot lock {shown}"), e)),
    }
    let found = single_link_metadata(&file, folder, partial)?;
    // Another process may have finished it between opening and locking, and it has the disk's final name now.
    if !folder.metadata(partial).is_ok_and(|now| now.is(&found)) {
        return Ok(None);
    }
    // Left by a virt-handler that was killed, or by an import. An import's file must not be overwritten.
    if !is_new && (found.uid() != LAUNCHER || holds_data(&file)) {
        let what = format!(
            "{shown} was left by an import that did not end, and belongs to the user {}: repeat the import, or \
             remove the file",
            found.uid()
        );
        return Err(Error::failed(what));
    }
    Ok(Some(file))
}

/// True if the file has data. (If that is unknown, it may have.)
fn holds_data(file: &File) -> bool {
    seek(file, SeekFrom::Data(0)) != Err(Errno::NXIO)
}

/// Metadata of a regular file with a single hard link. A file with a second one may belong to another user
/// under that name.
fn single_link_metadata(file: &File, folder: &Folder, name: &str) -> Result<Metadata> {
    let shown = folder.display_path().join(name);
    let found = file.metadata().map_err(|e| Error::io(format!("cannot look at {}", shown.display()), e))?;
    match found.nlink() {
        0 | 1 => Ok(found),
        names => Err(Error::refused(format!(
            "{} has {names} names (hard links): a disk that is written must have one; copy it, or remove the others",
            shown.display()
        ))),
    }
}

/// Checks that an existing file of the host belongs to the launcher: ownership of the host's files is never
/// changed here.
fn check_owner(file: &File, folder: &Folder, name: &str) -> Result<()> {
    let found = single_link_metadata(file, folder, name)?;
    if found.uid() == LAUNCHER {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{} belongs to the user {}, and the owner of a hostDisk is not changed: it must belong to the user {LAUNCHER} (chown \
         {LAUNCHER}:{LAUNCHER}), which VMIs run as",
        folder.display_path().join(name).display(),
        found.uid()
    )))
}

fn grow(file: &File, folder: &Folder, size: u64, largest: u64) -> Result<()> {
    if largest <= size {
        return Ok(());
    }
    let shown = folder.display_path().join(DISK);
    tracing::info!("{} grows from {size} to {largest} bytes", shown.display());
    let grown = file.set_len(largest).and_then(|()| file.sync_all());
    grown.map_err(|e| Error::io(format!("cannot grow {} to {largest} bytes", shown.display()), e))
}
