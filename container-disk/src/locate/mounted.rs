//! The one disk of an image that is mounted as a folder. The same rules apply, to names listed from the
//! folder.
//!
//! [`mounted`] applies the rules to a list of names. [`disk`] makes the list itself. The folder must not
//! change meanwhile, as with an image mounted by a container runtime.

use super::rules;
use super::scan::clean;
use super::tree::{Entry, EntryKind, Tree};
use crate::{Error, Result};
use disk_format::Format;
use std::fs::FileType;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Limit of names, and of folder levels below `/disk`.
const MOST: usize = 1 << 12;
const DEEPEST: usize = 8;

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// A regular file, with its size in bytes.
    File(u64),
    Folder,
    /// Any other type, in words: "a link", "a device".
    Other(String),
}

/// The format of a disk that a VM can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The bytes as the guest sees them.
    Raw,
    Qcow2,
}

/// The path of the disk, chosen from a list of entries: the root, everything in `/disk`, and the parents of
/// `path`.
pub fn mounted(
    image: &str,
    listed: impl IntoIterator<Item = (String, Listed)>,
    path: Option<&str>,
) -> Result<String> {
    let mut tree = Tree::default();
    for (name, found) in listed {
        let (kind, size) = match found {
            Listed::File(size) => (EntryKind::File, size),
            Listed::Folder => (EntryKind::Folder, 0),
            Listed::Other(what) => (EntryKind::Other(what), 0),
        };
        tree.entries.insert(name, Entry { kind, layer: 0, at: 0, size, uid: 0, gid: 0, mode: 0 });
    }
    let path = match path.map(|path| (path, clean(path))) {
        None => None,
        Some((_, Some(path))) => Some(path),
        Some((path, None)) => {
            let what = format!("{path:?} is not the path of a file in {image}; write it without '..'");
            return Err(Error::refused(what));
        }
    };
    rules::choose(image, &tree, path.as_deref()).map(|(path, _)| path)
}

/// The path of the disk in an image that is mounted at `folder`. The folder must not be changed meanwhile.
pub fn disk(folder: &Path, image: &str) -> Result<PathBuf> {
    let mut listed = Vec::new();
    list(folder, "", &mut listed, 0)?;
    mounted(image, listed, None).map(|path| folder.join(path))
}

/// Lists the root, and everything in `/disk`.
fn list(folder: &Path, at: &str, listed: &mut Vec<(String, Listed)>, depth: usize) -> Result<()> {
    let cannot = |e| Error::io(format!("cannot read the folder {} of the image", folder.display()), e);
    for entry in folder.read_dir().map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let Ok(name) = entry.file_name().into_string() else {
            let what = format!("{} holds a name that is not UTF-8", folder.display());
            return Err(Error::refused(what));
        };
        // Metadata of the entry itself. Links are not followed.
        let found = entry.metadata().map(|meta| kind(meta.file_type(), meta.len())).map_err(cannot)?;
        let path = if at.is_empty() { name.clone() } else { format!("{at}/{name}") };
        if listed.len() >= MOST {
            return Err(Error::refused(format!("{} holds more than {MOST} files", folder.display())));
        }
        let is_inside = found == Listed::Folder && (depth > 0 || name == "disk") && depth < DEEPEST;
        listed.push((path.clone(), found));
        if is_inside {
            list(&folder.join(&name), &path, listed, depth + 1)?;
        }
    }
    Ok(())
}

fn kind(kind: FileType, size: u64) -> Listed {
    if kind.is_file() {
        Listed::File(size)
    } else if kind.is_dir() {
        Listed::Folder
    } else if kind.is_symlink() {
        Listed::Other("a link".into())
    } else if kind.is_block_device() || kind.is_char_device() {
        Listed::Other("a device".into())
    } else {
        Listed::Other("neither a file nor a folder".into())
    }
}

/// The format of a disk, from its first [`HEAD`] bytes. Formats that VMs cannot use are refused.
pub fn form(shown: &str, head: &[u8]) -> Result<Form> {
    match Format::probe(head) {
        Format::Raw | Format::Iso => Ok(Form::Raw),
        Format::Qcow2 => Ok(Form::Qcow2),
        other => {
            let what = format!("{shown} is a {} image; a VM can have raw and qcow2 disks", other.name());
            Err(Error::refused(what))
        }
    }
}

/// Number of first bytes that identify the format.
pub const HEAD: usize = Format::HEAD;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> (String, Listed) {
        (path.to_owned(), Listed::File(1 << 20))
    }

    fn folder(path: &str) -> (String, Listed) {
        (path.to_owned(), Listed::Folder)
    }

    #[test]
    fn the_rules_are_those_of_an_image_that_is_not_mounted() {
        let table = [
            (vec![folder("disk"), file("disk/a.img")], None, Ok("disk/a.img")),
            (vec![file("a.qcow2")], None, Ok("a.qcow2")),
            (vec![folder("disk"), file("disk/a.img"), file("disk/b.img")], None, Err("2 files in /disk")),
            (
                vec![folder("disk"), file("disk/a.img"), file("disk/b.img")],
                Some("/disk/b.img"),
                Ok("disk/b.img"),
            ),
            (vec![folder("disk")], None, Err("no file in /disk")),
            (vec![folder("disk"), ("disk/a".into(), Listed::Other("a link".into()))], None, Err("a link")),
            (vec![folder("etc"), file("a.img")], None, Err("no folder /disk")),
        ];
        for (listed, path, wanted) in table {
            let said = mounted("registry.example/os:1", listed.clone(), path).map_err(|e| e.to_string());
            match wanted {
                Ok(path) => assert_eq!(said.as_deref(), Ok(path), "{listed:?}"),
                Err(words) => assert!(said.as_ref().unwrap_err().contains(words), "{listed:?}: {said:?}"),
            }
        }
    }

    #[test]
    fn a_folder_is_listed_without_going_through_a_link_and_within_bounds() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        let at = |path: &str| root.join(path);
        std::fs::create_dir_all(at("disk/below")).unwrap();
        std::fs::create_dir(at("etc")).unwrap();
        std::fs::write(at("disk/below/a.img"), "x").unwrap();
        let said = || disk(root, "docker://h/os:1").map_err(|e| e.to_string());
        assert!(said().is_err(), "the one file of /disk lies in /disk");
        std::fs::write(at("disk/a.img"), "x").unwrap();
        std::fs::remove_dir_all(at("disk/below")).unwrap();
        assert_eq!(said(), Ok(at("disk/a.img")));
        std::os::unix::fs::symlink("/etc/hostname", at("disk/b.img")).unwrap();
        assert!(said().is_err());
        std::fs::remove_file(at("disk/a.img")).unwrap();
        assert!(said().unwrap_err().contains("a link"), "{:?}", said());
        std::fs::remove_file(at("disk/b.img")).unwrap();
        (0..=MOST).for_each(|number| std::fs::write(at(&format!("disk/{number}")), "").unwrap());
        assert!(said().unwrap_err().contains("more than 4096 files"), "{:?}", said());
        assert!(disk(&at("none"), "docker://h/os:1").is_err());
    }

    #[test]
    fn only_raw_and_qcow2_are_disks_of_vms() {
        assert_eq!(form("a", &[0; 64]).unwrap(), Form::Raw);
        assert_eq!(form("a", b"QFI\xfb\0\0\0\x03").unwrap(), Form::Qcow2);
        assert!(form("a", b"KDMV\x01\0\0\0").unwrap_err().to_string().contains("can have raw and qcow2"));
    }
}
