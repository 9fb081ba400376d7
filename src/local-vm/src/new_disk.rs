//! New disk of a VM in a file of the user (hostDisk of the type `DiskOrCreate`), made before the launcher is started.
//!
//! ```text
//!  .coracle-UUID ── made, sized, synced ─► DISK, if that name is free ─► identity: vm.json, raw-disks.json ─► the guest starts
//! ```
//!
//! The records have the identity of the very file that was made, and have it durably before a guest can write a header of another
//! format into it. A file that another program makes under the name is never recorded. A process that is killed before the record
//! is written leaves a file of zeros, which its content tells.

use crate::error::{Error, Result};
use crate::host_file::{HostDisk, HostFile};
use crate::random;
use crate::record::Record;
use crate::resolve::pool::whole;
use api::launcher::{Format, Source};
use api::machine::{Machine, Volume};
use container_disk::inputs::beside;
use rustix::fs::{CWD, Mode, OFlags, SeekFrom, openat, seek};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;
use storage::publish::{publish, sync_folder};
use storage::{file_in_use, own_file};

/// Mode of a new disk, less the umask.
const MODE: Mode = Mode::from_raw_mode(0o644);

/// Makes the hostDisks of a VM that have no location yet, and records each as a raw disk with its identity.
pub(crate) fn make_disks(record: &mut Record, machine: &Machine) -> Result<()> {
    for disk in &machine.disks {
        if let Volume::Host { path, create: Some(size), .. } = &disk.volume
            && !record.sync.resolved.volumes.contains_key(&disk.name)
        {
            make_disk(record, &disk.name, Path::new(path), *size)?;
        }
    }
    Ok(())
}

/// Makes one disk of a VM, and records it.
pub(crate) fn make_disk(record: &mut Record, volume: &str, path: &Path, size: u64) -> Result<()> {
    let file = make(path, whole(size))?;
    record.host_disks.insert(volume.to_owned(), HostDisk { file, format: Format::Raw });
    let source = Source::File { path: path.to_owned(), format: Format::Raw, preallocated: false };
    record.sync.resolved.volumes.insert(volume.to_owned(), source);
    Ok(())
}

/// Makes a sparse file. A file that is there is not replaced.
fn make(path: &Path, size: u64) -> Result<HostFile> {
    let cannot = |e: io::Error| Error::io(format!("cannot make the disk {}", path.display()), e);
    check_unfinished(path)?;
    let name = path.file_name().ok_or_else(|| cannot(Errno::INVAL.into()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).map_err(cannot)?;
    let begun = format!(".coracle-{}", random::uuid()?);
    let begun = OsStr::new(&begun);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&folder, begun, flags, MODE).map(File::from).map_err(|e| cannot(e.into()))?;
    let named = file
        .set_len(size)
        .and_then(|()| file.sync_all())
        .and_then(|()| publish(&folder, &file, begun, name, None));
    if let Err(e) = named {
        if let Err(e) = own_file::remove(&folder, begun, &file) {
            tracing::warn!("{} is left behind: {e}", path.with_file_name(begun).display());
        }
        return Err(match e.kind() {
            io::ErrorKind::AlreadyExists => made_meanwhile(path),
            _ => cannot(e),
        });
    }
    sync_folder(&folder).map_err(|e| cannot(e.into()))?;
    HostFile::of(&file).map_err(cannot)
}

fn made_meanwhile(path: &Path) -> Error {
    let what = format!("{} was to be made, and was made by another program meanwhile", path.display());
    Error::refused(what).with_hint("the same command again takes what is there then")
}

/// Refuses a new disk where a conversion or an import to its name has not ended: that one could not finish.
fn check_unfinished(path: &Path) -> Result<()> {
    let partial = beside(path, ".partial");
    let shown = partial.display();
    let cannot = |e: io::Error| Error::io(format!("cannot examine {shown}"), e);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let in_the_way = || Error::refused(format!("{shown} is in the way and is not a plain file; remove it"));
    let file = match openat(CWD, &partial, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        Err(Errno::LOOP | Errno::NXIO) => return Err(in_the_way()),
        Err(e) => return Err(cannot(e.into())),
    };
    if !file.metadata().map_err(cannot)?.is_file() {
        return Err(in_the_way());
    }
    if let Some(how) = file_in_use(&file).map_err(cannot)? {
        let what = format!("{shown} is in use: {how}");
        return Err(Error::failed(what).with_hint("wait for that process, or stop it"));
    }
    // Where holes are not known the file may have data.
    match seek(&file, SeekFrom::Data(0)) {
        Err(Errno::NXIO) => Ok(()),
        _ => Err(Error::refused(format!("{shown} holds data of a disk that was not finished")).with_hint(
            "rename that file if it is whole, run the conversion or the import again, or remove the file",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    const QCOW2: &[u8] = b"QFI\xfb\0\0\0\x03";

    fn names(folder: &Path) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_disk_is_sparse_whole_and_known_by_its_identity() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new.img");
        let made = make(&path, 1 << 20).unwrap();
        assert!(HostFile::find(&path).unwrap().unwrap().is_unchanged(&made) && made.size() == 1 << 20);
        assert_eq!(names(place.path()), [PathBuf::from("new.img")]);
    }

    #[test]
    fn a_file_that_another_program_made_is_neither_replaced_nor_recorded() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new.img");
        fs::write(&path, QCOW2).unwrap();
        let e = make(&path, 4096).unwrap_err();
        assert_eq!(e.kind(), crate::ErrorKind::Refused);
        assert!(e.to_string().contains("new.img was to be made, and was made by another program"), "{e}");
        assert_eq!(fs::read(&path).unwrap(), QCOW2);
        assert_eq!(names(place.path()), [PathBuf::from("new.img")]);
    }

    #[test]
    fn an_unfinished_disk_of_the_name_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let (path, partial) = (place.path().join("new.img"), place.path().join("new.img.partial"));
        fs::write(&partial, vec![1; 4096]).unwrap();
        let e = make(&path, 4096).unwrap_err().to_string();
        assert!(e.contains("new.img.partial holds data of a disk that was not finished"), "{e}");
        fs::remove_file(&partial).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &partial).unwrap();
        let e = make(&path, 4096).unwrap_err().to_string();
        assert!(e.contains("new.img.partial is in the way"), "{e}");
        assert!(!path.exists());
    }
}
