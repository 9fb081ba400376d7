//! All encoded data decodes again: by a decoder that checks the window, by zlib-rs and by libdeflate.

mod inflate;

use super::Encoder;
use super::ring::SEGMENT;
use flate2::{Decompress, FlushDecompress, Status};
use inflate::inflate;
use proptest::prelude::*;

fn check(input: &[u8], level: u8) -> usize {
    let mut out = Vec::new();
    // Stored blocks limit the size of any output.
    let limit = input.len() + 5 * (input.len() / 1000 + 2);
    assert!(
        Encoder::new(level).encode(input, limit, &mut out),
        "level {level}: {} bytes do not fit {limit}",
        input.len()
    );
    assert!(inflate(&out).unwrap() == input, "level {level}, {} bytes", input.len());
    let mut zlib = Decompress::new_with_window_bits(false, 12);
    let mut back = vec![0; input.len()];
    assert_eq!(zlib.decompress(&out, &mut back, FlushDecompress::Finish).unwrap(), Status::StreamEnd);
    assert!(
        zlib.total_in() as usize == out.len() && back == input,
        "level {level}: zlib-rs reads another input"
    );
    let n = libdeflater::Decompressor::new().deflate_decompress(&out, &mut back).unwrap();
    assert!(n == input.len() && back == input, "level {level}: libdeflate reads another input");
    out.len()
}

/// A part to append to an input.
#[derive(Debug, Clone)]
enum Piece {
    Bytes(Vec<u8>),
    Run(u8, usize),
    /// A repetition of bytes at this distance.
    Copy(usize, usize),
    Noise(u64, usize),
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Piece::Bytes),
        (any::<u8>(), 0..2000usize).prop_map(|(byte, n)| Piece::Run(byte, n)),
        (1..6000usize, 0..700usize).prop_map(|(back, n)| Piece::Copy(back, n)),
        (4090..4100usize, 3..300usize).prop_map(|(back, n)| Piece::Copy(back, n)),
        (any::<u64>(), 0..5000usize).prop_map(|(seed, n)| Piece::Noise(seed, n)),
    ]
}

fn build(pieces: &[Piece], repeat: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in std::iter::repeat_n(pieces, repeat).flatten() {
        match *piece {
            Piece::Bytes(ref bytes) => out.extend_from_slice(bytes),
            Piece::Run(byte, n) => out.resize(out.len() + n, byte),
            Piece::Copy(back, n) => {
                for _ in 0..n {
                    out.push(out.len().checked_sub(back).map_or(b'c', |i| out[i]));
                }
            }
            Piece::Noise(seed, n) => noise(&mut out, seed, n),
        }
    }
    out
}

fn noise(out: &mut Vec<u8>, seed: u64, n: usize) {
    let mut x = seed | 1;
    for _ in 0..n {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.push((x >> 32) as u8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_input_comes_back(pieces in prop::collection::vec(piece(), 0..30), repeat in 1..4usize, level in 1..=9u8) {
        check(&build(&pieces, repeat), level);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn inputs_of_several_segments_come_back(pieces in prop::collection::vec(piece(), 20..60), level in 1..=9u8) {
        let once = build(&pieces, 1).len().max(1);
        check(&build(&pieces, 5 * SEGMENT / once + 1), level);
    }
}

#[test]
fn inputs_at_the_edges_come_back() {
    for level in 1..=9 {
        for len in (0..20).chain(255..262).chain(4090..4104).chain(SEGMENT - 5..SEGMENT + 5) {
            check(&vec![7; len], level);
            check(&b"abc".iter().copied().cycle().take(len).collect::<Vec<_>>(), level);
        }
    }
}

#[test]
fn a_match_reaches_back_4096_bytes_and_no_farther() {
    let mut word = Vec::new();
    noise(&mut word, 99, 258);
    for (distance, found) in [(4095, true), (4096, true), (4097, false)] {
        let mut input = word.clone();
        noise(&mut input, 1, distance - word.len());
        input.extend_from_slice(&word);
        for level in 1..=9 {
            let len = check(&input, level);
            assert_eq!(
                len < input.len() - 200,
                found,
                "distance {distance}, level {level}: {len} of {}",
                input.len()
            );
        }
    }
}

#[test]
fn the_test_notices_a_window_that_is_too_large() {
    let mut input = Vec::new();
    noise(&mut input, 5, 20_000);
    let again = input.clone();
    input.extend_from_slice(&again);
    let mut packed = vec![0; 50_000];
    let mut wide = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let len = wide.deflate_compress(&input, &mut packed).unwrap();
    assert!(len < 30_000, "libdeflate looked 20,000 bytes back");
    assert!(inflate(&packed[..len]).unwrap_err().contains("distance"));
}

#[test]
fn skewed_frequencies_need_codes_cut_to_15_bits() {
    // Fibonacci numbers give the deepest possible Huffman tree.
    let mut input = Vec::new();
    let (mut a, mut b) = (1, 1);
    for byte in 0..24u8 {
        input.extend(std::iter::repeat_n(byte, a));
        (a, b) = (b, a + b);
    }
    let mut shuffled = Vec::new();
    let mut order = Vec::new();
    noise(&mut order, 3, input.len() * 4);
    let mut keyed: Vec<_> = order.chunks(4).zip(input).collect();
    keyed.sort();
    shuffled.extend(keyed.into_iter().map(|(_, byte)| byte));
    (1..=9).for_each(|level| {
        check(&shuffled, level);
    });
}

#[test]
fn what_does_not_fit_is_said_so() {
    let mut input = Vec::new();
    noise(&mut input, 11, 65_536);
    let mut out = Vec::new();
    let mut encoder = Encoder::new(6);
    assert!(!encoder.encode(&input, 65_535, &mut out));
    let text = b"the same encoder goes on ".repeat(100);
    assert!(encoder.encode(&text, 200, &mut out));
    let exact = out.len();
    assert!(encoder.encode(&text, exact, &mut out));
    assert!(!encoder.encode(&text, exact - 1, &mut out));
}

#[test]
fn noise_within_a_cluster_is_stored_and_the_rest_compressed() {
    let mut input = b"some text that shrinks well, ".repeat(1000);
    noise(&mut input, 17, 30_000);
    input.extend(b"and some more of it. ".repeat(1000));
    let len = check(&input, 6);
    assert!(len < 30_000 + 1000, "{len}");
}

#[test]
fn the_same_input_gives_the_same_output_whatever_came_before() {
    let text = b"0123456789abcdef".repeat(4096);
    let mut other = Vec::new();
    noise(&mut other, 23, 300_000);
    for level in 1..=9 {
        let (mut used, mut fresh) = (Encoder::new(level), Encoder::new(level));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        used.encode(&other, 400_000, &mut a);
        assert!(used.encode(&text, text.len(), &mut a) && fresh.encode(&text, text.len(), &mut b));
        assert!(a == b, "level {level}");
    }
}
