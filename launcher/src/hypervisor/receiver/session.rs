//! The paths of a libvirt session, as links to the folders of the driver inside this process.
//!
//! A daemon that is not root keeps its files below `XDG_CONFIG_HOME`, `XDG_RUNTIME_DIR` and `XDG_CACHE_HOME`, in another layout
//! than the driver has below its root. With these links both use the same folders. The links stay for as long as the domain
//! runs: libvirt's record of it has paths that lead through them, QEMU's monitor among them.

use crate::error::{Error, Result};
use crate::root::{Root, make_private};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Each path of a session, and the folder of the driver that it leads to; both below the root.
const FOLDERS: [(&str, &str); 13] = [
    ("home/config/libvirt", "etc"),
    ("home/run/libvirt/qemu/run", "run/qemu"),
    ("home/cache/libvirt/qemu/cache", "cache/qemu"),
    ("home/cache/libvirt/qemu/log", "log/qemu"),
    ("etc/qemu/lib", "lib/qemu"),
    ("etc/qemu/save", "lib/qemu/save"),
    ("etc/qemu/snapshot", "lib/qemu/snapshot"),
    ("etc/qemu/checkpoint", "lib/qemu/checkpoint"),
    ("etc/qemu/dump", "lib/qemu/dump"),
    ("etc/qemu/nvram", "lib/qemu/nvram"),
    ("etc/qemu/ram", "lib/qemu/ram"),
    ("etc/qemu/swtpm", "lib/swtpm"),
    ("run/qemu/swtpm", "run/swtpm"),
];

/// Makes the folders and the links.
pub(super) fn ready(root: &Root) -> Result<()> {
    for (path, folder) in FOLDERS {
        let (path, folder) = (root.folder().join(path), root.folder().join(folder));
        make(&folder)?;
        if let Some(above) = path.parent() {
            make(above)?;
        }
        match fs::read_link(&path) {
            Ok(target) if target == folder => continue,
            Ok(_) => drop(fs::remove_file(&path)),
            Err(_) => {}
        }
        symlink(&folder, &path)
            .map_err(|e| Error::io(format!("cannot make the link {}", path.display()), e))?;
    }
    Ok(())
}

/// Makes a folder that only our own user can access.
pub(super) fn make(folder: &Path) -> Result<()> {
    make_private(folder).map_err(|e| Error::io(format!("cannot make {}", folder.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_and_the_driver_have_the_same_folders() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::open(&place.path().join("a"), place.path()).unwrap();
        ready(&root).unwrap();
        ready(&root).unwrap();
        fs::write(root.folder().join("etc/qemu.conf"), "settings").unwrap();
        fs::write(root.pids().join("vm.pid"), "7").unwrap();
        let read = |path: &str| fs::read_to_string(root.folder().join("home").join(path)).unwrap();
        assert_eq!(read("config/libvirt/qemu.conf"), "settings");
        assert_eq!(read("run/libvirt/qemu/run/vm.pid"), "7");
        for (path, folder) in FOLDERS {
            let leads = fs::canonicalize(root.folder().join(path)).unwrap();
            assert_eq!(leads, fs::canonicalize(root.folder().join(folder)).unwrap(), "{path}");
        }
    }

    #[test]
    fn a_folder_in_the_place_of_a_link_is_an_error_with_its_path() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::open(&place.path().join("a"), place.path()).unwrap();
        fs::create_dir_all(root.folder().join("home/config/libvirt/qemu")).unwrap();
        let error = ready(&root).unwrap_err();
        assert!(error.to_string().contains("home/config/libvirt"), "{error}");
    }
}
