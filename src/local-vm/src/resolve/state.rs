//! Files of EFI variables and TPM state of a VM on this computer.
//!
//! ```text
//!  disk.qcow2           the first disk of the VM that is a writable file
//!  disk.qcow2.state/    efi-vars.fd, tpm2/
//! ```
//!
//! They belong to the system on the disk, and not to the VM: a disk that is sealed to a TPM does not boot
//! without it. So they stay when the VM is removed, and are used when the disk is run under another name. A
//! VM without such a disk has them in its own folder, and they are removed with it.
//!
//! The disk may lie in a folder where other users write, like `/tmp`, and one of them may have made the state
//! folder first, to choose what the firmware boots or to read sealed data. So the folder is created and then
//! checked with its content ([`ready`]): not a link, owned by the user or root, not writable for others.
//! After that no other user can change it. (A user who may rename files beside the disk could as well replace
//! the disk.)

use crate::error::{Error, Result};
use crate::path::entries;
use api::launcher::{Resolved, Source, StatePlace};
use api::machine::{Disk, Machine, Target, Volume};
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Suffix of the folder beside a disk.
const FOLDER: &str = ".state";
/// Mode bits that let the group and others write.
const OTHERS_WRITE: u32 = 0o022;

/// Paths of the state that outlives the VM; `None` if the VM keeps no state, or has no disk that is a file.
pub(super) fn place(machine: &Machine, resolved: &Resolved) -> Option<StatePlace> {
    if !machine.keeps_state() {
        return None;
    }
    let folder = folder_of(machine.disks.iter().find_map(|disk| file(disk, resolved))?.as_ref());
    Some(StatePlace { variables: folder.join("efi-vars.fd"), tpm: folder.join("tpm2") })
}

/// Refuses the state beside a disk that is to be made: it is of another disk, which is gone.
pub(super) fn check_new(machine: &Machine, resolved: &Resolved) -> Result<()> {
    let first = machine.disks.iter().find_map(|disk| Some((disk, file(disk, resolved)?)));
    let Some((disk, path)) = first.filter(|_| machine.keeps_state()) else { return Ok(()) };
    let folder = folder_of(&path);
    let is_found = match std::fs::symlink_metadata(&folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => false,
        Ok(found) if found.is_dir() => !entries(&folder)?.is_empty(),
        // It is refused where it is used.
        _ => false,
    };
    if resolved.volumes.contains_key(&disk.name) || !is_found {
        return Ok(());
    }
    let what = format!(
        "{} has the EFI variables or the TPM of a disk {} that is not there, and a new disk would take them over",
        folder.display(),
        path.display()
    );
    Err(Error::refused(what).with_hint("bring back that disk, or move the folder away, or remove it"))
}

/// Folder of the state that belongs to a disk.
pub(super) fn folder_of(disk: &Path) -> PathBuf {
    let mut folder = OsString::from(disk);
    folder.push(FOLDER);
    PathBuf::from(folder)
}

/// Creates the folder beside the disk, and refuses one that another user made or may change.
pub(crate) fn ready(place: &StatePlace) -> Result<()> {
    let Some(folder) = place.variables.parent() else { return Ok(()) };
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        // Without the folder that should hold the disk, the missing disk is reported elsewhere.
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|e| Error::io(format!("cannot make {}", folder.display()), e))?,
    }
    if !judged(folder)? {
        return Err(refused(folder, "is not a folder", "move it away"));
    }
    for path in entries(folder)? {
        if judged(&path)? {
            entries(&path)?.iter().try_for_each(|path| judged(path).map(drop))?;
        }
    }
    Ok(())
}

/// Refuses a path that others own or may write to. True if it is a folder. Links are not followed.
fn judged(path: &Path) -> Result<bool> {
    let found = match std::fs::symlink_metadata(path) {
        // swtpm renames its files while it writes.
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        other => other.map_err(|e| Error::io(format!("cannot look at {}", path.display()), e))?,
    };
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if found.is_symlink() {
        return Err(refused(path, "is a link", "replace it by the file that it points to, if that is yours"));
    }
    if owner != rustix::process::geteuid().as_raw() && owner != 0 {
        let what = format!("belongs to the user {owner}, not to you");
        return Err(refused(path, &what, "remove it, or move the disk into a folder of your own"));
    }
    if mode & OTHERS_WRITE != 0 {
        let what = format!("can be written to by others (mode {mode:04o})");
        let to_do =
            format!("check the files there, and remove the permission (chmod go-w {})", path.display());
        return Err(refused(path, &what, &to_do));
    }
    Ok(found.is_dir())
}

fn refused(path: &Path, what: &str, to_do: &str) -> Error {
    let path = path.display();
    Error::refused(format!(
        "{path} {what}, so the EFI variables and the TPM beside the disk cannot be trusted"
    ))
    .with_hint(to_do)
}

/// Path of a writable disk file of this VM alone: two VMs must not share a TPM.
fn file(disk: &Disk, resolved: &Resolved) -> Option<PathBuf> {
    let is_shared = disk.shareable || matches!(disk.volume, Volume::Host { shared: true, .. });
    if disk.readonly || is_shared || !matches!(disk.target, Target::Disk) {
        return None;
    }
    match (&disk.volume, resolved.volumes.get(&disk.name)) {
        (
            Volume::Host { .. } | Volume::Claim { .. } | Volume::DataVolume { .. },
            Some(Source::File { path, .. }),
        ) => Some(path.clone()),
        // The launcher will create this one.
        (Volume::Host { path, .. }, None) => Some(path.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::Format;
    use api::vmi::VirtualMachineInstance;
    use serde_json::{Value, json};
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    fn machine(tpm: &Value) -> Machine {
        let host = |path: &str| json!({"path": path, "type": "DiskOrCreate", "capacity": "1Gi"});
        let object = json!({"metadata": {"name": "m", "namespace": "n"}, "spec": {
            "domain": {
                "memory": {"guest": "64Mi"},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"tpm": tpm, "disks": [
                    {"name": "iso", "cdrom": {"bus": "sata"}}, {"name": "image", "disk": {}},
                    {"name": "root", "disk": {}}, {"name": "more", "disk": {}},
                ]},
            },
            "volumes": [
                {"name": "iso", "hostDisk": host("/i.iso")}, {"name": "image", "containerDisk": {"image": "os:1"}},
                {"name": "root", "hostDisk": host("/d.img")}, {"name": "more", "hostDisk": host("/e.img")},
            ],
        }});
        let vmi: VirtualMachineInstance = serde_json::from_value(object).unwrap();
        Machine::check_again(&vmi).unwrap()
    }

    /// A place beside a disk in a folder for the test.
    fn beside(folder: &tempfile::TempDir) -> (PathBuf, StatePlace) {
        let state = folder.path().join("d.img.state");
        let place = StatePlace { variables: state.join("efi-vars.fd"), tpm: state.join("tpm2") };
        (state, place)
    }

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_folder_beside_a_disk_is_made_for_its_user_and_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let (state, place) = beside(&folder);
        ready(&place).unwrap();
        assert_eq!(std::fs::metadata(&state).unwrap().mode() & 0o7777, 0o700);
        std::fs::create_dir(&place.tpm).unwrap();
        for file in [&place.variables, &place.tpm.join("tpm2-00.permall")] {
            std::fs::write(file, "mine").unwrap();
            mode(file, 0o640);
        }
        mode(&place.tpm, 0o755);
        ready(&place).unwrap();
        // No folder is created if the disk's own folder is missing.
        let (state, place) =
            (state.join("no/d.state"), StatePlace { variables: state.join("no/d.state/v"), ..place });
        ready(&place).unwrap();
        assert!(!state.exists());
    }

    #[test]
    fn a_link_or_what_others_may_write_to_is_not_believed_beside_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        let (state, place) = beside(&folder);
        let elsewhere = folder.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &state).unwrap();
        let said = ready(&place).unwrap_err().to_string();
        assert!(said.contains("d.img.state is a link"), "{said}");
        std::fs::remove_file(&state).unwrap();
        std::fs::write(&state, "").unwrap();
        assert!(ready(&place).unwrap_err().to_string().contains("d.img.state is not a folder"));
        std::fs::remove_file(&state).unwrap();

        ready(&place).unwrap();
        std::fs::create_dir(&place.tpm).unwrap();
        let permall = place.tpm.join("tpm2-00.permall");
        for file in [&place.variables, &permall] {
            std::fs::write(file, "mine").unwrap();
        }
        for (open, how) in [
            (&state, 0o777),
            (&state, 0o1777),
            (&place.tpm, 0o770),
            (&place.variables, 0o620),
            (&permall, 0o602),
        ] {
            let before = std::fs::metadata(open).unwrap().permissions();
            mode(open, how);
            let error = ready(&place).unwrap_err();
            let said = format!("{} can be written to by others (mode {how:04o})", open.display());
            assert!(error.to_string().contains(&said), "{error}");
            assert!(error.hint().unwrap().contains(&format!("chmod go-w {}", open.display())));
            std::fs::set_permissions(open, before).unwrap();
        }
        for planted in [&place.variables, &permall] {
            std::fs::remove_file(planted).unwrap();
            symlink("/etc/passwd", planted).unwrap();
            let said = ready(&place).unwrap_err().to_string();
            assert!(said.contains(&format!("{} is a link", planted.display())), "{said}");
            std::fs::remove_file(planted).unwrap();
        }
        ready(&place).unwrap();
    }

    #[test]
    fn what_another_user_put_beside_a_disk_is_not_believed() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make what belongs to another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (state, place) = beside(&folder);
        ready(&place).unwrap();
        std::fs::write(&place.variables, "mine").unwrap();
        for planted in [&place.variables, &state] {
            chown(planted, Some(65534), None).unwrap();
            let said = ready(&place).unwrap_err().to_string();
            assert!(said.contains(&format!("{} belongs to the user 65534", planted.display())), "{said}");
            chown(planted, Some(0), None).unwrap();
        }
        ready(&place).unwrap();
    }

    #[test]
    fn the_state_lies_beside_the_first_disk_that_is_kept() {
        let image = Source::Image { path: "/pulled".into(), format: Format::Raw };
        let mut resolved = Resolved::default();
        resolved.volumes.insert("image".into(), image);
        let kept = machine(&json!({"persistent": true}));
        let place = place(&kept, &resolved).unwrap();
        assert_eq!(place.tpm, PathBuf::from("/d.img.state/tpm2"));
        assert_eq!(place.variables, PathBuf::from("/d.img.state/efi-vars.fd"));
        let there = Source::File { path: "/d.img".into(), format: Format::Raw, preallocated: false };
        resolved.volumes.insert("root".into(), there);
        assert_eq!(super::place(&kept, &resolved), Some(place));
        resolved.volumes.insert("root".into(), Source::Block { path: "/dev/sdz".into() });
        let next = super::place(&kept, &resolved).unwrap();
        assert_eq!(next.tpm, PathBuf::from("/e.img.state/tpm2"));
        assert_eq!(super::place(&machine(&json!({"persistent": false})), &resolved), None);
    }

    /// A disk was removed, and a new one of its name booted with its EFI variables and its TPM.
    #[test]
    fn a_new_disk_does_not_take_over_the_state_of_one_that_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = machine(&json!({"persistent": true}));
        let path = folder.path().join("d.img");
        let Volume::Host { path: disk, .. } = &mut kept.disks[2].volume else { panic!() };
        *disk = path.display().to_string();
        let mut resolved = Resolved::default();
        check_new(&kept, &resolved).unwrap();
        let (state, place) = beside(&folder);
        ready(&place).unwrap();
        check_new(&kept, &resolved).unwrap();
        std::fs::write(&place.variables, "of another system").unwrap();
        let e = check_new(&kept, &resolved).unwrap_err().to_string();
        assert!(e.contains("d.img.state has the EFI variables or the TPM of a disk"), "{e}");
        check_new(&machine(&json!({"persistent": false})), &resolved).unwrap();
        let there = Source::File { path, format: Format::Raw, preallocated: false };
        resolved.volumes.insert("root".into(), there);
        check_new(&kept, &resolved).unwrap();
        assert!(state.exists());
    }

    #[test]
    fn a_disk_that_vms_share_has_no_state_of_one_beside_it() {
        let mut kept = machine(&json!({"persistent": true}));
        kept.disks[2].shareable = true;
        assert_eq!(place(&kept, &Resolved::default()).unwrap().tpm, PathBuf::from("/e.img.state/tpm2"));
        let Volume::Host { shared, .. } = &mut kept.disks[3].volume else { panic!() };
        *shared = true;
        assert_eq!(place(&kept, &Resolved::default()), None);
    }
}
