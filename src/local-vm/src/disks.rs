//! Disks and kernels that were unpacked of images (`disks/sha256-…`, `disks/sha512-…`), and the removal of those that
//! are no longer needed.
//!
//! A folder stays while a VM that is known here uses a file in it, while a process has one locked or open as a
//! QEMU does, and while the store has the manifest that it was unpacked of (or the layer, for folders of older
//! versions): a second run needs no unpacking then. In a folder that stays, files under names of older versions
//! go. The start of a VM [`hold`]s all of them until its record names the ones it needs.

use crate::absent_homes::AbsentHomes;
use crate::disk_files::{DiskFiles, KeepReason, files_below, reason_to_keep, users};
use crate::error::{Error, Result};
use crate::homes::all_vms;
use crate::path::{entries, file_at};
use crate::place::{Home, Lock};
use crate::unpacked;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use storage::FileId;

/// Number and size of the files that [`prune`] removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of removed disks and kernels.
    pub disks: u64,
    /// Freed space in bytes.
    pub freed: u64,
}

/// Locks all folders against removal until the lock is dropped.
pub fn hold(home: &Home) -> Result<Lock> {
    home.make(&home.disks())?;
    Lock::share(&lock(home))
}

/// Removes the folders that neither a VM nor the store at `store` needs.
pub fn prune(home: &Home, store: &Path) -> Result<Pruned> {
    let mut pruned = Pruned::default();
    if !home.disks().is_dir() {
        return Ok(pruned);
    }
    let _lock = Lock::take(&lock(home), "the disks of images")?;
    let needed =
        Needed { ids: needed(home)?, disks: DiskFiles::read_all(home)?, absent: AbsentHomes::read(home)? };
    for folder in entries(&home.disks())? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let digest = name.split_once('-').filter(|(algorithm, _)| matches!(*algorithm, "sha256" | "sha512"));
        let Some((algorithm, hash)) = digest else { continue };
        let (mut is_needed, mut unused) = (store.join("blobs").join(algorithm).join(hash).exists(), vec![]);
        for file in entries(&folder)? {
            match needed.has(&file)? {
                true => is_needed = true,
                false => unused.push(file),
            }
        }
        for file in unused {
            if !is_needed || !unpacked::is_known(file.file_name().unwrap_or_default()) {
                pruned.remove(&file)?;
            }
        }
        if !is_needed {
            fs::remove_dir_all(&folder).map_err(|e| cannot_remove(&folder, e))?;
        }
    }
    Ok(pruned)
}

impl Pruned {
    /// Removes a file, and counts it. A folder is left.
    fn remove(&mut self, file: &Path) -> Result<()> {
        let facts = fs::symlink_metadata(file).map_err(|e| cannot_read(file, e))?;
        if facts.is_dir() {
            return Ok(());
        }
        fs::remove_file(file).map_err(|e| cannot_remove(file, e))?;
        self.freed += facts.blocks() * 512;
        // A file that was unpacked in full is read-only; notes, locks and partial files are not.
        self.disks += u64::from(facts.is_file() && facts.permissions().readonly());
        Ok(())
    }
}

fn lock(home: &Home) -> PathBuf {
    home.disks().join("lock")
}

/// Files that VMs use, of this home and of those that share its disks, whatever paths their records name them by.
fn needed(home: &Home) -> Result<Vec<FileId>> {
    // An unreadable record does not say what its VM needs, so nothing is removed; the error says how to
    // remove the VM.
    Ok(users(all_vms(home)?)?.into_iter().map(|(file, _)| file).collect())
}

/// Files that stay.
struct Needed {
    ids: Vec<FileId>,
    disks: DiskFiles,
    absent: AbsentHomes,
}

impl Needed {
    /// True if a VM needs the file or one in this folder, or a process has it open and locked.
    fn has(&self, path: &Path) -> Result<bool> {
        for file in files_below(path)? {
            if file_at(&file)?.is_some_and(|id| self.ids.contains(&id)) {
                return Ok(true);
            }
            if let Some(vms) = self.absent.user(std::slice::from_ref(&file))? {
                tracing::warn!(
                    "{} is kept for the VMs in {}, which is not there",
                    path.display(),
                    vms.display()
                );
                return Ok(true);
            }
            match reason_to_keep(&file, &self.disks, Instant::now())? {
                None => {}
                Some(KeepReason::InUse(_)) => return Ok(true),
                Some(why) => {
                    tracing::warn!("{} is kept: {}", path.display(), why.into_sentence());
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

fn cannot_read(path: &Path, e: io::Error) -> Error {
    Error::io(format!("cannot read {}", path.display()), e)
}

fn cannot_remove(path: &Path, e: io::Error) -> Error {
    Error::io(format!("cannot remove {}", path.display()), e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use api::launcher::{Format, Resolved, Source, Sync};
    use rustix::fs::{FlockOperation, fcntl_lock};
    use std::fs::File;

    /// A home, with the folder of each of these images and a disk in it.
    fn home(root: &Path, images: &[&str]) -> Home {
        let home = Home::from_env(Some(root.to_owned()), |_| None).unwrap();
        for image in images {
            let disk = disk(&home, image);
            fs::create_dir_all(disk.parent().unwrap()).unwrap();
            fs::write(disk, [1; 512]).unwrap();
        }
        home
    }

    fn disk(home: &Home, image: &str) -> PathBuf {
        home.disks().join(format!("sha256-{image}")).join(format!("{}.disk", "0a".repeat(32)))
    }

    /// Records a VM with this disk.
    fn record(home: &Home, path: PathBuf) {
        let volume = Source::Image { path, format: Format::Raw };
        let resolved = Resolved { volumes: [("root".to_owned(), volume)].into(), ..Resolved::default() };
        let sync = Sync { vmi: serde_json::Value::Null, generation: 1, resolved };
        fs::create_dir_all(home.vm("vm")).unwrap();
        Record::new("vm", "os:1", false, sync, Path::new("/launcher")).save(home).unwrap();
    }

    /// Two settings of XDG_STATE_HOME have one folder of these disks.
    #[test]
    fn the_disk_of_a_vm_of_another_home_stays() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path(), &["a", "b"]);
        let other = home.with_vms(&place.path().join("other/vms"));
        record(&other, disk(&home, "a"));
        let noted = crate::record::Vm::open(&other, "vm").unwrap().record;
        crate::raw_disks::keep(&other, Some(crate::raw_disks::StartOf::within(&other.vms())), noted.disks())
            .unwrap();
        prune(&home, &place.path().join("store")).unwrap();
        assert!(disk(&home, "a").exists() && !disk(&home, "b").exists());
    }

    #[test]
    fn the_disk_of_a_vm_stays_whatever_path_names_it() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::os::unix::fs::symlink(at("home"), at("link")).unwrap();
        let (home, linked) = (home(&at("home"), &["a", "b"]), home(&at("link"), &[]));
        for (named, pruned_at) in [(&home, &linked), (&linked, &home)] {
            record(&home, disk(named, "a"));
            prune(pruned_at, &at("store")).unwrap();
            assert!(disk(&home, "a").exists());
        }
        assert!(!disk(&home, "b").exists(), "no VM needs it");

        std::os::unix::fs::symlink(disk(&home, "a"), at("disk.img")).unwrap();
        record(&home, at("disk.img"));
        prune(&home, &at("store")).unwrap();
        assert!(disk(&home, "a").exists());
    }

    #[test]
    fn the_disk_of_an_image_by_sha512_goes_with_its_image() {
        let place = tempfile::tempdir().unwrap();
        let home = home(&place.path().join("home"), &["a"]);
        let folder = home.disks().join("sha512-a");
        fs::create_dir(&folder).unwrap();
        let (kept, other) = (folder.join(format!("{}.disk", "0a".repeat(32))), home.disks().join("md5-a"));
        fs::write(&kept, [1; 512]).unwrap();
        fs::create_dir(&other).unwrap();
        let store = place.path().join("store");
        fs::create_dir_all(store.join("blobs/sha512/a")).unwrap();
        prune(&home, &store).unwrap();
        assert!(kept.exists() && !disk(&home, "a").exists());
        fs::remove_dir(store.join("blobs/sha512/a")).unwrap();
        fs::create_dir_all(store.join("blobs/sha256/a")).unwrap();
        prune(&home, &store).unwrap();
        assert!(!folder.exists() && other.exists());
    }

    /// In a folder that stays. One that a VM uses since then stays, too.
    #[test]
    fn a_file_under_a_name_of_an_older_version_goes() {
        let place = tempfile::tempdir().unwrap();
        let home = home(&place.path().join("home"), &["a"]);
        let older = |name: &str| disk(&home, "a").with_file_name(name);
        for name in ["_disk_root.img", "_disk_other.img", "disk-root-00", "boot.lock"] {
            fs::write(older(name), [1; 512]).unwrap();
        }
        record(&home, older("_disk_other.img"));
        let store = place.path().join("store");
        prune(&home, &store).unwrap();
        let mut left: Vec<_> = fs::read_dir(disk(&home, "a").parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(disk(&home, "a").exists() && older("_disk_other.img").exists());

        fs::create_dir_all(store.join("blobs/sha256/a")).unwrap();
        record(&home, "/nowhere".into());
        prune(&home, &store).unwrap();
        left = fs::read_dir(disk(&home, "a").parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    /// Its record may be in another home.
    #[test]
    fn a_disk_that_qemu_has_open_stays() {
        let place = tempfile::tempdir().unwrap();
        let home = home(&place.path().join("home"), &["a"]);
        let qemu = File::open(disk(&home, "a")).unwrap();
        fcntl_lock(&qemu, FlockOperation::NonBlockingLockShared).unwrap();
        let store = place.path().join("store");
        assert_eq!(prune(&home, &store).unwrap(), Pruned::default());
        assert!(disk(&home, "a").exists());
        drop(qemu);
        prune(&home, &store).unwrap();
        assert!(!disk(&home, "a").exists());
    }
}
