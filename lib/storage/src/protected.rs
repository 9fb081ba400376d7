//! Files that are kept even under a name of ours: a program that knows disks of VMs names them here, and an unfinished file of an
//! earlier run (`NAME.partial`) is neither removed nor written to if it is one of them.
//!
//! The program hands in a function ([`provide`]). It is called once, when the list is first needed: at the first found file, or
//! before the process gives up the right to read the records ([`load`]).

use crate::{FileId, LastingFileId};
use std::fmt::Display;
use std::fs::File;
use std::sync::OnceLock;

/// A file to be kept, as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedFile {
    /// The file.
    pub id: LastingFileId,
    /// The file at the recorded path now, if that path leads to a file that may be the recorded one.
    pub at: Option<FileId>,
}

/// The files to be kept, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectedFiles {
    /// The known ones.
    pub files: Vec<ProtectedFile>,
    /// Reason why there may be others, as a sentence: a record that cannot be read.
    pub unread: Option<String>,
}

type Provider = fn() -> ProtectedFiles;

static PROVIDER: OnceLock<Provider> = OnceLock::new();
static FILES: OnceLock<ProtectedFiles> = OnceLock::new();

/// Sets the function that lists the files to be kept. The first one counts.
pub fn provide(provider: Provider) {
    PROVIDER.get_or_init(|| provider);
}

/// Lists the files, if that was not done. To be called before the process is confined.
pub fn load() {
    files();
}

/// The files to be kept; `None` for a program that knows none.
fn files() -> Option<&'static ProtectedFiles> {
    let list = PROVIDER.get()?;
    Some(FILES.get_or_init(list))
}

/// The message of a file that must be kept, which is shown by this name. `None` for other files. While a record cannot be read,
/// every file must.
pub fn refusal(file: &File, shown: impl Display) -> Option<String> {
    let files = files()?;
    known(file, files, &shown).or_else(|| {
        let why = files.unread.as_ref()?;
        Some(format!("{shown} may be the disk of a VM: {why}"))
    })
}

/// The same for a file that is shown to be of an earlier run: a record that cannot be read does not matter.
pub fn known_refusal(file: &File, shown: impl Display) -> Option<String> {
    known(file, files()?, &shown)
}

fn known(file: &File, files: &ProtectedFiles, shown: &dyn Display) -> Option<String> {
    let files = &files.files;
    // A file that cannot be examined cannot be told from a disk.
    let is_one = !files.is_empty() && files.iter().any(|one| one.is_file(file).unwrap_or(true));
    is_one
        .then(|| format!("{shown} is the disk of a VM: move it out of this folder to keep it, or remove it"))
}

impl ProtectedFile {
    /// True if the open file may be this one.
    pub fn is_file(&self, file: &File) -> std::io::Result<bool> {
        Ok(self.is(&LastingFileId::of(file)?, FileId::of(file)?))
    }

    /// True if the found file may be this one. Without times of birth two file systems may have a file of one number: then the one
    /// at the recorded path counts.
    fn is(&self, found: &LastingFileId, here: FileId) -> bool {
        self.id.is_surely(found) || (self.id.may_be(found) && self.at.is_none_or(|at| at == here))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_kept_under_whichever_name_and_size() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["disk", "other"] {
            fs::write(at(name), name).unwrap();
        }
        let open = |name: &str| File::open(at(name)).unwrap();
        let id = LastingFileId::of(open("disk")).unwrap();
        let files = ProtectedFiles { files: vec![ProtectedFile { id, at: None }], unread: None };
        let reason = |file: &File, files| known(file, files, &"it");
        fs::rename(at("disk"), at("x.partial")).unwrap();
        fs::write(at("x.partial"), "longer than it was").unwrap();
        let said = reason(&open("x.partial"), &files).unwrap();
        assert_eq!(said, "it is the disk of a VM: move it out of this folder to keep it, or remove it");
        assert_eq!(reason(&open("other"), &files), None);
        assert_eq!(reason(&open("x.partial"), &ProtectedFiles::default()), None);
    }

    #[test]
    fn without_times_of_birth_the_recorded_path_tells_two_files_of_one_number_apart() {
        let id: LastingFileId = serde_json::from_str(r#"{"ino":12}"#).unwrap();
        let (here, elsewhere) = (FileId::new(1, 12), FileId::new(2, 12));
        let file = |at| ProtectedFile { id: id.clone(), at };
        assert!(file(Some(here)).is(&id, here) && !file(Some(elsewhere)).is(&id, here));
        assert!(file(None).is(&id, here), "its own path leads nowhere");
    }
}
