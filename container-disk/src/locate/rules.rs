//! The rules that choose the disk.

use super::tree::{Entry, EntryKind, Tree, parents};
use crate::tar::quoted;
use crate::{Error, ErrorKind, Result};

const DISK: &str = "disk";
/// Limit of file names in an error message.
const NAMED: usize = 5;

/// Chooses the disk from the merged layers.
pub(super) fn choose(image: &str, tree: &Tree, path: Option<&str>) -> Result<(String, Entry)> {
    let (path, entry) = match path {
        Some(path) => by_path(image, tree, path)?,
        None => by_rule(image, tree)?,
    };
    if entry.size == 0 {
        return Err(Error::refused(format!("{} of {image} is empty, not a disk", quoted(&path))));
    }
    Ok((path, entry))
}

fn by_path(image: &str, tree: &Tree, path: &str) -> Result<(String, Entry)> {
    for folder in parents(path) {
        if let Some(EntryKind::Other(what)) = tree.kind(folder) {
            let what = format!(
                "{} of {image} is {what}; links on the way to a disk are not followed",
                quoted(folder)
            );
            return Err(Error::refused(what));
        }
    }
    let Some(entry) = tree.entries.get(path) else {
        let what = format!("{image} has no file {}{}", quoted(path), deleted(tree));
        return Err(Error::new(ErrorKind::NotFound, what));
    };
    match &entry.kind {
        EntryKind::File => Ok((path.to_owned(), entry.clone())),
        EntryKind::Folder => {
            Err(Error::refused(format!("{} of {image} is a folder, not a disk", quoted(path))))
        }
        EntryKind::Other(what) => {
            let what = format!("{} of {image} is {what}; give the path of a regular file", quoted(path));
            Err(Error::refused(what))
        }
    }
}

fn by_rule(image: &str, tree: &Tree) -> Result<(String, Entry)> {
    let has_folder = match tree.kind(DISK) {
        Some(EntryKind::Folder) => true,
        Some(EntryKind::Other(what)) => {
            return Err(Error::refused(format!("/{DISK} of {image} is {what}, not a folder with a disk")));
        }
        Some(EntryKind::File) => false,
        None => tree.below(DISK).next().is_some(),
    };
    if has_folder { in_folder(image, tree) } else { at_root(image, tree) }
}

fn in_folder(image: &str, tree: &Tree) -> Result<(String, Entry)> {
    let files: Vec<_> = tree.below(DISK).filter(|(_, entry)| entry.kind != EntryKind::Folder).collect();
    let (path, entry) = match files.as_slice() {
        [] => {
            let what = format!("{image} has no file in /{DISK}{}", deleted(tree));
            return Err(Error::refused(what));
        }
        [one] => *one,
        several => {
            let mut names: Vec<String> = several.iter().take(NAMED).map(|(path, _)| quoted(path)).collect();
            if several.len() > NAMED {
                names.push(format!("{} more", several.len() - NAMED));
            }
            let what = format!(
                "{image} has {} files in /{DISK} where one disk is allowed: {}; name one by its path",
                several.len(),
                names.join(", ")
            );
            return Err(Error::refused(what));
        }
    };
    if let EntryKind::Other(what) = &entry.kind {
        return Err(Error::refused(format!("{} of {image} is {what}, not a disk", quoted(path))));
    }
    if parents(path).any(|folder| folder != DISK) {
        let what = format!("{} of {image} does not lie in /{DISK} itself; name it by its path", quoted(path));
        return Err(Error::refused(what));
    }
    Ok((path.clone(), entry.clone()))
}

fn at_root(image: &str, tree: &Tree) -> Result<(String, Entry)> {
    let root: Vec<_> = tree.entries.iter().filter(|(path, _)| !path.contains('/')).collect();
    match root.as_slice() {
        [(path, entry)] if entry.kind == EntryKind::File => Ok(((*path).clone(), (*entry).clone())),
        found => {
            let what = format!(
                "{image} is not a containerDisk: it has no folder /{DISK}, and {} entries at its root where only one file is \
                     allowed{}",
                found.len(),
                deleted(tree)
            );
            Err(Error::refused(what))
        }
    }
}

/// A hint for the error message: the last file that a layer deletes may be the missing disk.
fn deleted(tree: &Tree) -> String {
    match tree.deleted.last() {
        Some((path, layer)) => format!(" (layer {} deletes {})", layer + 1, quoted(path)),
        None => String::new(),
    }
}
