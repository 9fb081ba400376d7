//! A folder of the host with the files of a ConfigMap or a Secret, one file for each key.
//!
//! Kubernetes uses links in such a folder (`key -> ..data/key`, `..data -> ..2026_11_21…`), so that all keys
//! change at once. Links are followed, but never out of the folder, which the kernel ensures
//! (`RESOLVE_BENEATH`), because another tenant may fill the folder.

use super::tree::{Content, DEEPEST, File, Files, MOST_FILES, MOST_FOLDERS};
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open folder. Links in it are followed, but never out of it.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Base of all paths: the folder, or the `..data` in it.
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

/// A plain file in a folder, which is read when the ISO image is written.
#[derive(Debug)]
pub(super) struct FolderFile {
    folder: Folder,
    path: String,
    size: u64,
}

impl Folder {
    /// Opens a folder. A `..data` in it is opened instead, once: so all its keys are of the same moment.
    pub fn open(path: &Path) -> Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let cannot = |e: Errno| Error::io(format!("cannot open the folder {}", path.display()), e);
        let fd = openat(CWD, path, flags, Mode::empty()).map_err(cannot)?;
        let mut folder = Folder { fd: Arc::new(fd), path: path.to_owned() };
        match folder.beneath("..data", flags) {
            Ok(data) => folder.fd = Arc::new(data),
            Err(Errno::NOENT) => {}
            Err(e) => return Err(folder.cannot_open("..data", e)),
        }
        Ok(folder)
    }

    /// All files of the folder and the folders in it, without names that begin with `..`.
    pub fn files(&self) -> Result<Files> {
        let mut files = Files::new();
        let mut seen = 0;
        // Folders that are still to be read; the empty path is the folder itself.
        let mut rest = vec![String::new()];
        while let Some(at) = rest.pop() {
            seen += 1;
            if seen > MOST_FOLDERS {
                let what = format!("{} has more than {MOST_FOLDERS} folders in it", self.path.display());
                return Err(Error::refused(what));
            }
            for name in self.names(&at)? {
                let path = if at.is_empty() { name } else { format!("{at}/{name}") };
                let fd = self.open_for_reading(&path)?;
                let stat = fstat(&fd).map_err(|e| self.cannot_open(&path, e))?;
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => {
                        let size = u64::try_from(stat.st_size).unwrap_or(0);
                        let executable = stat.st_mode & 0o111 != 0;
                        let content = Content::FolderFile(FolderFile {
                            folder: self.clone(),
                            path: path.clone(),
                            size,
                        });
                        files.insert(&path, File { content, executable })?;
                    }
                    FileType::Directory if path.split('/').count() < DEEPEST => rest.push(path),
                    FileType::Directory => {
                        let what = format!(
                            "{} is a folder too deep: the path of a file in an ISO image has at most {DEEPEST} names",
                            self.display(&path)
                        );
                        return Err(Error::refused(what));
                    }
                    _ => return Err(self.not_a_file(&path)),
                }
            }
        }
        Ok(files)
    }

    /// Content of the first of `keys` that exists. More than `most` bytes are refused.
    pub fn text(&self, keys: &[&str], most: u64) -> Result<Option<Vec<u8>>> {
        for key in keys {
            match self.beneath(key, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK) {
                Ok(fd) => return self.read_bounded(key, fd, most).map(Some),
                Err(Errno::NOENT) => {}
                Err(e) => return Err(self.cannot_open(key, e)),
            }
        }
        Ok(None)
    }

    /// All keys of the folder and their contents, in order. More than `most` bytes of a key are refused.
    pub fn texts(&self, most: u64) -> Result<Vec<(String, Vec<u8>)>> {
        let mut texts = Vec::new();
        for name in self.names("")? {
            let fd = self.open_for_reading(&name)?;
            let text = self.read_bounded(&name, fd, most)?;
            texts.push((name, text));
        }
        Ok(texts)
    }

    fn read_bounded(&self, path: &str, fd: OwnedFd, most: u64) -> Result<Vec<u8>> {
        let stat = fstat(&fd).map_err(|e| self.cannot_open(path, e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(self.not_a_file(path));
        }
        let mut bytes = Vec::new();
        let mut reader = std::fs::File::from(fd).take(most.saturating_add(1));
        reader
            .read_to_end(&mut bytes)
            .map_err(|e| Error::io(format!("cannot read {}", self.display(path)), e))?;
        if bytes.len() as u64 > most {
            return Err(Error::refused(format!("{} has more than {most} bytes", self.display(path))));
        }
        Ok(bytes)
    }

    /// The names in a folder, in order.
    fn names(&self, at: &str) -> Result<Vec<String>> {
        let here = if at.is_empty() { "." } else { at };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = self.beneath(here, flags).map_err(|e| self.cannot_open(at, e))?;
        let cannot = |e: Errno| Error::io(format!("cannot list {}", self.display(at)), e);
        let mut names = Vec::new();
        for entry in Dir::new(fd).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name.starts_with(b"..") {
                continue;
            }
            let Ok(name) = std::str::from_utf8(name) else {
                let what = format!("{} has a name that is not UTF-8: {name:?}", self.display(at));
                return Err(Error::refused(what));
            };
            if names.len() >= MOST_FILES {
                let what = format!("{} has more than {MOST_FILES} files", self.display(at));
                return Err(Error::refused(what));
            }
            names.push(name.to_owned());
        }
        names.sort();
        Ok(names)
    }

    fn open_for_reading(&self, path: &str) -> Result<OwnedFd> {
        // Nonblocking, so that opening a named pipe does not hang; it has no effect on plain files.
        self.beneath(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK)
            .map_err(|e| self.cannot_open(path, e))
    }

    fn beneath(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            match openat2(&self.fd, path, flags, Mode::empty(), resolve) {
                // A rename on the host at the same time: the kernel could not exclude an escape.
                Err(Errno::AGAIN) if tries < 100 => tries += 1,
                done => return done,
            }
        }
    }

    fn cannot_open(&self, path: &str, e: Errno) -> Error {
        let shown = self.display(path);
        match e {
            Errno::XDEV => Error::refused(format!("{shown} is a link that leads out of its folder")),
            Errno::LOOP => Error::refused(format!("{shown} is a link that leads in a circle")),
            Errno::NOENT => {
                Error::new(ErrorKind::NotFound, format!("{shown} leads nowhere, or was removed meanwhile"))
            }
            e => Error::io(format!("cannot open {shown}"), e),
        }
    }

    fn not_a_file(&self, path: &str) -> Error {
        Error::refused(format!("{} is neither a file nor a folder", self.display(path)))
    }

    fn display(&self, path: &str) -> String {
        self.path.join(path).display().to_string()
    }
}

impl FolderFile {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Opens the file from its beginning, with its name for errors.
    pub(super) fn open(&self) -> Result<(std::fs::File, String)> {
        let fd = self.folder.open_for_reading(&self.path)?;
        Ok((fd.into(), self.folder.display(&self.path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn paths(path: &Path) -> Vec<String> {
        Folder::open(path).unwrap().files().unwrap().paths().map(str::to_owned).collect()
    }

    #[test]
    fn a_projected_folder_is_read() {
        let dir = folder();
        let real = dir.path().join("..2026_11_21_10_00_00.1");
        fs::create_dir_all(real.join("deep")).unwrap();
        fs::write(real.join("key"), "value").unwrap();
        fs::write(real.join("deep/one"), "1").unwrap();
        symlink("..2026_11_21_10_00_00.1", dir.path().join("..data")).unwrap();
        symlink("..data/key", dir.path().join("key")).unwrap();
        symlink("..data/deep", dir.path().join("deep")).unwrap();
        assert_eq!(paths(dir.path()), ["deep/one", "key"]);
        let open = Folder::open(dir.path()).unwrap();
        assert_eq!(open.text(&["Key", "key"], 5).unwrap().unwrap(), b"value");
        assert_eq!(open.text(&["other"], 5).unwrap(), None);
        assert!(open.text(&["key"], 4).unwrap_err().to_string().contains("more than 4 bytes"));
    }

    #[test]
    fn links_out_of_the_folder_are_refused() {
        let outside = folder();
        fs::write(outside.path().join("secret"), "s").unwrap();
        for target in [outside.path().join("secret"), "../..".into(), "/etc".into(), "/proc/self/root".into()]
        {
            let dir = folder();
            symlink(&target, dir.path().join("key")).unwrap();
            let open = Folder::open(dir.path()).unwrap();
            for said in
                [open.files().unwrap_err(), open.text(&["key"], 9).unwrap_err(), open.texts(9).unwrap_err()]
            {
                assert!(said.to_string().contains("key is a link that leads out of its folder"), "{said}");
            }
        }
        let dir = folder();
        symlink(outside.path(), dir.path().join("..data")).unwrap();
        assert!(Folder::open(dir.path()).unwrap_err().to_string().contains("leads out"));
    }

    #[test]
    fn circles_pipes_and_dangling_links_are_refused() {
        let dir = folder();
        symlink(".", dir.path().join("again")).unwrap();
        assert!(Folder::open(dir.path()).unwrap().files().unwrap_err().to_string().contains("too deep"));

        let dir = folder();
        symlink("self", dir.path().join("self")).unwrap();
        assert!(Folder::open(dir.path()).unwrap().files().unwrap_err().to_string().contains("circle"));

        let dir = folder();
        symlink("nothing", dir.path().join("dangling")).unwrap();
        assert!(Folder::open(dir.path()).unwrap().files().unwrap_err().to_string().contains("dangling"));

        let dir = folder();
        rustix::fs::mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let said = Folder::open(dir.path()).unwrap().files().unwrap_err().to_string();
        assert!(said.contains("pipe is neither a file nor a folder"), "{said}");
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_by_name() {
        let dir = folder();
        fs::File::create(dir.path().join("huge")).unwrap().set_len(1 << 32).unwrap();
        let said = Folder::open(dir.path()).unwrap().files().unwrap_err().to_string();
        assert!(said.contains("\"huge\" has 4294967296 bytes"), "{said}");
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let said = Folder::open(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(said.kind(), ErrorKind::NotFound);
        assert!(said.to_string().contains("/nowhere/at/all"));
    }
}
