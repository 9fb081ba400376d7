//! Reader of a log that the launcher cuts while it is read (`launcher/src/console/log.rs`).
//!
//! The launcher completes a new LOG.old under its name *before* it removes any of LOG. So a piece read from
//! LOG is valid if afterwards LOG.old is still the known one, or LOG is not shorter than the end of LOG.old.
//! Otherwise the piece is discarded, the rest is read from LOG.old, and reading of LOG goes on after it. A
//! reader so slow that LOG was cut twice reports that bytes are lost. It knows their number only for a single
//! cut.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Bytes of one read.
const PIECE: usize = 64 << 10;
/// Number of last bytes that are remembered to verify the position after a cut.
const KNOWN: usize = 64;
/// First line of a LOG.old whose own front is lost, as the launcher writes it: `\r\n[… 4711 bytes lost
/// …]\r\n`.
const MARK: (&[u8], &[u8]) = ("\r\n[… ".as_bytes(), " bytes lost …]\r\n".as_bytes());

/// A log and the position up to which it was read.
pub(super) struct Tail {
    log: File,
    old_path: PathBuf,
    /// Number of bytes of LOG that were read.
    place: u64,
    /// The last LOG.old seen. It stays open, so that no other file gets its inode number.
    old: Option<File>,
    /// Position in `old` of bytes that are to be read before LOG.
    rest: Option<u64>,
    /// The last bytes that were read.
    last: Vec<u8>,
}

/// The part that was cut off a log.
struct Cut {
    file: File,
    /// Size of the file.
    size: u64,
    /// Length of the launcher's own line at the beginning, which replaces `lost` bytes.
    words: u64,
    lost: u64,
}

impl Tail {
    /// Opens the log. `None` if it does not exist.
    pub(super) fn open(path: &Path) -> io::Result<Option<Tail>> {
        let mut old_path = path.as_os_str().to_owned();
        old_path.push(".old");
        let old_path = PathBuf::from(old_path);
        // LOG.old first: a cut between the two calls is noticed at the first read.
        let old = existing(File::open(&old_path))?;
        let Some(log) = existing(File::open(path))? else { return Ok(None) };
        Ok(Some(Tail { log, old_path, place: 0, old, rest: None, last: Vec::new() }))
    }

    /// Reads the next piece. An empty piece means that nothing new is there.
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
                // Cut by a program that keeps no LOG.old.
                self.place = 0;
                continue;
            }
            self.place += piece.len() as u64;
            self.remember(piece);
            return Ok(());
        }
    }

    /// The part that was cut off since the last call, once LOG is shortened.
    fn cut(&self) -> io::Result<Option<Cut>> {
        let Some(is) = existing(fs::metadata(&self.old_path))? else { return Ok(None) };
        if let Some(old) = &self.old {
            let known = old.metadata()?;
            if (known.dev(), known.ino()) == (is.dev(), is.ino()) {
                return Ok(None);
            }
        }
        let Some(file) = existing(File::open(&self.old_path))? else { return Ok(None) };
        let mut head = vec![0; 64];
        let size = file.read_at(&mut head, 0)?;
        let (words, lost) = words(&head[..size]);
        // LOG.old appears before LOG is shortened. Until then LOG still holds these bytes.
        let end = (file.metadata()?.len() - words).saturating_add(lost);
        if self.log.metadata()?.len() >= end {
            return Ok(None);
        }
        // LOG.old may have grown until the cut.
        let size = file.metadata()?.len();
        Ok(Some(Cut { file, size, words, lost }))
    }

    /// Moves the position to the rest of the cut part, then to the remaining LOG. Returns the text to print
    /// if bytes are lost.
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
                // LOG was cut more than once.
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

/// True if the bytes of `file` before the position `at` are the last ones that were read. Bytes outside of
/// `begin..size` cannot be compared and count as equal.
fn knows(file: &File, begin: u64, size: u64, at: u64, last: &[u8]) -> io::Result<bool> {
    let beyond = at.saturating_sub(size).min(last.len() as u64) as usize;
    let last = &last[..last.len() - beyond];
    let end = at.min(size);
    let length = (end - begin).min(last.len() as u64);
    let mut there = vec![0; length as usize];
    file.read_exact_at(&mut there, end - length)?;
    Ok(last.ends_with(&there))
}

/// Length of the launcher's own line at the beginning of a LOG.old, and the number of lost bytes that it
/// reports.
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

/// Reads the bytes from a position on, up to the size of a piece.
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

/// The result with `NotFound` as `None`.
fn existing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(there) => Ok(Some(there)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
