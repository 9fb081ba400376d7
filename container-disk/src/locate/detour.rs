//! Members below links: where they go when an image is unpacked, and whether that is the disk.
//!
//! Programs that unpack layers differ in which links they follow. Some put a layer into the folder of those below it, and
//! follow the links of all; some put each into a folder of its own, follow its links alone, and a folder of an upper layer
//! hides a link below. So each link here may be followed or not, whichever layer it is of and whatever comes after it, and
//! what could lead to the disk, to a folder that it lies in, or away from it is refused. A link that leads elsewhere is
//! harmless: `/lib -> usr/lib`.
//!
//! ```text
//!   a/b -> ../disk        members are named a/b/…   ──► the folder a/b is also at disk      refused
//!   a -> u, u/b -> /disk  members are named a/b/…   ──► a is also at u, a/b also at disk    refused
//!   lib -> usr/lib        members are named lib/…   ──► lib is also at usr/lib              let be
//! ```
//!
//! Targets are read as in a root of their own: `..` does not leave it. A hard link to a symbolic link is one too, and a
//! link that lies below another link is in both places. What takes too many steps is refused.

use super::links::{Hash, Link, Links};
use super::scan::OPAQUE;
use super::tree::{Entry, parents};
use crate::tar::quoted;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of one image: a link or a part of a target that is looked at. Those of an operating system below a link to
/// `usr/lib` are thousands.
const STEPS: usize = 1 << 20;
/// Places that one link may lead to, on the way too.
const PLACES: usize = 256;
/// Bytes of a path with all links in it written out.
const LONGEST: usize = 8 << 10;
/// Bytes of names that are found on the way, and of places that links are found in.
const FOUND: usize = 1 << 20;

/// The links of an image.
pub(super) struct Detours<'a> {
    image: &'a str,
    /// Each with its number.
    layers: Vec<(usize, &'a Links)>,
    /// In the order of their names.
    links: Vec<(usize, Link<'a>)>,
    /// Places where links are too, by other links, and their targets.
    placed: BTreeMap<String, BTreeSet<&'a str>>,
    steps: usize,
    /// Bytes of these places, and of the folders that one round has come to.
    kept: usize,
    found: usize,
}

/// What is not followed to its end.
struct Endless;

impl<'a> Detours<'a> {
    pub(super) fn new(image: &'a str, layers: Vec<(usize, &'a Links)>) -> Self {
        let mut links: Vec<(usize, Link<'a>)> =
            layers.iter().flat_map(|&(at, links)| links.each().map(move |link| (at, link))).collect();
        links.sort_by(|(_, a), (_, b)| a.path.cmp(b.path));
        Detours { image, layers, links, placed: BTreeMap::new(), steps: STEPS, kept: 0, found: 0 }
    }

    /// Refuses members that may be, or not be, one of these paths, below it, or what it lies in.
    pub(super) fn check(&mut self, leaves: &[&str]) -> Result<()> {
        let mut is_any = false;
        for (at, link) in &self.links {
            let Some(layer) = self.layer_below(link.path) else { continue };
            is_any = true;
            if leaves.iter().any(|leaf| is_in(leaf, link.path) || is_in(link.path, leaf)) {
                let what = format!(
                    "{} has a link {} in layer {}, and members below it in layer {}: programs differ in what they make \
                     of that; build the image without that link",
                    self.image,
                    quoted(link.path),
                    at + 1,
                    layer + 1,
                );
                return Err(Error::refused(what));
            }
        }
        // Nothing below any link is what nearly all images have.
        while is_any {
            let before = self.kept;
            self.round(leaves)?;
            is_any = self.kept != before;
        }
        Ok(())
    }

    /// Refuses members below a file, also whiteouts: for some programs it is a folder then.
    pub(super) fn check_file(&self, path: &str) -> Result<()> {
        let Some(layer) = self.layer_below(path) else { return Ok(()) };
        let what = format!(
            "layer {} of {} has members below {}, which is no folder: programs differ in what they make of that; build the \
             image without them",
            layer + 1,
            self.image,
            quoted(path),
        );
        Err(Error::refused(what))
    }

    /// Refuses a hard link to the disk that gives it to somebody else.
    pub(super) fn check_owner(&mut self, path: &str, entry: &Entry) -> Result<()> {
        let base = |path: &str| path.trim_end_matches('/').rsplit('/').next().map(str::to_owned);
        let owner = (entry.uid, entry.gid, entry.mode);
        let others: Vec<(usize, Link<'a>)> = self
            .links
            .iter()
            .filter(|(at, link)| {
                *at >= entry.layer
                    && link.hard.is_some_and(|told| *told != owner)
                    && base(link.to) == base(path)
            })
            .copied()
            .collect();
        for (at, link) in others {
            let files = self.files(link.to).map_err(|Endless| self.endless(link.path))?;
            if files.contains(path) {
                let what = format!(
                    "layer {} of {} has {}, a hard link to the disk {} with another owner or mode: programs that unpack \
                     it differ in whose the disk is; give both the same, or leave the link out",
                    at + 1,
                    self.image,
                    quoted(link.path),
                    quoted(path),
                );
                return Err(Error::refused(what));
            }
        }
        Ok(())
    }

    /// Follows all that lies below links, by the places of links that are known so far.
    fn round(&mut self, leaves: &[&str]) -> Result<()> {
        self.place_hard_links()?;
        self.found = 0;
        let mut seen = BTreeSet::new();
        let mut open = self.crossed("", "")?;
        while let Some((named, is_at)) = open.pop() {
            if !seen.insert((named.clone(), is_at.clone())) {
                continue;
            }
            if let Some(leaf) = leaves.iter().find(|leaf| self.touches(&named, &is_at, leaf)) {
                return Err(self.refused(&named, &is_at, leaf));
            }
            self.place_links(&named, &is_at)?;
            open.extend(self.crossed(&named, &is_at)?);
        }
        Ok(())
    }

    /// Folders with members whose way goes on over a link, from a folder that is named and lies so.
    fn crossed(&mut self, named: &str, is_at: &str) -> Result<Vec<(String, String)>> {
        let mut looked = 0;
        let crossed: Vec<(String, String, &'a str)> = self
            .below(is_at)
            .inspect(|_| looked += 1)
            .map(|(path, to)| (moved(path, is_at, named), path, to))
            .filter(|(folder, ..)| self.layer_below(folder).is_some())
            .map(|(folder, path, to)| (folder, above(path).to_owned(), to))
            .collect();
        self.step(looked).map_err(|Endless| self.endless(named))?;
        let mut all = vec![];
        for (folder, from, to) in crossed {
            for place in self.places(&from, to).map_err(|Endless| self.endless(&folder))? {
                self.found += folder.len() + place.len() + size_of::<(String, String)>();
                if self.found > FOUND {
                    return Err(self.endless(&folder));
                }
                all.push((folder.clone(), place));
            }
        }
        Ok(all)
    }

    /// Symbolic links at places below a folder, and what they say.
    fn below(&self, folder: &str) -> impl Iterator<Item = (&str, &'a str)> {
        let written = self.written_below(folder).iter().filter(|(_, link)| link.hard.is_none());
        let written = written.map(|(_, link)| (link.path, link.to));
        let prefix = prefix(folder);
        let placed = self.placed.range(prefix.clone()..);
        let placed = placed.take_while(move |(path, _)| path.starts_with(&prefix));
        written.chain(placed.flat_map(|(path, all)| all.iter().map(|to| (path.as_str(), *to))))
    }

    fn written_below(&self, folder: &str) -> &[(usize, Link<'a>)] {
        let prefix = prefix(folder);
        let from = self.links.partition_point(|(_, link)| link.path < prefix.as_str());
        let left = &self.links[from..];
        &left[..left.partition_point(|(_, link)| link.path.starts_with(&prefix))]
    }

    /// Links whose names lie below a folder that is somewhere else too are there too.
    fn place_links(&mut self, named: &str, is_at: &str) -> Result<()> {
        for (_, link) in self.written_below(named).to_vec() {
            let place = moved(link.path, named, is_at);
            for to in self.says(&link)? {
                self.place(place.clone(), to)?;
            }
        }
        Ok(())
    }

    /// A hard link to a symbolic one.
    fn place_hard_links(&mut self) -> Result<()> {
        let hard: Vec<Link<'a>> =
            self.links.iter().map(|(_, link)| *link).filter(|link| link.hard.is_some()).collect();
        for link in hard {
            for to in self.says(&link)? {
                self.place(link.path.to_owned(), to)?;
            }
        }
        Ok(())
    }

    fn place(&mut self, place: String, to: &'a str) -> Result<()> {
        if self.placed.get(&place).is_some_and(|all| all.contains(to)) {
            return Ok(());
        }
        self.kept += place.len() + size_of::<(String, &str)>();
        if self.kept > FOUND {
            return Err(self.endless(&place));
        }
        self.placed.entry(place).or_default().insert(to);
        Ok(())
    }

    /// The targets of a link, as symbolic links are followed.
    fn says(&mut self, link: &Link<'a>) -> Result<Vec<&'a str>> {
        if link.hard.is_none() {
            return Ok(vec![link.to]);
        }
        let files = self.files(link.to).map_err(|Endless| self.endless(link.path))?;
        Ok(files.iter().flat_map(|file| self.targets(file)).collect())
    }

    /// What symbolic links at a place say.
    fn targets(&self, place: &str) -> Vec<&'a str> {
        let from = self.links.partition_point(|(_, link)| link.path < place);
        let written = self.links[from..].iter().take_while(|(_, link)| link.path == place);
        let written = written.filter(|(_, link)| link.hard.is_none()).map(|(_, link)| link.to);
        written.chain(self.placed.get(place).into_iter().flatten().copied()).collect()
    }

    /// The files that a hard link may be to: a link at its end is not followed.
    fn files(&mut self, to: &str) -> Result<BTreeSet<String>, Endless> {
        let to = to.trim_end_matches('/');
        let (folder, name) = to.rsplit_once('/').unwrap_or(("", to));
        let folders = self.places("", folder)?;
        Ok(folders.into_iter().map(|folder| joined(&folder, name)).collect())
    }

    /// Where a target leads from a folder, each link on the way followed or not.
    fn places(&mut self, from: &str, to: &str) -> Result<BTreeSet<String>, Endless> {
        let mut seen = BTreeSet::new();
        let mut ends = BTreeSet::new();
        let mut open = vec![begun(from, to)];
        while let Some((at, left)) = open.pop() {
            self.step(1 + (at.len() + left.len()) / 64)?;
            if at.len() + left.len() > LONGEST || seen.len() > PLACES {
                return Err(Endless);
            }
            if !seen.insert((at.clone(), left.clone())) {
                continue;
            }
            let (part, left) = left.split_once('/').unwrap_or((&left, ""));
            let next = match part {
                "" | "." => at,
                ".." => above(&at).to_owned(),
                name => {
                    let next = joined(&at, name);
                    let links = self.targets(&next).into_iter();
                    open.extend(links.map(|target| begun(&at, &format!("{target}/{left}"))));
                    next
                }
            };
            if left.is_empty() {
                ends.insert(next);
            } else {
                open.push((next, left.to_owned()));
            }
        }
        Ok(ends)
    }

    /// Whether members of a folder that is named so and lies elsewhere too may change what is at a path.
    fn touches(&self, named: &str, is_at: &str, leaf: &str) -> bool {
        if is_in(is_at, leaf) {
            return true;
        }
        if !is_in(leaf, is_at) {
            return false;
        }
        let has_named = |path: &str| {
            let path = Hash::of(path);
            self.layers.iter().any(|(_, links)| links.has_named(path))
        };
        let is_opaque = |folder: &str| has_named(&joined(folder, OPAQUE));
        // What the leaf lies in, below that folder, by its other name.
        let between =
            parents(leaf).filter(|path| is_below(path, is_at)).map(|path| moved(path, is_at, named));
        let leaf = moved(leaf, is_at, named);
        is_opaque(named)
            || between.into_iter().any(|path| has_named(&path) || is_opaque(&path))
            || has_named(&leaf)
            || self.layer_below(&leaf).is_some()
    }

    /// A layer with members below a name.
    fn layer_below(&self, folder: &str) -> Option<usize> {
        let folder = Hash::of(folder);
        self.layers.iter().find(|(_, links)| links.has_below(folder)).map(|(at, _)| *at)
    }

    fn step(&mut self, steps: usize) -> Result<(), Endless> {
        self.steps = self.steps.checked_sub(steps).ok_or(Endless)?;
        Ok(())
    }

    fn refused(&self, named: &str, is_at: &str, leaf: &str) -> Error {
        let layer = self.layer_below(named).unwrap_or_default() + 1;
        let (named, is_at) = (quoted(named), quoted(&format!("/{is_at}")));
        Error::refused(format!(
            "layer {layer} of {} has members below {named}, a way over a link which leads to {is_at}: programs that \
             unpack them differ in what is {} then; build the image without members below that link",
            self.image,
            quoted(&format!("/{leaf}")),
        ))
    }

    fn endless(&self, named: &str) -> Error {
        Error::refused(format!(
            "the links of {} lead too far to be followed, those at {} or below it: they are too many, too long or without an \
             end; build the image without members below links",
            self.image,
            quoted(named),
        ))
    }
}

/// Where a target is followed from, and what is left to follow.
fn begun(from: &str, target: &str) -> (String, String) {
    match target.strip_prefix('/') {
        Some(left) => (String::new(), left.to_owned()),
        None => (from.to_owned(), target.to_owned()),
    }
}

/// A path below one folder, below another one.
fn moved(path: &str, from: &str, to: &str) -> String {
    let rest = path.strip_prefix(from).unwrap_or(path).trim_start_matches('/');
    joined(to, rest)
}

/// The folder that a path lies in.
fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

fn joined(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", name) => name.to_owned(),
        (folder, "") => folder.to_owned(),
        (folder, name) => format!("{folder}/{name}"),
    }
}

fn prefix(folder: &str) -> String {
    if folder.is_empty() { String::new() } else { format!("{folder}/") }
}

/// Whether a path is a folder, or lies in it.
fn is_in(path: &str, folder: &str) -> bool {
    path == folder || is_below(path, folder)
}

fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() && !path.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}
