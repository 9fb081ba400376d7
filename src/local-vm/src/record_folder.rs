//! Folder of a VM as its record notes it. A record names disks, state files and processes of its VM, so a copy of the folder would
//! start with the disks of the original, and end its guest.
//!
//! | folder of the record | noted path | noted identity | |
//! |---|---|---|---|
//! | where it was written | same | same | its VM |
//! | a backup that was restored | same | other | its VM |
//! | moved, or reached by a link | other | same | its VM, with the disks that moved with it (`moved_home`); the next start notes the new path |
//! | a snapshot of its file system | other | same, as at the noted path | a copy as long as the noted folder has a record |
//! | copied, or moved to another file system | other | other | a copy as long as the noted folder has a record |

use crate::error::{Error, Result};
use crate::path::file_at;
use crate::place::RECORD;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use storage::LastingFileId;

/// Path and identity of the folder that a record was written to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordFolder {
    path: PathBuf,
    id: LastingFileId,
}

impl RecordFolder {
    /// The folder at this path.
    pub(crate) fn find(path: &Path) -> Result<RecordFolder> {
        Ok(RecordFolder { path: path.to_owned(), id: id(path)? })
    }

    /// True if a record that notes this folder is a copy where it is found, in `folder`.
    pub(crate) fn is_copied_to(&self, folder: &Path) -> Result<bool> {
        if self.path == folder || !self.has_other_record(folder)? {
            return Ok(false);
        }
        // A snapshot of a file system has the numbers and the times of birth of the original. A folder that cannot be looked at may
        // be the original.
        let is_original_there = id(&self.path).map_or(true, |there| there.may_be(&self.id));
        Ok(is_original_there || !id(folder)?.may_be(&self.id))
    }

    /// True if the noted folder has a record, and is not `folder`.
    fn has_other_record(&self, folder: &Path) -> Result<bool> {
        // A folder that cannot be looked at may have the original.
        let is_gone = matches!(file_at(&self.path.join(RECORD)), Ok(None));
        let is_same = matches!(file_at(&self.path), Ok(noted) if noted == file_at(folder)?);
        Ok(!is_gone && !is_same)
    }

    /// Folder of the VMs that the noted folder is one of.
    pub(crate) fn vms(&self) -> Option<&Path> {
        self.path.parent()
    }

    /// The noted path of a VM that was moved to `folder`.
    pub(crate) fn moved_from(&self, folder: &Path) -> Result<Option<&Path>> {
        let is_moved = self.path != folder && !self.is_copied_to(folder)?;
        Ok(is_moved.then_some(self.path.as_path()))
    }

    /// Refuses the start of a VM that was moved to `folder` where another VM has the noted folder now. The file system may not tell a
    /// moved folder from a copied one.
    pub(crate) fn check_replaced(&self, name: &str, folder: &Path) -> Result<()> {
        if self.path == folder || !self.has_other_record(folder)? {
            return Ok(());
        }
        let what = format!(
            "{name} is not started: its folder was moved from {}, where another VM is now",
            self.path.display()
        );
        Err(Error::refused(what).with_hint(
            "'coracle run' with what the VM was made from makes its record anew, with the disks of this home",
        ))
    }

    /// The error about a copied record of the VM in this folder.
    pub(crate) fn refusal(&self, name: &str) -> Error {
        let what =
            format!("{name} is a copy of the VM in {}, and has the disks of that VM", self.path.display());
        Error::refused(what).with_hint(format!(
            "'coracle run' with a copy of its disk makes another VM; 'coracle rm {name}' removes the copied record alone"
        ))
    }
}

fn id(folder: &Path) -> Result<LastingFileId> {
    let id = File::open(folder).and_then(|open| LastingFileId::of(&open).map_err(io::Error::from));
    id.map_err(|e| Error::io(format!("cannot look at {}", folder.display()), e))
}

#[cfg(test)]
mod tests {
    use crate::fake_qemu::Qemu;
    use crate::from_image::Drive;
    use crate::new_name::{NewName, VmSource};
    use crate::place::Home;
    use crate::record::{Record, Vm};
    use crate::start::again;
    use crate::vm_folder::remove_copy;
    use api::launcher::{Life, Resolved, State, Sync};
    use launcher_client::process::Process;
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    fn home(folder: &Path) -> Home {
        Home::from_env(Some(folder.to_owned()), |_| None).unwrap()
    }

    /// A VM of a home that runs by its last state.
    fn running(home: &Home, qemu: &Qemu) {
        let sync = Sync { vmi: serde_json::json!({}), generation: 1, resolved: Resolved::default() };
        let mut record = Record::new("web", "x", false, sync, Path::new("/launcher"));
        record.made_from = Some("file /web.img".into());
        let root = crate::launch::root(home, "web");
        fs::create_dir_all(root.join("run/qemu")).unwrap();
        record.save(home).unwrap();
        let state = State {
            life: Life::Running,
            qemu_pid: Some(qemu.id()),
            qemu_started: Process::of(qemu.id()).started(),
            ..State::default()
        };
        fs::write(root.join("state.json"), serde_json::to_vec(&state).unwrap()).unwrap();
        fs::write(root.join("run/qemu/web.pid"), qemu.id().to_string()).unwrap();
    }

    fn copy(from: &Path, to: &Path) {
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    }

    /// `start` in a copied home booted the disk of the original, and `rm -f` powered its guest off.
    #[test]
    fn a_copied_record_is_refused_and_removed_without_its_vm() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (place.path().join("h"), place.path().join("h2"));
        let (own, copied) = (home(&first), home(&second));
        let qemu = Qemu::start(place.path(), "web");
        running(&own, &qemu);
        copy(&first, &second);
        let found = Vm::find(&copied, "web").unwrap().unwrap();
        assert!(!found.standing().unwrap().is_up(), "its guest is that of the original");
        for refused in [Vm::open(&copied, "web").map(drop), again(&found, |_| {}).map(drop)] {
            let e = refused.unwrap_err().to_string();
            let is_told = e.starts_with("web is a copy of the VM in ") && e.contains("h/state/vms/web");
            assert!(is_told && e.contains("'coracle rm web' removes the copied record alone"), "{e}");
        }
        let source = VmSource {
            name: "web".into(),
            made_from: "file /web.img".into(),
            is_image: false,
            drives: vec![Drive::Empty(7)],
        };
        assert_eq!(NewName::derived(&copied, &source, false).unwrap().as_str(), "web-2");

        assert!(remove_copy(&copied, "web").unwrap());
        assert!(!copied.vm("web").exists());
        assert!(!remove_copy(&own, "web").unwrap() && own.vm("web").exists());
        assert!(Vm::open(&own, "web").unwrap().standing().unwrap().is_up());
    }

    /// `rm -f` in a snapshot of the file system ended the guest of the original.
    #[test]
    fn a_snapshot_of_a_home_is_a_copy_while_the_original_is_there() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (place.path().join("h"), place.path().join("h2"));
        let mount = |folder: &Path| {
            fs::create_dir(folder).unwrap();
            let mut mount = Command::new("mount");
            mount
                .args(["-t", "tmpfs", "-o", "mode=700", "none"])
                .arg(folder)
                .output()
                .is_ok_and(|done| done.status.success())
        };
        let unmount = |folder: &Path| drop(Command::new("umount").arg(folder).output());
        if !mount(&first) {
            eprintln!("skipped: no file system can be mounted here");
            return;
        }
        assert!(mount(&second));
        let qemu = Qemu::start(place.path(), "web");
        // Both file systems number their files alike.
        for home in [home(&first), home(&second)] {
            running(&home, &qemu);
        }
        let number =
            |home: &Home| std::os::unix::fs::MetadataExt::ino(&fs::metadata(home.vm("web")).unwrap());
        let (own, snapshot) = (home(&first), home(&second));
        let is_alike = number(&own) == number(&snapshot);
        let mut record: serde_json::Value =
            serde_json::from_slice(&fs::read(own.vm_record("web")).unwrap()).unwrap();
        record["folder"]["id"] = serde_json::json!({"ino": number(&own)});
        for home in [&own, &snapshot] {
            fs::write(home.vm_record("web"), record.to_string()).unwrap();
        }
        let (opened, removed) = (Vm::open(&snapshot, "web").map(drop), remove_copy(&snapshot, "web"));
        let is_up = Vm::open(&own, "web").unwrap().standing().unwrap().is_up();
        unmount(&first);
        unmount(&second);
        assert!(is_alike, "the test needs two file systems that number their files alike");
        assert!(opened.unwrap_err().to_string().starts_with("web is a copy of the VM in "));
        assert!(removed.unwrap() && is_up);
    }

    #[test]
    fn a_record_that_was_moved_or_restored_is_its_vm() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (place.path().join("h"), place.path().join("h2"));
        let qemu = Qemu::start(place.path(), "web");
        running(&home(&first), &qemu);
        fs::rename(&first, &second).unwrap();
        let moved = home(&second);
        let vm = Vm::open(&moved, "web").unwrap();
        vm.record.save(&moved).unwrap();
        let noted = Vm::open(&moved, "web").unwrap().record.folder.unwrap();
        assert_eq!(noted.path, moved.vm("web"), "it is noted anew");

        let backup = place.path().join("backup");
        copy(&second, &backup);
        Vm::open(&home(&backup), "web").unwrap_err();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&second, &link).unwrap();
        Vm::open(&home(&link), "web").unwrap();
        fs::remove_dir_all(&second).unwrap();
        Vm::open(&home(&backup), "web").unwrap();
        std::os::unix::fs::symlink(&second, &second).unwrap();
        Vm::open(&home(&backup), "web").unwrap_err();
        fs::remove_file(&second).unwrap();
        copy(&backup, &second);
        Vm::open(&moved, "web").unwrap();
        Vm::open(&home(&link), "web").unwrap();
    }

    #[test]
    fn a_record_of_an_earlier_version_is_its_vm_wherever_it_is() {
        let place = tempfile::tempdir().unwrap();
        let (first, second) = (place.path().join("h"), place.path().join("h2"));
        let qemu = Qemu::start(place.path(), "web");
        running(&home(&first), &qemu);
        let path = home(&first).vm_record("web");
        let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert!(record.as_object_mut().unwrap().remove("folder").is_some());
        fs::write(&path, record.to_string()).unwrap();
        copy(&first, &second);
        Vm::open(&home(&second), "web").unwrap();
    }
}
