//! The only disk in an archive: GNU, PAX, ustar and v7. Size: from the entry's header, known with the first
//! byte. Zeros: holes of sparse entries (old GNU, and PAX in its versions 0.0, 0.1 and 1.0) are skipped, or
//! become zeros for a plain `read`.
//!
//! [`container_disk::tar`] parses the archive, and refuses archives that two programs could read as two
//! different disks. This module chooses the file that is the disk. The archive must have its end mark:
//! nothing else proves that it is complete.
//!
//! ```text
//!  Search ──first candidate──► Disk ──its last byte──► Rest ──end mark, zeros──► Ended
//! ```
//!
//! The archive is a stream, so the first candidate is returned at once. If the rest holds a second candidate,
//! the end of the stream is an error: a consumer that keeps a disk only after a clean end never keeps a wrong
//! one. `candidate.rs` defines candidates. A file that is named by its path is the disk whatever it looks
//! like, and other candidates are passed over. An archive of a container image (`image.rs`) is refused, with
//! the scheme to use.

mod candidate;
mod image;
#[cfg(test)]
mod tests;

pub(crate) use container_disk::tar::looks_like_tar;

use super::holes::HoleRead;
use super::{Layer, refused, truncated};
use candidate::Worth;
use container_disk::tar::{Archive, End, Fault, Map, Member, Rules, Streamed, What, quoted};
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

/// Only a hostile archive has more headers around a disk.
const RULES: Rules = Rules { end: End::Mark, headers: 100_000 };
/// The most further candidates that an error names.
const NAMED: usize = 5;

/// The disk in an archive, as a reader.
pub(super) struct Tar {
    archive: Archive,
    /// Path of the file that is the disk, if it is named.
    path: Option<String>,
    /// True once the named file was found.
    is_found: bool,
    /// Names of the candidates: the first is the disk, unless it is named.
    candidates: Vec<String>,
    more: u64,
    /// The first link, device or the like, and the first file that is not a disk: for the error if there is
    /// no disk.
    special: Option<String>,
    other: Option<String>,
    /// Bytes of the disk, and of its holes.
    told: Option<(u64, u64)>,
    /// Receives the path of the disk when it begins.
    found: Arc<OnceLock<String>>,
    state: State,
}

enum State {
    Search,
    Disk(Disk),
    Rest,
    Ended,
    Failed,
}

struct Disk {
    map: Map,
    /// The segment that `pos` is in, or that comes next.
    segment: usize,
    pos: u64,
    /// First bytes of the data, which were read ahead for detection.
    looked: Vec<u8>,
    given: usize,
}

impl Tar {
    /// The only disk in an archive.
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        Tar::of(input, None)
    }

    /// The file with this path in an archive.
    pub(super) fn member(input: Box<dyn Read + Send>, path: &str) -> Self {
        Tar::of(input, Some(clean(path).to_owned()))
    }

    /// The same reader, which stores the path of the disk in `found`. A path that is there stays.
    pub(super) fn telling(self, found: Arc<OnceLock<String>>) -> Self {
        Tar { found, ..self }
    }

    fn of(input: Box<dyn Read + Send>, path: Option<String>) -> Self {
        Tar {
            archive: Archive::new(Streamed::new(input), RULES),
            path,
            is_found: false,
            candidates: Vec::new(),
            more: 0,
            special: None,
            other: None,
            told: None,
            found: Arc::default(),
            state: State::Search,
        }
    }

    fn step(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match &mut self.state {
                State::Search | State::Rest => self.entry()?,
                State::Disk(disk) => {
                    let n = disk.read(&mut self.archive, out)?;
                    if n > 0 {
                        return Ok(n);
                    }
                    self.state = State::Rest;
                }
                State::Ended => return Ok(0),
                State::Failed => return Err(io::Error::other("the stream has already failed")),
            }
        }
    }

    fn entry(&mut self) -> io::Result<()> {
        let Some(entry) = self.archive.next_member().map_err(error)? else {
            self.archive.drain().map_err(error)?;
            return self.end();
        };
        let mut looked = Vec::new();
        let special = match entry.what {
            What::Folder | What::Note(_) => return Ok(()),
            What::File => {
                if image::may_tell(&entry.name) {
                    looked = self.archive.peek(candidate::LOOK).map_err(error)?;
                    self.refuse_image(&entry, &looked)?;
                }
                let is_candidate = self.check_candidate(&entry, &mut looked)?;
                match &self.path {
                    Some(path) if clean(&entry.name) == path => self.named(entry, looked)?,
                    Some(_) if is_candidate => self.note(entry.name),
                    None if is_candidate => self.candidate(entry, looked),
                    _ => {
                        self.other.get_or_insert(entry.name);
                    }
                }
                return Ok(());
            }
            What::HardLink(_) => "hard link",
            What::Symlink(_) => "symbolic link",
            What::Special(kind) => kind,
        };
        let what = format!("{} is a {special}", quoted(&entry.name));
        if self.path.as_deref().is_some_and(|path| clean(&entry.name) == path) {
            return Err(refused(Layer::Tar, entry.at, format!("{what}, which cannot be a disk")));
        }
        self.special.get_or_insert(what);
        Ok(())
    }

    fn refuse_image(&self, entry: &Member, head: &[u8]) -> io::Result<()> {
        let Some(scheme) = image::scheme(&entry.name, head) else { return Ok(()) };
        let what = format!(
            "this is an archive of a container image ({} is in it), whose layers say which file is the disk; name it \
             {scheme}:FILE",
            quoted(&entry.name)
        );
        Err(refused(Layer::Tar, entry.at, what))
    }

    fn check_candidate(&mut self, entry: &Member, looked: &mut Vec<u8>) -> io::Result<bool> {
        Ok(match candidate::by_name(&entry.name, entry.size) {
            Worth::Disk => true,
            Worth::Never => false,
            Worth::IfItsBytesSay => {
                if looked.is_empty() {
                    *looked = self.archive.peek(candidate::LOOK).map_err(error)?;
                }
                candidate::by_bytes(looked)
            }
        })
    }

    fn candidate(&mut self, entry: Member, looked: Vec<u8>) {
        self.note(entry.name.clone());
        if matches!(self.state, State::Search) {
            self.begin(entry, looked);
        }
    }

    /// The file that is named by its path. Of two with one path, some programs take the first and some the last.
    fn named(&mut self, entry: Member, looked: Vec<u8>) -> io::Result<()> {
        if self.is_found {
            let what = format!("the archive has {} twice; pack just one", quoted(&entry.name));
            return Err(refused(Layer::Tar, entry.at, what));
        }
        self.is_found = true;
        self.begin(entry, looked);
        Ok(())
    }

    fn note(&mut self, name: String) {
        if self.candidates.len() < NAMED {
            self.candidates.push(name);
        } else {
            self.more += 1;
        }
    }

    fn begin(&mut self, entry: Member, looked: Vec<u8>) {
        self.found.get_or_init(|| clean(&entry.name).to_owned());
        let map = entry.map.unwrap_or_else(|| Map::whole(entry.size));
        let data = map.segments().iter().fold(0, |sum: u64, part| sum.saturating_add(part.end - part.start));
        self.told = Some((map.size(), map.size().saturating_sub(data)));
        self.state = State::Disk(Disk { map, segment: 0, pos: 0, looked, given: 0 });
    }

    /// The candidates in words.
    fn listed(&self) -> String {
        let names = self.candidates.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let more = if self.more > 0 { format!(" and {} more", self.more) } else { String::new() };
        format!("{names}{more}")
    }

    fn end(&mut self) -> io::Result<()> {
        let at = self.archive.offset();
        if let Some(path) = &self.path {
            if self.is_found {
                self.state = State::Ended;
                return Ok(());
            }
            let there = match self.candidates.is_empty() {
                true => "no file that could be a disk".to_owned(),
                false => self.listed(),
            };
            let what = format!("there is no file {} in the archive; it has {there}", quoted(path));
            return Err(refused(Layer::Tar, at, what));
        }
        let what = match (self.candidates.as_slice(), &self.special, &self.other) {
            ([_], _, _) => {
                self.state = State::Ended;
                return Ok(());
            }
            ([], Some(special), _) => {
                format!("there is no disk in the archive; {special}, which cannot be one")
            }
            ([], None, Some(other)) => format!(
                "there is no disk in the archive; {} does not look like one (under 512 bytes, or notes by its name)",
                quoted(other)
            ),
            ([], None, None) => "there is no file in the archive".to_owned(),
            (_, _, _) => format!(
                "several files in the archive could be the disk: {}; choose one by --path, or pack just one",
                self.listed()
            ),
        };
        Err(refused(Layer::Tar, at, what))
    }
}

impl Read for Tar {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let result = self.step(out);
        if result.is_err() {
            self.state = State::Failed;
        }
        result
    }
}

impl HoleRead for Tar {
    fn skip_hole(&mut self, unit: u64, most: u64) -> io::Result<u64> {
        let State::Disk(disk) = &mut self.state else { return Ok(0) };
        let (is_data, until) = disk.run();
        let hole = if is_data { 0 } else { (until - disk.pos).min(most) };
        let skipped = hole - hole % unit.max(1);
        disk.pos += skipped;
        Ok(skipped)
    }

    fn size(&self) -> Option<u64> {
        self.told.map(|(size, _)| size)
    }

    fn holes(&self) -> u64 {
        self.told.map_or(0, |(_, holes)| holes)
    }
}

impl Disk {
    /// True if data comes next, and the end of the data or the hole.
    fn run(&mut self) -> (bool, u64) {
        let segment = loop {
            match self.map.segments().get(self.segment) {
                Some(segment) if segment.end <= self.pos => self.segment += 1,
                other => break other,
            }
        };
        match segment {
            Some(segment) if segment.start <= self.pos => (true, segment.end),
            Some(segment) => (false, segment.start),
            None => (false, self.map.size()),
        }
    }

    fn read(&mut self, archive: &mut Archive, out: &mut [u8]) -> io::Result<usize> {
        let (data, until) = self.run();
        let most = usize::try_from(until - self.pos).unwrap_or(usize::MAX).min(out.len());
        let out = &mut out[..most];
        let n = match data {
            false => {
                out.fill(0);
                most
            }
            true if self.given < self.looked.len() => {
                let left = &self.looked[self.given..];
                let n = left.len().min(most);
                out[..n].copy_from_slice(&left[..n]);
                self.given += n;
                n
            }
            true => archive.data(out).map_err(error)?,
        };
        self.pos += n as u64;
        Ok(n)
    }
}

/// A path as images and archives have it, without a leading slash or dot.
fn clean(path: &str) -> &str {
    let mut rest = path;
    while let Some(next) = rest.strip_prefix("./").or_else(|| rest.strip_prefix('/')) {
        rest = next;
    }
    rest
}

fn error(fault: Fault) -> io::Error {
    match fault {
        Fault::Io(e) => e,
        Fault::Truncated { at, inside } => truncated(Layer::Tar, at, inside),
        Fault::Refused { at, what } => refused(Layer::Tar, at, what),
    }
}
