//! Invariants for the inspection of any disk: the cost is bounded and counted, and text is safe to print.

use crate::sparse;
use disk_format::inspect::{BYTES, READS, inspect, inspect_partial};
use disk_format::{DiskFacts, ReadAt};
use std::sync::atomic::{AtomicU64, Ordering};

/// Two bytes: how much of the disk can be read. Then a sparse file.
pub(crate) fn disk(input: &[u8]) {
    let Some((&front, input)) = input.split_first_chunk::<2>() else { return };
    let mut disk = sparse::expand(input);
    let size = disk.len() as u64;
    held(&disk, |disk| inspect(disk));
    disk.truncate(usize::from(u16::from_be_bytes(front)) * 128);
    held(&disk, |disk| inspect_partial(disk, Some(size)));
    held(&disk, |disk| inspect_partial(disk, None));
}

fn held(disk: &[u8], read_facts: impl Fn(&dyn ReadAt) -> DiskFacts) {
    let counted = Counted { disk, reads: AtomicU64::new(0), bytes: AtomicU64::new(0) };
    let found = read_facts(&counted);
    let cost = (counted.reads.into_inner(), counted.bytes.into_inner());
    assert!(
        (found.reads, found.bytes) == cost,
        "{cost:?} is the true cost, not {:?}",
        (found.reads, found.bytes)
    );
    assert!(cost.0 <= READS && cost.1 <= BYTES, "{cost:?}");
    let text = format!("{found:?}");
    assert!(harmless(&text), "{text}");
}

/// `Debug` writes what steers a terminal as an escape; so it does with marks that only combine.
fn harmless(text: &str) -> bool {
    let text = text.replace("\\\\", "");
    let steers = ["\\0", "\\r", "\\n", "\\t"].iter().any(|escape| text.contains(escape));
    let code = |escape: &str| u32::from_str_radix(escape.split('}').next()?, 16).ok();
    let turns = |code: u32| matches!(code, 0..=0x1f | 0x7f..=0x9f | 0x200e..=0x200f | 0x202a..=0x202e | 0x2066..=0x2069);
    !steers && !text.split("\\u{").skip(1).any(|escape| code(escape).is_none_or(turns))
}

/// A disk that counts what is read of it.
struct Counted<'a> {
    disk: &'a [u8],
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl ReadAt for Counted<'_> {
    fn size(&self) -> u64 {
        self.disk.len() as u64
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.disk.read_exact_at(buf, offset)
    }
}
