//! The ordinary cases, against nginx.

use cdi::source::Source;
use cdi::source::http::Http;
use cdi::source::options::Options;
use std::io::Read;
use tests::nginx::{Nginx, Serve};

/// Bytes that differ everywhere, so that a misplaced piece shows.
fn pattern(len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8) as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    bytes
}

fn read_all(source: &Http, from: u64) -> Vec<u8> {
    let mut bytes = vec![];
    source.stream(from).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_file_is_streamed_and_read_at_any_offset() {
    let nginx = Nginx::start(&Serve::default());
    let disk = pattern(23_456_789);
    let source = Http::open(&nginx.write("disk.img", &disk), &Options::default()).unwrap();
    assert_eq!(source.facts().size, Some(disk.len() as u64));
    assert!(source.facts().seekable && source.facts().remote);
    assert!(source.facts().identity.as_ref().unwrap().proof, "nginx sends a strong ETag");
    assert!(read_all(&source, 0) == disk);
    for from in [1, 262_143, 262_144, 262_145, 10_000_000, disk.len() - 1, disk.len()] {
        assert!(read_all(&source, from as u64) == disk[from..], "from {from}");
    }
    let at = source.read_at().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let (at, disk) = (&at, &disk);
            scope.spawn(move || {
                for i in 0..40 {
                    let offset = (thread * 1_000_003 + i * 577_777) % disk.len();
                    let len = [1, 512, 65_536, 65_537, 300_000, 2_000_000][i % 6].min(disk.len() - offset);
                    let mut buf = vec![0; len];
                    at.read_exact_at(&mut buf, offset as u64).unwrap();
                    assert!(buf == disk[offset..offset + len], "{len} bytes at {offset}");
                }
            });
        }
    });
    assert!(at.read_exact_at(&mut [0; 2], disk.len() as u64 - 1).is_err());
    assert!(at.read_exact_at(&mut [0; 2], u64::MAX).is_err());
}
