//! Whether a file that was found under one of our names is one that we made.
//!
//! In a folder that others may write to (`/tmp`, a volume that several pods share) somebody can put a file under the name
//! that a program will use for its half-written work, and keep it open. Such a file is never written to: it would hold
//! their bytes, and they could change ours after we have checked them. Nor is what it says believed.

use rustix::fs::{FileType, Mode, Stat};
use std::fs::File;
use std::io;

/// Why a file is not ours alone, as the end of a sentence; `None` where it is: a plain file of this user, with one name,
/// that nobody else may write to. Not for a file that this process has just made itself: some file systems choose the owner
/// and the mode (an NFS server that maps users, CIFS, FAT).
pub fn strange(file: &File) -> io::Result<Option<String>> {
    Ok(judge(&rustix::fs::fstat(file)?, rustix::process::geteuid().as_raw()))
}

fn judge(stat: &Stat, me: u32) -> Option<String> {
    let others = Mode::WGRP | Mode::WOTH;
    match stat {
        _ if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
            Some("it is not a plain file".to_owned())
        }
        // What is written to it is written to the file of that other name, whoever gave it this one.
        _ if stat.st_nlink > 1 => Some(format!("it has {} names", stat.st_nlink)),
        _ if stat.st_uid != me => Some(format!("it belongs to user {}, and this is user {me}", stat.st_uid)),
        _ if stat.st_mode & others.as_raw_mode() != 0 => {
            Some(format!("other users may write to it (mode {:04o})", stat.st_mode & 0o7777))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_ours_by_its_owner_and_its_mode() {
        let file = tempfile::tempfile().unwrap();
        let me = rustix::process::geteuid().as_raw();
        for (mode, ours) in
            [(0o600, true), (0o644, true), (0o755, true), (0o664, false), (0o646, false), (0o666, false)]
        {
            file.set_permissions(Permissions::from_mode(mode)).unwrap();
            let found = strange(&file).unwrap();
            assert_eq!(found.is_none(), ours, "{mode:o}: {found:?}");
        }
        file.set_permissions(Permissions::from_mode(0o600)).unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        assert_eq!(judge(&stat, me), None);
        assert!(judge(&stat, me + 1).unwrap().contains(&format!("belongs to user {me}")));
        let folder = File::open(std::env::temp_dir()).unwrap();
        assert!(strange(&folder).unwrap().unwrap().contains("not a plain file"));
    }

    #[test]
    fn a_file_with_a_second_name_is_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let file = File::create(at("precious")).unwrap();
        assert_eq!(strange(&file).unwrap(), None);
        std::fs::hard_link(at("precious"), at("planted")).unwrap();
        let planted = File::open(at("planted")).unwrap();
        assert!(strange(&planted).unwrap().unwrap().contains("it has 2 names"));
    }
}
