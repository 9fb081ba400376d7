//! Files that a command reads. A target must not replace or remove them.
//!
//! A target is written as `NAME.partial`, and what an earlier run left under its names is removed at the
//! beginning. So the check comes before a target is opened: no input may be the file of one of these names,
//! by whatever path, descriptor or hard link it is read.

use crate::{Error, Name, Result};
use rustix::fs::{AtFlags, CWD, FileType, Stat};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use storage::FileId;

/// End of the name of an unfinished target, and ends of the names of its journals.
const PARTIAL: &str = ".partial";
const JOURNALS: [&str; 2] = [".partial.journal", ".partial.journal~"];

/// Regular files that are read. A device is not included: it is compared by its storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inputs(Vec<FileId>);

impl Inputs {
    /// Adds an open file.
    pub fn with_open(self, file: impl AsFd) -> io::Result<Inputs> {
        Ok(self.with(&rustix::fs::fstat(file)?))
    }

    /// Adds the file at a path. Without a file there, the error comes from the reader.
    pub fn with_path(self, path: &Path) -> Result<Inputs> {
        match rustix::fs::statat(CWD, path, AtFlags::empty()) {
            Ok(stat) => Ok(self.with(&stat)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(self),
            Err(e) => Err(Error::io(format!("cannot examine {}", path.display()), io::Error::from(e))),
        }
    }

    /// Adds the file that holds an image, if it is in one.
    pub fn with_image(self, image: &Name) -> Result<Inputs> {
        match image {
            Name::OciArchive(path, _) | Name::DockerArchive(path, _) => self.with_path(path),
            Name::Registry(_) | Name::Layout(..) | Name::Store(_) => Ok(self),
        }
    }

    fn with(mut self, stat: &Stat) -> Inputs {
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            self.0.push(FileId::from_stat(stat));
        }
        self
    }

    /// Refuses a target file that would replace one of the inputs, or remove it at the beginning.
    pub fn refuse_target(&self, target: &Path) -> Result<()> {
        let shown = target.display();
        if self.is_at(target)? {
            return Err(Error::usage(format!(
                "the target {shown} is the source itself, which the disk would replace; write it to another name"
            )));
        }
        let partial = beside(target, PARTIAL);
        if self.is_at(&partial)? {
            return Err(Error::usage(format!(
                "the source is {}, where the disk for {shown} would be written; where it is whole, rename it to \
                 {shown}, otherwise give it another name",
                partial.display()
            )));
        }
        for journal in JOURNALS.map(|end| beside(target, end)) {
            if self.is_at(&journal)? {
                return Err(Error::usage(format!(
                    "the source is {}, which is removed when {shown} is written; give it another name",
                    journal.display()
                )));
            }
        }
        Ok(())
    }

    /// True if the name leads to an input. A symbolic link is a file of its own.
    fn is_at(&self, path: &Path) -> Result<bool> {
        match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(self.0.contains(&FileId::from_stat(&stat))),
            // No input has a name that is too long, and the target's own error says more.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::ACCESS) => Ok(false),
            Err(e) => Err(Error::io(format!("cannot examine {}", path.display()), io::Error::from(e))),
        }
    }
}

/// The name with this end, in the same folder.
pub fn beside(target: &Path, end: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use std::fs::{self, File};

    #[test]
    fn a_target_that_would_replace_or_remove_an_input_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["", ".partial", ".partial.journal", ".partial.journal~"] {
            let (path, target) = (at(&format!("disk.img{name}")), at("disk.img"));
            fs::write(&path, "precious").unwrap();
            fs::hard_link(&path, at("second")).unwrap();
            std::os::unix::fs::symlink(&path, at("link")).unwrap();
            let opened = Inputs::default().with_open(File::open(&path).unwrap()).unwrap();
            let by_path = |name: &str| Inputs::default().with_path(&at(name)).unwrap();
            for inputs in [opened, by_path("second"), by_path("link")] {
                let e = inputs.refuse_target(&target).unwrap_err();
                assert!(e.kind() == ErrorKind::Usage && e.to_string().contains("source"), "{name}: {e}");
                inputs.refuse_target(&at("other.img")).unwrap();
            }
            by_path("no such file").refuse_target(&target).unwrap();
            Inputs::default().with_path(folder.path()).unwrap().refuse_target(&target).unwrap();
            for path in [path, at("second"), at("link")] {
                fs::remove_file(path).unwrap();
            }
        }
    }

    #[test]
    fn an_image_is_read_from_its_archive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar");
        fs::write(&path, "archive").unwrap();
        for scheme in ["oci-archive", "docker-archive"] {
            let image = Name::of_image(&format!("{scheme}:{}", path.display())).unwrap();
            let inputs = Inputs::default().with_image(&image).unwrap();
            inputs.refuse_target(&path).unwrap_err();
        }
        let other = Name::of_image(&format!("oci:{}", folder.path().display())).unwrap();
        assert_eq!(Inputs::default().with_image(&other).unwrap(), Inputs::default());
    }
}
