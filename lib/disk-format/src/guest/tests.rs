//! The views of images that are made of extents by hand.

use super::*;
use crate::Limits;
use crate::image::{Pushed, StreamImage};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

const CLUSTER: u64 = 64 << 10;

/// An image with a given map, returned in windows of a given number of extents.
struct Given {
    size: u64,
    extents: Vec<Extent>,
    per_window: usize,
    asked: Arc<AtomicU64>,
}

impl Image for Given {
    fn format(&self) -> Format {
        Format::Qcow2
    }
    fn virtual_size(&self) -> u64 {
        self.size
    }
    fn window(&self, from: u64) -> Result<Window> {
        assert_eq!(from % CLUSTER, 0, "windows begin at clusters");
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut rest = self.extents.iter().filter(|e| e.end() > from);
        let extents: Vec<Extent> = rest.by_ref().take(self.per_window).copied().collect();
        Ok(Window { extents, next: rest.next().map(|e| e.guest) })
    }
    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![]
    }
}

fn view(size: u64, extents: Vec<Extent>, per_window: usize, bytes: Vec<u8>) -> (GuestView, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let image = Given { size, extents, per_window, asked: asked.clone() };
    (GuestView::new(Box::new(image), Arc::new(bytes)), asked)
}

fn raw(guest: u64, at: u64) -> Extent {
    Extent { guest, len: CLUSTER, data: Data::Raw { at } }
}

fn zero(guest: u64) -> Extent {
    Extent { guest, len: CLUSTER, data: Data::Zero }
}

#[test]
fn clusters_are_found_wherever_they_lie() {
    // The guest's clusters 0..64, stored in reverse order. Every fifth is a hole.
    let n = 64;
    let mut bytes = vec![0; (n * CLUSTER) as usize];
    let mut expected = vec![0; bytes.len()];
    let mut extents = vec![];
    for i in 0..n {
        if i % 5 == 4 {
            extents.push(zero(i * CLUSTER));
            continue;
        }
        let at = (n - 1 - i) * CLUSTER;
        bytes[at as usize..(at + CLUSTER) as usize].fill(i as u8 + 1);
        expected[(i * CLUSTER) as usize..((i + 1) * CLUSTER) as usize].fill(i as u8 + 1);
        extents.push(raw(i * CLUSTER, at));
    }
    for per_window in [1, 7, 1000] {
        let (view, asked) = view(n * CLUSTER, extents.clone(), per_window, bytes.clone());
        for (at, len) in
            [(0, 10), (CLUSTER - 1, 2), (3 * CLUSTER + 5, 3 * CLUSTER as usize), (n * CLUSTER - 1, 1)]
        {
            let mut out = vec![9; len];
            view.read_exact_at(&mut out, at).unwrap();
            assert_eq!(out, expected[at as usize..at as usize + len], "{at} {per_window}");
        }
        let mut all = vec![9; expected.len()];
        view.read_exact_at(&mut all, 0).unwrap();
        assert!(all == expected);
        if per_window == 1000 {
            assert!(asked.load(Ordering::Relaxed) <= 2, "windows are kept");
        }
    }
}

#[test]
fn the_end_of_the_disk_is_an_end() {
    let (view, _) = view(CLUSTER, vec![zero(0)], 10, vec![]);
    let mut two = [0; 2];
    assert_eq!(view.read_exact_at(&mut two, CLUSTER - 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(view.read_exact_at(&mut two, u64::MAX).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    view.read_exact_at(&mut two, CLUSTER - 2).unwrap();
    view.read_exact_at(&mut [], CLUSTER).unwrap();
}

#[test]
fn an_image_that_leaves_gaps_or_stands_still_is_an_error() {
    let (view, _) = view(4 * CLUSTER, vec![zero(0), zero(3 * CLUSTER)], 10, vec![]);
    let mut one = [0; 1];
    let e = view.read_exact_at(&mut one, CLUSTER).unwrap_err();
    assert!(e.to_string().contains("guest offset 65536"), "{e}");

    struct Still;
    impl Image for Still {
        fn format(&self) -> Format {
            Format::Qcow2
        }
        fn virtual_size(&self) -> u64 {
            1 << 40
        }
        fn window(&self, from: u64) -> Result<Window> {
            Ok(Window { extents: vec![], next: Some(from) })
        }
        fn facts(&self) -> Vec<(&'static str, String)> {
            vec![]
        }
    }
    let view = GuestView::new(Box::new(Still), Arc::new(vec![]));
    assert!(view.read_exact_at(&mut one, 5).is_err());
}

/// The same map, as a stream would return it.
struct GivenStream(Vec<Extent>, u64);

impl StreamImage for GivenStream {
    fn format(&self) -> Format {
        Format::Qcow2
    }
    fn virtual_size(&self) -> Option<u64> {
        Some(self.1)
    }
    fn lookback(&self) -> usize {
        0
    }
    fn push(&mut self, _: u64, piece: &[u8], last: bool) -> Result<Pushed> {
        let inside = |e: &Extent| e.file_range().is_none_or(|r| r.end <= piece.len() as u64);
        let extents = self.0.iter().copied().filter(inside).rev().collect();
        let _ = last;
        Ok(Pushed { extents, spool: vec![], keep_from: piece.len() as u64 })
    }
    fn leftover(&mut self, _: &dyn ReadAt) -> Result<Option<Vec<Extent>>> {
        Ok(None)
    }
}

#[test]
fn a_prefix_shows_what_lies_within_it() {
    let mut bytes = vec![1; CLUSTER as usize];
    bytes.extend(vec![2; CLUSTER as usize]);
    let extents = vec![raw(0, CLUSTER), zero(CLUSTER), raw(2 * CLUSTER, 0), raw(3 * CLUSTER, 2 * CLUSTER)];
    let view = PrefixView::of(&mut GivenStream(extents, 4 * CLUSTER), bytes, false).unwrap();
    assert_eq!(view.size(), 4 * CLUSTER);
    let mut out = vec![9; 2 * CLUSTER as usize + 1];
    view.read_exact_at(&mut out, CLUSTER - 1).unwrap();
    assert_eq!((out[0], out[1], out[out.len() - 1]), (2, 0, 1));
    let e = view.read_exact_at(&mut [0], 3 * CLUSTER).unwrap_err();
    assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_raw_prefix_is_itself() {
    let view = PrefixView::new(Format::Raw, vec![7; 1000], false, Limits::default()).unwrap();
    assert_eq!((view.virtual_size(), view.size()), (None, 1000));
    let whole = PrefixView::new(Format::Raw, vec![7; 1000], true, Limits::default()).unwrap();
    assert_eq!(whole.virtual_size(), Some(1000));
    let mut out = [0; 10];
    whole.read_exact_at(&mut out, 990).unwrap();
    assert_eq!(out, [7; 10]);
}

#[test]
fn compressed_clusters_are_unpacked_once() {
    let plain: Vec<u8> = (0..CLUSTER).map(|i| (i / 100) as u8).collect();
    let mut packer = flate2::write::DeflateEncoder::new(vec![], flate2::Compression::default());
    packer.write_all(&plain).unwrap();
    let packed = packer.finish().unwrap();
    let data = Data::Packed {
        at: 0,
        size: packed.len() as u32,
        codec: crate::Codec::Deflate,
        unpacked: CLUSTER as u32,
    };
    let (view, _) = view(CLUSTER, vec![Extent { guest: 0, len: CLUSTER, data }], 10, packed);
    let mut out = vec![0; 1000];
    view.read_exact_at(&mut out, 500).unwrap();
    assert_eq!(out, plain[500..1500]);
}
