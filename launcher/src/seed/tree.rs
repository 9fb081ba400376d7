//! The files of an ISO image, as a value: paths, bytes, bounds.

use super::folder::FolderFile;
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Most files of an image. A ConfigMap has a few; more files mean that the wrong folder was named.
pub const MOST_FILES: usize = 10_000;
/// Most folders of an image.
pub const MOST_FOLDERS: usize = 1_000;
/// Most levels of folders; ISO 9660 has room for eight.
pub const DEEPEST: usize = 8;
/// Most bytes of a name: Linux cuts a longer one, and a key of a ConfigMap has no more.
pub const LONGEST_NAME: usize = 253;
/// Most bytes of a file: its size has 32 bits in the image.
pub const LARGEST_FILE: u64 = u32::MAX as u64;
/// Most bytes of all files together.
pub const LARGEST_DISC: u64 = 8 << 30;

/// The files of an image, by their paths: `user-data`, `openstack/latest/user_data`.
#[derive(Debug, Default)]
pub struct Files {
    files: BTreeMap<String, File>,
    folders: BTreeSet<String>,
    total: u64,
}

#[derive(Debug)]
pub(super) struct File {
    pub(super) content: Content,
    /// True if the guest may run the file.
    pub(super) executable: bool,
}

/// Location of a file's bytes.
#[derive(Debug)]
pub(super) enum Content {
    Bytes(Vec<u8>),
    /// In a folder of the host.
    FolderFile(FolderFile),
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::FolderFile(held) => held.size(),
        }
    }
}

impl Files {
    pub fn new() -> Files {
        Files::default()
    }

    /// Adds a file. An error names the file and the limit that it exceeds.
    pub fn add(&mut self, path: &str, bytes: impl Into<Vec<u8>>) -> Result<()> {
        self.insert(path, File { content: Content::Bytes(bytes.into()), executable: false })
    }

    pub(super) fn insert(&mut self, path: &str, file: File) -> Result<()> {
        check_path(path)?;
        let size = file.content.size();
        if size > LARGEST_FILE {
            return Err(Error::refused(format!(
                "the file {path:?} has {size} bytes, and an ISO image holds files of at most {LARGEST_FILE}"
            )));
        }
        // Cannot overflow: the sum is at most `LARGEST_DISC` and the file has less than 4 GiB.
        if self.total + size > LARGEST_DISC {
            return Err(Error::refused(format!(
                "with the file {path:?} the ISO image would be larger than {LARGEST_DISC} bytes"
            )));
        }
        if self.files.len() >= MOST_FILES {
            return Err(Error::refused(format!(
                "the file {path:?} is one too many: an ISO image holds at most {MOST_FILES} files"
            )));
        }
        for folder in folders_of(path) {
            if self.files.contains_key(folder) {
                return Err(Error::refused(format!(
                    "{folder:?} cannot be a file and the folder of {path:?} at once"
                )));
            }
            if !self.folders.contains(folder) {
                self.folders.insert(folder.to_owned());
            }
        }
        if self.folders.len() > MOST_FOLDERS {
            return Err(Error::refused(format!(
                "the folder of {path:?} is one too many: an ISO image holds at most {MOST_FOLDERS} folders"
            )));
        }
        if self.folders.contains(path) {
            return Err(Error::refused(format!("{path:?} cannot be a file and a folder at once")));
        }
        if self.files.insert(path.to_owned(), file).is_some() {
            return Err(Error::refused(format!("the file {path:?} is there twice")));
        }
        self.total += size;
        Ok(())
    }

    /// The paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The bytes of a file that was added with [`Files::add`].
    pub fn bytes(&self, path: &str) -> Option<&[u8]> {
        match &self.files.get(path)?.content {
            Content::Bytes(bytes) => Some(bytes),
            Content::FolderFile(_) => None,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }
}

/// The parent folders of a path, outermost first.
fn folders_of(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

fn check_path(path: &str) -> Result<()> {
    let refuse =
        |why: String| Err(Error::refused(format!("the file {path:?} cannot be in an ISO image: {why}")));
    if path.split('/').count() > DEEPEST {
        return refuse(format!("its path has more than {DEEPEST} names"));
    }
    for name in path.split('/') {
        if name.is_empty() {
            return refuse("it has an empty name".to_owned());
        }
        if name == "." || name == ".." {
            return refuse(format!("{name:?} is not a name"));
        }
        if name.len() > LONGEST_NAME {
            return refuse(format!("a name may have {LONGEST_NAME} bytes, and one has {}", name.len()));
        }
        if name.chars().any(char::is_control) {
            return refuse("a name has a control character".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(files: &mut Files, path: &str) -> String {
        files.add(path, "x").expect_err(path).to_string()
    }

    #[test]
    fn hostile_paths_are_refused_by_name() {
        let mut files = Files::new();
        let long = "n".repeat(LONGEST_NAME + 1);
        let deep = "d/".repeat(DEEPEST) + "f";
        for path in
            ["", "/etc/passwd", "a//b", "a/", "..", "a/../b", "./a", "a\0b", "a\nb", "\u{85}", &long, &deep]
        {
            let said = refused(&mut files, path);
            assert!(said.contains(&format!("{path:?}")), "{said}");
        }
        assert_eq!(files.paths().count(), 0);
        files.add(&"n".repeat(LONGEST_NAME), "x").unwrap();
        files.add(&("d/".repeat(DEEPEST - 1) + "f"), "x").unwrap();
    }

    #[test]
    fn a_name_cannot_be_a_file_and_a_folder() {
        let mut files = Files::new();
        files.add("a/b", "x").unwrap();
        assert!(refused(&mut files, "a").contains("at once"));
        assert!(refused(&mut files, "a/b/c").contains("at once"));
        assert!(refused(&mut files, "a/b").contains("twice"));
    }

    #[test]
    fn the_number_of_files_and_folders_is_bounded() {
        let mut files = Files::new();
        for i in 0..MOST_FILES {
            files.add(&format!("{i}"), "").unwrap();
        }
        assert!(refused(&mut files, "last").contains("\"last\""));
        let mut files = Files::new();
        for i in 0..MOST_FOLDERS {
            files.add(&format!("{i}/f"), "").unwrap();
        }
        assert!(refused(&mut files, "last/f").contains("\"last/f\""));
    }
}
