//! kill -9 at a system call of a small import: before and after each write, sync, rename and removal.

use super::{PROGRAM, is_long};
use std::process::Stdio;
use tests::disk::Noise;
use tests::place::Place;
use tests::tracer::{self, Traced};

/// Size of the disk: not a multiple of a cluster, and small, since there is a run for each system call.
const SIZE: u64 = (1 << 20) + 512 * 9;
/// In the short tier, one of so many calls is tested.
const ONE_OF: u64 = 20;

/// Runs the program to its end, or to this system call.
fn traced(place: &Place, args: &[&str], kill_at: Option<u64>) -> Traced {
    let mut command = place.command(args);
    command.stdout(Stdio::null()).stderr(std::fs::File::create(place.path("said")).unwrap());
    let traced = tracer::run(&mut command, kill_at).unwrap();
    let said = String::from_utf8(place.bytes("said")).unwrap();
    assert!(matches!(traced.code, None | Some(0)), "call {kill_at:?}: {traced:?}: {said}");
    traced
}

/// True if the disk is complete; else no target may exist.
fn nothing_or_all(place: &Place, case: &str) -> bool {
    let is_there = place.path("out.img").exists();
    assert!(!is_there || place.same("out.img"), "{case}: a part of a disk");
    is_there
}

fn killed_at_each_call(source: &str, words: &[&str], seed: u64) {
    let place = Place::with_disk(PROGRAM, SIZE, seed);
    place.qcow2("disk.qcow2", "");
    place.shell("split -b 128k --filter='zstd -q -1' disk.raw > disk.raw.zst");
    let args =
        [&["convert", "-q", "--threads", "1", "--journal-every", "1", source, "out.img"], words].concat();
    let whole = traced(&place, &args, None);
    assert!(whole.code == Some(0) && nothing_or_all(&place, source) && whole.calls > 100, "{whole:?}");
    std::fs::remove_file(place.path("out.img")).unwrap();
    let (mut noise, mut killed, mut twice) = (Noise::new(seed), 0, 0);
    for call in 1..=whole.calls {
        if noise.below(ONE_OF) > 0 && !is_long() {
            continue;
        }
        let case = format!("{source} {words:?}, seed {seed}, call {call} of {}", whole.calls);
        killed += u64::from(traced(&place, &args, Some(call)).code.is_none());
        nothing_or_all(&place, &case);
        // The run that goes on may be killed as well.
        if noise.below(2) == 0 {
            twice += u64::from(traced(&place, &args, Some(1 + noise.below(whole.calls))).code.is_none());
            nothing_or_all(&place, &case);
        }
        let ran = place.run(&args);
        assert!(ran.code == 0 && nothing_or_all(&place, &case), "{case}: {} {}", ran.code, ran.err);
        place.nothing_beside("out.img");
        std::fs::remove_file(place.path("out.img")).unwrap();
    }
    println!("{source} {words:?}: {} calls, {killed} runs killed, {twice} once more", whole.calls);
    // The order of threads varies: a run may have fewer calls than the first one.
    assert!(killed > 0);
}

#[test]
fn an_image_with_tables() {
    killed_at_each_call("disk.qcow2", &[], 71);
}

#[test]
fn a_compressed_stream() {
    killed_at_each_call("disk.raw.zst", &["--verify"], 72);
}

#[test]
fn a_disk_whose_blocks_are_reserved_and_that_keeps_no_journal() {
    killed_at_each_call("disk.raw", &["--no-resume", "--preallocate"], 73);
}
