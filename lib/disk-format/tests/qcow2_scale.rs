//! Disks of terabytes that are computed by a rule: time and memory stay small, window by window and as a
//! stream.

use disk_format::{Data, Format, Image, Limits, ReadAt, open, stream};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An allocator that counts, to check the reader's memory limit.
#[allow(unsafe_code, reason = "a global allocator is an unsafe trait; this one only counts and passes on")]
mod counted {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    struct Counted;
    static NOW: AtomicUsize = AtomicUsize::new(0);
    static PEAK: AtomicUsize = AtomicUsize::new(0);

    // SAFETY: every call goes to `System` unchanged.
    unsafe impl GlobalAlloc for Counted {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            PEAK.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
            unsafe { System.alloc(layout) }
        }
        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            NOW.fetch_sub(layout.size(), Relaxed);
            unsafe { System.dealloc(at, layout) }
        }
    }

    #[global_allocator]
    static ALLOCATOR: Counted = Counted;

    /// Peak of the allocated memory while `run` runs, beyond the memory before.
    pub(crate) fn peak(run: impl FnOnce()) -> usize {
        let before = NOW.load(Relaxed);
        PEAK.store(before, Relaxed);
        run();
        PEAK.load(Relaxed) - before
    }
}

/// Lock that permits one measurement at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fill {
    Empty,
    /// Contiguous clusters: one extent for each table.
    InOrder,
    /// Every other cluster is zero, so that no extents merge.
    Combed,
    /// Clusters that are compressed to half of their size.
    Packed,
}

/// A qcow2 file that is computed by a rule: the L1 table, then each L2 table followed by its data.
#[derive(Clone, Copy)]
struct Rule {
    cluster_bits: u32,
    size: u64,
    fill: Fill,
}

impl Rule {
    fn cluster(self) -> u64 {
        1 << self.cluster_bits
    }

    fn entries(self) -> u64 {
        self.cluster() / 8
    }

    fn tables(self) -> u64 {
        self.size.div_ceil(self.cluster() * self.entries())
    }

    fn l1(self) -> u64 {
        2 * self.cluster()
    }

    fn first_table(self) -> u64 {
        self.l1() + (self.tables() * 8).next_multiple_of(self.cluster())
    }

    /// Distance from one L2 table to the next.
    fn stride(self) -> u64 {
        let data = self.entries() * self.cluster();
        self.cluster() + if self.fill == Fill::InOrder { data } else { data / 2 }
    }

    fn file_size(self) -> u64 {
        self.first_table() + if self.fill == Fill::Empty { 0 } else { self.tables() * self.stride() }
    }

    fn l2(self, nth: u64, entry: u64) -> u64 {
        let data = self.first_table() + nth * self.stride() + self.cluster();
        match self.fill {
            Fill::Empty => 0,
            Fill::InOrder => (data + entry * self.cluster()) | 1 << 63,
            Fill::Combed if entry.is_multiple_of(2) => 0,
            Fill::Combed => (data + entry / 2 * self.cluster()) | 1 << 63,
            Fill::Packed => {
                let further = self.cluster() / 2 / 512 - 1;
                (data + entry * self.cluster() / 2) | further << (70 - self.cluster_bits) | 1 << 62
            }
        }
    }

    /// The number in the 8 bytes at a multiple of 8.
    fn word(self, at: u64) -> u64 {
        match at {
            0 => 0x5146_49fb_0000_0003,
            16 => self.cluster_bits.into(),
            24 => self.size,
            32 => self.tables(),
            40 => self.l1(),
            48 => self.cluster(),
            56 => 1 << 32,
            96 => 4 << 32 | 104,
            _ if at < self.l1() => 0,
            _ if at < self.first_table() => {
                let nth = (at - self.l1()) / 8;
                let there = nth < self.tables() && self.fill != Fill::Empty;
                if there { (self.first_table() + nth * self.stride()) | 1 << 63 } else { 0 }
            }
            _ => {
                let at = at - self.first_table();
                let (nth, at) = (at / self.stride(), at % self.stride());
                if at < self.cluster() { self.l2(nth, at / 8) } else { 0 }
            }
        }
    }
}

impl ReadAt for Rule {
    fn size(&self) -> u64 {
        self.file_size()
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        assert!(offset.is_multiple_of(8) && buf.len().is_multiple_of(8));
        for (i, word) in buf.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&self.word(offset + i as u64 * 8).to_be_bytes());
        }
        Ok(())
    }
}

/// Cluster bits, size, and minimum number of windows.
const RULES: [(u32, u64, Fill, usize); 5] = [
    (21, 10 << 40, Fill::InOrder, 5),
    (18, 1 << 40, Fill::Combed, 10),
    (16, 1 << 40, Fill::InOrder, 20),
    (16, 1 << 38, Fill::Combed, 60),
    (16, 1 << 38, Fill::Packed, 60),
];

fn walk(image: &dyn Image) -> (u64, u64, usize) {
    let (mut from, mut extents, mut windows) = (0, 0, 0);
    loop {
        let window = image.window(from).expect("a window");
        extents += window.extents.len() as u64;
        windows += 1;
        match window.next {
            Some(next) => from = next,
            None => return (window.extents.last().map_or(from, |e| e.end()), extents, windows),
        }
    }
}

#[test]
fn empty_terabytes_map_in_milliseconds() {
    let _alone = ALONE.lock();
    for size in [1 << 40, 10 << 40, 64 << 40] {
        let start = Instant::now();
        let peak = counted::peak(|| {
            let image = open(
                Format::Qcow2,
                Arc::new(Rule { cluster_bits: 16, size, fill: Fill::Empty }),
                Limits::default(),
            )
            .unwrap();
            assert_eq!(walk(&*image), (size, 1, 1));
        });
        assert!(start.elapsed() < Duration::from_millis(500), "{size}: {:?}", start.elapsed());
        assert!(peak < 1 << 20, "{size}: {peak}");
    }
}

#[test]
fn full_terabytes_map_in_bounded_memory() {
    let _alone = ALONE.lock();
    for (cluster_bits, size, fill, windows_at_least) in RULES {
        let rule = Rule { cluster_bits, size, fill };
        let limits = Limits::default();
        let start = Instant::now();
        let peak = counted::peak(|| {
            let image = open(Format::Qcow2, Arc::new(rule), limits).unwrap();
            let (end, extents, windows) = walk(&*image);
            assert_eq!(end, size);
            // The last extent of one window and the first of the next may be adjacent.
            let most =
                if fill == Fill::InOrder { rule.tables() + windows as u64 } else { size >> cluster_bits };
            assert!(extents <= most && windows >= windows_at_least, "{extents} extents in {windows} windows");
        });
        println!("{} GiB {fill:?} in {:?}, {} KiB", size >> 30, start.elapsed(), peak >> 10);
        assert!(peak <= limits.table_memory, "{peak} bytes at a time");
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    }
}

/// 10 TiB pass in pieces of one buffer. Data bytes are not updated, since only tables are read.
#[test]
fn terabytes_stream_in_bounded_memory_without_a_spool() {
    let _alone = ALONE.lock();
    for (cluster_bits, size, fill, _) in RULES {
        let rule = Rule { cluster_bits, size, fill };
        let limits = Limits::default();
        let mut buffer = vec![0; 16 << 20];
        let start = Instant::now();
        let (mut told, mut zero, mut spooled) = (0, 0, 0);
        let peak = counted::peak(|| {
            let mut reader = stream(Format::Qcow2, limits).unwrap();
            let mut base = 0;
            while base < rule.file_size() {
                let len = (rule.file_size() - base).min(buffer.len() as u64);
                let piece = &mut buffer[..len as usize];
                piece_of(rule, base, piece);
                let last = base + len == rule.file_size();
                let pushed = reader.push(base, piece, last).unwrap();
                for extent in pushed.extents {
                    told += extent.len;
                    zero += if extent.data == Data::Zero { extent.len } else { 0 };
                }
                spooled += pushed.spool.iter().map(|r| r.end - r.start).sum::<u64>();
                base = pushed.keep_from;
            }
            while let Some(extents) = reader.leftover(&rule).unwrap() {
                told += extents.iter().map(|e| e.len).sum::<u64>();
            }
        });
        println!(
            "{} GiB {fill:?} in {:?}, {} KiB, spooled {spooled}",
            size >> 30,
            start.elapsed(),
            peak >> 10
        );
        assert_eq!((told, zero), (size, if fill == Fill::Combed { size / 2 } else { 0 }));
        // The last sector of compressed data may belong to another cluster, close to a table that is still to
        // come.
        let most = if fill == Fill::Packed { rule.tables() * 65 * 512 } else { 0 };
        assert!(spooled <= most, "{spooled} of at most {most} bytes are spooled");
        assert!(peak <= limits.table_memory, "{peak} bytes at a time");
    }
}

/// Writes only tables into the buffer. The data in it does not matter.
fn piece_of(rule: Rule, base: u64, piece: &mut [u8]) {
    let end = base + piece.len() as u64;
    let mut fill = |from: u64, to: u64| {
        let (from, to) = (from.max(base), to.min(end));
        if from < to {
            let part = &mut piece[(from - base) as usize..(to - base) as usize];
            let skip = (8 - from % 8) % 8;
            assert!(skip == 0, "pieces are cut at words here");
            rule.read_exact_at(part, from).expect("words");
        }
    };
    fill(0, rule.first_table());
    let first = base.saturating_sub(rule.first_table()) / rule.stride();
    for nth in first..rule.tables() {
        let table = rule.first_table() + nth * rule.stride();
        if table >= end {
            break;
        }
        fill(table, table + rule.cluster());
    }
}
