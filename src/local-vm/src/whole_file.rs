//! A private file of the user that is written whole or not at all, in a folder of the user alone.
//!
//! ```text
//!  NAME.partial ── made, locked ─► written ─► synced ─► NAME ─► names of the folder synced
//! ```
//!
//! Several processes may write one file. The lock of `NAME.partial` makes each wait for the one before; the last one stays.
//! A `NAME.partial` of a process that was killed is removed. A link of that name is an error.

use crate::error::{Error, Result};
use container_disk::inputs::beside;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use storage::own_file;
use storage::publish::sync_folder;

/// Writes a private file of the user, whole or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = beside(path, ".partial");
    let cannot = |e| Error::io(format!("cannot write {}", partial.display()), e);
    let mut file = claim(&partial).map_err(cannot)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(cannot)?;
    fs::rename(&partial, path).map_err(|e| Error::io(format!("cannot write {}", path.display()), e))?;
    sync_names(path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Makes the names in a folder durable.
pub(crate) fn sync_names(folder: &Path) -> Result<()> {
    let cannot = |e| Error::io(format!("cannot sync {}", folder.display()), e);
    let open = File::open(folder).map_err(cannot)?;
    sync_folder(&open).map_err(|e| cannot(e.into()))
}

/// A new file of this name, locked.
fn claim(partial: &Path) -> io::Result<File> {
    // Nonblocking, so that a named pipe does not block the process.
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    loop {
        let made =
            rustix::fs::openat(CWD, partial, flags | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR);
        let (file, is_new) = match made {
            Ok(file) => (File::from(file), true),
            Err(Errno::EXIST) => match rustix::fs::openat(CWD, partial, flags, Mode::empty()) {
                Ok(file) => (File::from(file), false),
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(e.into()),
            },
            Err(e) => return Err(e.into()),
        };
        if let Err(e) = file.lock() {
            tracing::debug!("{} cannot be locked: {e}", partial.display());
        }
        // A process that had the lock before has renamed or removed the file.
        if own_file::leads_to(CWD, partial.as_os_str(), &file)? {
            if is_new {
                return Ok(file);
            }
            own_file::remove(CWD, partial.as_os_str(), &file)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("precious"), "precious").unwrap();
        fs::hard_link(at("precious"), at("a.json.partial")).unwrap();
        write_whole(&at("a.json"), b"new").unwrap();
        assert_eq!(fs::read(at("a.json")).unwrap(), b"new");
        assert_eq!(fs::metadata(at("a.json")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()).len(), 2, "{:?}", names(folder.path()));

        symlink("precious", at("b.json.partial")).unwrap();
        let e = write_whole(&at("b.json"), b"new").unwrap_err().to_string();
        assert!(e.contains("b.json.partial"), "{e}");
        symlink("missing", at("c.json.partial")).unwrap();
        write_whole(&at("c.json"), b"new").unwrap_err();
        assert!(!at("b.json").exists() && !at("c.json").exists() && !at("missing").exists());
        assert_eq!(fs::read(at("precious")).unwrap(), b"precious");
    }

    /// Two first runs at once both wrote `node.json`, and one of them failed.
    #[test]
    fn processes_that_write_one_file_at_once_all_write_it_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.json");
        std::thread::scope(|scope| {
            for writer in 0..4_u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        write_whole(path, &vec![writer; 1 + usize::from(writer) * 10_000]).unwrap();
                        let found = fs::read(path).unwrap();
                        assert_eq!(found.len(), 1 + usize::from(found[0]) * 10_000);
                        assert!(found.iter().all(|byte| *byte == found[0]));
                    }
                });
            }
        });
        assert_eq!(names(folder.path()), ["node.json"]);
    }

    #[test]
    fn an_error_names_the_folder_that_cannot_be_synced() {
        let folder = tempfile::tempdir().unwrap();
        sync_names(folder.path()).unwrap();
        let e = sync_names(&folder.path().join("none")).unwrap_err().to_string();
        assert!(e.contains("cannot sync") && e.contains("/none"), "{e}");
    }
}
