//! Layers in layers.

use crate::kit::{AMPLE, Awkward, Folder, guarded, same, sample, tool};
use cdi::filter::progress::{Count, CountingReader};
use cdi::filter::stack::{self, Options, Stack};
use cdi::filter::verify::{Digest, Verify};
use cdi::filter::{Boundary, Budget, Layer, OnBoundary, detect, refused_layer};
use cdi::source::options::Decoded;
use cdi::{Error, ErrorKind};
use std::io::Read;
use std::sync::{Arc, Mutex};

fn options() -> Options {
    Options { budget: AMPLE, limit: 1 << 30, on_boundary: None, decoded: Decoded::default() }
}

fn peel(packed: Vec<u8>, options: Options) -> Result<(Vec<Layer>, Vec<u8>), Error> {
    guarded(move || {
        let input = Box::new(Awkward::new(std::io::Cursor::new(packed), 5003));
        let Stack { layers, needs, mut reader, .. } = stack::stack(input, &options)?;
        assert_eq!(layers.len(), needs.len());
        let head = reader.head().to_vec();
        let mut out = Vec::new();
        reader.read_to_end(&mut out).map_err(|e| Error::io("reading", e))?;
        assert!(out.starts_with(&head));
        Ok((layers, out))
    })
}

fn pack(layer: Layer, plain: &[u8]) -> Vec<u8> {
    match layer {
        Layer::Gzip => tool(&["gzip", "-1c"], plain),
        Layer::Xz => tool(&["xz", "-0c", "-T2", "--block-size=500000"], plain),
        Layer::Zstd => tool(&["zstd", "-qc"], plain),
        Layer::Tar => {
            let folder = Folder::new();
            folder.sparse("disk", plain);
            folder.tar(&["-S", "--format=posix", "disk"])
        }
    }
}

#[test]
fn every_pair_of_layers_is_peeled() {
    use Layer::{Gzip, Tar, Xz, Zstd};
    let plain = sample(2_000_000);
    for outer in [Gzip, Xz, Zstd, Tar] {
        for inner in [Gzip, Xz, Zstd, Tar] {
            let (layers, out) = peel(pack(outer, &pack(inner, &plain)), options()).unwrap();
            assert_eq!(layers, [outer, inner]);
            same(&out, &plain);
        }
    }
    let (layers, out) = peel(plain.clone(), options()).unwrap();
    assert_eq!(layers, []);
    same(&out, &plain);
    assert_eq!(peel(Vec::new(), options()).unwrap(), (vec![], vec![]));
}

#[test]
fn four_layers_are_peeled_and_five_are_refused() {
    let plain = sample(100_000);
    let mut packed = plain.clone();
    for _ in 0..4 {
        packed = tool(&["gzip", "-1c"], &packed);
    }
    let (layers, out) = peel(packed.clone(), options()).unwrap();
    assert_eq!(layers, [Layer::Gzip; 4]);
    same(&out, &plain);
    let e = peel(tool(&["gzip", "-1c"], &packed), options()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.to_string().contains("more than 4 layers (gzip, gzip, gzip, gzip)"), "{e}");
}

#[test]
fn a_fault_of_an_outer_layer_ends_the_inner_one() {
    let plain = sample(3_000_000);
    for outer in [Layer::Gzip, Layer::Xz, Layer::Zstd] {
        let mut packed = pack(outer, &pack(Layer::Tar, &plain));
        packed.truncate(packed.len() - 5);
        let e = peel(packed, options()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().starts_with(&format!("{outer}: ")), "{e}");
    }
}

#[test]
fn what_is_known_but_not_read_is_refused_by_name() {
    let plain = sample(100_000);
    let cases = [
        ("bzip2", tool(&["bzip2", "-c"], &plain)),
        ("bzip2", tool(&["bzip2", "-c"], b"")),
        ("lzma", tool(&["xz", "--format=lzma", "-c"], &plain)),
        ("lz4", b"\x04\x22\x4d\x18\x64\x40\xa7".to_vec()),
        ("zip", b"PK\x03\x04\x14\0\0\0".to_vec()),
        ("7z", b"7z\xbc\xaf\x27\x1c\0\x04".to_vec()),
    ];
    for (name, bytes) in cases {
        assert_eq!(detect(&bytes), None);
        assert!(refused_layer(&bytes).unwrap().starts_with(name), "{name}");
        for wrapped in [bytes.clone(), tool(&["gzip", "-c"], &bytes)] {
            let e = peel(wrapped, options()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Refused);
            assert!(e.to_string().starts_with(name), "{e}");
        }
    }
    for disk in [&b"QFI\xfb\0\0\0\x03"[..], &[0; 512], b"", b"BZh9", b"PK", &plain] {
        assert_eq!(refused_layer(disk), None);
        assert_eq!(detect(disk), None);
    }
}

#[test]
fn the_checksum_covers_the_source_to_its_last_byte() {
    let plain = sample(400_000);
    for layer in [Layer::Gzip, Layer::Xz, Layer::Zstd, Layer::Tar] {
        let mut packed = pack(layer, &plain);
        let sum = String::from_utf8(tool(&["sha256sum"], &packed)).unwrap();
        let digest: Digest = sum.split_whitespace().next().unwrap().parse().unwrap();
        let read = |packed: Vec<u8>| {
            let count = Count::default();
            let len = packed.len() as u64;
            let input = CountingReader::new(Verify::new(std::io::Cursor::new(packed), digest), count.clone());
            let mut stack = stack::stack(Box::new(input), &options()).unwrap();
            let result =
                std::io::copy(&mut stack.reader, &mut std::io::sink()).map_err(|e| Error::io("reading", e));
            (result, count.get() == len)
        };
        let (result, all) = read(packed.clone());
        assert_eq!((result.unwrap(), all), (400_000, true));
        // Padding that the layer itself allows is still not what was promised.
        packed.extend([0; 512]);
        if layer == Layer::Zstd {
            packed.truncate(packed.len() - 512);
            packed.extend(b"\x50\x2a\x4d\x18\0\0\0\0");
        }
        let e = read(packed).0.unwrap_err();
        assert!(e.to_string().starts_with("checksum mismatch: sha256 is "), "{layer}: {e}");
    }
}

#[test]
fn boundaries_of_a_single_layer_are_told_and_lead_back_in() {
    let plain = sample(4_000_000);
    for (layer, nested) in [(Layer::Xz, false), (Layer::Xz, true)] {
        let inner = if nested { pack(Layer::Tar, &plain) } else { plain.clone() };
        let packed = pack(layer, &inner);
        let seen: Arc<Mutex<Vec<Boundary>>> = Arc::default();
        let on: OnBoundary = {
            let seen = seen.clone();
            Arc::new(move |b| seen.lock().unwrap().push(b))
        };
        let (_, out) = peel(packed.clone(), Options { on_boundary: Some(on), ..options() }).unwrap();
        same(&out, &plain);
        let seen = seen.lock().unwrap();
        if nested {
            assert_eq!(seen.len(), 0, "the archive inside could not be entered there");
            continue;
        }
        assert_eq!(seen.len(), 7);
        for boundary in seen.iter().cloned() {
            let (input, output) = (boundary.input as usize, boundary.output as usize);
            let input = Box::new(std::io::Cursor::new(packed[input..].to_vec()));
            let mut tail = Vec::new();
            stack::resume(layer, input, &options(), boundary.clone())
                .unwrap()
                .read_to_end(&mut tail)
                .unwrap();
            same(&tail, &plain[output..]);
            // The limit counts from the disk's first byte.
            let input = Box::new(std::io::Cursor::new(packed[boundary.input as usize..].to_vec()));
            let short = Options { limit: plain.len() as u64 - 1, ..options() };
            let mut reader = stack::resume(layer, input, &short, boundary).unwrap();
            assert!(reader.read_to_end(&mut Vec::new()).is_err());
        }
    }
}

#[test]
fn the_budget_is_for_all_layers_together() {
    let plain = sample(500_000);
    let packed = pack(Layer::Xz, &pack(Layer::Zstd, &plain));
    let budget = |memory| Options { budget: Budget { memory, ..AMPLE }, ..options() };
    let Stack { needs, .. } =
        stack::stack(Box::new(std::io::Cursor::new(packed.clone())), &budget(64 << 20)).unwrap();
    let sum: u64 = needs.iter().map(|need| need.least).sum();
    let (_, out) = peel(packed.clone(), budget(sum)).unwrap();
    same(&out, &plain);
    let e = peel(packed, budget(sum - 1)).unwrap_err();
    let allow = sum.div_ceil(1 << 20);
    assert!(e.to_string().contains(&format!("for its window; allow it with --memory {allow}M")), "{e}");
}
