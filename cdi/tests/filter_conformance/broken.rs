//! Cut short anywhere: an error, never a short success. Damaged anywhere: an error or the same bytes; never a panic, and
//! never a hang.

use crate::kit::{AMPLE, Dice, Folder, decode, layer_of, sample, tool};
use cdi::ErrorKind;

/// Small files with all that a format has to offer, and whether all of their bytes are under a checksum.
fn specimens() -> Vec<(&'static str, Vec<u8>)> {
    let plain = sample(6000);
    let parts =
        |command: &[&str]| plain.chunks(2500).flat_map(|part| tool(command, part)).collect::<Vec<u8>>();
    let mut zstd = parts(&["zstd", "-qc", "--check"]);
    zstd.extend(b"\x53\x2a\x4d\x18\x02\0\0\0ab");
    let mut xz = parts(&["xz", "-0c", "-T2", "--block-size=1000", "--check=sha256"]);
    xz.extend([0; 8]);
    vec![
        ("gzip", tool(&["gzip", "-nc"], &plain)),
        ("gzip members", parts(&["gzip", "-nc"])),
        ("xz", tool(&["xz", "-0c", "--check=crc64"], &plain)),
        ("xz streams", xz),
        ("zstd", tool(&["zstd", "-qc", "--check"], &plain)),
        ("zstd frames", zstd),
    ]
}

#[test]
fn cut_at_every_byte() {
    for (name, packed) in specimens() {
        let layer = layer_of(&packed);
        let (plain, result) = decode(layer, &packed, AMPLE);
        result.unwrap();
        let mut whole = 0;
        for cut in 0..packed.len() {
            let (out, result) = decode(layer, &packed[..cut], AMPLE);
            assert!(plain.starts_with(&out), "{name} cut at {cut}: other bytes");
            match result {
                // Between members, streams and frames a file is whole.
                Ok(()) => whole += 1,
                Err(e) => assert_eq!(e.kind(), ErrorKind::Refused, "{name} cut at {cut}: {e}"),
            }
        }
        // Three parts: two places between them; xz padding makes its two steps whole, a skippable frame one more.
        let most = match name {
            "gzip members" => 2,
            "xz streams" => 4,
            "zstd frames" => 3,
            _ => 0,
        };
        assert_eq!(whole, most, "{name}: places where a part counts as whole");
    }
}

#[test]
fn damaged_at_random() {
    let mut dice = Dice(99);
    for (name, packed) in specimens() {
        let layer = layer_of(&packed);
        let (plain, result) = decode(layer, &packed, AMPLE);
        result.unwrap();
        let mut noticed = 0;
        for round in 0..1500 {
            let mut bytes = packed.clone();
            for _ in 0..=dice.roll(3) {
                let at = dice.roll(bytes.len());
                match dice.roll(5) {
                    0 => bytes[at] = [0, 0xff, 0x80, 0x7f][dice.roll(4)],
                    1 => bytes[at] ^= 1 << dice.roll(8),
                    2 => drop(bytes.remove(at)),
                    3 => bytes.insert(at, dice.roll(256) as u8),
                    _ => bytes.truncate(at.max(8)),
                }
            }
            match decode(layer, &bytes, AMPLE) {
                // A change of unchecked bytes (names and times in a gzip header, skippable frames), or a cut
                // between two parts.
                (out, Ok(())) => {
                    assert!(plain.starts_with(&out), "{name}, round {round}: other bytes, no error")
                }
                (_, Err(e)) => {
                    assert_eq!(e.kind(), ErrorKind::Refused, "{name}, round {round}: {e}");
                    noticed += 1;
                }
            }
        }
        assert!(noticed > 1200, "{name}: only {noticed} of 1500 were noticed");
    }
}

#[test]
fn damaged_archives_never_panic_or_hang() {
    let mut dice = Dice(7);
    let folder = Folder::new();
    let mut data = sample(9000);
    data[3000..8500].fill(0);
    data.resize(40_000, 0);
    folder.sparse("disk.img", &data);
    for args in [&["--format=gnu"][..], &["--format=pax", "--sparse-version=0.1"], &["--format=pax"]] {
        let packed = folder.tar(&[args, &["-S", "disk.img"]].concat());
        for _ in 0..1500 {
            let mut bytes = packed.clone();
            for _ in 0..=dice.roll(3) {
                let at = dice.roll(2048);
                bytes[at] = *b"0123456789,\n =\0\x80\xffx".get(dice.roll(20)).unwrap_or(&7);
            }
            // PAX text has no checksum: other sizes may come out, but never without bound.
            let (out, result) = decode(cdi::filter::Layer::Tar, &bytes, AMPLE);
            assert!(out.len() < 10_000_000);
            if let Err(e) = result {
                assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
            }
        }
    }
}
