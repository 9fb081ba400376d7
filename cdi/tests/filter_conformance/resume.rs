//! A stream entered at any of its boundaries gives the same tail, and notices the same faults.

use crate::kit::{AMPLE, Dice, decode_from, layer_of, same, sample, tool};
use cdi::filter::{Boundary, Layer, OnBoundary};
use std::sync::{Arc, Mutex};

fn boundaries(layer: Layer, packed: &[u8], plain: &[u8]) -> Vec<Boundary> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let on: OnBoundary = {
        let seen = seen.clone();
        Arc::new(move |b| seen.lock().unwrap().push(b))
    };
    let (out, result) = decode_from(layer, packed, AMPLE, None, Some(on));
    result.unwrap();
    same(&out, plain);
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[track_caller]
fn every_boundary_gives_the_tail(packed: &[u8], plain: &[u8], at_least: usize) {
    let layer = layer_of(packed);
    let all = boundaries(layer, packed, plain);
    assert!(all.len() >= at_least, "{} boundaries", all.len());
    assert!(all.windows(2).all(|w| w[0].output <= w[1].output && w[0].input < w[1].input));
    for boundary in all {
        let (input, output) = (boundary.input as usize, boundary.output as usize);
        // The boundary goes through the journal.
        let kept = serde_json::to_string(&boundary).unwrap();
        let boundary: Boundary = serde_json::from_str(&kept).unwrap();
        let (out, result) = decode_from(layer, packed, AMPLE, Some(boundary.clone()), None);
        result.unwrap();
        same(&out, &plain[output..]);
        // Cut, it fails here too.
        let cut = &packed[..packed.len() - 1];
        decode_from(layer, cut, AMPLE, Some(boundary.clone()), None).1.unwrap_err();
        // Damaged behind the boundary, it fails or gives the same.
        let mut damaged = packed.to_vec();
        damaged[input + (packed.len() - input) / 2] ^= 4;
        let (out, result) = decode_from(layer, &damaged, AMPLE, Some(boundary), None);
        assert!(result.is_err() || out == plain[output..]);
    }
}

#[test]
fn gzip_members() {
    let plain = sample(1_500_000);
    let packed: Vec<u8> = plain.chunks(100_000).flat_map(|part| tool(&["gzip", "-c"], part)).collect();
    every_boundary_gives_the_tail(&packed, &plain, 14);
}

/// Blocks of all kinds, which begin at any bit; short windows in small members behind a long one.
#[test]
fn gzip_inside_members() {
    let mut plain = sample(22_000_000);
    let mut dice = Dice(3);
    plain.extend((0..5_000_000).map(|_| dice.roll(256) as u8));
    plain.resize(plain.len() + 9_000_000, 0);
    for command in [&["gzip", "-1c"][..], &["gzip", "-9c"], &["pigz", "-p2", "-c"], &["pigz", "-i", "-c"]] {
        let mut packed = tool(command, &plain);
        packed.extend(tool(command, &plain[..70_000]));
        every_boundary_gives_the_tail(&packed, &[&plain[..], &plain[..70_000]].concat(), 4);
    }
}

/// The trailer of a member is compared with all of its bytes, those before the point of entry too.
#[test]
fn a_gzip_member_that_is_entered_is_compared_as_a_whole() {
    let plain = sample(10_000_000);
    let packed = tool(&["gzip", "-6nc"], &plain);
    let boundary = boundaries(Layer::Gzip, &packed, &plain).remove(0);
    assert!(boundary.state.len() > 32 << 10, "{} bytes of notes", boundary.state.len());
    let entered = |change: &dyn Fn(&mut Boundary)| {
        let mut changed = boundary.clone();
        change(&mut changed);
        decode_from(Layer::Gzip, &packed, AMPLE, Some(changed), None)
    };
    let (out, result) = entered(&|_| {});
    result.unwrap();
    same(&out, &plain[boundary.output as usize..]);
    // The sum of the bytes before, their number, and the bytes that later ones are copied from.
    for (at, says) in [(2, "a member's CRC-32 is"), (6, "its trailer says")] {
        let e = entered(&|b| b.state[at] ^= 1).1.unwrap_err();
        assert!(e.to_string().contains(says), "byte {at}: {e}");
    }
    let e = entered(&|b| b.state[14..].iter_mut().for_each(|byte| *byte ^= 0x80)).1.unwrap_err();
    assert!(e.to_string().contains("a member's CRC-32 is"), "{e}");
    // Another place in the file, or in its first byte.
    for change in [|b: &mut Boundary| b.input -= 1, |b: &mut Boundary| b.state[1] = (b.state[1] + 1) % 8] {
        entered(&change).1.unwrap_err();
    }
    // Fewer bytes to copy from than there are references to.
    entered(&|b| b.state.truncate(14)).1.unwrap_err();
    for change in [|b: &mut Boundary| b.state[0] = 2, |b: &mut Boundary| b.state.truncate(9)] {
        let e = entered(&change).1.unwrap_err();
        assert!(e.to_string().contains("notes for entering at offset"), "{e}");
    }
}

#[test]
fn zstd_frames() {
    let plain = sample(3_000_000);
    let mut packed = Vec::new();
    for part in plain.chunks(250_000) {
        packed.extend(b"\x51\x2a\x4d\x18\x01\0\0\0x");
        packed.extend(tool(&["zstd", "-qc", "--check"], part));
    }
    every_boundary_gives_the_tail(&packed, &plain, 11);
}

#[test]
fn xz_blocks_and_streams() {
    let plain = sample(3_000_000);
    let stream =
        |range: std::ops::Range<usize>, args: &[&str]| tool(&[&["xz", "-0c"], args].concat(), &plain[range]);
    let stated = stream(0..1_200_000, &["-T2", "--block-size=100000"]);
    let unstated = stream(1_200_000..2_000_000, &["-T1", "--block-size=90000", "--check=sha256"]);
    let single = stream(2_000_000..3_000_000, &["--check=crc32"]);
    every_boundary_gives_the_tail(&[&stated[..], &unstated, &[0; 4], &single].concat(), &plain, 20);
}

/// Entered behind the first blocks, the index must still agree: with the blocks seen now, and in sum with those before.
#[test]
fn an_xz_index_is_still_checked() {
    let plain = sample(500_000);
    let packed = tool(&["xz", "-0c", "-T2", "--block-size=100000"], &plain);
    let boundary = boundaries(Layer::Xz, &packed, &plain).remove(2);
    // The footer tells how long the index is.
    let footer = packed.len() - 12;
    let size = (u32::from_le_bytes(packed[footer + 4..footer + 8].try_into().unwrap()) as usize + 1) * 4;
    let index = footer - size;
    // The first byte, a zero, tells it from a block.
    for at in index + 1..footer - 4 {
        let mut damaged = packed.clone();
        damaged[at] ^= 1;
        // The CRC agrees with the damage: only the comparison can find it.
        let crc = crc32fast::hash(&damaged[index..footer - 4]);
        damaged[footer - 4..footer].copy_from_slice(&crc.to_le_bytes());
        for from in [None, Some(boundary.clone())] {
            let (_, result) = decode_from(Layer::Xz, &damaged, AMPLE, from.clone(), None);
            let e = result.expect_err("a wrong index was accepted");
            assert!(e.to_string().contains("index") || e.to_string().contains("zero byte"), "{from:?}: {e}");
        }
    }
}

#[test]
fn notes_that_cannot_be_read_are_refused() {
    let plain = sample(500_000);
    let packed = tool(&["xz", "-0c", "-T2", "--block-size=100000"], &plain);
    let boundary = boundaries(Layer::Xz, &packed, &plain).remove(0);
    for at in 0..14 {
        let mut wrong = boundary.clone();
        wrong.state[at] ^= 1;
        let (_, result) = decode_from(Layer::Xz, &packed, AMPLE, Some(wrong), None);
        assert!(result.is_err(), "byte {at} of the notes");
    }
    let mut short = boundary.clone();
    short.state.pop();
    decode_from(Layer::Xz, &packed, AMPLE, Some(short), None).1.unwrap_err();
    let mut other = boundary;
    other.state[13] += 1;
    let e = decode_from(Layer::Xz, &packed, AMPLE, Some(other), None).1.unwrap_err();
    assert!(e.to_string().contains("the index tells of 5 blocks, there were 6"), "{e}");
    let middle = Boundary { input: 512, output: 0, state: Vec::new() };
    decode_from(Layer::Tar, &packed, AMPLE, Some(middle), None).1.unwrap_err();
}
