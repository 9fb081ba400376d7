//! The merged layers: entries at the root, in `/disk`, and on the way to the paths of interest.

use super::scan::Changes;
use crate::tar::quoted;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// A file, folder or other entry of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    pub(crate) layer: usize,
    /// Offset of its bytes in the layer's tar.
    pub(crate) at: u64,
    pub(crate) size: u64,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mode: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    /// Any other type, in words: "a link to x", "a block device".
    Other(String),
}

/// Entries of the merged layers.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) entries: BTreeMap<String, Entry>,
    /// Files that an upper layer deletes, with the number of that layer.
    pub(crate) deleted: Vec<(String, usize)>,
}

impl Tree {
    /// Applies a layer on top.
    pub(crate) fn apply(&mut self, image: &str, layer: usize, changes: &Changes) -> Result<()> {
        changes.deleted.iter().try_for_each(|path| not_deleted(image, layer, changes, path))?;
        for folder in &changes.opaque {
            if folder.is_empty() && !self.entries.is_empty() {
                let what = format!(
                    "layer {} of {image} hides the root of the layers below it (.wh..wh..opq), which overlay file systems do not \
                         support; build the image from scratch instead",
                    layer + 1
                );
                return Err(Error::refused(what));
            }
            self.remove_below(folder, layer);
        }
        for path in &changes.deleted {
            self.remove_below(path, layer);
            if let Some(gone) = self.entries.remove(path) {
                self.note(path, &gone, layer);
            }
        }
        for (path, entry) in &changes.entries {
            if let Some(over) =
                parents(path).find(|p| self.kind(p).is_some_and(|kind| *kind != EntryKind::Folder))
            {
                let what = format!(
                    "{image} has {} below {}, which is not a folder; programs unpack that in different ways",
                    quoted(path),
                    quoted(over)
                );
                return Err(Error::refused(what));
            }
            if entry.kind != EntryKind::Folder {
                self.remove_below(path, layer);
            }
            self.entries.insert(path.clone(), entry.clone());
        }
        Ok(())
    }

    pub(crate) fn kind(&self, path: &str) -> Option<&EntryKind> {
        self.entries.get(path).map(|entry| &entry.kind)
    }

    /// All entries in a folder, at any depth.
    pub(crate) fn below<'a>(&'a self, folder: &str) -> impl Iterator<Item = (&'a String, &'a Entry)> {
        let prefix = prefix(folder);
        let from = self.entries.range(prefix.clone()..);
        from.take_while(move |(path, _)| path.starts_with(&prefix))
    }

    fn remove_below(&mut self, folder: &str, layer: usize) {
        let paths: Vec<String> = self.below(folder).map(|(path, _)| path.clone()).collect();
        for path in paths {
            if let Some(gone) = self.entries.remove(&path) {
                self.note(&path, &gone, layer);
            }
        }
    }

    fn note(&mut self, path: &str, gone: &Entry, layer: usize) {
        if gone.kind == EntryKind::File {
            self.deleted.push((path.to_owned(), layer));
        }
    }
}

/// Fails if a layer both has and deletes a path, since programs differ in the result. Entries at the root
/// that are neither files nor `disk` do not matter.
fn not_deleted(image: &str, layer: usize, changes: &Changes, path: &str) -> Result<()> {
    let itself = changes
        .entries
        .get(path)
        .filter(|entry| path.contains('/') || path == "disk" || entry.kind == EntryKind::File);
    let prefix = prefix(path);
    let below = changes.entries.range(prefix.clone()..).next();
    let below = below.map(|(name, _)| name.as_str()).filter(|name| name.starts_with(&prefix));
    let Some(name) = itself.map(|_| path).or(below) else { return Ok(()) };
    let what = format!(
        "layer {} of {image} has {}, and a whiteout that deletes {}: programs differ in which of them wins; put them \
             into two layers",
        layer + 1,
        quoted(name),
        quoted(path),
    );
    Err(Error::refused(what))
}

/// All parent folders of a path.
pub(crate) fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

fn prefix(folder: &str) -> String {
    if folder.is_empty() { String::new() } else { format!("{folder}/") }
}
