//! A folder of the real file system. All names are opened relative to the folder's descriptor, so a folder
//! that is moved during a long run stays the same folder.

use super::disk::{Claimed, Folder, ForeignFile, Handle, OldAttributes};
use crate::journal;
use crate::{Error, ErrorKind, Result};
use container_disk::write_behind;
use guard::confine::{Attributes, set_attributes};
use rustix::fs::{AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use storage::kernel_lists::shows_one_owner;
use storage::protected::{known_refusal, refusal};
use storage::publish::{ExistingFile, publish, sync_folder};
use storage::{LastingFileId, flock_owner, locked_file_in_use, own_file};

/// Mode of new disks: all users can read and the owner can write, less the umask.
const NEW: Mode = Mode::from_raw_mode(0o644);
/// Mode of journals and unfinished disks: the file that the disk replaces may be private.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);
/// Time to wait for a lock that another process holds.
const LETS_GO: Duration = Duration::from_secs(1);
/// Zeros for file systems without holes.
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

pub(crate) struct RealFolder {
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

impl RealFolder {
    /// Opens a folder; the error names it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match rustix::fs::openat(
            CWD,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Ok(fd) => Ok(RealFolder { fd: Arc::new(fd), path: path.to_owned() }),
            Err(Errno::NOENT) => {
                let what = format!("the folder {} does not exist; make it first", path.display());
                Err(Error::new(ErrorKind::NotFound, what))
            }
            Err(Errno::NOTDIR) => Err(Error::refused(format!("{} is not a folder", path.display()))),
            Err(e) => Err(Error::io(format!("cannot open the folder {}", path.display()), e)),
        }
    }

    /// The descriptor, for lookups of names in it.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    fn openat(&self, name: &OsStr, flags: OFlags, mode: Mode) -> rustix::io::Result<File> {
        // Nonblocking, so that a planted named pipe cannot block the process; regular files are not affected.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        rustix::fs::openat(&self.fd, name, flags, mode).map(File::from)
    }

    fn holds(&self, file: File) -> RealFile {
        RealFile(file, Arc::clone(&self.fd))
    }

    /// Opens an existing file. A file without write permission belongs to another user, and is opened to find
    /// the process that holds it.
    fn existing(&self, name: &OsStr) -> rustix::io::Result<File> {
        match self.openat(name, OFlags::RDWR, NEW) {
            Err(Errno::ACCESS) => self.openat(name, OFlags::RDONLY, NEW),
            other => other,
        }
    }

    /// The refusal of an unfinished file that may be the disk of a VM. The file that the journal beside it names is one of ours.
    fn disk_refusal(&self, file: &File, name: &OsStr) -> Option<String> {
        let (path, journal) = (self.path(name), journal::name_of(name));
        match identity(file).is_ok_and(|partial| journal::is_journal(self, &journal, Some(&partial))) {
            true => known_refusal(file, path.display()),
            false => refusal(file, path.display()),
        }
    }

    /// The refusal of a file to be removed, which may be the disk of a VM. A journal is one of ours.
    fn journal_refusal(&self, file: &File, name: &OsStr) -> Option<String> {
        let path = self.path(name);
        match journal::is_journal(self, name, None) {
            true => known_refusal(file, path.display()),
            false => refusal(file, path.display()),
        }
    }

    /// One attempt at [`Folder::claim`]; `None` if the name changed in the meantime.
    fn try_claim(&self, name: &OsStr, foreign: ForeignFile) -> Result<Option<Claimed>> {
        let path = self.path(name);
        let (file, created) = match self.openat(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, PRIVATE) {
            Ok(file) => (file, true),
            Err(Errno::EXIST) => match self.existing(name) {
                Ok(file) => (file, false),
                Err(Errno::NOENT) => return Ok(None),
                Err(e @ (Errno::ACCESS | Errno::PERM)) => return Err(in_the_way(&path, e.into())),
                Err(e) => return Err(cannot_make(&path, e)),
            },
            Err(e) => return Err(cannot_make(&path, e)),
        };
        let meta = file.metadata().map_err(|e| Error::io(format!("cannot examine {}", path.display()), e))?;
        if !meta.is_file() || meta.nlink() > 1 {
            let what =
                format!("{} is in the way and is not a plain file with one name; remove it", path.display());
            return Err(Error::refused(what));
        }
        let is_locked = match lock(&file) {
            Ok(()) => true,
            Err(Errno::WOULDBLOCK) => {
                let by = flock_owner(meta.dev(), meta.ino());
                let what = format!(
                    "{} is being written by another process{by}; wait for it or stop it",
                    path.display()
                );
                return Err(Error::failed(what));
            }
            Err(e) => {
                tracing::warn!("{} cannot be locked ({e}): do not write it twice at once", path.display());
                false
            }
        };
        // Between opening and locking, another process may have finished it (it is now the final disk) or
        // removed it.
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(now) if now.st_dev == meta.dev() && now.st_ino == meta.ino() => {}
            Ok(_) | Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(Error::io(format!("cannot examine {}", path.display()), e)),
        }
        // QEMU takes locks of another family, which a flock does not meet.
        let user = locked_file_in_use(&file);
        let user = user.map_err(|e| Error::io(format!("cannot examine {}", path.display()), e))?;
        if let Some(how) = user.filter(|_| !created) {
            let what = format!("{} is in use: {how}; end that, or move the file", path.display());
            return Err(Error::failed(what));
        }
        // What a guest wrote is neither removed nor gone on with.
        if !created && let Some(what) = self.disk_refusal(&file, name) {
            return Err(Error::failed(what));
        }
        let file = self.holds(file);
        let why = file.strange().map_err(|e| Error::io(format!("cannot examine {}", path.display()), e))?;
        match why.filter(|_| !created) {
            None => Ok(Some(Claimed { file: Arc::new(file), created, is_locked })),
            Some(why) if foreign == ForeignFile::Refuse => {
                let path = path.display();
                let what = format!(
                    "cannot go on with {path}, which is not one of ours: {why}; it was left as it is: remove it, or \
                     leave out --resume, which replaces it"
                );
                Err(Error::new(ErrorKind::Usage, what))
            }
            // No process is writing it: this one has its lock, or the file system has no locks.
            Some(why) => {
                tracing::warn!("{} is not one of ours and is replaced: {why}", path.display());
                file.remove(name).map(|_| None).map_err(|e| in_the_way(&path, e))
            }
        }
    }
}

impl Folder for RealFolder {
    fn claim(&self, name: &OsStr, foreign: ForeignFile) -> Result<Claimed> {
        for _ in 0..100 {
            if let Some(claimed) = self.try_claim(name, foreign)? {
                return Ok(claimed);
            }
        }
        let what = format!("{} keeps being made and removed by other processes", self.path(name).display());
        Err(Error::failed(what))
    }

    fn open(&self, name: &OsStr) -> io::Result<Option<Box<dyn Handle>>> {
        match self.existing(name) {
            Ok(file) => Ok(Some(Box::new(self.holds(file)))),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn create(&self, name: &OsStr) -> io::Result<Box<dyn Handle>> {
        // A new file rather than a truncated one: the old one may have other names, or belong to another
        // user.
        self.remove(name)?;
        let file = self.openat(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, PRIVATE)?;
        Ok(Box::new(self.holds(file)))
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    fn remove(&self, name: &OsStr) -> io::Result<bool> {
        // A disk of a VM may have the name of a journal.
        if let Ok(file) = self.openat(name, OFlags::RDONLY, Mode::empty())
            && let Some(what) = self.journal_refusal(&file, name)
        {
            return Err(io::Error::other(what));
        }
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(sync_folder(&*self.fd)?)
    }

    fn free(&self) -> io::Result<u64> {
        let fs = rustix::fs::fstatvfs(&self.fd)?;
        Ok(fs.f_bavail.saturating_mul(fs.f_frsize))
    }

    fn path(&self, name: &OsStr) -> PathBuf {
        if self.path == Path::new(".") { PathBuf::from(name) } else { self.path.join(name) }
    }
}

/// The error for another user's file that only they may remove.
fn in_the_way(path: &Path, e: io::Error) -> Error {
    let what = format!(
        "{} belongs to another user and is in the way; let them remove it, or choose another name",
        path.display()
    );
    Error::failed(what).because(e)
}

fn cannot_make(path: &Path, e: Errno) -> Error {
    let path = path.display();
    match e {
        Errno::ROFS => Error::failed(format!("cannot write {path}: the file system is read-only")),
        Errno::ACCESS | Errno::PERM => {
            Error::failed(format!("cannot write {path}: no permission to make files in that folder"))
        }
        Errno::LOOP => Error::refused(format!("{path} is a symbolic link and is in the way; remove it")),
        Errno::ISDIR | Errno::NXIO => {
            Error::refused(format!("{path} is not a file and is in the way; remove it"))
        }
        Errno::NAMETOOLONG => Error::new(
            ErrorKind::Usage,
            format!(
                "the name {path} is too long: choose a target name at least 16 bytes shorter than the limit"
            ),
        ),
        e => return Error::io(format!("cannot make {path}"), e),
    }
    .because(io::Error::from(e))
}

/// This user's umask. It can only be read by changing it; it is set to the strictest value for that moment,
/// in case another thread creates a file just then.
fn umask() -> Mode {
    static UMASK: OnceLock<Mode> = OnceLock::new();
    *UMASK.get_or_init(|| {
        let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
        rustix::process::umask(umask);
        umask
    })
}

/// An open file, and the folder that it is in.
pub(crate) struct RealFile(File, Arc<OwnedFd>);

impl Drop for RealFile {
    /// Unlocks explicitly: a child process that is just being started has a copy of the descriptor until it
    /// runs its own program, so closing is not enough.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl RealFile {
    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        let (mut offset, mut left) = (offset, len);
        while left > 0 {
            let n = left.min(ZEROS.len() as u64);
            self.0.write_all_at(&ZEROS[..n as usize], offset)?;
            offset += n;
            left -= n;
        }
        Ok(())
    }
}

impl Handle for RealFile {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn zero(&self, offset: u64, len: u64, keep: bool) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        let how = if keep { FallocateFlags::ZERO_RANGE } else { FallocateFlags::PUNCH_HOLE };
        match rustix::fs::fallocate(&self.0, how | FallocateFlags::KEEP_SIZE, offset, len) {
            Err(e) if is_unsupported(e) => self.write_zeros(offset, len),
            other => Ok(other?),
        }
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        Ok(rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, len)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocated(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.blocks() * 512)
    }

    fn take_after(&self, old: Option<&OldAttributes>) -> io::Result<()> {
        let now = self.0.metadata()?;
        let Some(old) = old else {
            let mode = NEW.as_raw_mode() & !umask().as_raw_mode();
            if now.mode() & 0o777 != mode
                && let Err(e) = set_attributes(&self.0, Attributes::Mode(mode))
            {
                // The file system chooses the modes; the disk itself is fine.
                tracing::warn!("the new disk has mode {:04o}, not {mode:04o}: {e}", now.mode() & 0o777);
            }
            return Ok(());
        };
        if (now.uid(), now.gid()) != (old.uid, old.gid) {
            // Only root may give files away; for other users the new disk is theirs, as any file they make.
            if let Err(e) = set_attributes(&self.0, Attributes::Owner(old.uid, old.gid)) {
                tracing::warn!(
                    "the new disk belongs to {}:{}, not {}:{}: {e}",
                    now.uid(),
                    now.gid(),
                    old.uid,
                    old.gid
                );
            }
        }
        // A change of the owner may clear mode bits, so the mode is checked after it.
        let (now, mode) = (self.0.metadata()?.mode() & 0o777, old.mode & 0o777);
        if now == mode {
            return Ok(());
        }
        match set_attributes(&self.0, Attributes::Mode(mode)) {
            // The mode grants no more than before.
            Err(e) if now & !mode == 0 => {
                tracing::warn!("the new disk has mode {now:04o}, not {mode:04o}: {e}");
                Ok(())
            }
            done => done,
        }
    }

    fn write_out(&self) {
        write_behind::write_out(&self.0);
    }

    fn drop_cache(&self) {
        drop_cache(&self.0);
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn strange(&self) -> io::Result<Option<String>> {
        own_file::foreign_reason(&self.0, &*self.1)
    }

    fn doubt(&self) -> io::Result<Option<String>> {
        Ok(shows_one_owner(self.0.metadata()?.dev()).map(|kind| {
            format!(
                "nothing proves who made its .partial file, since a file system of the kind {kind} shows everybody's \
                 files as this user's; --resume takes it for ours"
            )
        }))
    }

    fn identity(&self) -> io::Result<String> {
        identity(&self.0)
    }

    fn age(&self) -> io::Result<Duration> {
        own_file::age(&self.0, &*self.1)
    }

    fn publish(&self, from: &OsStr, to: &OsStr, over: Option<&ExistingFile>) -> io::Result<()> {
        publish(&self.1, &self.0, from, to, over)
    }

    fn remove(&self, name: &OsStr) -> io::Result<bool> {
        own_file::remove(&self.1, name, &self.0)
    }
}

/// The ID of an open file ([`Handle::identity`]).
pub(crate) fn identity(file: impl AsFd) -> io::Result<String> {
    Ok(LastingFileId::of(file)?.to_string())
}

/// True if a file system or a device reports that it cannot zero a range by itself. Some report that only at
/// the first call.
pub(super) fn is_unsupported(e: Errno) -> bool {
    matches!(e, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV)
}

/// Writes the cached data of a file or a device out, and drops it ([`Handle::drop_cache`]).
pub(super) fn drop_cache(file: &File) {
    if let Err(e) = file.sync_data() {
        tracing::info!("an earlier run could not write all that it left: {e}");
    }
    // All pages are clean now, written or lost.
    write_behind::write_out(file);
}

/// Locks a file. A held lock is tried again for a moment: the kernel may need a while to release the locks of
/// a process that was just killed.
fn lock(file: &File) -> rustix::io::Result<()> {
    let begin = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begin.elapsed() < LETS_GO => std::thread::sleep(LETS_GO / 50),
            locked => return locked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_again_though_a_child_has_a_copy_of_the_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let ours = File::create(&path).unwrap();
        rustix::fs::flock(&ours, FlockOperation::NonBlockingLockExclusive).unwrap();
        let copy = ours.try_clone().unwrap();
        let other = File::open(&path).unwrap();
        rustix::fs::flock(&other, FlockOperation::NonBlockingLockShared).unwrap_err();
        drop(RealFolder::open(folder.path()).unwrap().holds(ours));
        rustix::fs::flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
        drop(copy);
    }

    #[test]
    fn a_file_system_says_in_several_ways_that_it_has_no_holes() {
        assert!([Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::NODEV].into_iter().all(is_unsupported));
        assert!(![Errno::NOSPC, Errno::IO, Errno::DQUOT, Errno::PERM].into_iter().any(is_unsupported));
    }

    /// The fallback for file systems without holes.
    #[test]
    fn zeros_are_written_over_a_range_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let (from, len) = (3, 2 * ZEROS.len() as u64 + 5);
        std::fs::write(&path, vec![7; (from + len) as usize + 2]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        RealFolder::open(folder.path()).unwrap().holds(file).write_zeros(from, len).unwrap();
        let expected = [&[7; 3][..], &vec![0; len as usize], &[7; 2]].concat();
        assert!(std::fs::read(&path).unwrap() == expected);
        // A file that is not open for writing.
        let reader = RealFolder::open(folder.path()).unwrap().holds(File::open(&path).unwrap());
        assert!(reader.write_zeros(from, len).is_err() && reader.write_zeros(from, 0).is_ok());
    }

    #[test]
    fn a_file_is_made_anew_in_place_of_one_with_other_names() {
        let folder = tempfile::tempdir().unwrap();
        let real = RealFolder::open(folder.path()).unwrap();
        let name = OsStr::new("disk.img.partial");
        std::fs::write(folder.path().join("other"), b"precious").unwrap();
        std::fs::hard_link(folder.path().join("other"), folder.path().join(name)).unwrap();
        let file = real.create(name).unwrap();
        assert_eq!(file.len().unwrap(), 0);
        assert_eq!(std::fs::read(folder.path().join("other")).unwrap(), b"precious");
        assert!(real.remove(name).unwrap() && !real.remove(name).unwrap());
        // A name of the working directory is shown without it.
        assert_eq!(RealFolder::open(Path::new("")).unwrap().path(name), Path::new(name));
    }

    /// File systems give the number of a removed file again: then the moment of its birth tells two apart.
    #[test]
    fn a_file_of_the_same_name_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let real = RealFolder::open(folder.path()).unwrap();
        let made = || real.create(OsStr::new("x")).unwrap().identity().unwrap();
        let first = made();
        // Births are told in ticks of the kernel's clock.
        assert!((0..100_000).any(|_| made() != first), "{first}");
    }

    #[test]
    fn zeros_of_a_reserved_file_keep_its_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let real = RealFolder::open(folder.path()).unwrap();
        let file = real.create(OsStr::new("x")).unwrap();
        let (half, size) = (512 << 10, 1 << 20);
        file.reserve(0).unwrap();
        file.zero(0, 0, false).unwrap();
        file.reserve(size).unwrap();
        file.write_at(&vec![7; size as usize], 0).unwrap();
        let reserved = file.allocated().unwrap();
        file.zero(0, half, true).unwrap();
        assert_eq!(file.allocated().unwrap(), reserved);
        file.zero(0, half, false).unwrap();
        assert!(file.allocated().unwrap() <= reserved - half, "{reserved}");
        let mut bytes = vec![1; size as usize];
        file.read_at(&mut bytes, 0).unwrap();
        let (zeros, data) = bytes.split_at(half as usize);
        assert!(zeros.iter().all(|&byte| byte == 0) && data.iter().all(|&byte| byte == 7));
    }
}
