//! A log that is cut while it is read, the division into lines, and the end of the program.

use super::*;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A log as QEMU writes it and the launcher cuts it.
struct Place {
    folder: TempDir,
    /// All bytes that were ever written, and the number that was cut off.
    written: Vec<u8>,
    gone: usize,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap(), written: Vec::new(), gone: 0 };
        fs::write(place.log(), b"").unwrap();
        place
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("serial.log")
    }

    fn append(&mut self, bytes: &[u8]) {
        OpenOptions::new().append(true).open(self.log()).unwrap().write_all(bytes).unwrap();
        self.written.extend_from_slice(bytes);
    }

    /// `size` bytes that occur nowhere else.
    fn grow(&mut self, size: usize) {
        let from = self.written.len();
        let text: String = (from / 8..).map(|number| format!("{number:07}\n")).take(size / 8).collect();
        self.append(text.as_bytes());
    }

    /// First step of the launcher's cut: all but the last `rest` bytes are in the old file, without the first
    /// `lost`.
    fn keep(&self, lost: usize, rest: usize) {
        let log = fs::read(self.log()).unwrap();
        let words = match lost {
            0 => Vec::new(),
            lost => format!("\r\n[… {lost} bytes lost …]\r\n").into_bytes(),
        };
        let partial = self.folder.path().join("serial.log.old.partial");
        fs::write(&partial, [&words[..], &log[lost..log.len() - rest]].concat()).unwrap();
        fs::rename(partial, self.folder.path().join("serial.log.old")).unwrap();
    }

    /// Second step of the cut: the bytes are removed from the log.
    fn cut(&mut self, rest: usize) {
        let log = fs::read(self.log()).unwrap();
        let file = OpenOptions::new().write(true).open(self.log()).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(&log[log.len() - rest..], 0).unwrap();
        self.gone += log.len() - rest;
    }

    fn tail(&self) -> Tail {
        Tail::open(&self.log()).unwrap().unwrap()
    }
}

/// All bytes that can be read now.
fn rest(tail: &mut Tail) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), Vec::new());
    loop {
        tail.read(&mut piece).unwrap();
        if piece.is_empty() {
            return all;
        }
        all.extend_from_slice(&piece);
    }
}

#[test]
fn a_cut_loses_and_repeats_nothing_wherever_the_reader_is() {
    // Number of pieces of 64 KiB that were read, and number of bytes left after the cut.
    for (pieces, left) in [(0, 0), (1, 4096), (3, 100), (4, 0), (5, 4096), (5, 800), (5, 0)] {
        let mut place = Place::new();
        let mut tail = place.tail();
        place.grow(300 << 10);
        let (mut seen, mut piece) = (Vec::new(), Vec::new());
        for _ in 0..pieces {
            tail.read(&mut piece).unwrap();
            seen.extend_from_slice(&piece);
        }
        place.keep(0, left);
        place.grow(80);
        let left = left + 80;
        place.cut(left);
        place.grow(160);
        seen.extend(rest(&mut tail));
        assert!(seen == place.written, "{pieces} pieces, {left} left: {} bytes", seen.len());
        // The same again.
        place.grow(200 << 10);
        place.keep(0, 8);
        place.cut(8);
        seen.extend(rest(&mut tail));
        assert!(seen == place.written, "{pieces} pieces, {left} left, again: {} bytes", seen.len());
    }
}

#[test]
fn between_the_copy_and_the_cut_it_is_read_on() {
    let mut place = Place::new();
    let mut tail = place.tail();
    place.grow(8000);
    let mut seen = rest(&mut tail);
    place.grow(800);
    place.keep(0, 80);
    place.grow(8);
    seen.extend(rest(&mut tail));
    assert_eq!(seen, place.written);
    place.cut(88);
    place.grow(16);
    seen.extend(rest(&mut tail));
    assert_eq!(seen, place.written);
}

#[test]
fn what_the_launcher_does_not_keep_is_told_to_whoever_did_not_read_it() {
    let read = |first: usize| {
        let mut place = Place::new();
        let mut tail = place.tail();
        place.grow(first);
        rest(&mut tail);
        place.grow(80_000 - first);
        place.keep(8000, 0);
        place.cut(0);
        (String::from_utf8(rest(&mut tail)).unwrap(), place)
    };
    let (text, place) = read(800);
    let words = "\n[… 7200 bytes lost …]\n";
    assert!(
        text.starts_with(words) && text.as_bytes()[words.len()..] == place.written[8000..],
        "{}",
        &text[..80]
    );
    let (text, place) = read(8080);
    assert_eq!(text.as_bytes(), &place.written[8080..], "it had all of that");
}

#[test]
fn two_cuts_at_once_are_told_and_a_log_that_somebody_emptied_is_read_on() {
    let mut place = Place::new();
    let mut tail = place.tail();
    place.grow(8000);
    rest(&mut tail);
    for _ in 0..2 {
        place.grow(16_000);
        place.keep(0, 0);
        place.cut(0);
    }
    place.grow(80);
    let text = String::from_utf8(rest(&mut tail)).unwrap();
    let words = "\n[… some was lost …]\n";
    assert!(
        text.starts_with(words) && text.as_bytes()[words.len()..] == place.written[24_000..],
        "{}",
        &text[..80]
    );
    place.cut(0);
    place.grow(16);
    let end = place.written.len() - 16;
    assert_eq!(rest(&mut tail), &place.written[end..]);
}

#[test]
fn the_first_words_of_a_guest_are_no_instructions() {
    for words in
        ["\r\n[… 18446744073709551615 bytes lost …]\r\n", "\r\n[… 99999999999999999999999 bytes lost …]\r\n"]
    {
        let mut place = Place::new();
        let mut tail = place.tail();
        place.append(words.as_bytes());
        place.grow(8000);
        place.keep(0, 0);
        place.cut(0);
        place.grow(80);
        // Whatever the result is, reading ends and continues.
        rest(&mut tail);
        place.grow(80);
        let end = place.written.len() - 80;
        assert!(rest(&mut tail).ends_with(&place.written[end..]));
    }
}

fn shaped(pieces: &[&[u8]]) -> Vec<u8> {
    let (mut lines, mut text) = (Lines::default(), Vec::new());
    pieces.iter().for_each(|piece| lines.take(piece, &mut text));
    lines.end(&mut text);
    lines.end(&mut text);
    text
}

#[test]
fn lines_end_where_a_runtime_needs_it() {
    assert_eq!(
        shaped(&[b"one\r", b"\ntwo\r\n", b"50%\r60%\r\r\nlogin: "]),
        b"one\ntwo\n50%\r60%\r\nlogin: \n"
    );
    assert_eq!(shaped(&[b""]), b"");
    let long = "é".repeat(10_000);
    let text = String::from_utf8(shaped(&[&[b"x", long.as_bytes()].concat()])).unwrap();
    assert!(text.lines().all(|line| line.len() <= (8 << 10) + 4), "no letter is split, no line is too long");
    assert_eq!(text.replace('\n', ""), format!("x{long}"));
    let noise = vec![0x80; 100_000];
    assert!(shaped(&[&noise]).split(|byte| *byte == b'\n').all(|line| line.len() <= (8 << 10) + 4));
}

/// An output that accepts bytes until it is broken.
#[derive(Clone, Default)]
struct Out(Arc<Mutex<Vec<u8>>>, bool);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.1 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn hold(lock: &Path) -> File {
    let file = File::create(lock).unwrap();
    // SAFETY: the descriptor is open.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
    file
}

#[test]
fn it_ends_when_the_launcher_has_and_not_before() {
    let mut place = Place::new();
    let (log, lock) = (place.log(), place.folder.path().join("lock"));
    let mut held = Some(hold(&lock));
    let out = Out::default();
    let mut rounds = 0;
    place.append(b"tiny login: ");
    let pause = |time: Duration| {
        rounds += 1;
        assert!(time <= PAUSE.1);
        match rounds {
            // The program was asked to end, and has printed the guest's last lines.
            20 => place.append(b"bye"),
            40 => held = None,
            _ => {}
        }
        rounds >= 10
    };
    follow(&log, &lock, out.clone(), pause).unwrap();
    assert_eq!(*out.0.lock().unwrap(), b"tiny login: \nbye\n");
    assert_eq!(rounds, 40);
}

#[test]
fn without_a_log_it_waits_until_it_is_asked_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log/serial.log");
    let mut rounds = 0;
    let pause = |_| {
        rounds += 1;
        rounds == 5
    };
    follow(&path, &folder.path().join("lock"), Out::default(), pause).unwrap();
    assert_eq!(rounds, 5);
}

#[test]
fn who_cannot_write_waits_for_the_end_all_the_same() {
    let mut place = Place::new();
    place.append(b"x\n");
    let lock = place.folder.path().join("lock");
    let mut held = Some(hold(&lock));
    let mut rounds = 0;
    let pause = |_| {
        rounds += 1;
        if rounds == 5 {
            held = None;
        }
        false
    };
    let why = follow(&place.log(), &lock, Out(Arc::default(), true), pause).unwrap_err();
    assert!(why.starts_with("cannot write what was read"), "{why}");
    assert_eq!(rounds, 5);
}

/// The real situation on a small scale: a thread writes and cuts without a pause, while the reader is less
/// than two cuts behind.
#[test]
fn a_reader_beside_a_writer_misses_nothing() {
    let mut place = Place::new();
    let (log, lock) = (place.log(), place.folder.path().join("lock"));
    let held = hold(&lock);
    let out = Out::default();
    // An incomplete line is ended, since the test does not wait.
    let letters = |bytes: &[u8]| bytes.iter().copied().filter(|byte| *byte != b'\n').collect::<Vec<u8>>();
    let written = std::thread::scope(|scope| {
        let (to, path) = (out.clone(), lock.clone());
        let reader = scope.spawn(move || follow(&log, &path, to, |_| false));
        for _ in 0..12 {
            let before = letters(&place.written[..place.gone]).len();
            place.grow(8 << 10);
            // Bytes that were written after the last cut have been read, so that cut was noticed. If the log
            // had grown to its old length by then, the cut could not be noticed.
            while !reader.is_finished() && letters(&out.0.lock().unwrap()).len() <= before {
                std::thread::yield_now();
            }
            for _ in 0..20 {
                place.grow(8 << 10);
            }
            place.keep(0, 0);
            place.cut(0);
        }
        drop(held);
        reader.join().unwrap().unwrap();
        place.written
    });
    let seen = letters(&out.0.lock().unwrap());
    assert!(seen == letters(&written), "{} letters of {} bytes", seen.len(), written.len());
}
