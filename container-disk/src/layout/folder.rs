//! A folder held open: everything in it is opened by its own name below it, and no link is followed on the way, so
//! nothing that somebody put into an image layout leads out of it. In a store a folder, or a file that is believed, must be
//! of the store's owner too (`owner.rs`).

use super::lock::{Keeps, Locked};
use super::owner::Owner;
use crate::publish::{Standing, publish, sync_folder};
use crate::{Error, Result, ours};
use guard::confine::{Attributes, set_attributes};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// An open folder.
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
    /// Whose everything in it must be; `None`: anybody's.
    owner: Option<Owner>,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Does not wait for the other end, should it be a pipe.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Read by all, less the umask, and written by us alone: who else may write to a blob can change it after it was checked.
const NEW: Mode = Mode::from_raw_mode(0o644);
/// Never written by anybody, whatever the umask: who may write to a folder chooses what is read from it.
const NEW_FOLDER: u32 = 0o775;
/// For its owner alone.
const NEW_OWN_FOLDER: u32 = 0o700;
/// A file that is held locked: whoever can open it can hold it.
const NEW_LOCK: Mode = Mode::from_raw_mode(0o600);

impl Folder {
    /// The folder a person named; here alone links are followed.
    pub(crate) fn open(path: &Path) -> Result<Folder> {
        let fd = rustix::fs::openat(CWD, path, FOLDER, Mode::empty());
        let fd = fd.map_err(|e| cannot("open the folder", path, e))?;
        Ok(Folder { fd, path: path.to_owned(), owner: None })
    }

    /// The same; made where it does not exist, with the folders on the way.
    pub(crate) fn create(path: &Path) -> Result<Folder> {
        make(path, NEW_FOLDER)?;
        Folder::open(path)
    }

    /// The folder of a store, in which nothing is believed that another user has put there.
    pub(crate) fn open_owned(path: &Path) -> Result<Folder> {
        let folder = Folder::open(path)?;
        let owner = Some(Owner::of(&folder.fd, path)?);
        Ok(Folder { owner, ..folder })
    }

    /// The same; made where it does not exist, with the folders on the way, for this user alone.
    pub(crate) fn create_owned(path: &Path) -> Result<Folder> {
        make(path, NEW_OWN_FOLDER)?;
        Folder::open_owned(path)
    }

    /// Where it is, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A folder in it.
    pub(crate) fn sub(&self, name: &str) -> Result<Option<Folder>> {
        let path = self.path.join(name);
        match rustix::fs::openat(&self.fd, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(fd) => {
                self.judge(&fd, &path)?;
                Ok(Some(Folder { fd, path, owner: self.owner }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let what =
                    format!("{} is not a folder; links in an image layout are not followed", path.display());
                Err(Error::refused(what))
            }
            Err(e) => Err(cannot("open the folder", &path, e)),
        }
    }

    /// A folder in it, made where it does not exist.
    pub(crate) fn make_sub(&self, name: &str) -> Result<Folder> {
        // Somebody else may remove an empty one between the two calls.
        for _ in 0..8 {
            if let Some(sub) = self.sub(name)? {
                return Ok(sub);
            }
            match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(NEW_FOLDER)) {
                Ok(()) => self.sync()?,
                Err(Errno::EXIST) => {}
                Err(e) => return Err(cannot("make the folder", &self.path.join(name), e)),
            }
        }
        Err(Error::failed(format!("the folder {} vanishes again and again", self.path.join(name).display())))
    }

    /// Refuses what another user has put here, where that counts.
    fn judge(&self, found: impl AsFd, path: &Path) -> Result<()> {
        self.owner.map_or(Ok(()), |owner| owner.judge(found, path))
    }

    /// A regular file in it that is believed, and its size.
    pub(crate) fn trusted_file(&self, name: &str) -> Result<Option<(File, u64)>> {
        let found = self.file(name)?;
        if let Some((file, _)) = &found {
            self.judge(file, &self.path.join(name))?;
        }
        Ok(found)
    }

    /// A regular file in it, whosever it is, and its size.
    pub(crate) fn file(&self, name: &str) -> Result<Option<(File, u64)>> {
        let path = self.path.join(name);
        match rustix::fs::openat(&self.fd, name, FILE | OFlags::RDONLY, Mode::empty()) {
            Ok(fd) => {
                let file = File::from(fd);
                let size = regular(&file, &path)?;
                Ok(Some((file, size)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP) => {
                let what = format!("{} is a link; links in an image layout are not followed", path.display());
                Err(Error::refused(what))
            }
            Err(e) => Err(cannot("open", &path, e)),
        }
    }

    /// A regular file in it that is believed, to lock; made where it does not exist, and closed to others where it is ours
    /// and was made by a version that left it open.
    pub(crate) fn make_lock(&self, name: &str) -> Result<File> {
        let file = self.make_file(name, NEW_LOCK)?;
        self.judge(&file, &self.path.join(name))?;
        let facts =
            file.metadata().map_err(|e| Error::io(format!("cannot examine {}", self.shown(name)), e))?;
        let is_open = facts.mode() & 0o777 & !NEW_LOCK.as_raw_mode() != 0;
        if is_open
            && facts.uid() == rustix::process::geteuid().as_raw()
            && let Err(e) = set_attributes(&file, Attributes::Mode(NEW_LOCK.as_raw_mode()))
        {
            // A file system that chooses the modes.
            tracing::debug!("other users can hold {}: {e}", self.shown(name));
        }
        Ok(file)
    }

    /// A regular file in it, made where it does not exist. Another user's is opened for reading.
    fn make_file(&self, name: &str, mode: Mode) -> Result<File> {
        let path = self.path.join(name);
        let fd = match rustix::fs::openat(&self.fd, name, FILE | OFlags::RDWR | OFlags::CREATE, mode) {
            Err(Errno::ACCESS) => rustix::fs::openat(&self.fd, name, FILE | OFlags::RDONLY, mode),
            other => other,
        };
        let file = File::from(fd.map_err(|e| cannot("write", &path, e))?);
        regular(&file, &path)?;
        Ok(file)
    }

    /// A regular file in it to write to, for us alone: made where it does not exist, and made anew where it is not this
    /// user's alone, since somebody put it there. `None` while another process holds it.
    pub(crate) fn own_file(&self, name: &str) -> Result<Option<Locked>> {
        let cannot = |what: &str, e| Error::io(format!("cannot {what} {}", self.shown(name)), e);
        for _ in 0..100 {
            let made = self.new_file(name)?;
            let is_made = made.is_some();
            let file = made.map_or_else(|| self.make_file(name, NEW), Ok)?;
            let Some(file) = Locked::at_once(file, Keeps::All).map_err(|e| cannot("lock", e))? else {
                return Ok(None);
            };
            // Whoever held it until now may have given it its final name.
            if !self.leads_to(name, &file)? {
                continue;
            }
            // The owner and the mode of a file that was made here are those that the file system gives to all.
            let why = if is_made {
                None
            } else {
                ours::strange(&file, &self.fd).map_err(|e| cannot("examine", e))?
            };
            let Some(why) = why else {
                return Ok(Some(file));
            };
            tracing::warn!("{} is not one of ours and is replaced: {why}", self.shown(name));
            self.remove(name).map_err(|e| {
                let what = format!("{} is in the way: {why}; let its owner remove it", self.shown(name));
                Error::failed(what).because(e)
            })?;
        }
        Err(Error::failed(format!("others write {} again and again", self.shown(name))))
    }

    /// The same, always made anew: who made one that is there may have it open still. `None` while another process has
    /// it.
    pub(crate) fn fresh_file(&self, name: &str) -> Result<Option<Locked>> {
        // Held until the new one is there, so that nobody who writes it loses it.
        let Some(_found) = self.own_file(name)? else { return Ok(None) };
        self.remove(name)?;
        let Some(file) = self.new_file(name)? else { return Ok(None) };
        Locked::at_once(file, Keeps::All)
            .map_err(|e| Error::io(format!("cannot lock {}", self.shown(name)), e))
    }

    /// A file that must not exist yet; `None` if it does.
    pub(crate) fn new_file(&self, name: &str) -> Result<Option<File>> {
        let flags = FILE | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        match rustix::fs::openat(&self.fd, name, flags, NEW) {
            Ok(fd) => Ok(Some(fd.into())),
            Err(Errno::EXIST) => Ok(None),
            Err(e) => Err(cannot("write", &self.path.join(name), e)),
        }
    }

    /// Gives a file of this folder another name, in `to`, and makes that durable.
    pub(crate) fn rename(&self, from: &str, to: &Folder, name: &str) -> Result<()> {
        let moved = rustix::fs::renameat(&self.fd, from, &to.fd, name);
        moved.map_err(|e| cannot("rename a whole file to", &to.path.join(name), e))?;
        to.sync()
    }

    /// A whole file gets its final name, in place of what stood there when it was begun and of nothing else.
    pub(crate) fn publish(&self, from: &str, name: &str, over: Option<&Standing>) -> Result<()> {
        publish(&self.fd, from.as_ref(), name.as_ref(), over).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                let (shown, partial) = (self.shown(name), self.shown(from));
                let how = if over.is_some() { "replaced" } else { "made" };
                Error::failed(format!(
                    "{shown} was {how} by another program meanwhile and is left as it is; what was to stand there is \
                     whole in {partial}: rename that, or give the same command again, which replaces {shown}"
                ))
            }
            _ => {
                let what = format!("{} is whole, but cannot be renamed to {name}", self.shown(from));
                Error::io(what, e)
            }
        })?;
        self.sync()
    }

    /// What stands under that name now, to be replaced when the file that is begun is whole.
    pub(crate) fn standing(&self, name: &str) -> Result<Option<Standing>> {
        Standing::look(&self.fd, name.as_ref()).map_err(|e| cannot("examine", &self.path.join(name), e))
    }

    /// Removes a file; whether it was there.
    pub(crate) fn remove(&self, name: &str) -> Result<bool> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(cannot("remove", &self.path.join(name), e)),
        }
    }

    /// Removes a folder of it if that is empty.
    pub(crate) fn remove_empty(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR);
    }

    /// The names in it that are text, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let listed = Dir::read_from(&self.fd).and_then(Iterator::collect::<rustix::io::Result<Vec<_>>>);
        let listed = listed.map_err(|e| cannot("list", &self.path, e))?;
        let names = listed.iter().filter_map(|entry| entry.file_name().to_str().ok());
        let mut names: Vec<String> = names.filter(|n| *n != "." && *n != "..").map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Makes the names in it durable.
    pub(crate) fn sync(&self) -> Result<()> {
        sync_folder(&self.fd).map_err(|e| cannot("make durable the folder", &self.path, e))
    }

    /// Whether that name leads to this very file: it may have been renamed, removed or replaced since it was opened.
    pub(crate) fn leads_to(&self, name: &str, file: &File) -> Result<bool> {
        let id = |file: &File| -> Result<(u64, u64)> {
            let facts = file.metadata();
            let facts = facts.map_err(|e| Error::io(format!("cannot read {}", self.shown(name)), e))?;
            Ok((facts.dev(), facts.ino()))
        };
        match self.file(name)? {
            Some((there, _)) => Ok(id(&there)? == id(file)?),
            None => Ok(false),
        }
    }

    /// Excludes every other holder until the result is dropped. Waits.
    pub(crate) fn lock(&self) -> Result<Locked> {
        let again = self.sub(".")?.map(|folder| File::from(folder.fd));
        let again = again.ok_or_else(|| cannot("open the folder", &self.path, Errno::NOENT))?;
        let who = format!("changes {}", self.path.display());
        Locked::wait(again, Keeps::All, &who)
            .map_err(|e| Error::io(format!("cannot lock {}", self.path.display()), e))
    }

    /// A name in it, for messages.
    pub(crate) fn shown(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

fn make(path: &Path, mode: u32) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|e| Error::io(format!("cannot make the folder {}", path.display()), e))
}

fn regular(file: &File, path: &Path) -> Result<u64> {
    let facts = file.metadata().map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?;
    if facts.is_file() {
        Ok(facts.len())
    } else {
        Err(Error::refused(format!("{} is not a regular file", path.display())))
    }
}

fn cannot(what: &str, path: &Path, e: Errno) -> Error {
    Error::io(format!("cannot {what} {}", path.display()), io::Error::from(e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_system_that_chooses_the_owner_is_written_to() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can have its files made under another user");
            return;
        }
        let at = tempfile::tempdir().unwrap();
        std::fs::set_permissions(at.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        ::tests::mapped::as_mapped_by_a_server(65534, || {
            let folder = Folder::open(at.path()).unwrap();
            let file = folder.own_file("half").unwrap().unwrap();
            assert_eq!(file.metadata().unwrap().uid(), 65534, "the server's choice");
            file.set_len(7).unwrap();
            drop(file);
            let again = folder.own_file("half").unwrap().unwrap();
            assert_eq!(again.metadata().unwrap().len(), 7, "it is gone on with");
        });
    }

    #[test]
    fn a_file_of_another_name_is_not_written_to() {
        let at = tempfile::tempdir().unwrap();
        std::fs::write(at.path().join("precious"), "mine").unwrap();
        std::fs::hard_link(at.path().join("precious"), at.path().join("half")).unwrap();
        let folder = Folder::open(at.path()).unwrap();
        let file = folder.own_file("half").unwrap().unwrap();
        file.set_len(0).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 1);
        assert_eq!(std::fs::read(at.path().join("precious")).unwrap(), b"mine");
    }
}
