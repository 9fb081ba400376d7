//! The one disk of an image that somebody has mounted: the same rules, on names that were listed in the folder.

use super::rules;
use super::scan::clean;
use super::tree::{Entry, EntryKind, Tree};
use crate::{Error, Result};
use disk_format::Format;

/// Something that was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// A regular file of so many bytes.
    File(u64),
    /// A folder.
    Folder,
    /// Anything else, in words: "a link", "a device".
    Other(String),
}

/// The format of a disk that a VM can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As the guest sees them.
    Raw,
    /// QEMU's own.
    Qcow2,
}

/// The path of the disk among what was listed: the root, all of `/disk`, and the way to `path`.
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
            let what = format!("{path:?} is no path of a file in {image}: write it without '..'");
            return Err(Error::refused(what));
        }
    };
    rules::choose(image, &tree, path.as_deref()).map(|(path, _)| path)
}

/// The format of a disk, by its first bytes; other formats than those of VM disks are refused. So many bytes are
/// enough: [`HEAD`].
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

/// The number of first bytes that tell the format.
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
    fn only_raw_and_qcow2_are_disks_of_vms() {
        assert_eq!(form("a", &[0; 64]).unwrap(), Form::Raw);
        assert_eq!(form("a", b"QFI\xfb\0\0\0\x03").unwrap(), Form::Qcow2);
        assert!(form("a", b"KDMV\x01\0\0\0").unwrap_err().to_string().contains("can have raw and qcow2"));
    }
}
