//! The engine with a toy format: a unit is a length byte and that many bytes, each of which decodes to a thousand.

use super::*;
use crate::ErrorKind;
use crate::filter::{Budget, StagedBudget};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SPREAD: usize = 1000;

struct Toy {
    memory: u64,
}

impl Split for Toy {
    fn split(&mut self, tape: &mut Tape) -> Result<(), Stop> {
        loop {
            let at = tape.offset();
            let Some(len) = tape.byte()? else { return Ok(()) };
            tape.begin(Unit { at, memory: self.memory, ahead: AHEAD, boundary: vec![len] }, Vec::new())?;
            if !tape.pass(u64::from(len))? {
                return Err(io::Error::other(Error::refused("cut short")).into());
            }
            tape.end(Vec::new())?;
        }
    }
}

#[derive(Default)]
struct Spread {
    byte: u8,
    left: usize,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Codec for Spread {
    fn start(&mut self, _: u64, _: u64) -> io::Result<()> {
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Ok(())
    }

    fn step(&mut self, packed: &[u8], plain: &mut [u8]) -> io::Result<(usize, usize)> {
        let mut taken = 0;
        if self.left == 0 {
            let Some(&byte) = packed.first() else { return Ok((0, 0)) };
            assert!(byte != 254, "a codec that panics");
            if byte == 255 {
                return Err(Error::refused("a bad byte").into());
            }
            (self.byte, self.left, taken) = (byte, SPREAD, 1);
        }
        let n = self.left.min(plain.len());
        plain[..n].fill(self.byte);
        self.left -= n;
        Ok((taken, n))
    }

    fn end(&mut self, left: bool) -> io::Result<()> {
        self.running.fetch_sub(1, Ordering::SeqCst);
        assert!(!left && self.left == 0);
        Ok(())
    }
}

fn units(count: u32, len: u8) -> Vec<u8> {
    let unit =
        |i: u32| std::iter::once(len).chain((0..u32::from(len)).map(move |j| ((i * 7 + j) % 250) as u8));
    (0..count).flat_map(unit).collect()
}

fn expected(packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = packed;
    while let Some((&len, after)) = rest.split_first() {
        for &byte in &after[..usize::from(len).min(after.len())] {
            out.resize(out.len() + SPREAD, byte);
        }
        rest = after.get(usize::from(len)..).unwrap_or(&[]);
    }
    out
}

struct Run {
    threads: usize,
    memory: u64,
    unit_memory: u64,
}

impl Run {
    fn open(
        &self,
        name: &'static str,
        packed: Vec<u8>,
        on: Option<OnBoundary>,
    ) -> (Box<dyn Read + Send>, Arc<AtomicUsize>) {
        let budget = Budget { threads: self.threads, memory: self.memory, beside: 0 };
        let room = StagedBudget { budget, at_first: self.memory };
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let codec = {
            let most = most.clone();
            move || Spread { running: running.clone(), most: most.clone(), ..Spread::default() }
        };
        let from = Boundary { input: 0, output: 0, state: Vec::new() };
        let toy = Toy { memory: self.unit_memory };
        let opened =
            open(name, Box::new(io::Cursor::new(packed)), toy, codec, (room, u64::MAX), &from, on).unwrap();
        (opened.reader, most)
    }
}

/// Reads on another thread, so that a dead end is a failure and not a test that never ends.
fn read_all(mut reader: Box<dyn Read + Send>) -> (Vec<u8>, io::Result<()>) {
    let (send, receive) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut out = Vec::new();
        let result = reader.read_to_end(&mut out).map(drop);
        let _ = send.send((out, result));
    });
    receive.recv_timeout(Duration::from_secs(120)).expect("the lanes are stuck")
}

#[test]
fn units_come_out_in_order_under_any_bound() {
    let packed = units(300, 200);
    for threads in [1, 2, 7] {
        for memory in [0, BUFFERS, BUFFERS + (2 << 20), 64 << 20] {
            for unit_memory in [0, 1 << 20, 40 << 20] {
                let run = Run { threads, memory, unit_memory };
                let (reader, most) = run.open("toy", packed.clone(), None);
                let (out, result) = read_all(reader);
                result.unwrap();
                assert!(out == expected(&packed), "{threads} threads, {memory} bytes");
                let fits = 1.max((memory / unit_memory.max(1)) as usize);
                let most = most.load(Ordering::SeqCst);
                assert!(most <= threads.min(fits), "{most} units at once, {threads} threads, {fits} fit");
            }
        }
    }
}

#[test]
fn memory_stays_under_the_bound() {
    let memory = 8 << 20;
    let run = Run { threads: 4, memory, unit_memory: 1 << 20 };
    let shared = Arc::new(Shared::new(memory, u64::MAX));
    // The account itself: a splitter that is never consumed stops by itself, below the bound.
    let filler = {
        let shared = shared.clone();
        thread::spawn(move || {
            let mut chunks = Vec::new();
            while let Ok(chunk) = shared.packed_chunk() {
                chunks.push(chunk);
            }
            chunks.len()
        })
    };
    thread::sleep(Duration::from_millis(200));
    shared.leave();
    let chunks = filler.join().unwrap();
    assert!(chunks * CHUNK <= memory as usize && chunks * CHUNK >= memory as usize / 2, "{chunks} chunks");
    let (out, result) = read_all(run.open("toy", units(500, 250), None).0);
    result.unwrap();
    assert_eq!(out.len(), 500 * 250 * SPREAD);
}

#[test]
fn boundaries_come_after_all_their_bytes_and_before_the_next() {
    let packed = units(40, 100);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let on: OnBoundary = {
        let seen = seen.clone();
        Arc::new(move |b| seen.lock().unwrap().push(b))
    };
    let run = Run { threads: 2, memory: 32 << 20, unit_memory: 0 };
    let (mut reader, _) = run.open("toy", packed, Some(on));
    let (mut total, mut buf) = (0u64, vec![0; 777]);
    loop {
        let n = reader.read(&mut buf).unwrap();
        // All boundaries reported up to now were returned before this read.
        assert!(seen.lock().unwrap().iter().all(|b| b.output <= total));
        total += n as u64;
        if n == 0 {
            break;
        }
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 39);
    for (i, b) in seen.iter().enumerate() {
        let unit = i as u64 + 1;
        assert_eq!((b.input, b.output, &b.state[..]), (unit * 101, unit * 100_000, &[100][..]));
    }
}

#[test]
fn an_error_comes_after_what_was_decoded_and_is_never_followed_by_an_end() {
    let whole = units(50, 100);
    for (broken, decoded, sentence) in [
        (whole[..50 * 101 - 30].to_vec(), 50 * 100 - 30, "cut short"),
        ([&whole[..40 * 101], &[5, 1, 2, 255, 3, 4]].concat(), 40 * 100 + 2, "a bad byte"),
        ([&whole[..40 * 101], &[5, 1, 2, 254, 3, 4], &whole[..]].concat(), 40 * 100, "panicked"),
    ] {
        let run = Run { threads: 3, memory: 16 << 20, unit_memory: 1 << 20 };
        let (mut reader, _) = run.open("toy", broken.clone(), None);
        let mut out = Vec::new();
        let e = Error::io("reading", reader.read_to_end(&mut out).unwrap_err());
        assert!(e.to_string().contains(sentence), "{e}");
        assert!(out.len() >= decoded * SPREAD, "{} bytes came before", out.len());
        assert!(out == expected(&broken)[..out.len()]);
        for _ in 0..3 {
            assert!(reader.read(&mut [0; 10]).is_err());
        }
        assert_ne!(e.kind(), ErrorKind::Usage);
    }
}

#[test]
fn a_dropped_reader_ends_its_threads() {
    let run = Run { threads: 3, memory: 4 << 20, unit_memory: 0 };
    let (mut reader, _) = run.open("gone", units(400, 250), None);
    assert_eq!(reader.read(&mut [0; 10]).unwrap(), 10);
    drop(reader);
    let alive = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|t| std::fs::read_to_string(t.unwrap().path().join("comm")).ok());
        names.filter(|name| name.starts_with("gone")).count()
    };
    for _ in 0..500 {
        if alive() == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("threads are left");
}

/// Tries everything in the thread that walks the container.
struct Thief(std::path::PathBuf, Arc<std::sync::Mutex<Vec<String>>>);

impl Thief {
    fn strike(&self) {
        let through = ::tests::thief::got_through(::tests::thief::try_everything(&self.0));
        self.1.lock().unwrap().extend(through.iter().map(|attempt| format!("{attempt:?}")));
        self.1.lock().unwrap().push("done".into());
    }
}

impl Split for Thief {
    fn split(&mut self, tape: &mut Tape) -> Result<(), Stop> {
        self.strike();
        Toy { memory: 1 }.split(tape)
    }
}

impl Codec for Thief {
    fn start(&mut self, _: u64, _: u64) -> io::Result<()> {
        self.strike();
        Ok(())
    }

    fn step(&mut self, packed: &[u8], plain: &mut [u8]) -> io::Result<(usize, usize)> {
        let n = packed.len().min(plain.len());
        plain[..n].copy_from_slice(&packed[..n]);
        Ok((n, n))
    }

    fn end(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_thief_in_a_codec_or_a_splitter_reaches_nothing() {
    let offered = guard::confine::offered();
    if !offered.seccomp.in_force {
        eprintln!("skipped: {offered}");
        return;
    }
    let secret = tempfile::NamedTempFile::new().unwrap();
    let got = Arc::new(std::sync::Mutex::new(vec![]));
    let thief = || Thief(secret.path().to_owned(), got.clone());
    let codec = {
        let (path, got) = (secret.path().to_owned(), got.clone());
        move || Thief(path.clone(), got.clone())
    };
    let budget = Budget { threads: 2, memory: 1 << 20, beside: 0 };
    let room = StagedBudget { budget, at_first: 1 << 20 };
    let from = Boundary { input: 0, output: 0, state: Vec::new() };
    let input = Box::new(io::Cursor::new(units(1, 100)));
    let mut opened = open("thief", input, thief(), codec, (room, u64::MAX), &from, None).unwrap();
    let mut out = vec![];
    opened.reader.read_to_end(&mut out).unwrap();
    assert_eq!(out.len(), 100);
    assert_eq!(*got.lock().unwrap(), ["done", "done"], "one for the splitter, one for the codec");
}
