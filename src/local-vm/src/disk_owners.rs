//! Homes in whose folders the disks of a VM lie: each start notes the VM in their lists, too, so that they neither give out nor remove
//! its disks.
//!
//! ```text
//!  DATA/pool/NAME/…   DATA/disks/…                 DATA/raw-disks.json
//!  ROOT/state/vms/NAME/…                           ROOT/data/raw-disks.json
//! ```
//!
//! Each path that leads to a disk is looked at: that of the user, those at each link, and the one without links. Homes may share a pool
//! by links or mounts, or a disk of it be reached without its home. So each pool has a list of its own, `DATA/pool/.list/raw-disks.json`,
//! which all of these homes read.
//!
//! A home of another user is neither written to nor believed.

use crate::path::spellings;
use crate::place::{Home, POOL, RAW_DISKS, check_name, is_own_folder, real};
use crate::pool_disk::is_marked;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Name of the folder in a pool with its own list, for homes that share the pool. No disk has this name.
const LIST: &str = ".list";

/// Homes of this user that own one of these files, but `home` itself.
pub(crate) fn owners(home: &Home, files: &[PathBuf]) -> Vec<Home> {
    let mut found = BTreeSet::new();
    for path in files {
        for data in spellings(path).iter().flat_map(|place| folders(place)) {
            // The folder of a list may not be there yet.
            let folder = if data.ends_with(LIST) { data.parent().unwrap_or(&data) } else { &data };
            if is_own_folder(folder) {
                found.insert(real(&data).unwrap_or(data));
            } else {
                tracing::warn!(
                    "{} lies in the home of another user, whose pool does not know this VM: {}",
                    path.display(),
                    data.display()
                );
            }
        }
    }
    let own = home.raw_disks().parent().and_then(|data| real(data).ok());
    found.retain(|data| own.as_ref() != Some(data));
    found.into_iter().map(|data| home.with_data(data)).collect()
}

/// The home whose list of disks is that of the pool itself.
pub(crate) fn list_of_pool(home: &Home) -> Home {
    home.with_data(home.pool().join(LIST))
}

/// Folders with the lists of the homes that a path lies in.
fn folders(place: &Path) -> Vec<PathBuf> {
    let has_list =
        |data: &Path| std::fs::symlink_metadata(data.join(RAW_DISKS)).is_ok_and(|facts| facts.is_file());
    // A link to the folder of a disk is in no pool.
    let is_disk = |folder: &Path| {
        is_marked(folder) && std::fs::symlink_metadata(folder).is_ok_and(|facts| facts.is_dir())
    };
    let mut found = vec![];
    for above in place.ancestors().skip(1) {
        let Ok(below) = place.strip_prefix(above) else { continue };
        let mut names = below.iter().map(|name| name.to_str().unwrap_or_default());
        let [Some(first), Some(second), Some(_)] = [names.next(), names.next(), names.next()] else {
            continue;
        };
        let is_disk_name = check_name(second).is_ok();
        if (first == "disks" || first == POOL && is_disk_name) && has_list(above) {
            found.push(above.to_owned());
        }
        if is_disk_name && is_disk(&above.join(first).join(second)) {
            found.push(above.join(first).join(LIST));
        }
        if (first, second) == ("state", "vms") && has_list(&above.join("data")) {
            found.push(above.join("data"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_home_owns_the_files_in_its_folders_and_no_folder_of_another_program() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let home = Home::from_env(Some(top.join("a")), |_| None).unwrap();
        let owned = |path: &str| {
            write(&top.join(path), "x");
            let owners = owners(&home, &[top.join(path)]);
            owners.iter().map(|home| home.raw_disks()).collect::<Vec<_>>()
        };
        assert!(owned("mine/pool/os/disk.img").is_empty());
        write(&top.join("mine/pool/os/disk.json"), r#"{"schema":"another"}"#);
        assert!(owned("mine/pool/os/disk.img").is_empty());
        assert!(owned("a/data/pool/os/disk.img").is_empty(), "its own list");
        write(&top.join("a/data/pool/marked/disk.json"), r#"{"schema":"coracle.disk/v1"}"#);
        assert_eq!(owned("a/data/pool/marked/disk.img"), [top.join("a/data/pool/.list/raw-disks.json")]);
        write(&top.join("b/data/pool/os/disk.json"), r#"{"schema":"coracle.disk/v1"}"#);
        assert_eq!(owned("b/data/pool/os/sub/x.img"), [top.join("b/data/pool/.list/raw-disks.json")]);
        assert!(owned("b/state/vms/vm/root/disks/x.qcow2").is_empty());
        write(&top.join("b/data/raw-disks.json"), "");
        for path in
            ["state/vms/vm/root/disks/x.qcow2", "data/disks/sha256-1/x.disk", "data/pool/lost/disk.img"]
        {
            assert_eq!(owned(&format!("b/{path}")), [top.join("b/data/raw-disks.json")], "{path}");
        }
        // The disk of the pool is a link, and so is the path of the user.
        write(&top.join("volume.img"), "x");
        fs::remove_file(top.join("b/data/pool/lost/disk.img")).unwrap();
        std::os::unix::fs::symlink(top.join("volume.img"), top.join("b/data/pool/lost/disk.img")).unwrap();
        assert_eq!(owners(&home, &[top.join("b/data/pool/lost/disk.img")]).len(), 1);
        std::os::unix::fs::symlink(top.join("b/data/pool/os/sub/x.img"), top.join("link.img")).unwrap();
        assert_eq!(owners(&home, &[top.join("link.img")]).len(), 2, "its list and that of its pool");
    }

    /// The owner was not found, and gave the disk out.
    #[test]
    fn a_pool_behind_a_link_is_owned_by_its_home() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let home = Home::from_env(Some(top.join("a")), |_| None).unwrap();
        write(&top.join("big/os/disk.img"), "x");
        write(&top.join("big/os/disk.json"), r#"{"schema":"coracle.disk/v1"}"#);
        write(&top.join("b/data/raw-disks.json"), "");
        std::os::unix::fs::symlink("../../big", top.join("b/data/pool")).unwrap();
        std::os::unix::fs::symlink("b/data/pool/os", top.join("short")).unwrap();
        let lists = |path: &str| owners_of(&home, &top.join(path));
        let (data, pool) = (top.join("b/data/raw-disks.json"), top.join("big/.list/raw-disks.json"));
        for path in ["b/data/pool/os/disk.img", "short/disk.img"] {
            assert_eq!(lists(path), [data.clone(), pool.clone()], "{path}");
        }
        assert_eq!(lists("big/os/disk.img"), [pool]);
        let own = Home::from_env(Some(top.join("b")), |_| None).unwrap();
        assert_eq!(owners_of(&own, &top.join("short/disk.img")), [top.join("big/.list/raw-disks.json")]);
    }

    fn owners_of(home: &Home, path: &Path) -> Vec<PathBuf> {
        owners(home, &[path.to_owned()]).iter().map(|home| home.raw_disks()).collect()
    }

    #[test]
    fn a_home_of_another_user_is_not_written_to() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make what belongs to another user");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(place.path().join("a")), |_| None).unwrap();
        let disk = place.path().join("b/data/pool/os/disk.img");
        write(&disk, "x");
        write(&place.path().join("b/data/raw-disks.json"), "");
        assert_eq!(owners(&home, std::slice::from_ref(&disk)).len(), 1);
        std::os::unix::fs::chown(place.path().join("b/data"), Some(65534), None).unwrap();
        assert!(owners(&home, &[disk]).is_empty());
    }
}
