//! Samples, tools, and decoding under a watchdog.

use cdi::filter::{self, Boundary, Budget, Layer, OnBoundary};
use cdi::{Error, ErrorKind};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

pub(crate) const AMPLE: Budget = Budget { threads: 2, memory: 256 << 20, beside: 0 };

/// Numbers that look random and are the same each time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }
}

/// Bytes as a disk has them: words that repeat, noise, and runs of zeros.
pub(crate) fn sample(len: usize) -> Vec<u8> {
    let mut dice = Dice(len as u64 + 1);
    let mut out = Vec::with_capacity(len + 4096);
    while out.len() < len {
        match dice.roll(8) {
            0 => out.resize(out.len() + dice.roll(4096), 0),
            1 => out.extend((0..dice.roll(512)).map(|_| dice.roll(256) as u8)),
            _ => out.extend(format!("key{}=value{};\n", dice.roll(50), dice.roll(500)).bytes()),
        }
    }
    out.truncate(len);
    out
}

/// Runs a tool with `input` on its standard input; returns its standard output.
pub(crate) fn tool(command: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{} cannot be started ({e}); make setup installs it", command[0]));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = thread::spawn(move || stdin.write_all(&input));
    let mut out = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    assert!(child.wait().unwrap().success(), "{command:?} failed");
    feeder.join().unwrap().unwrap();
    out
}

/// Gives awkward amounts: 1, 2, 3 … up to `most` bytes and again.
pub(crate) struct Awkward<R> {
    inner: R,
    most: usize,
    next: usize,
}

impl<R: Read> Awkward<R> {
    pub(crate) fn new(inner: R, most: usize) -> Self {
        Awkward { inner, most, next: 0 }
    }
}

impl<R: Read> Read for Awkward<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.next = self.next % self.most + 1;
        let n = self.next.min(out.len());
        self.inner.read(&mut out[..n])
    }
}

pub(crate) fn layer_of(packed: &[u8]) -> Layer {
    filter::detect(packed).expect("no layer is recognised")
}

/// All that comes out, read with awkward sizes, and how it ended.
pub(crate) fn decode(layer: Layer, packed: &[u8], budget: Budget) -> (Vec<u8>, Result<(), Error>) {
    decode_from(layer, packed, budget, None, None)
}

pub(crate) fn decode_from(
    layer: Layer,
    packed: &[u8],
    budget: Budget,
    from: Option<Boundary>,
    on_boundary: Option<OnBoundary>,
) -> (Vec<u8>, Result<(), Error>) {
    let at = from.as_ref().map_or(0, |b| b.input as usize);
    let input = std::io::Cursor::new(packed[at..].to_vec());
    guarded(move || {
        let input = Box::new(Awkward::new(input, 70_001));
        let mut out = Vec::new();
        let mut reader = match filter::open(layer, input, budget, from, on_boundary) {
            Ok(reader) => Awkward::new(reader, 9973),
            Err(e) => return (out, Err(e)),
        };
        let result = reader.read_to_end(&mut out).map(drop).map_err(|e| Error::io("reading", e));
        if result.is_err() {
            assert!(reader.read(&mut [0; 7]).is_err(), "an end after an error");
        }
        (out, result)
    })
}

/// Runs `work` on a thread, and panics if it takes too long or panics.
pub(crate) fn guarded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = channel();
    let thread = thread::spawn(move || {
        let _ = send.send(work());
    });
    match receive.recv_timeout(Duration::from_secs(120)) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => panic!("a decoder hangs"),
        Err(RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("no answer and no panic"))
        }
    }
}

#[track_caller]
pub(crate) fn same(actual: &[u8], expected: &[u8]) {
    if actual != expected {
        let at = actual.iter().zip(expected).position(|(a, b)| a != b);
        panic!("{} bytes instead of {}, first difference at {at:?}", actual.len(), expected.len());
    }
}

#[track_caller]
pub(crate) fn decodes_to(packed: &[u8], expected: &[u8]) {
    let (out, result) = decode(layer_of(packed), packed, AMPLE);
    result.unwrap();
    same(&out, expected);
}

#[track_caller]
pub(crate) fn refused(packed: &[u8], layer: Layer, budget: Budget, sentence: &str) {
    let e = decode(layer, packed, budget).1.expect_err("it was accepted");
    assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
    assert!(e.to_string().contains(sentence), "{e}");
}

/// A folder with files, for tools that want names.
pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    /// A file with holes where `data` has whole zero pages.
    pub(crate) fn sparse(&self, name: &str, data: &[u8]) {
        use std::os::unix::fs::FileExt;
        let file = File::create(self.0.path().join(name)).unwrap();
        file.set_len(data.len() as u64).unwrap();
        for (i, page) in data.chunks(4096).enumerate() {
            if page.iter().any(|&b| b != 0) {
                file.write_all_at(page, i as u64 * 4096).unwrap();
            }
        }
    }

    /// Runs `tar` here; returns the archive.
    pub(crate) fn tar(&self, args: &[&str]) -> Vec<u8> {
        let folder = self.0.path().to_str().unwrap();
        tool(&[&["tar", "-C", folder, "-cf", "-"], args].concat(), b"")
    }
}
