//! State that may outlive a VM beside its disks: the variables of its EFI firmware, and the state of its TPM.
//!
//! | | when the VM starts | location |
//! |---|---|---|
//! | persistent, with a path (`Resolved::state`) | used, or created there | the path; libvirt's folder of the
//! TPM is a link to it |
//! | persistent, without one | used, or created | the launcher's own folder |
//! | not persistent | created again | the launcher's own folder |
//!
//! The path may be on a volume that other pods write to. So only plain files and folders are accepted there,
//! since QEMU and swtpm would follow a link. The caller must check the owner of the folder. `coracle run`
//! refuses a folder of another user. virt-handler names folders on a volume of the VM's namespace, which has
//! its own user and group. libvirt lets swtpm_setup create the TPM if its folder is empty.

use super::firmware::Firmware;
use super::prepare::PrepareMode;
use crate::error::{Error, ErrorKind, Result};
use crate::root::{Root, make_private};
use api::launcher::{Resolved, StatePlace};
use api::machine::{Machine, Tpm};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Programs of a TPM, which libvirt finds by `PATH`.
const PROGRAMS: [&str; 3] = ["swtpm", "swtpm_setup", "swtpm_ioctl"];
/// libvirt's name for the state of a TPM 2.0 in the folder of a TPM.
const TPM2: &str = "tpm2";

/// The file with the variables of the firmware. libvirt creates it from the firmware's template if it is
/// missing.
pub(super) fn variables(
    machine: &Machine,
    resolved: &Resolved,
    root: &Root,
    firmware: &Firmware,
    how: PrepareMode<'_>,
) -> Result<PathBuf> {
    let own = root.nvram();
    if !machine.keeps_variables() {
        if how.creates() {
            drop(fs::remove_file(&own));
        }
        return Ok(own);
    }
    let path = place(resolved).map_or(own, |place| place.variables.clone());
    if !how.creates() {
        return Ok(path);
    }
    if let Some(folder) = path.parent() {
        make(folder)?;
        check_folder(folder, "EFI variables")?;
    }
    if let Some(found) = metadata(&path)? {
        if !found.is_file() {
            return Err(Error::refused(format!("{} is not a file of EFI variables", path.display())));
        }
        let whole = fs::metadata(&firmware.vars).map(|of| of.len());
        let whole = whole.map_err(|e| Error::io(format!("cannot look at {}", firmware.vars.display()), e))?;
        if found.len() != whole {
            return Err(Error::refused(format!(
                "the EFI variables in {} have {} bytes, and those of the firmware {} have {whole}: another firmware wrote \
                 them; remove that file, and the guest begins with new ones",
                path.display(),
                found.len(),
                firmware.code.display()
            )));
        }
    }
    Ok(path)
}

/// Prepares the state of the TPM, if the VM has one.
pub(super) fn tpm(machine: &Machine, resolved: &Resolved, root: &Root, how: PrepareMode<'_>) -> Result<()> {
    let Some(Tpm { persistent }) = machine.tpm else { return Ok(()) };
    if !how.creates() {
        return Ok(());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if let Some(missing) = PROGRAMS.iter().find(|name| !is_there(name)) {
        let what = format!(
            "the TPM of the VM needs {missing}, which is not installed; as root: apt-get install --no-install-recommends \
             swtpm swtpm-tools"
        );
        return Err(Error::new(ErrorKind::NotFound, what));
    }
    let folder = root.tpm(&machine.firmware.uuid);
    let state = folder.join(TPM2);
    let place = place(resolved).filter(|_| persistent).map(|place| place.tpm.as_path());
    match (place, metadata(&state)?) {
        (None, Some(_)) if !persistent => remove(&folder),
        (None, Some(found)) if found.is_symlink() => remove(&folder),
        (None, _) => Ok(()),
        (Some(place), found) => {
            if let Some(above) = place.parent() {
                make(above)?;
                check_folder(above, "a TPM")?;
            }
            make(place)?;
            check_folder(place, "a TPM")?;
            if found.is_some() {
                remove(&folder)?;
            }
            make(&folder)?;
            symlink(place, &state)
                .map_err(|e| Error::io(format!("cannot make the link {}", state.display()), e))
        }
    }
}

fn place(resolved: &Resolved) -> Option<&StatePlace> {
    resolved.state.as_ref()
}

/// Metadata of a path, without following a link; `None` if it does not exist.
fn metadata(path: &Path) -> Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(format!("cannot look at {}", path.display()), e)),
    }
}

/// Checks that the path is a folder. A link is refused.
fn check_folder(path: &Path, what: &str) -> Result<()> {
    match metadata(path)?.is_some_and(|found| found.is_dir()) {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "{} is not a folder for {what}; remove it, or move it away",
            path.display()
        ))),
    }
}

/// Creates a folder that only the launcher's user can access (mode 0700).
fn make(folder: &Path) -> Result<()> {
    make_private(folder).map_err(|e| {
        Error::io(format!("cannot make {} for what the VM keeps beside its disks", folder.display()), e)
    })
}

/// Removes a folder. A link in it is removed, and its target stays.
fn remove(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).map_err(|e| Error::io(format!("cannot remove {}", folder.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Hooks;
    use api::vmi::VirtualMachineInstance;
    use serde_json::json;

    const UUID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

    fn machine(tpm: bool, variables: bool) -> Machine {
        let efi = json!({"secureBoot": false, "persistent": variables});
        let spec = json!({"domain": {
            "memory": {"guest": "64Mi"},
            "firmware": {"uuid": UUID, "bootloader": {"efi": efi}},
            "devices": {"tpm": {"persistent": tpm}},
        }});
        let object = json!({"metadata": {"name": "kept", "namespace": "n"}, "spec": spec});
        let vmi: VirtualMachineInstance = serde_json::from_value(object).unwrap();
        Machine::check_again(&vmi).unwrap()
    }

    struct Scene {
        place: tempfile::TempDir,
        root: Root,
        resolved: Resolved,
    }

    impl Scene {
        fn new() -> Scene {
            let place = tempfile::tempdir().unwrap();
            let root = Root::open(&place.path().join("root"), place.path()).unwrap();
            let beside = place.path().join("disk.state");
            let state = StatePlace { variables: beside.join("efi-vars.fd"), tpm: beside.join("tpm") };
            Scene { place, root, resolved: Resolved { state: Some(state), ..Resolved::default() } }
        }

        fn state(&self) -> &StatePlace {
            self.resolved.state.as_ref().unwrap()
        }

        fn firmware(&self, bytes: usize) -> Firmware {
            let path = self.place.path().join("OVMF_VARS.fd");
            fs::write(&path, vec![0; bytes]).unwrap();
            Firmware { code: "code".into(), vars: path, secure: false }
        }

        fn variables(&self, persistent: bool, resolved: &Resolved) -> Result<PathBuf> {
            variables(
                &machine(true, persistent),
                resolved,
                &self.root,
                &self.firmware(64),
                PrepareMode::Start(&Hooks::default()),
            )
        }

        /// Skipped where there is no swtpm: whether there is one, is asked first.
        fn tpm(&self, persistent: bool, resolved: &Resolved) -> Result<()> {
            tpm(&machine(persistent, true), resolved, &self.root, PrepareMode::Start(&Hooks::default()))
        }

        fn own(&self) -> PathBuf {
            self.root.tpm(UUID).join(TPM2)
        }
    }

    #[test]
    fn variables_lie_in_their_place_and_others_are_made_anew() {
        let scene = Scene::new();
        let kept = scene.variables(true, &scene.resolved).unwrap();
        assert_eq!(kept, scene.state().variables);
        assert!(kept.parent().unwrap().is_dir());
        fs::write(&kept, [7; 64]).unwrap();
        assert_eq!(scene.variables(true, &scene.resolved).unwrap(), kept);
        assert_eq!(fs::read(&kept).unwrap(), [7; 64]);

        let own = scene.root.nvram();
        for (persistent, stays) in [(true, true), (false, false)] {
            fs::write(&own, [7; 64]).unwrap();
            assert_eq!(scene.variables(persistent, &Resolved::default()).unwrap(), own);
            assert_eq!(own.exists(), stays, "persistent: {persistent}");
        }
        assert!(kept.exists());
    }

    #[test]
    fn variables_that_are_no_file_or_of_another_firmware_are_refused() {
        let scene = Scene::new();
        let kept = scene.variables(true, &scene.resolved).unwrap();
        fs::write(&kept, [7; 63]).unwrap();
        let error = scene.variables(true, &scene.resolved).unwrap_err().to_string();
        assert!(error.contains("63 bytes") && error.contains("another firmware"), "{error}");
        fs::remove_file(&kept).unwrap();
        symlink("/etc/passwd", &kept).unwrap();
        let error = scene.variables(true, &scene.resolved).unwrap_err().to_string();
        assert!(error.contains("is not a file of EFI variables"), "{error}");
    }

    #[test]
    fn a_place_that_is_a_link_is_refused() {
        let scene = Scene::new();
        let beside = scene.state().variables.parent().unwrap();
        let elsewhere = scene.place.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, beside).unwrap();
        let error = scene.variables(true, &scene.resolved).unwrap_err().to_string();
        assert!(error.contains("disk.state is not a folder for EFI variables"), "{error}");
        // Without swtpm it is refused for that.
        scene.tpm(true, &scene.resolved).unwrap_err();
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "nothing was made through it");
    }

    #[test]
    fn a_tpm_is_kept_in_its_place_and_another_is_made_anew() {
        let scene = Scene::new();
        let nowhere = Resolved::default();
        if scene.tpm(true, &nowhere).is_err() {
            eprintln!("skipped: swtpm is not installed");
            return;
        }
        // In its place, by a link, also after one that was the launcher's own.
        fs::create_dir_all(scene.own()).unwrap();
        scene.tpm(true, &scene.resolved).unwrap();
        assert_eq!(fs::read_link(scene.own()).unwrap(), scene.state().tpm);
        let kept = scene.state().tpm.join("tpm2-00.permall");
        fs::write(scene.own().join("tpm2-00.permall"), "x").unwrap();
        scene.tpm(true, &scene.resolved).unwrap();
        assert!(kept.exists());

        // One that is not kept leaves it alone, and begins anew.
        scene.tpm(false, &scene.resolved).unwrap();
        assert!(kept.exists() && metadata(&scene.own()).unwrap().is_none());
        for (persistent, stays) in [(true, true), (false, false)] {
            fs::create_dir_all(scene.own()).unwrap();
            scene.tpm(persistent, &nowhere).unwrap();
            assert_eq!(scene.own().exists(), stays, "persistent: {persistent}");
        }

        fs::remove_dir_all(&scene.state().tpm).unwrap();
        symlink("/etc", &scene.state().tpm).unwrap();
        let error = scene.tpm(true, &scene.resolved).unwrap_err().to_string();
        assert!(error.contains("is not a folder for a TPM"), "{error}");
    }
}
