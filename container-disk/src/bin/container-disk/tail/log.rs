//! A log that is cut by the launcher while it is read (`launcher/src/console/log.rs`).
//!
//! A new LOG.old stands under its name, whole, *before* anything of LOG goes. So what was read from LOG holds if afterwards
//! either LOG.old is the one that is known, or LOG is not shorter than where LOG.old ends. Else the piece is thrown away, the
//! rest is read from LOG.old, and LOG is read on from what is behind that. Who was so slow that LOG was cut twice is told that
//! something is lost; how much is known only of one cut.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// What is read at once.
const PIECE: usize = 64 << 10;
/// So many of the last bytes are remembered, to find the place again.
const KNOWN: usize = 64;
/// How the launcher begins a LOG.old whose own front is gone: `\r\n[… 4711 bytes lost …]\r\n`.
const MARK: (&[u8], &[u8]) = ("\r\n[… ".as_bytes(), " bytes lost …]\r\n".as_bytes());

/// A log, and how far it was read.
pub(super) struct Tail {
    log: File,
    old_path: PathBuf,
    /// So much of LOG was read.
    place: u64,
    /// The LOG.old that is known. It stays open, so that no other file gets its number.
    old: Option<File>,
    /// Where the rest of it begins that is to be read before LOG.
    rest: Option<u64>,
    /// What was read last.
    last: Vec<u8>,
}

/// What was cut off a log.
struct Cut {
    file: File,
    /// How long it is.
    size: u64,
    /// So many bytes at its beginning are the launcher's words, in place of these that are lost.
    words: u64,
    lost: u64,
}

impl Tail {
    /// One that is there.
    pub(super) fn open(path: &Path) -> io::Result<Option<Tail>> {
        let mut old_path = path.as_os_str().to_owned();
        old_path.push(".old");
        let old_path = PathBuf::from(old_path);
        // In this order: a cut that comes between is a cut that is seen.
        let old = found(File::open(&old_path))?;
        let Some(log) = found(File::open(path))? else { return Ok(None) };
        Ok(Some(Tail { log, old_path, place: 0, old, rest: None, last: Vec::new() }))
    }

    /// The next piece; nothing, if there is none now.
    pub(super) fn read(&mut self, piece: &mut Vec<u8>) -> io::Result<()> {
        loop {
            if let (Some(at), Some(old)) = (self.rest, &self.old) {
                fill(old, at, piece)?;
                match piece.len() {
                    0 => self.rest = None,
                    size => {
                        self.rest = Some(at + size as u64);
                        self.remember(piece);
                        return Ok(());
                    }
                }
            }
            fill(&self.log, self.place, piece)?;
            let is_shorter = piece.is_empty() && self.log.metadata()?.len() < self.place;
            if let Some(cut) = self.cut()? {
                if let Some(words) = self.leap(cut)? {
                    *piece = words;
                    return Ok(());
                }
                continue;
            }
            if is_shorter {
                // Cut by somebody who keeps nothing.
                self.place = 0;
                continue;
            }
            self.place += piece.len() as u64;
            self.remember(piece);
            return Ok(());
        }
    }

    /// What was cut off since the last look, once it is cut off.
    fn cut(&self) -> io::Result<Option<Cut>> {
        let Some(is) = found(fs::metadata(&self.old_path))? else { return Ok(None) };
        if let Some(old) = &self.old {
            let known = old.metadata()?;
            if (known.dev(), known.ino()) == (is.dev(), is.ino()) {
                return Ok(None);
            }
        }
        let Some(file) = found(File::open(&self.old_path))? else { return Ok(None) };
        let mut head = vec![0; 64];
        let size = file.read_at(&mut head, 0)?;
        let (words, lost) = words(&head[..size]);
        // What it holds is the front of a LOG that is not cut yet, or no more.
        let end = (file.metadata()?.len() - words).saturating_add(lost);
        if self.log.metadata()?.len() >= end {
            return Ok(None);
        }
        // It may have grown until the cut.
        let size = file.metadata()?.len();
        Ok(Some(Cut { file, size, words, lost }))
    }

    /// Goes on behind a cut: with its rest, then with what is left of LOG. What is to be told, if something is lost.
    fn leap(&mut self, cut: Cut) -> io::Result<Option<Vec<u8>>> {
        let Cut { file, size, words, lost } = cut;
        let told = if self.place < lost {
            let gone = lost - self.place;
            (self.rest, self.place) = (Some(words), 0);
            Some(format!("\n[… {gone} bytes lost …]\n").into_bytes())
        } else {
            let at = self.place - lost + words;
            match knows(&file, words, size, at, &self.last)? {
                true => {
                    self.rest = (at < size).then_some(at);
                    self.place = at.saturating_sub(size);
                    None
                }
                // There was another cut between.
                false => {
                    (self.rest, self.place) = (Some(words), 0);
                    Some("\n[… some was lost …]\n".as_bytes().to_vec())
                }
            }
        };
        self.old = Some(file);
        Ok(told)
    }

    fn remember(&mut self, piece: &[u8]) {
        self.last.extend_from_slice(&piece[piece.len().saturating_sub(KNOWN)..]);
        let more = self.last.len().saturating_sub(KNOWN);
        self.last.drain(..more);
    }
}

/// Whether a file has before the place `at` what was read last. Behind its end (`size`) and before `begin` it says nothing.
fn knows(file: &File, begin: u64, size: u64, at: u64, last: &[u8]) -> io::Result<bool> {
    let beyond = at.saturating_sub(size).min(last.len() as u64) as usize;
    let last = &last[..last.len() - beyond];
    let end = at.min(size);
    let length = (end - begin).min(last.len() as u64);
    let mut there = vec![0; length as usize];
    file.read_exact_at(&mut there, end - length)?;
    Ok(last.ends_with(&there))
}

/// How many bytes of a LOG.old's beginning are the launcher's own words, and how many bytes these say to be lost.
fn words(head: &[u8]) -> (u64, u64) {
    let told = || {
        let rest = head.strip_prefix(MARK.0)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = rest.split_at(digits);
        rest.starts_with(MARK.1).then_some(())?;
        let lost = std::str::from_utf8(number).ok()?.parse().ok()?;
        Some(((MARK.0.len() + digits + MARK.1.len()) as u64, lost))
    };
    told().unwrap_or((0, 0))
}

/// Reads what is there from a place on, up to a piece.
fn fill(file: &File, mut at: u64, piece: &mut Vec<u8>) -> io::Result<()> {
    piece.resize(PIECE, 0);
    let mut size = 0;
    while size < PIECE {
        match file.read_at(&mut piece[size..], at) {
            Ok(0) => break,
            Ok(count) => (size, at) = (size + count, at + count as u64),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    piece.truncate(size);
    Ok(())
}

/// What is not there is nothing wrong.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(there) => Ok(Some(there)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
