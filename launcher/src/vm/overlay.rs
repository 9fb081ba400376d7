//! Disks that the launcher creates: overlays over read-only disks, and empty ones.

use crate::error::{Error, ErrorKind, Result};
use api::launcher::Format;
use disk_format::qcow2::write::{Backing, FreshFile, Options, empty};
use disk_format::read_at::FileAt;
use disk_format::{Limits, ReadAt};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use storage::publish::{ExistingFile, publish};

/// Creates an overlay over `base` at `path`, for the guest's writes.
pub(super) fn create_overlay(base: &Path, format: Format, path: &Path) -> Result<()> {
    let size = virtual_size(base, format)?;
    // A name without a leading slash may be a protocol or a description to QEMU: `nbd:…`, `json:{…}`.
    let base = &std::path::absolute(base)
        .map_err(|e| Error::io(format!("cannot find the disk {}", base.display()), e))?;
    let name = base.to_str().ok_or_else(|| {
        Error::refused(format!("the path {} is not UTF-8, which an overlay cannot hold", base.display()))
    })?;
    let backing = Backing { name: name.to_owned(), format: name_of(format).to_owned() };
    write(path, Options { backing: Some(backing), ..Options::new(size) })
}

/// Creates an empty disk at `path`.
pub(super) fn blank(capacity: u64, path: &Path) -> Result<()> {
    write(path, Options::new(whole_blocks(capacity)))
}

/// The size rounded up to the largest block size: with O_DIRECT QEMU writes only whole blocks.
pub(super) fn whole_blocks(size: u64) -> u64 {
    size.checked_next_multiple_of(4096).unwrap_or(size)
}

/// Size of the disk that the guest sees. A qcow2 image that refers to another file is refused: a guest may
/// have written the reference.
pub(super) fn virtual_size(path: &Path, format: Format) -> Result<u64> {
    let cannot = || format!("cannot open the disk {}", path.display());
    let mut file = File::open(path).map_err(|e| Error::io(cannot(), e))?;
    // A block device reports its size only by a seek to its end.
    let length = file.seek(SeekFrom::End(0)).map_err(|e| Error::io(cannot(), e))?;
    match format {
        Format::Raw => Ok(length.next_multiple_of(512)),
        Format::Qcow2 => {
            let bytes: Arc<dyn ReadAt> = Arc::new(FileAt::new(file, length));
            let opened = disk_format::open(disk_format::Format::Qcow2, bytes, Limits::default());
            let image = opened
                .map_err(|e| Error::refused(format!("the disk {} is not used: {e}", path.display())))?;
            Ok(image.virtual_size())
        }
    }
}

fn name_of(format: Format) -> &'static str {
    match format {
        Format::Raw => "raw",
        Format::Qcow2 => "qcow2",
    }
}

/// Creates a disk that appears complete or not at all. It replaces the one of an earlier start, unless a process uses that file:
/// a user may have given it to another VM.
fn write(path: &Path, options: Options) -> Result<()> {
    let cannot = || format!("cannot make the disk {}", path.display());
    let failed = |e: io::Error| Error::io(cannot(), e);
    let (folder, name) = match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => (File::open(folder).map_err(failed)?, name),
        _ => return Err(failed(io::ErrorKind::InvalidInput.into())),
    };
    let partial = path.with_extension("partial");
    let partial_name = partial.file_name().unwrap_or_default();
    let examined = |name: &OsStr| {
        let found = ExistingFile::examine(&folder, name).map_err(|e| failed(e.into()))?;
        let user = found.as_ref().map(|found| found.user(&folder, name)).transpose().map_err(failed)?;
        match user.flatten() {
            Some(how) => {
                let used = path.with_file_name(name);
                let what = format!("{}: {} is in use: {how}", cannot(), used.display());
                Err(Error::new(ErrorKind::Busy, what))
            }
            None => Ok(found),
        }
    };
    let replaced = examined(name)?;
    if examined(partial_name)?.is_some() {
        std::fs::remove_file(&partial).map_err(failed)?;
    }
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&partial);
    let file = file.map_err(failed)?;
    let again = file.try_clone().map_err(failed)?;
    let written = empty(FreshFile(file), options).map_err(|mut e| match e.take_io() {
        Some(source) => Error::io(cannot(), source),
        None => Error::new(ErrorKind::Failed, cannot()).because(e),
    });
    let placed =
        written.and_then(|_| publish(&folder, &again, partial_name, name, replaced.as_ref()).map_err(failed));
    if placed.is_err() {
        drop(std::fs::remove_file(&partial));
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn info(path: &Path) -> String {
        let out = Command::new("qemu-img").args(["info", "--output=json"]).arg(path).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let check = Command::new("qemu-img").arg("check").arg(path).output().unwrap();
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    #[test]
    fn an_overlay_names_its_base_and_has_its_size() {
        let place = tempfile::tempdir().unwrap();
        let base = place.path().join("base.raw");
        std::fs::write(&base, vec![7; 1 << 20]).unwrap();
        let path = place.path().join("over.qcow2");
        create_overlay(&base, Format::Raw, &path).unwrap();
        let text = info(&path);
        assert!(text.contains("\"virtual-size\": 1048576"), "{text}");
        assert!(text.contains("\"backing-filename-format\": \"raw\""), "{text}");
        assert!(text.contains("base.raw"), "{text}");

        // Over a qcow2 without a backing file too; but never over one that has got one.
        let lone = place.path().join("lone.qcow2");
        blank(10 << 20, &lone).unwrap();
        create_overlay(&lone, Format::Qcow2, &place.path().join("two.qcow2")).unwrap();
        let error = create_overlay(&path, Format::Qcow2, &place.path().join("three.qcow2")).unwrap_err();
        assert!(error.to_string().contains("backing file"), "{error}");
        assert!(!place.path().join("three.qcow2").exists());
    }

    /// `coracle start` replaced the disk of another VM, which lay in this one's folder.
    #[test]
    fn a_disk_in_use_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        for used in ["empty.qcow2", "empty.partial"] {
            let path = place.path().join(used);
            std::fs::write(&path, "of another VM").unwrap();
            let user = File::open(&path).unwrap();
            user.lock_shared().unwrap();
            let e = blank(1 << 20, &place.path().join("empty.qcow2")).unwrap_err();
            assert!(e.to_string().contains(&format!("{used} is in use: it is locked")), "{e}");
            assert_eq!(std::fs::read(&path).unwrap(), b"of another VM");
            user.unlock().unwrap();
            std::fs::remove_file(&path).unwrap();
        }
        blank(1 << 20, &place.path().join("empty.qcow2")).unwrap();
        blank(2 << 20, &place.path().join("empty.qcow2")).unwrap();
        assert!(info(&place.path().join("empty.qcow2")).contains("\"virtual-size\": 2097152"));
    }

    #[test]
    fn an_empty_disk_has_the_requested_size() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("empty.qcow2");
        blank(3 << 30, &path).unwrap();
        assert!(info(&path).contains("\"virtual-size\": 3221225472"));
        assert!(std::fs::metadata(&path).unwrap().len() < 1 << 20);
        blank(1_000_001, &path).unwrap();
        assert!(info(&path).contains("\"virtual-size\": 1003520"));
    }
}
