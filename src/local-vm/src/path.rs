//! Absolute paths of the user's files.

use crate::error::{Error, Result};
use crate::lock::LOCK;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use storage::FileId;

/// Largest number of links on one path, as in the kernel.
const MOST_LINKS: usize = 40;

/// The absolute path of a file without `.` and `..`, as the spec of a VMI wants it. The file itself may be a
/// link, and stays one. A folder of a path with `..` is resolved by the kernel: `link/..` is where the link leads.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    let cannot = |e| Error::io(format!("cannot find {}", path.display()), e);
    let full = std::path::absolute(path).map_err(cannot)?;
    if !full.components().any(|part| part == Component::ParentDir) {
        return Ok(full);
    }
    match (full.parent(), full.file_name()) {
        (Some(folder), Some(name)) => Ok(folder.canonicalize().map_err(cannot)?.join(name)),
        _ => full.canonicalize().map_err(cannot),
    }
}

/// Identity of the file that a record names; `None` if it is gone. A file that cannot be looked at is an error: it must
/// not pass for one that no VM uses.
pub(crate) fn file_at(path: &Path) -> Result<Option<FileId>> {
    match FileId::of_path(path).map_err(io::Error::from) {
        Ok(file) => Ok(Some(file)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(Error::io(format!("cannot read {}", path.display()), e)),
    }
}

/// Paths that lead to a file: as it is given, at each link on its way, and the one without links. Its last parts may be missing.
pub(crate) fn spellings(path: &Path) -> Vec<PathBuf> {
    let (mut at, mut rest) = (PathBuf::from("/"), path.to_owned());
    let mut found = vec![path.to_owned()];
    let mut links = 0;
    loop {
        let mut parts = rest.components();
        let Some(part) = parts.next() else { break };
        let after = parts.as_path().to_owned();
        match part {
            Component::RootDir | Component::Prefix(_) => at = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir => drop(at.pop()),
            Component::Normal(name) => {
                at.push(name);
                if let Ok(target) = fs::read_link(&at) {
                    links += 1;
                    if links > MOST_LINKS {
                        break;
                    }
                    found.push(at.join(&after));
                    at.pop();
                    rest = target.join(after);
                    continue;
                }
            }
        }
        rest = after;
    }
    found.push(at.join(rest));
    found.dedup();
    found
}

/// Paths of all entries of a folder.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    entries.map_err(|e| Error::io(format!("cannot read {}", folder.display()), e))
}

/// Entries of a folder, sorted: those of these names, which are ours, and the others. The lock is neither.
pub(crate) fn own_entries(folder: &Path, own: &[&str]) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let mut all = entries(folder)?;
    all.retain(|path| !path.ends_with(LOCK));
    all.sort();
    Ok(all.into_iter().partition(|path| own.iter().any(|name| path.ends_with(name))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_path_is_spelled_at_each_link() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("big/pool/os")).unwrap();
        fs::create_dir_all(top.join("x/data")).unwrap();
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, top.join(at)).unwrap();
        link(top.join("big/pool").to_str().unwrap(), "x/data/pool");
        link("x/../x/data", "short");
        link("round", "round");
        let of = |path: &str| -> Vec<String> {
            let all = spellings(&top.join(path)).into_iter();
            all.map(|path| path.strip_prefix(&top).unwrap().display().to_string()).collect()
        };
        assert_eq!(of("big/pool/os/disk.img"), ["big/pool/os/disk.img"]);
        assert_eq!(
            of("short/pool/os/disk.img"),
            ["short/pool/os/disk.img", "x/data/pool/os/disk.img", "big/pool/os/disk.img"]
        );
        assert!(of("round/disk.img").len() <= 3);
    }

    #[test]
    fn a_path_loses_its_dots_and_the_file_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/disk.img"), "").unwrap();
        std::os::unix::fs::symlink(top.join("a/b"), top.join("to-b")).unwrap();
        std::os::unix::fs::symlink("disk.img", top.join("a/link.img")).unwrap();
        for (path, full) in [
            ("a/./disk.img", "a/disk.img"),
            ("a/b/../disk.img", "a/disk.img"),
            ("to-b/../new.img", "a/new.img"),
            ("a/b/../link.img", "a/link.img"),
            ("a/b/..", "a"),
            ("to-b/x.img", "to-b/x.img"),
        ] {
            assert_eq!(absolute(&top.join(path)).unwrap(), top.join(full), "{path}");
        }
        assert_eq!(absolute(&top.join("none/../x")).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
