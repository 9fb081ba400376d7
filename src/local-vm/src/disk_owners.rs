//! Homes in whose folders the disks of a VM lie: each start notes the VM in their lists, too, so that they neither give out nor remove
//! its disks.
//!
//! ```text
//!  DATA/pool/NAME/…   DATA/disks/…                 DATA/raw-disks.json
//!  ROOT/state/vms/NAME/…                           ROOT/data/raw-disks.json
//! ```
//!
//! The path of a disk and the file at the end of a link are both looked at. A home of another user is neither written to nor
//! believed.

use crate::path::file_at;
use crate::place::{Home, POOL, RAW_DISKS, check_name, is_own_folder};
use crate::pool_disk::is_marked;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Homes of this user that own one of these files, but `home` itself.
pub(crate) fn owners(home: &Home, files: &[PathBuf]) -> Vec<Home> {
    let mut found = BTreeSet::new();
    for path in files {
        let places = [path.canonicalize().ok(), in_real_folder(path)];
        for data in places.iter().flatten().flat_map(|place| folders(place)) {
            if is_own_folder(&data) {
                found.insert(data);
            } else {
                tracing::warn!(
                    "{} lies in the home of another user, whose pool does not know this VM: {}",
                    path.display(),
                    data.display()
                );
            }
        }
    }
    let own = home.raw_disks();
    let own = own.parent().and_then(|data| file_at(data).ok().flatten());
    found.retain(|data| own.is_none() || file_at(data).ok().flatten() != own);
    found.into_iter().map(|data| home.with_data(data)).collect()
}

/// The path of a file whose folder is canonical. The file itself may be a link.
fn in_real_folder(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

/// Folders with the lists of the homes that a canonical path lies in.
fn folders(place: &Path) -> Vec<PathBuf> {
    let has_list =
        |data: &Path| std::fs::symlink_metadata(data.join(RAW_DISKS)).is_ok_and(|facts| facts.is_file());
    let mut found = vec![];
    for above in place.ancestors().skip(1) {
        let Ok(below) = place.strip_prefix(above) else { continue };
        let mut names = below.iter().map(|name| name.to_str().unwrap_or_default());
        match (names.next(), names.next(), names.next()) {
            (Some(POOL), Some(name), Some(_))
                if check_name(name).is_ok()
                    && (has_list(above) || is_marked(&above.join(POOL).join(name))) =>
            {
                found.push(above.to_owned());
            }
            (Some("disks"), Some(_), Some(_)) if has_list(above) => found.push(above.to_owned()),
            (Some("state"), Some("vms"), Some(_)) if has_list(&above.join("data")) => {
                found.push(above.join("data"));
            }
            _ => {}
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
        write(&top.join("b/data/pool/os/disk.json"), r#"{"schema":"coracle.disk/v1"}"#);
        assert_eq!(owned("b/data/pool/os/sub/x.img"), [top.join("b/data/raw-disks.json")]);
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
        assert_eq!(owners(&home, &[top.join("link.img")]).len(), 1);
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
