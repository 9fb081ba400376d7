//! Members below links: their possible locations after an image is unpacked, and a check that none of them
//! affects the disk.
//!
//! Programs that unpack layers follow different links. Some unpack every layer into one folder, and follow
//! the links of all layers. Others unpack each layer into a folder of its own and follow only its own links,
//! and a folder of an upper layer hides a link below. So this module assumes that each link may be followed
//! or not, in any layer and in any order. It refuses an image if a member could then reach the disk or one of
//! its parent folders, or hide it. A link to another place, such as `/lib -> usr/lib`, is harmless.
//!
//! ```text
//!   a/b -> ../disk        members are named a/b/…   ──► the folder a/b is also at disk      refused
//!   a -> u, u/b -> /disk  members are named a/b/…   ──► a is also at u, a/b also at disk    refused
//!   lib -> usr/lib        members are named lib/…   ──► lib is also at usr/lib              accepted
//! ```
//!
//! Targets are resolved inside the image's root: `..` does not leave it. A hard link to a symbolic link
//! counts as a symbolic link, and a link that lies below another link is in both places. An image that needs
//! too many steps is refused.

use super::links::{Hash, Link, Links};
use super::scan::OPAQUE;
use super::tree::{Entry, parents};
use crate::tar::quoted;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Limit of steps for one image: links and parts of targets that are visited. An operating system with
/// members below a link to `usr/lib` needs thousands.
const STEPS: usize = 1 << 20;
/// Limit of places, including intermediate ones, that one link may lead to.
const PLACES: usize = 256;
/// Limit of bytes in a path with all links expanded.
const LONGEST: usize = 8 << 10;
/// Limit of bytes of the names found in one round, and of the places of links.
const FOUND: usize = 1 << 20;

/// The links of an image, and the places that they lead to.
pub(super) struct Detours<'a> {
    image: &'a str,
    /// Links of each layer, with the layer's number.
    layers: Vec<(usize, &'a Links)>,
    /// All links with their layer, sorted by path.
    links: Vec<(usize, Link<'a>)>,
    /// Further places of links that are reached over other links, with the targets.
    placed: BTreeMap<String, BTreeSet<&'a str>>,
    steps: usize,
    /// Bytes that `placed` takes.
    kept: usize,
    /// Bytes of the folders found in the current round.
    found: usize,
}

/// The limit of steps or sizes is exceeded.
struct Endless;

impl<'a> Detours<'a> {
    pub(super) fn new(image: &'a str, layers: Vec<(usize, &'a Links)>) -> Self {
        let mut links: Vec<(usize, Link<'a>)> =
            layers.iter().flat_map(|&(at, links)| links.each().map(move |link| (at, link))).collect();
        links.sort_by(|(_, a), (_, b)| a.path.cmp(b.path));
        Detours { image, layers, links, placed: BTreeMap::new(), steps: STEPS, kept: 0, found: 0 }
    }

    /// Fails if members below links could be one of these paths, lie below it, or hide it.
    pub(super) fn check(&mut self, leaves: &[&str]) -> Result<()> {
        let mut is_any = false;
        for (at, link) in &self.links {
            let Some(layer) = self.layer_below(link.path) else { continue };
            is_any = true;
            if leaves.iter().any(|leaf| is_in(leaf, link.path) || is_in(link.path, leaf)) {
                let what = format!(
                    "{} has a link {} in layer {}, and members below it in layer {}, which programs unpack in different ways; \
                         build the image without that link",
                    self.image,
                    quoted(link.path),
                    at + 1,
                    layer + 1,
                );
                return Err(Error::refused(what));
            }
        }
        // Nearly all images have no members below links.
        while is_any {
            let before = self.kept;
            self.round(leaves)?;
            is_any = self.kept != before;
        }
        Ok(())
    }

    /// Fails if the image has members or whiteouts below a file. Some programs make a folder of it.
    pub(super) fn check_file(&self, path: &str) -> Result<()> {
        let Some(layer) = self.layer_below(path) else { return Ok(()) };
        let what = format!(
            "layer {} of {} has members below {}, which is not a folder; programs unpack that in different ways; build \
                 the image without these members",
            layer + 1,
            self.image,
            quoted(path),
        );
        Err(Error::refused(what))
    }

    /// Fails if a hard link to the disk has another owner or mode than the disk.
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
                    "layer {} of {} has {}, a hard link to the disk {} with another owner or mode, and programs differ in \
                         which of them they use; give both the same owner and mode, or leave the link out",
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

    /// Follows all folders below links once, from the places of links that are known so far.
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

    /// Folders with members that are reached over a link below the folder `is_at`, which members call
    /// `named`.
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

    /// Places and targets of the symbolic links below a folder.
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

    /// Adds further places for the links below `named`, a folder that is also at `is_at`.
    fn place_links(&mut self, named: &str, is_at: &str) -> Result<()> {
        for (_, link) in self.written_below(named).to_vec() {
            let place = moved(link.path, named, is_at);
            for to in self.link_targets(&link)? {
                self.place(place.clone(), to)?;
            }
        }
        Ok(())
    }

    /// Adds the places of hard links to symbolic links.
    fn place_hard_links(&mut self) -> Result<()> {
        let hard: Vec<Link<'a>> =
            self.links.iter().map(|(_, link)| *link).filter(|link| link.hard.is_some()).collect();
        for link in hard {
            for to in self.link_targets(&link)? {
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

    /// The targets of a link: its own if it is symbolic, else those of the symbolic links that it is a hard
    /// link to.
    fn link_targets(&mut self, link: &Link<'a>) -> Result<Vec<&'a str>> {
        if link.hard.is_none() {
            return Ok(vec![link.to]);
        }
        let files = self.files(link.to).map_err(|Endless| self.endless(link.path))?;
        Ok(files.iter().flat_map(|file| self.targets(file)).collect())
    }

    /// Targets of all symbolic links at a place.
    fn targets(&self, place: &str) -> Vec<&'a str> {
        let from = self.links.partition_point(|(_, link)| link.path < place);
        let written = self.links[from..].iter().take_while(|(_, link)| link.path == place);
        let written = written.filter(|(_, link)| link.hard.is_none()).map(|(_, link)| link.to);
        written.chain(self.placed.get(place).into_iter().flatten().copied()).collect()
    }

    /// The paths that the target of a hard link may have. A link in the last component is not followed.
    fn files(&mut self, to: &str) -> Result<BTreeSet<String>, Endless> {
        let to = to.trim_end_matches('/');
        let (folder, name) = to.rsplit_once('/').unwrap_or(("", to));
        let folders = self.places("", folder)?;
        Ok(folders.into_iter().map(|folder| joined(&folder, name)).collect())
    }

    /// All places that a target may lead to from a folder, with each link on the way followed or not.
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

    /// True if members of the folder `named`, which is also at `is_at`, may change the file at `leaf`.
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
        // The parent folders of the leaf below `is_at`, under their other names.
        let between =
            parents(leaf).filter(|path| is_below(path, is_at)).map(|path| moved(path, is_at, named));
        let leaf = moved(leaf, is_at, named);
        is_opaque(named)
            || between.into_iter().any(|path| has_named(&path) || is_opaque(&path))
            || has_named(&leaf)
            || self.layer_below(&leaf).is_some()
    }

    /// Number of a layer that has members below a folder.
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
            "layer {layer} of {} has members below {named}, where a link leads to {is_at}; programs that unpack them differ \
                 in the content of {}; build the image without members below that link",
            self.image,
            quoted(&format!("/{leaf}")),
        ))
    }

    fn endless(&self, named: &str) -> Error {
        Error::refused(format!(
            "the links of {} at {} or below it cannot be followed to their end: they are too many, too long or circular; \
             build the image without members below links",
            self.image,
            quoted(named),
        ))
    }
}

/// The folder from which a target is resolved, and the path to resolve.
fn begun(from: &str, target: &str) -> (String, String) {
    match target.strip_prefix('/') {
        Some(left) => (String::new(), left.to_owned()),
        None => (from.to_owned(), target.to_owned()),
    }
}

/// The path with the folder `from` replaced by `to`.
fn moved(path: &str, from: &str, to: &str) -> String {
    let rest = path.strip_prefix(from).unwrap_or(path).trim_start_matches('/');
    joined(to, rest)
}

/// The parent folder of a path.
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

/// True if the path is the folder or lies in it.
fn is_in(path: &str, folder: &str) -> bool {
    path == folder || is_below(path, folder)
}

fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() && !path.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}
