//! QEMU's own log of the serial console, kept small. QEMU only appends to it, and does so without a launcher
//! too.
//!
//! ```text
//!  over the limit:   [ 0 ………………………… aligned ·· end ]  LOG
//!                      └── the last of it ──► LOG.old (whole, then renamed)
//!                    the front is cut off:    [ ·· end ]  LOG, and QEMU goes on appending
//! ```
//!
//! If the file system can cut the front off a file (ext4, xfs), no byte is lost: `LOG.old` and then `LOG`
//! hold the output without a gap, though a line of text may begin in one and end in the other. Otherwise the
//! log is emptied after it was copied, and QEMU's output between the last read and the emptying is lost;
//! [`Trimmed::lost`] counts the bytes that are known to be lost. A log that grew beyond twice the limit while
//! no launcher ran keeps its last part, with a line that counts the lost bytes.
//!
//! Other programs read the log meanwhile (`container-disk --tail`), and rely on two things. `LOG.old` is
//! another file each time, and has its name and its first line before any byte is cut off. The launcher holds
//! a lock as long as the log may grow.

use crate::error::{Error, Result};
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The default size limit: 4 MiB.
pub const LIMIT: u64 = 4 << 20;

/// Bytes at the end that are read at once.
const TAIL: u64 = 64 << 10;

/// A log that QEMU appends to.
#[derive(Clone, Debug)]
pub struct Log {
    path: PathBuf,
    limit: u64,
}

/// The result of a trim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Bytes in the old file now.
    pub moved: u64,
    /// Bytes that are known to be lost.
    pub lost: u64,
}

impl Log {
    /// A log of at most `limit` bytes, and as many in an old file beside it.
    pub fn new(path: PathBuf, limit: u64) -> Log {
        Log { path, limit: limit.max(64 << 10) }
    }

    /// Size limit of the log in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The file with the older part, if there is one.
    pub fn old(&self) -> PathBuf {
        with(&self.path, ".old")
    }

    /// Creates a missing log, empty, for its owner, so that it can be followed before QEMU starts.
    pub fn create(&self) -> Result<()> {
        let open = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path);
        open.map(drop).map_err(|e| Error::io(format!("cannot make the log {}", self.path.display()), e))
    }

    /// Size of the log; 0 if it does not exist.
    pub fn size(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |meta| meta.size())
    }

    /// The bytes from `place` on, 64 KiB at most; empty if the log is shorter.
    pub fn from(&self, place: u64) -> Result<Vec<u8>> {
        let (begin, mut tail) = self.tail()?;
        Ok(match place.checked_sub(begin) {
            Some(known) if known >= tail.len() as u64 => Vec::new(),
            Some(known) => tail.split_off(known as usize),
            None => tail,
        })
    }

    /// The bytes after the last occurrence of `known`, within the last 64 KiB; empty if it does not occur.
    pub fn after(&self, known: &[u8]) -> Result<Vec<u8>> {
        let (_, mut tail) = self.tail()?;
        let at = tail.windows(known.len().max(1)).rposition(|part| part == known);
        Ok(at.map_or_else(Vec::new, |at| tail.split_off(at + known.len())))
    }

    /// The last part of the log, and its offset.
    fn tail(&self) -> Result<(u64, Vec<u8>)> {
        let read = || -> io::Result<(u64, Vec<u8>)> {
            let log = match File::open(&self.path) {
                Ok(log) => log,
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((0, Vec::new())),
                Err(e) => return Err(e),
            };
            let begin = log.metadata()?.size().saturating_sub(TAIL);
            let mut tail = Vec::new();
            At { file: &log, at: begin }.take(TAIL).read_to_end(&mut tail)?;
            Ok((begin, tail))
        };
        read().map_err(|e| Error::io(format!("cannot read the log {}", self.path.display()), e))
    }

    /// Moves the content to the old file, if it is more than the limit. A missing log is not an error.
    pub fn trim(&self) -> Result<Trimmed> {
        let cannot = |e: io::Error| Error::io(format!("cannot trim the log {}", self.path.display()), e);
        let log = match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(log) => log,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Trimmed::default()),
            Err(e) => return Err(cannot(e)),
        };
        if log.metadata().map_err(cannot)?.size() <= self.limit {
            return Ok(Trimmed::default());
        }
        match rustix::fs::flock(&log, FlockOperation::NonBlockingLockExclusive) {
            // Another launcher of the same VM trims the log.
            Err(Errno::WOULDBLOCK) => return Ok(Trimmed::default()),
            done => done.map_err(|e| cannot(e.into()))?,
        }
        self.move_away(&log).map_err(cannot)
    }

    fn move_away(&self, log: &File) -> io::Result<Trimmed> {
        let meta = log.metadata()?;
        // The cut must be at a block boundary, and not at the end of the file.
        let block = meta.blksize().max(4096);
        let aligned = meta.size().saturating_sub(1) / block * block;
        let from = aligned.saturating_sub(self.limit);

        let partial = with(&self.path, ".old.partial");
        let mut old =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        if from > 0 {
            old.write_all(super::client_slot::marker(&format!("{from} bytes lost")).as_bytes())?;
        }
        copy(log, from, aligned, &mut old)?;
        fs::rename(&partial, self.old())?;

        match rustix::fs::fallocate(log, FallocateFlags::COLLAPSE_RANGE, 0, aligned) {
            Ok(()) => Ok(Trimmed { moved: aligned - from, lost: from }),
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::PERM) => {
                let (copied, gone) = empty(log, aligned, &mut old)?;
                Ok(Trimmed { moved: copied - from, lost: from + gone })
            }
            Err(e) => Err(e.into()),
        }
    }
}

/// Copies the bytes since `from`, until no more come, and empties the log. Returns the offset up to which it
/// was copied, and the number of lost bytes.
fn empty(log: &File, mut from: u64, old: &mut File) -> io::Result<(u64, u64)> {
    // Bounded, since a guest may never pause.
    for _ in 0..8 {
        let end = log.metadata()?.size();
        if end == from {
            break;
        }
        copy(log, from, end, old)?;
        from = end;
    }
    let end = log.metadata()?.size();
    log.set_len(0)?;
    Ok((from, end.saturating_sub(from)))
}

fn copy(log: &File, from: u64, to: u64, old: &mut File) -> io::Result<()> {
    let mut reader = At { file: log, at: from }.take(to - from);
    io::copy(&mut reader, old).map(drop)
}

/// Reads a file from an offset on, independent of its own position.
struct At<'a> {
    file: &'a File,
    at: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.file.read_at(buffer, self.at)?;
        self.at += size as u64;
        Ok(size)
    }
}

fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tempfile::TempDir;

    const LIMIT: u64 = 64 << 10;

    fn log(dir: &TempDir) -> Log {
        Log::new(dir.path().join("serial.log"), LIMIT)
    }

    fn append(log: &Log, bytes: &[u8]) {
        OpenOptions::new().append(true).open(&log.path).unwrap().write_all(bytes).unwrap();
    }

    fn bytes(size: usize) -> Vec<u8> {
        (0..size).map(|i| (i * 7 / 5) as u8).collect()
    }

    #[test]
    fn a_small_log_stays() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(&dir);
        assert_eq!(log.trim().unwrap(), Trimmed::default());
        log.create().unwrap();
        append(&log, &bytes(LIMIT as usize));
        log.create().unwrap();
        assert_eq!(log.trim().unwrap(), Trimmed::default());
        assert_eq!(fs::read(&log.path).unwrap(), bytes(LIMIT as usize));
        assert!(!log.old().exists());
        assert_eq!(fs::metadata(&log.path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    /// In a folder that can cut a front off, and in one (tmpfs) that cannot.
    fn folders() -> [TempDir; 2] {
        [tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap()]
    }

    #[test]
    fn a_large_log_is_moved_without_a_gap() {
        for dir in folders() {
            let log = log(&dir);
            log.create().unwrap();
            let all = bytes(LIMIT as usize + 777);
            append(&log, &all);
            let trimmed = log.trim().unwrap();
            assert_eq!(trimmed.lost, 0);
            append(&log, b"more");
            let both = [fs::read(log.old()).unwrap(), fs::read(&log.path).unwrap()].concat();
            assert_eq!(both, [&all[..], b"more"].concat());
            assert!(trimmed.moved >= LIMIT - 4096);
        }
    }

    #[test]
    fn a_huge_log_keeps_its_end() {
        for dir in folders() {
            let log = log(&dir);
            log.create().unwrap();
            let all = bytes(10 * LIMIT as usize);
            append(&log, &all);
            let lost = log.trim().unwrap().lost;
            let both = [fs::read(log.old()).unwrap(), fs::read(&log.path).unwrap()].concat();
            let marker = format!("\r\n[… {lost} bytes lost …]\r\n").into_bytes();
            assert_eq!(both, [&marker[..], &all[lost as usize..]].concat());
            assert!(both.len() as u64 <= LIMIT + 2 * 4096 + 64, "{}", both.len());
        }
    }

    /// A writer that never pauses, as QEMU writes. Where a front can be cut off, all of its bytes are in the
    /// pieces or counted as lost; where not, each piece is a part of its bytes, in order.
    #[test]
    fn a_log_is_moved_while_qemu_writes() {
        for dir in folders() {
            let log = log(&dir);
            log.create().unwrap();
            let stop = AtomicBool::new(false);
            let mut pieces = Vec::new();
            let written = std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let mut out = OpenOptions::new().append(true).open(&log.path).unwrap();
                    let mut written = String::new();
                    for number in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let line = format!("line {number}\n");
                        out.write_all(line.as_bytes()).unwrap();
                        written += &line;
                    }
                    written
                });
                while pieces.len() < 20 {
                    let trimmed = log.trim().unwrap();
                    if trimmed.moved > 0 {
                        pieces.push((trimmed.lost, fs::read_to_string(log.old()).unwrap()));
                    }
                }
                stop.store(true, Ordering::Relaxed);
                writer.join().unwrap()
            });
            pieces.push((0, fs::read_to_string(&log.path).unwrap()));
            let is_exact = cuts_fronts(&dir);
            let mut at = 0;
            for (lost, piece) in pieces {
                let piece = piece.rsplit_once("…]\r\n").map_or(piece.as_str(), |(_, piece)| piece);
                at +=
                    if is_exact { lost as usize } else { written[at..].find(piece).expect("a piece of it") };
                assert!(written[at..].starts_with(piece), "other bytes than were written at {at}");
                at += piece.len();
            }
            assert!(!is_exact || at == written.len(), "the end is missing");
        }
    }

    fn cuts_fronts(dir: &TempDir) -> bool {
        let file = File::create(dir.path().join("probe")).unwrap();
        file.set_len(3 * 4096).unwrap();
        rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096).is_ok()
    }
}
