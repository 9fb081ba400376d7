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

/// The files to be kept, or the reason why they are not known, as a sentence.
pub type ProtectedFiles = Result<Vec<ProtectedFile>, String>;

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

/// The message of a file that must be kept, which is shown by this name. `None` for other files.
pub fn refusal(file: &File, shown: impl Display) -> Option<String> {
    let why = reason(file, files()?)?;
    Some(format!("{shown} {why}: rename it to keep it, or remove it"))
}

fn reason(file: &File, files: &ProtectedFiles) -> Option<String> {
    match files {
        Err(why) => Some(format!("may be the disk of a VM: {why}")),
        Ok(files) if files.is_empty() => None,
        Ok(files) => {
            // A file that cannot be examined cannot be told from a disk.
            let found = LastingFileId::of(file).and_then(|id| Ok((id, FileId::of(file)?)));
            let is_one = found.map_or(true, |(id, here)| files.iter().any(|file| file.is(&id, here)));
            is_one.then(|| "is the disk of a VM".to_owned())
        }
    }
}

impl ProtectedFile {
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
        let files = Ok(vec![ProtectedFile { id, at: None }]);
        fs::rename(at("disk"), at("x.partial")).unwrap();
        fs::write(at("x.partial"), "longer than it was").unwrap();
        assert_eq!(reason(&open("x.partial"), &files).as_deref(), Some("is the disk of a VM"));
        assert_eq!(reason(&open("other"), &files), None);
        assert_eq!(reason(&open("x.partial"), &Ok(vec![])), None);
        let unknown = Err("cannot read raw-disks.json".to_owned());
        let said = reason(&open("other"), &unknown).unwrap();
        assert_eq!(said, "may be the disk of a VM: cannot read raw-disks.json");
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
