//! A folder that is held open. Every entry is opened by its own name below the folder, and no symbolic link
//! is followed, so no entry of an image layout can lead out of it. In a store, folders and trusted files must
//! also belong to the store's owner (`owner.rs`).

use super::lock::{Keeps, Locked};
use super::owner::Owner;
use crate::{Error, Result};
use guard::confine::{Attributes, set_attributes};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use storage::protected::refusal;
use storage::publish::{ExistingFile, publish, sync_folder};
use storage::{locked_file_in_use, own_file};

/// An open folder of an image layout or store.
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
    /// Required owner of the entries. `None` if any owner is accepted.
    owner: Option<Owner>,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags to open a file. `NONBLOCK` keeps the open of a pipe from waiting for its other end.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Mode of new files: readable for all, less the umask, and writable for this user alone. Other users with
/// write access could change a blob after it was verified.
const NEW: Mode = Mode::from_raw_mode(0o644);
/// Mode of new folders. Never writable for others, whatever the umask: write access to a folder means control
/// over the files that are read from it.
const NEW_FOLDER: u32 = 0o775;
/// Mode of new folders of a store.
const NEW_OWN_FOLDER: u32 = 0o700;
/// Mode of lock files. A user who can open a lock file can hold the lock.
const NEW_LOCK: Mode = Mode::from_raw_mode(0o600);

impl Folder {
    /// Opens the folder at a path from the user. Only here symbolic links are followed.
    pub(crate) fn open(path: &Path) -> Result<Folder> {
        let fd = rustix::fs::openat(CWD, path, FOLDER, Mode::empty());
        let fd = fd.map_err(|e| cannot("open the folder", path, e))?;
        Ok(Folder { fd, path: path.to_owned(), owner: None })
    }

    /// Opens the folder, and creates it with its parents if it does not exist.
    pub(crate) fn create(path: &Path) -> Result<Folder> {
        make(path, NEW_FOLDER)?;
        Folder::open(path)
    }

    /// Opens the folder of a store, in which files of other users are not trusted.
    pub(crate) fn open_owned(path: &Path) -> Result<Folder> {
        let folder = Folder::open(path)?;
        let owner = Some(Owner::of_folder(&folder.fd, path)?);
        Ok(Folder { owner, ..folder })
    }

    /// Opens the folder of a store, and creates it with its parents, for this user alone, if it does not
    /// exist.
    pub(crate) fn create_owned(path: &Path) -> Result<Folder> {
        make(path, NEW_OWN_FOLDER)?;
        Folder::open_owned(path)
    }

    /// The path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a subfolder. `None` if it does not exist.
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

    /// Opens a subfolder, and creates it if it does not exist.
    pub(crate) fn make_sub(&self, name: &str) -> Result<Folder> {
        // Another process may remove an empty folder between the two calls.
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
        Err(Error::failed(format!(
            "the folder {} was removed repeatedly by another process; end that process",
            self.path.join(name).display()
        )))
    }

    /// Fails if the entry belongs to another user and this folder requires an owner.
    fn judge(&self, found: impl AsFd, path: &Path) -> Result<()> {
        self.owner.map_or(Ok(()), |owner| owner.judge(found, path))
    }

    /// Opens a regular file whose owner is checked, and returns its size.
    pub(crate) fn trusted_file(&self, name: &str) -> Result<Option<(File, u64)>> {
        let found = self.file(name)?;
        if let Some((file, _)) = &found {
            self.judge(file, &self.path.join(name))?;
        }
        Ok(found)
    }

    /// Opens a regular file of any owner, and returns its size.
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

    /// Opens or creates a regular file to lock, with its owner checked. Older versions left such files open
    /// to other users; the mode of this user's own file is corrected.
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
            // Some file systems do not support a change of the mode.
            tracing::debug!("other users can hold {}: {e}", self.shown(name));
        }
        Ok(file)
    }

    /// Opens or creates a regular file. The file of another user is opened for reading.
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

    /// Opens a regular file for writing, locked for this process, and creates it if it does not exist. A file
    /// that another user could have prepared (owner, mode, hard links) is replaced. `None` while another
    /// process holds the lock. A disk of a VM, and a file that a loop device is attached to, stays as it is.
    pub(crate) fn own_file(&self, name: &str) -> Result<Option<Locked>> {
        let cannot = |what: &str, e| Error::io(format!("cannot {what} {}", self.shown(name)), e);
        for _ in 0..100 {
            let made = self.new_file(name)?;
            let is_made = made.is_some();
            let file = made.map_or_else(|| self.make_file(name, NEW), Ok)?;
            let Some(file) = Locked::at_once(file, Keeps::All).map_err(|e| cannot("lock", e))? else {
                return Ok(None);
            };
            // The previous holder may have renamed it to its final name.
            if !self.leads_to(name, &file)? {
                continue;
            }
            if !is_made && let Some(how) = locked_file_in_use(&file).map_err(|e| cannot("examine", e))? {
                let what = format!("{} is in use: {how}; end that, or move the file", self.shown(name));
                return Err(Error::failed(what));
            }
            if !is_made && let Some(what) = refusal(&file, self.shown(name)) {
                return Err(Error::failed(what));
            }
            // Owner and mode of a file that was created here come from the file system and need no check.
            let why = if is_made {
                None
            } else {
                own_file::foreign_reason(&file, &self.fd).map_err(|e| cannot("examine", e))?
            };
            let Some(why) = why else {
                return Ok(Some(file));
            };
            tracing::warn!("{} was not created by this program and is replaced: {why}", self.shown(name));
            self.remove_own(name, &file).map_err(|e| {
                let what =
                    format!("{} blocks the new file: {why}; ask its owner to remove it", self.shown(name));
                Error::failed(what).because(e)
            })?;
        }
        Err(self.replaced_repeatedly(name))
    }

    /// Like `own_file`, but always creates a new file, since an existing one may still be open in the process
    /// that created it. `None` while another process holds the lock.
    pub(crate) fn fresh_file(&self, name: &str) -> Result<Option<Locked>> {
        for _ in 0..100 {
            // The old file stays locked until the new one exists, so that no writer loses its file.
            let Some(found) = self.own_file(name)? else { return Ok(None) };
            self.remove_own(name, &found)?;
            // Another process has just taken the free name.
            let Some(file) = self.new_file(name)? else { continue };
            let locked = self.lock_new(name, file)?;
            if locked.is_some() {
                return Ok(locked);
            }
        }
        Err(self.replaced_repeatedly(name))
    }

    /// Locks a file that was just created. `None` if another process locked it first, or took it for a
    /// leftover and removed it.
    fn lock_new(&self, name: &str, file: File) -> Result<Option<Locked>> {
        let locked = Locked::at_once(file, Keeps::All);
        match locked.map_err(|e| Error::io(format!("cannot lock {}", self.shown(name)), e))? {
            Some(file) if self.leads_to(name, &file)? => Ok(Some(file)),
            _ => Ok(None),
        }
    }

    fn replaced_repeatedly(&self, name: &str) -> Error {
        Error::failed(format!(
            "other processes replaced {} repeatedly; end them and try again",
            self.shown(name)
        ))
    }

    /// Creates a file. `None` if the name exists.
    pub(crate) fn new_file(&self, name: &str) -> Result<Option<File>> {
        let flags = FILE | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        match rustix::fs::openat(&self.fd, name, flags, NEW) {
            Ok(fd) => Ok(Some(fd.into())),
            Err(Errno::EXIST) => Ok(None),
            Err(e) => Err(cannot("write", &self.path.join(name), e)),
        }
    }

    /// Moves the open `file` of this folder to `name` in `to`, and makes the rename durable. Fails if another
    /// file has its name by now.
    pub(crate) fn rename(&self, file: &File, from: &str, to: &Folder, name: &str) -> Result<()> {
        if !self.leads_to(from, file)? {
            return Err(self.lost(from));
        }
        let moved = rustix::fs::renameat(&self.fd, from, &to.fd, name);
        moved.map_err(|e| cannot("rename a whole file to", &to.path.join(name), e))?;
        to.sync()
    }

    /// The error for a complete file that has lost its name.
    fn lost(&self, name: &str) -> Error {
        Error::failed(format!(
            "{} was removed or replaced by another run, and the bytes of this one are lost; run the same command again",
            self.shown(name)
        ))
    }

    /// Gives the complete `file` its final name. Only the file `over`, seen there at the start, is replaced,
    /// if it is not in use.
    pub(crate) fn publish(
        &self,
        file: &File,
        from: &str,
        name: &str,
        over: Option<&ExistingFile>,
    ) -> Result<()> {
        let (shown, partial) = (self.shown(name), self.shown(from));
        publish(&self.fd, file, from.as_ref(), name.as_ref(), over).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => self.lost(from),
            io::ErrorKind::ResourceBusy => Error::failed(format!(
                "{shown} came into use in the meantime and is kept; the new content is complete in {partial}: rename \
                 that file, or run the same command again when {shown} is free"
            ))
            .because(e),
            io::ErrorKind::AlreadyExists => {
                let how = if over.is_some() { "changed or replaced" } else { "made" };
                Error::failed(format!(
                    "{shown} was {how} by another program in the meantime and is kept; the new content is complete in \
                         {partial}: rename that file, or run the same command again, which replaces {shown}"
                ))
            }
            _ => {
                Error::io(format!("{partial} is complete, but cannot be renamed to {name}"), e)
            }
        })?;
        self.sync()
    }

    /// The file that has this name now, and which the new one may replace. Fails if it is in use, or if it is
    /// not a regular file.
    pub(crate) fn existing_file(&self, name: &str) -> Result<Option<ExistingFile>> {
        let found = ExistingFile::examine(&self.fd, name.as_ref());
        let found = found.map_err(|e| cannot("examine", &self.path.join(name), e))?;
        let Some(mut file) = found else { return Ok(None) };
        if let Some(kind) = file.odd_kind() {
            let what = format!(
                "the target {} is {kind}; only a regular file is replaced: name another file",
                self.shown(name)
            );
            return Err(Error::usage(what));
        }
        let user = file.user(&self.fd, name.as_ref());
        if let Some(how) = user.map_err(|e| Error::io(format!("cannot examine {}", self.shown(name)), e))? {
            return Err(Error::failed(format!("the target {} is in use: {how}", self.shown(name))));
        }
        file.examine_again().map_err(|e| cannot("examine", &self.path.join(name), e))?;
        Ok(Some(file))
    }

    /// Removes a name of the open `file`. False if the name is free, or another file's.
    pub(crate) fn remove_own(&self, name: &str, file: &File) -> Result<bool> {
        own_file::remove(&self.fd, name.as_ref(), file)
            .map_err(|e| Error::io(format!("cannot remove {}", self.shown(name)), e))
    }

    /// Removes a file. True if it existed.
    pub(crate) fn remove(&self, name: &str) -> Result<bool> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(cannot("remove", &self.path.join(name), e)),
        }
    }

    /// Removes a subfolder if it is empty.
    pub(crate) fn remove_empty(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR);
    }

    /// The names of all entries, sorted. In a name that is not UTF-8 the odd bytes are replaced, so that it leads
    /// to no file.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let listed = Dir::read_from(&self.fd).and_then(Iterator::collect::<rustix::io::Result<Vec<_>>>);
        let listed = listed.map_err(|e| cannot("list", &self.path, e))?;
        let names = listed.iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name != "." && name != "..").collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Syncs the folder, which makes its names durable.
    pub(crate) fn sync(&self) -> Result<()> {
        sync_folder(&self.fd).map_err(|e| cannot("make durable the folder", &self.path, e))
    }

    /// True if the name still refers to the open `file`. It may have been renamed, removed or replaced.
    pub(crate) fn leads_to(&self, name: &str, file: &File) -> Result<bool> {
        own_file::leads_to(&self.fd, name.as_ref(), file)
            .map_err(|e| Error::io(format!("cannot examine {}", self.shown(name)), e))
    }

    /// Locks the folder until the result is dropped. Blocks while another process holds the lock.
    pub(crate) fn lock(&self) -> Result<Locked> {
        let again = self.sub(".")?.map(|folder| File::from(folder.fd));
        let again = again.ok_or_else(|| cannot("open the folder", &self.path, Errno::NOENT))?;
        let who = format!("changes {}", self.path.display());
        Locked::wait(again, Keeps::All, &who)
            .map_err(|e| Error::io(format!("cannot lock {}", self.path.display()), e))
    }

    /// The path of an entry, for messages.
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

    /// The first run created its file and did not lock it yet: the second one takes it for a leftover.
    #[test]
    fn a_new_file_that_another_run_replaced_before_it_was_locked_is_not_used() {
        let at = tempfile::tempdir().unwrap();
        let folder = Folder::open(at.path()).unwrap();
        let first = folder.new_file("x.partial").unwrap().unwrap();
        let second = folder.fresh_file("x.partial").unwrap().unwrap();
        assert!(folder.lock_new("x.partial", first).unwrap().is_none());
        assert!(folder.leads_to("x.partial", &second).unwrap());
        assert!(folder.fresh_file("x.partial").unwrap().is_none(), "the second one has the lock");
        drop(second);
        let third = folder.fresh_file("x.partial").unwrap().unwrap();
        assert!(folder.leads_to("x.partial", &third).unwrap());
    }

    static DISKS: std::sync::Mutex<Vec<storage::protected::ProtectedFile>> = std::sync::Mutex::new(vec![]);

    /// `copy … oci-archive:foo.tar` removed `foo.tar.partial`. This is the only test of this program that names such files.
    #[test]
    fn the_disk_of_a_vm_is_not_replaced_whatever_its_name_is() {
        let at = tempfile::tempdir().unwrap();
        let path = at.path().join("foo.tar.partial");
        std::fs::write(&path, "of a guest").unwrap();
        let id = storage::LastingFileId::of(File::open(&path).unwrap()).unwrap();
        DISKS.lock().unwrap().push(storage::protected::ProtectedFile { id, at: None });
        storage::protected::provide(|| storage::protected::ProtectedFiles {
            files: DISKS.lock().unwrap().clone(),
            unread: None,
        });
        let folder = Folder::open(at.path()).unwrap();
        for mode in [0o600, 0o666] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let e = folder.fresh_file("foo.tar.partial").err().unwrap().to_string();
            assert!(e.contains("foo.tar.partial is the disk of a VM"), "{e}");
            assert_eq!(std::fs::read(&path).unwrap(), b"of a guest");
        }
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
