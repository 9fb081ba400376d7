//! Temporary files without a name. Such a file disappears when its last descriptor is closed, even if the
//! process is killed.
//!
//! A confined program may need such files in the folder for temporary files, which it can no longer reach.
//! [`reserve`] creates them before.

use rustix::fs::{CWD, Mode, OFlags};
use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An anonymous file in use.
#[derive(Debug)]
pub struct AnonymousFile {
    file: File,
    /// Folder of a reserved file, to which it returns when this is dropped.
    reserved: Option<PathBuf>,
}

/// Reserved files that are not in use, each with its folder.
static RESERVED: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

/// Takes a file that was reserved in `folder`, or creates one.
pub fn anonymous_file(folder: &Path) -> io::Result<AnonymousFile> {
    let mut all = reserved();
    if let Some(at) = all.iter().position(|(of, _)| of == folder) {
        let (of, file) = all.swap_remove(at);
        return Ok(AnonymousFile { file, reserved: Some(of) });
    }
    drop(all);
    Ok(AnonymousFile { file: make(folder)?, reserved: None })
}

/// Creates `count` files in `folder` for later. Each can be used repeatedly.
pub fn reserve(folder: &Path, count: usize) -> io::Result<()> {
    let made = (0..count).map(|_| Ok((folder.to_owned(), make(folder)?))).collect::<io::Result<Vec<_>>>()?;
    reserved().extend(made);
    Ok(())
}

impl Deref for AnonymousFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Write for AnonymousFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AnonymousFile {
    fn drop(&mut self) {
        let Some(folder) = self.reserved.take() else { return };
        // Emptied, so that its disk space is free again.
        let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
        if let Ok(file) = emptied.and_then(|()| self.file.try_clone()) {
            reserved().push((folder, file));
        }
    }
}

fn reserved() -> MutexGuard<'static, Vec<(PathBuf, File)>> {
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make(folder: &Path) -> io::Result<File> {
    never_named(folder).or_else(|_| named_for_a_moment(folder))
}

fn never_named(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR)?))
}

/// For file systems without O_TMPFILE. Also reports the clearer error if no file can be created.
fn named_for_a_moment(folder: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    let mut tries = 0;
    loop {
        let path = folder.join(format!(".coracle-spool-{}-{tries}", std::process::id()));
        match options.open(&path) {
            Ok(file) => return std::fs::remove_file(&path).map(|()| file),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < 100 => tries += 1,
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    #[test]
    fn it_has_no_name_on_any_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let made = [make(folder.path()).unwrap(), named_for_a_moment(folder.path()).unwrap()];
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(made);
        assert_eq!(
            anonymous_file(Path::new("/nonexistent/folder")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn what_was_reserved_is_used_again_and_is_empty_then() {
        let folder = tempfile::tempdir().unwrap();
        reserve(folder.path(), 1).unwrap();
        let id = |file: &File| file.metadata().unwrap().ino();
        let first = anonymous_file(folder.path()).unwrap();
        first.write_all_at(b"of the first", 0).unwrap();
        let second = anonymous_file(folder.path()).unwrap();
        let (ours, other) = (id(&first), id(&second));
        assert_ne!(ours, other, "there was but one");
        drop((first, second));
        let again = anonymous_file(folder.path()).unwrap();
        assert_eq!((id(&again), again.metadata().unwrap().len()), (ours, 0));
    }
}
