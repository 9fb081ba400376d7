//! A private folder on a path where other users can write to some of the folders.
//!
//! In `/tmp` any user can make the folder that we are about to use, or a link of its name that leads
//! elsewhere, and then answer on our sockets. So a path is walked step by step, each step by the descriptor
//! of the one before it. Each step is checked before anything is made in it:
//!
//! | on the way | is |
//! |---|---|
//! | a folder of this user or of root that no other user can write to | gone through |
//! | one that others can write to, with the sticky bit, as `/tmp` | gone through; the next step is checked by its own owner |
//! | a link of this user or of root | followed; its target is checked in the same way |
//! | a missing folder | made, mode 0700 |
//! | anything else | refused; the error names it |
//!
//! The last folder must belong to this user, and the sticky bit does not help there. [`Parents::Named`] is
//! for a folder that the user named (`CORACLE_HOME`): the user decides which groups may write to the folders
//! above it, and to the last. Their owner must still be this user or root.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// The kernel's own limit of links in one path (`MAXSYMLINKS`).
const LINKS: usize = 40;
const STICKY: u32 = 0o1000;
const OTHER_USERS: u32 = 0o022;
const ALL_USERS: u32 = 0o002;

/// Requirements on the folders above the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parents {
    /// No user but this one and root can change which folder the path leads to.
    Safe,
    /// Owned by this user or root; their permissions are not checked.
    Named,
}

/// A path that does not lead to a private folder.
#[derive(Debug)]
pub struct FolderError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    /// Owner: another user's ID.
    Foreign(u32),
    /// Mode: other users can write to it.
    Open(u32),
    NotAFolder,
    Links,
    Io(io::Error),
}

/// Ensures that `path` is a folder that only this user can write to. Missing folders are made.
pub fn ensure_private(path: &Path, parents: Parents) -> Result<(), FolderError> {
    let mut walk = Walk::from(path, parents)?;
    while let Some(name) = walk.rest.pop() {
        let last = walk.rest.is_empty();
        walk.step(&name, last)?;
    }
    // A link may have led to a folder that was checked as one on the way only.
    let stat = rustix::fs::fstat(&walk.at).map_err(|e| error(&walk.path, Problem::Io(e.into())))?;
    walk.check(&walk.path, &stat, true)
}

/// The steps that are left, and the folder that has been reached.
struct Walk {
    parents: Parents,
    me: u32,
    at: OwnedFd,
    path: PathBuf,
    /// Steps in reverse order: the next one is the last of the list.
    rest: Vec<OsString>,
    links: usize,
}

impl Walk {
    fn from(path: &Path, parents: Parents) -> Result<Walk, FolderError> {
        let path = std::path::absolute(path).map_err(|e| error(path, Problem::Io(e)))?;
        let me = rustix::process::geteuid().as_raw();
        let mut walk = Walk { parents, me, at: root()?, path: "/".into(), rest: vec![], links: 0 };
        walk.push(&path);
        Ok(walk)
    }

    /// Puts the steps of a path before those that are left.
    fn push(&mut self, path: &Path) {
        let steps = path.components().filter_map(|step| match step {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        });
        let mut steps: Vec<_> = steps.collect();
        steps.reverse();
        self.rest.extend(steps);
    }

    fn step(&mut self, name: &OsStr, last: bool) -> Result<(), FolderError> {
        let path = if name == ".." {
            self.path.parent().unwrap_or(&self.path).to_owned()
        } else {
            self.path.join(name)
        };
        let found = self.open_or_make(name, &path)?;
        let stat = rustix::fs::fstat(&found).map_err(|e| error(&path, Problem::Io(e.into())))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.check(&path, &stat, last)?;
                (self.at, self.path) = (found, path);
                Ok(())
            }
            FileType::Symlink => {
                self.owner(&path, &stat, false)?;
                self.follow(&found, &path)
            }
            _ => Err(error(&path, Problem::NotAFolder)),
        }
    }

    fn open_or_make(&self, name: &OsStr, path: &Path) -> Result<OwnedFd, FolderError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Another process may make or remove it between two calls.
        for _ in 0..16 {
            match rustix::fs::openat(&self.at, name, flags, Mode::empty()) {
                Err(Errno::NOENT) => {}
                other => return other.map_err(|e| error(path, Problem::Io(e.into()))),
            }
            match rustix::fs::mkdirat(&self.at, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(error(path, Problem::Io(e.into()))),
            }
        }
        Err(error(
            path,
            Problem::Io(io::Error::other("another process creates and removes it again and again")),
        ))
    }

    fn follow(&mut self, link: &OwnedFd, path: &Path) -> Result<(), FolderError> {
        self.links += 1;
        if self.links > LINKS {
            return Err(error(path, Problem::Links));
        }
        let target =
            rustix::fs::readlinkat(link, "", Vec::new()).map_err(|e| error(path, Problem::Io(e.into())))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            (self.at, self.path) = (root()?, "/".into());
        }
        self.push(&target);
        Ok(())
    }

    fn check(&self, path: &Path, stat: &Stat, last: bool) -> Result<(), FolderError> {
        self.owner(path, stat, last)?;
        let mode = stat.st_mode & 0o7777;
        let shared = match (self.parents, last) {
            (Parents::Safe, true) => mode & OTHER_USERS != 0,
            (Parents::Safe, false) => mode & OTHER_USERS != 0 && mode & STICKY == 0,
            (Parents::Named, true) => mode & ALL_USERS != 0,
            (Parents::Named, false) => false,
        };
        if shared { Err(error(path, Problem::Open(mode))) } else { Ok(()) }
    }

    fn owner(&self, path: &Path, stat: &Stat, last: bool) -> Result<(), FolderError> {
        let owner = stat.st_uid;
        match owner == self.me || (owner == 0 && !last) {
            true => Ok(()),
            false => Err(error(path, Problem::Foreign(owner))),
        }
    }
}

fn root() -> Result<OwnedFd, FolderError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, "/", flags, Mode::empty())
        .map_err(|e| error(Path::new("/"), Problem::Io(e.into())))
}

fn error(path: &Path, problem: Problem) -> FolderError {
    FolderError { path: path.to_owned(), problem }
}

/// Refuses a folder that every user may write to, regardless of its owner. For commands that only read below it: a
/// missing folder is fine, and none is made.
pub fn refuse_shared(path: &Path) -> Result<(), FolderError> {
    match rustix::fs::statat(CWD, path, AtFlags::empty()) {
        Ok(stat) if stat.st_mode & ALL_USERS != 0 => Err(error(path, Problem::Open(stat.st_mode & 0o7777))),
        Err(e) if !matches!(e, Errno::NOENT | Errno::NOTDIR) => Err(error(path, Problem::Io(e.into()))),
        _ => Ok(()),
    }
}

/// True if the folder exists, belongs to this user, and no other user can write to it. An environment
/// variable that names any other folder is ignored.
pub fn is_private(path: &Path) -> bool {
    let stat = rustix::fs::statat(CWD, path, AtFlags::empty());
    let me = rustix::process::geteuid().as_raw();
    stat.is_ok_and(|stat| {
        let folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        folder && stat.st_uid == me && stat.st_mode & OTHER_USERS == 0
    })
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::Foreign(owner) => write!(
                f,
                "{path} belongs to the user {owner}, not to this one, so files below it cannot be trusted; remove it, or \
                 choose another folder"
            ),
            Problem::Open(mode) => write!(
                f,
                "{path} can be written to by others (mode {mode:04o}), so files below it cannot be trusted; check \
                them and revoke the permission (chmod go-w {path}), or choose another folder"
            ),
            Problem::NotAFolder => write!(f, "{path} is in the way and is not a folder; remove it"),
            Problem::Links => {
                write!(f, "{path} is a link that leads through more than {LINKS} others; remove it")
            }
            Problem::Io(_) => write!(f, "{path} cannot be created or opened"),
        }
    }
}

impl std::error::Error for FolderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(e) => Some(e),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn said(path: &Path, parents: Parents) -> String {
        ensure_private(path, parents).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_there_is_made_for_us_alone() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b/c");
        ensure_private(&folder, Parents::Safe).unwrap();
        ensure_private(&folder, Parents::Safe).unwrap();
        for made in ["a", "a/b", "a/b/c"] {
            assert_eq!(fs::metadata(place.path().join(made)).unwrap().permissions().mode() & 0o7777, 0o700);
        }
    }

    #[test]
    fn a_sticky_folder_is_gone_through_and_an_open_one_is_not() {
        let place = tempfile::tempdir().unwrap();
        let shared = place.path().join("shared");
        fs::create_dir(&shared).unwrap();
        mode(&shared, 0o1777);
        ensure_private(&shared.join("mine"), Parents::Safe).unwrap();
        assert!(said(&shared, Parents::Safe).contains("mode 1777"), "a sticky bit keeps nobody out of it");
        mode(&shared, 0o777);
        let why = said(&shared.join("mine"), Parents::Safe);
        assert!(why.contains("shared can be written to by others (mode 0777)"), "{why}");
        ensure_private(&shared.join("mine"), Parents::Named).unwrap();
        mode(&shared.join("mine"), 0o770);
        ensure_private(&shared.join("mine"), Parents::Named).unwrap();
        mode(&shared.join("mine"), 0o772);
        assert!(said(&shared.join("mine"), Parents::Named).contains("mode 0772"));
        mode(&shared, 0o755);
        mode(&shared.join("mine"), 0o770);
        assert!(said(&shared.join("mine"), Parents::Safe).contains("mode 0770"));
    }

    #[test]
    fn a_planted_folder_or_link_is_refused() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make what belongs to another user");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        mode(place.path(), 0o1777);
        let planted = place.path().join("coracle-0");
        fs::create_dir_all(planted.join("coracle")).unwrap();
        chown(&planted, Some(65534), None).unwrap();
        for parents in [Parents::Safe, Parents::Named] {
            // The inner folder is this user's, but the owner of the outer one can replace it.
            let why = said(&planted.join("coracle"), parents);
            assert!(why.contains("coracle-0 belongs to the user 65534"), "{why}");
        }
        let mine = place.path().join("mine");
        fs::create_dir(&mine).unwrap();
        let link = place.path().join("link");
        symlink(&mine, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        assert!(said(&link.join("x"), Parents::Safe).contains("link belongs to the user 65534"));
        assert_eq!(fs::read_dir(&mine).unwrap().count(), 0, "nothing was made through it");
        chown(&mine, Some(65534), None).unwrap();
        assert!(said(&mine, Parents::Safe).contains("mine belongs to"));
    }

    #[test]
    fn a_link_of_ours_is_followed_and_its_goal_judged() {
        let place = tempfile::tempdir().unwrap();
        let (real, link) = (place.path().join("real"), place.path().join("link"));
        fs::create_dir(&real).unwrap();
        symlink("real/../real", &link).unwrap();
        ensure_private(&link.join("x"), Parents::Safe).unwrap();
        assert!(real.join("x").is_dir());
        mode(&real, 0o777);
        assert!(said(&link.join("x"), Parents::Safe).contains("real can be written to"));
        let round = place.path().join("round");
        symlink("round", &round).unwrap();
        assert!(said(&round, Parents::Safe).contains("more than 40"));
        let nowhere = place.path().join("nowhere");
        symlink(real.join("x/new"), &nowhere).unwrap();
        mode(&real, 0o700);
        ensure_private(&nowhere, Parents::Safe).unwrap();
        assert!(real.join("x/new").is_dir());
    }

    #[test]
    fn who_only_looks_is_told_of_an_open_folder_and_makes_none() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a");
        refuse_shared(&folder).unwrap();
        assert!(!folder.exists(), "nothing is made");
        fs::write(place.path().join("file"), "").unwrap();
        refuse_shared(&place.path().join("file/a")).unwrap();
        fs::create_dir(&folder).unwrap();
        mode(&folder, 0o770);
        refuse_shared(&folder).unwrap();
        for open in [0o707, 0o777, 0o1777] {
            mode(&folder, open);
            let why = refuse_shared(&folder).unwrap_err().to_string();
            assert!(why.contains(&format!("(mode {open:04o})")), "{why}");
            assert!(why.contains(&format!("chmod go-w {}", folder.display())), "{why}");
        }
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("file"), "").unwrap();
        assert!(said(&place.path().join("file/x"), Parents::Safe).contains("file is in the way"));
        assert!(!is_private(&place.path().join("file")) && is_private(place.path()));
        assert!(!is_private(Path::new("/tmp")) && !is_private(Path::new("/no/such")));
    }
}
