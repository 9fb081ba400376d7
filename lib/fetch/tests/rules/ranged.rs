//! A file in ranges: in order and at any offset, with a [`Ranged`] that breaks where it is told to.

use bytes::Bytes;
use fetch::ordered::{Ordered, Window};
use fetch::{Error, Expect, Part, PartSink, Ranged, ReadAt, Result};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::http::pattern;

/// A file in memory, and what was asked of it.
#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    known: usize,
    breaks_at: Option<u64>,
    only_whole: bool,
    was_refused: AtomicBool,
    parts: Mutex<Vec<Part>>,
}

impl Ranged for File {
    fn name(&self) -> &str {
        "a file"
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn head(&self) -> Bytes {
        Bytes::copy_from_slice(&self.bytes[..self.known])
    }

    async fn transfer<S: PartSink>(&self, part: Part, sink: &mut S) -> Result<()> {
        self.parts.lock().unwrap().push(part.clone());
        if self.only_whole && part.expect != Expect::Anything {
            self.was_refused.store(true, Relaxed);
            return Err(Error::failed("no ranges"));
        }
        for at in part.range.clone().step_by(1000) {
            if self.breaks_at.is_some_and(|breaks| at >= breaks) {
                return Err(Error::failed("broken"));
            }
            let end = (at + 1000).min(part.range.end);
            sink.take(Bytes::copy_from_slice(&self.bytes[at as usize..end as usize]), &mut None).await;
        }
        Ok(())
    }

    fn comes_whole(&self) -> bool {
        self.was_refused.load(Relaxed)
    }
}

/// Three segments of this length at once.
struct Three(u64);

impl Window for Three {
    fn next(&mut self, under_way: usize, _: u64) -> Option<u64> {
        (under_way < self.width()).then_some(self.0)
    }

    fn width(&self) -> usize {
        3
    }

    fn waited(&mut self, _: Duration, _: bool) {}
}

fn ordered(file: &Arc<File>, from: u64) -> Ordered<File, Three> {
    Ordered::new(Arc::clone(file), from, Three(10_000))
}

#[test]
fn a_file_comes_in_order_from_any_byte() {
    let file = Arc::new(File { bytes: pattern(123_456), known: 5_000, ..File::default() });
    for from in [0usize, 1, 4_999, 5_000, 60_000, 123_456] {
        let mut read = vec![];
        ordered(&file, from as u64).read_to_end(&mut read).unwrap();
        assert!(read == file.bytes[from..], "from {from}");
    }
    let parts = file.parts.lock().unwrap();
    assert!(parts.iter().all(|part| part.range.start >= 5_000), "what is here already is not asked for");
    assert_eq!(parts[0].expect, Expect::Probe, "the first shows whether ranges are served");
}

#[test]
fn after_a_failure_nothing_looks_like_the_end() {
    let file = Arc::new(File { bytes: pattern(50_000), breaks_at: Some(25_000), ..File::default() });
    let mut reader = ordered(&file, 0);
    let mut read = vec![];
    let broken = reader.read_to_end(&mut read).unwrap_err();
    assert_eq!(broken.to_string(), "broken");
    assert!(read.len() <= 25_000 && read == file.bytes[..read.len()]);
    for _ in 0..2 {
        let again = reader.read(&mut [0; 10]).unwrap_err();
        assert!(again.to_string().contains("given up after an error"), "{again}");
    }
}

#[test]
fn where_ranges_are_not_served_the_rest_comes_in_one_answer() {
    let file = Arc::new(File { bytes: pattern(50_000), only_whole: true, ..File::default() });
    let mut read = vec![];
    ordered(&file, 20_000).read_to_end(&mut read).unwrap();
    assert!(read == file.bytes[20_000..]);
    let last = file.parts.lock().unwrap().pop().unwrap();
    assert_eq!((last.expect, last.range, last.share), (Expect::Anything, 20_000..50_000, 1));
}

#[test]
fn small_reads_of_many_threads_share_blocks_and_long_ones_pass_by() {
    let file = Arc::new(File { bytes: pattern(1 << 20), ..File::default() });
    let at = ReadAt::new(Arc::clone(&file));
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (at, file) = (&at, &file);
            scope.spawn(move || {
                for offset in (thread * 500..200_000).step_by(2_000) {
                    let mut buf = [0; 500];
                    at.read_exact_at(&mut buf, offset as u64).unwrap();
                    assert!(buf == file.bytes[offset..offset + 500]);
                }
            });
        }
    });
    let small = file.parts.lock().unwrap().len();
    assert!(small <= 4, "{small} fetches of 200 kB");
    let mut long = vec![0; 300_000];
    at.read_exact_at(&mut long, 600_000).unwrap();
    assert!(long == file.bytes[600_000..900_000]);
    let parts = file.parts.lock().unwrap();
    assert_eq!((parts.len(), parts.last().unwrap().range.clone()), (small + 1, 600_000..900_000));
}

#[test]
fn a_fetch_that_fails_leaves_nobody_waiting_and_nothing_behind() {
    let file = Arc::new(File { bytes: pattern(1 << 20), breaks_at: Some(500_000), ..File::default() });
    let at = ReadAt::new(Arc::clone(&file));
    for _ in 0..2 {
        let broken = at.read_exact_at(&mut [0; 100], 600_000).unwrap_err();
        assert_eq!(broken.to_string(), "broken");
    }
    assert_eq!(file.parts.lock().unwrap().len(), 2, "each read asks anew");
    let past = at.read_exact_at(&mut [0; 100], (1 << 20) - 99).unwrap_err();
    assert_eq!(past.kind(), std::io::ErrorKind::UnexpectedEof);
    assert!(at.read_exact_at(&mut [0; 1], u64::MAX).is_err());
}
