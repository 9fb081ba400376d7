//! Check that a file found under one of our names was made by us.
//!
//! In a folder that others may write to (`/tmp`, a volume that several pods share), another user can create a
//! file under the name that a program will use for its unfinished work, and keep it open. Such a file is
//! neither written to nor trusted. It would hold that user's bytes, and the user could change ours after they
//! were verified.
//!
//! **Some file systems choose the owner and the mode** of every file: an NFS server that maps users, CIFS,
//! FAT. There no file is ever owned by this user. So when a file looks foreign, another is created next to
//! it. If the file system gives that one the same owner and the same writers, the found file is as safe as
//! any that we can create: a user who could have created it can write to all of them.
//!
//! A name alone proves nothing either: while a file is open, its name may get to another run's file. So a
//! file of ours is removed only by [`remove`], which compares the name with the open file.

use crate::FileId;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// True if the name leads to the open file. It may have been renamed, removed or replaced.
pub fn leads_to(folder: impl AsFd, name: &OsStr, file: impl AsFd) -> io::Result<bool> {
    let found = FileId::of_name(folder, name)?;
    Ok(found == Some(FileId::of(file)?))
}

/// Removes a name of the open file. False if the name is free, or leads to another file, which stays.
pub fn remove(folder: impl AsFd, name: &OsStr, file: impl AsFd) -> io::Result<bool> {
    if !leads_to(folder.as_fd(), name, file)? {
        return Ok(false);
    }
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Time since the last write to a file, by the clock of its file system: that of a new file in `folder`.
pub fn age(file: &File, folder: impl AsFd) -> io::Result<Duration> {
    let (found, new) = (rustix::fs::fstat(file)?, made_in(folder)?);
    Ok(written_at(&new).saturating_sub(written_at(&found)))
}

fn written_at(stat: &Stat) -> Duration {
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Duration::new(u64::try_from(stat.st_mtime).unwrap_or(0), nanoseconds)
}

/// The reason why a file may not be ours alone, as the end of a sentence. `None` if it is: a plain file of
/// this user, with one name, that no other user may write to; or a file with the owner and mode that its file
/// system gives to all our files in `folder`, the folder of the file.
pub fn foreign_reason(file: &File, folder: impl AsFd) -> io::Result<Option<String>> {
    let (found, me) = (rustix::fs::fstat(file)?, rustix::process::geteuid().as_raw());
    if let Some(why) = judge_form(&found) {
        return Ok(Some(why));
    }
    let Some(why) = judge_owner(&found, me) else { return Ok(None) };
    // If no file can be created, there is nothing to compare with.
    let Ok(new) = made_in(folder) else { return Ok(Some(why)) };
    Ok(Some(why).filter(|_| judge(&new, me).is_none() || !is_alike(&found, &new)))
}

/// True if all users who could have created or changed the found file can do so with the new one.
fn is_alike(found: &Stat, new: &Stat) -> bool {
    let writers = |stat: &Stat| stat.st_mode & OTHERS;
    found.st_uid == new.st_uid && found.st_gid == new.st_gid && writers(found) & !writers(new) == 0
}

/// Attributes of a private file that this process creates in the folder.
fn made_in(folder: impl AsFd) -> io::Result<Stat> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (folder, private) = (folder.as_fd(), Mode::RUSR | Mode::WUSR);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::openat(folder, c".", flags | OFlags::TMPFILE, private) {
        return Ok(rustix::fs::fstat(file)?);
    }
    let name = format!(".coracle-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let file = rustix::fs::openat(folder, &name, flags | OFlags::CREATE | OFlags::EXCL, private)?;
    let looked = rustix::fs::fstat(&file);
    rustix::fs::unlinkat(folder, &name, AtFlags::empty())?;
    Ok(looked?)
}

/// Write permission for other users.
const OTHERS: u32 = Mode::WGRP.union(Mode::WOTH).as_raw_mode();

/// A defect that matters on any file system.
fn judge_form(stat: &Stat) -> Option<String> {
    match stat {
        _ if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
            Some("it is not a plain file".to_owned())
        }
        // Writing to this file would write to the same file under its other name.
        _ if stat.st_nlink > 1 => Some(format!("it has {} names", stat.st_nlink)),
        _ => None,
    }
}

fn judge(stat: &Stat, me: u32) -> Option<String> {
    judge_form(stat).or_else(|| judge_owner(stat, me))
}

/// A defect on a file system that sets owner and mode from the creating process.
fn judge_owner(stat: &Stat, me: u32) -> Option<String> {
    match stat {
        _ if stat.st_uid != me => Some(format!("it belongs to user {}, and this is user {me}", stat.st_uid)),
        _ if stat.st_mode & OTHERS != 0 => {
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
    fn a_name_that_leads_to_another_file_by_now_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (here, name) = (File::open(folder.path()).unwrap(), OsStr::new("x.partial"));
        let path = folder.path().join(name);
        let ours = File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(!remove(&here, name, &ours).unwrap());
        std::fs::write(&path, "another run's").unwrap();
        assert!(!remove(&here, name, &ours).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"another run's");
        let theirs = File::open(&path).unwrap();
        assert!(remove(&here, name, &theirs).unwrap() && !path.exists());
    }

    #[test]
    fn the_age_of_a_file_is_the_time_since_its_last_write() {
        let folder = tempfile::tempdir().unwrap();
        let here = File::open(folder.path()).unwrap();
        let file = File::create(folder.path().join("x")).unwrap();
        assert!(age(&file, &here).unwrap() < Duration::from_secs(60));
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(1000)).unwrap();
        let age = age(&file, &here).unwrap().as_secs();
        assert!((990..1100).contains(&age), "{age}");
    }

    #[test]
    fn a_file_is_ours_by_its_owner_and_its_mode() {
        let (file, here) = (tempfile::tempfile().unwrap(), File::open(std::env::temp_dir()).unwrap());
        let me = rustix::process::geteuid().as_raw();
        for (mode, ours) in
            [(0o600, true), (0o644, true), (0o755, true), (0o664, false), (0o646, false), (0o666, false)]
        {
            file.set_permissions(Permissions::from_mode(mode)).unwrap();
            let found = foreign_reason(&file, &here).unwrap();
            assert_eq!(found.is_none(), ours, "{mode:o}: {found:?}");
        }
        file.set_permissions(Permissions::from_mode(0o600)).unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        assert_eq!(judge(&stat, me), None);
        assert!(judge(&stat, me + 1).unwrap().contains(&format!("belongs to user {me}")));
        assert!(foreign_reason(&here, &here).unwrap().unwrap().contains("not a plain file"));
    }

    #[test]
    fn where_the_file_system_chooses_the_owner_ours_are_those_that_look_as_all_do() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can have its files made under another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let at = |name: &str| folder.path().join(name);
        let here = File::open(folder.path()).unwrap();
        for (name, owner) in [("local", 0), ("other", 1000)] {
            File::create(at(name)).unwrap();
            std::os::unix::fs::chown(at(name), Some(owner), Some(owner)).unwrap();
        }
        let local = File::open(at("local")).unwrap();
        let other = File::open(at("other")).unwrap();
        ::tests::mapped::as_mapped_by_a_server(65534, || {
            let ours = File::create_new(at("mapped")).unwrap();
            assert_eq!(foreign_reason(&ours, &here).unwrap(), None);
            assert!(foreign_reason(&other, &here).unwrap().unwrap().contains("belongs to user 1000"));
            ours.set_permissions(Permissions::from_mode(0o666)).unwrap();
            let why = foreign_reason(&ours, &here).unwrap();
            assert!(
                why.is_some(),
                "whom it belongs to, the server says; that others write to it, somebody else did"
            );
            ours.set_permissions(Permissions::from_mode(0o600)).unwrap();
            std::fs::hard_link(at("mapped"), at("second")).unwrap();
            assert!(foreign_reason(&ours, &here).unwrap().unwrap().contains("2 names"));
            assert_eq!(foreign_reason(&local, &here).unwrap(), None, "it is ours in any case");
        });
        // On a file system that does not map users, the same file belongs to another user.
        std::fs::remove_file(at("second")).unwrap();
        let mapped = File::open(at("mapped")).unwrap();
        assert!(foreign_reason(&mapped, &here).unwrap().unwrap().contains("belongs to user 65534"));
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            3,
            "nothing stays of what was made to look at"
        );
    }

    #[test]
    fn a_file_with_a_second_name_is_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (file, here) = (File::create(at("precious")).unwrap(), File::open(folder.path()).unwrap());
        assert_eq!(foreign_reason(&file, &here).unwrap(), None);
        std::fs::hard_link(at("precious"), at("planted")).unwrap();
        let planted = File::open(at("planted")).unwrap();
        assert!(foreign_reason(&planted, &here).unwrap().unwrap().contains("it has 2 names"));
    }
}
