//! A tree of the image: its folders in the order of its path table, and their records.

use super::names::Names;
use super::record::{self, Record};
use super::time::Time;
use super::{BLOCK, Extent, Next};
use crate::error::Result;
use crate::seed::tree::Files;
use std::collections::BTreeMap;

const FOLDER_MODE: u32 = 0o040_755;
const FILE_MODE: u32 = 0o100_644;
const PROGRAM_MODE: u32 = 0o100_755;

pub(super) struct Tree {
    /// True for the Joliet tree, false for the primary one, which has Rock Ridge.
    pub(super) is_joliet: bool,
    /// Folders level by level, in a level by parent and name. The first is the root.
    folders: Vec<Folder>,
}

struct Folder {
    /// Name in the path table.
    id: Vec<u8>,
    parent: usize,
    /// Children in the order of their names.
    children: Vec<Child>,
    extent: Extent,
}

struct Child {
    id: Vec<u8>,
    name: String,
    what: EntryKind,
}

#[derive(Clone, Copy)]
enum EntryKind {
    /// Index of the folder in the tree.
    Folder(usize),
    /// Index of the file among all files.
    File { number: usize, executable: bool },
}

/// Positions of files and folders in the image, for the records.
pub(super) struct Places<'a> {
    /// Positions by the number of the file.
    pub(super) files: &'a [Extent],
    pub(super) time: &'a Time,
}

/// A folder with the names of its children.
#[derive(Default)]
struct Plain<'a> {
    folders: BTreeMap<&'a str, Plain<'a>>,
    files: BTreeMap<&'a str, EntryKind>,
}

impl Tree {
    /// The tree with Rock Ridge.
    pub(super) fn primary(files: &Files) -> Tree {
        Tree::of(files, false)
    }

    /// The tree with Joliet.
    pub(super) fn joliet(files: &Files) -> Tree {
        Tree::of(files, true)
    }

    fn of(files: &Files, is_joliet: bool) -> Tree {
        let mut root = Plain::default();
        for (number, (path, file)) in files.iter().enumerate() {
            let mut at = &mut root;
            let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
            for folder in above.split('/').filter(|folder| !folder.is_empty()) {
                at = at.folders.entry(folder).or_default();
            }
            at.files.insert(name, EntryKind::File { number, executable: file.executable });
        }

        let folder = |id, parent| Folder { id, parent, children: Vec::new(), extent: Extent::default() };
        let mut folders = vec![folder(vec![0], 0)];
        let mut plain = vec![&root];
        let mut at = 0;
        // The folders of a folder go to the end of the list: level by level, as the path table requires.
        while let Some(here) = plain.get(at).copied() {
            let mut names = Names::default();
            let mut id = |name: &str, is_folder| {
                if is_joliet { names.joliet(name) } else { names.primary(name, is_folder) }
            };
            let mut children: Vec<(Child, Option<&Plain<'_>>)> = Vec::new();
            for (name, inner) in &here.folders {
                let child =
                    Child { id: id(name, true), name: (*name).to_owned(), what: EntryKind::Folder(0) };
                children.push((child, Some(inner)));
            }
            for (name, what) in &here.files {
                let child = Child { id: id(name, false), name: (*name).to_owned(), what: *what };
                children.push((child, None));
            }
            children.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
            for (mut child, inner) in children {
                if let Some(inner) = inner {
                    child.what = EntryKind::Folder(folders.len());
                    folders.push(folder(child.id.clone(), at));
                    plain.push(inner);
                }
                folders[at].children.push(child);
            }
            at += 1;
        }
        Tree { is_joliet, folders }
    }

    /// The number of folders.
    pub(super) fn folders(&self) -> usize {
        self.folders.len()
    }

    /// Position of the root in the image.
    pub(super) fn root(&self) -> Extent {
        self.folders[0].extent
    }

    /// Assigns blocks to each folder.
    pub(super) fn lay_out(&mut self, next: &mut Next) -> Result<()> {
        // Written once for its size, which does not depend on any position.
        let time = Time::of(0)?;
        let files = vec![Extent::default(); self.files()];
        let places = Places { files: &files, time: &time };
        for number in 0..self.folders.len() {
            let written = self.folder(number, &places);
            let size = written.records.len().next_multiple_of(BLOCK) as u64;
            self.folders[number].extent = next.take(size)?;
            next.take(written.spill.len() as u64)?;
        }
        Ok(())
    }

    fn files(&self) -> usize {
        let children = self.folders.iter().flat_map(|folder| &folder.children);
        children.filter(|child| matches!(child.what, EntryKind::File { .. })).count()
    }

    /// The records of a folder.
    pub(super) fn folder(&self, number: usize, places: &Places<'_>) -> record::Folder {
        let here = &self.folders[number];
        let spill_at = here.extent.block + here.extent.size / BLOCK as u32;
        let mut out = record::Folder::new(spill_at);
        let rock_ridge = |mode, links| {
            if self.is_joliet { Vec::new() } else { record::attributes(mode, links, places.time) }
        };

        for (id, folder) in [(0, number), (1, here.parent)] {
            let mut fields = rock_ridge(FOLDER_MODE, self.links(folder));
            if !self.is_joliet && number == 0 && id == 0 {
                fields.splice(0..0, record::introduction());
            }
            let extent = self.folders[folder].extent;
            let record = Record { id: &[id], extent, is_folder: true, time: places.time };
            out.add(&record, &fields, &[]);
        }
        for child in &here.children {
            let (extent, is_folder, fields) = match child.what {
                EntryKind::Folder(inner) => {
                    (self.folders[inner].extent, true, rock_ridge(FOLDER_MODE, self.links(inner)))
                }
                EntryKind::File { number, executable } => {
                    let mode = if executable { PROGRAM_MODE } else { FILE_MODE };
                    (places.files[number], false, rock_ridge(mode, 1))
                }
            };
            let name = if self.is_joliet { Vec::new() } else { record::name(&child.name) };
            out.add(&Record { id: &child.id, extent, is_folder, time: places.time }, &fields, &name);
        }
        out
    }

    /// Link count of a folder: its own name, its dot, and the two dots of those in it.
    fn links(&self, folder: usize) -> u32 {
        let children = self.folders[folder].children.iter();
        2 + children.filter(|child| matches!(child.what, EntryKind::Folder(_))).count() as u32
    }

    pub(super) fn path_table_size(&self) -> usize {
        self.folders.iter().map(|folder| 8 + folder.id.len().next_multiple_of(2)).sum()
    }

    /// The path table, in one of the two byte orders.
    pub(super) fn path_table(&self, long: fn(u32) -> [u8; 4], short: fn(u16) -> [u8; 2]) -> Vec<u8> {
        let mut table = Vec::with_capacity(self.path_table_size());
        for folder in &self.folders {
            table.extend([folder.id.len() as u8, 0]);
            table.extend(long(folder.extent.block));
            // Fits: the number of folders is bounded far below.
            table.extend(short(folder.parent as u16 + 1));
            table.extend(&folder.id);
            if !folder.id.len().is_multiple_of(2) {
                table.push(0);
            }
        }
        table
    }
}
