//! A full disk, with room from none at all to a little less than needed, so that each phase of a command
//! meets it.

use super::{PROGRAM, text};
use std::path::Path;
use std::process::{Command, Stdio};
use tests::coracle::Ran;
use tests::full_disk::FullDisk;
use tests::place::Place;
use tests::registry::Registry;

/// Size of the disk: not a multiple of a cluster, nor of the pieces that are copied.
const SIZE: u64 = (9 << 20) + 512 * 7;
const KIB: u64 = 1 << 10;
/// Room of the first attempts: too little to create a file, for the first write, for the first record of a
/// journal.
const SMALL: [u64; 5] = [4 * KIB, 12 * KIB, 32 * KIB, 96 * KIB, 512 * KIB];
/// Runs a command with less and more room, until it succeeds. `is_there` is true if the complete result has
/// its final name; it panics for any other content. After each failure the room is enlarged, and the same
/// command succeeds.
fn with_less_room_than_enough(run: impl Fn(&FullDisk) -> Ran, is_there: impl Fn(&FullDisk) -> bool) {
    let steps = (1..=24).map(|step| step * SIZE / 12);
    let (mut failed, mut enough) = (0, 0);
    for bytes in SMALL.into_iter().chain(steps) {
        let Some(room) = FullDisk::of_bytes(bytes) else { return };
        let ran = run(&room);
        if ran.code == 0 {
            assert!(is_there(&room), "room for {bytes}: exit code 0, and nothing is there");
            enough += 1;
            if enough == 2 {
                break;
            }
            continue;
        }
        failed += 1;
        assert_eq!(ran.code, 1, "room for {bytes}: {}", ran.err);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        // A full store cannot even be opened.
        room.grow();
        assert!(!is_there(&room), "room for {bytes}: it failed, and the result has its name");
        run(&room).ok();
        assert!(is_there(&room), "room for {bytes}: the second run ended well, and nothing is there");
    }
    assert!(failed >= SMALL.len() && enough > 0, "{failed} runs failed, {enough} succeeded");
}

fn place(seed: u64) -> Place {
    let place = Place::with_disk(PROGRAM, SIZE, seed);
    place.qcow2("disk.qcow2", "-c");
    place
}

/// True if a file exists; its content must then be the disk.
fn is_the_disk(place: &Place, path: &Path) -> bool {
    let is_there = path.exists();
    if is_there {
        place.run(&["convert", "-q", text(path), "read-back.img"]).ok();
        place.is_the_disk("read-back.img");
    }
    is_there
}

#[test]
fn a_conversion_without_room_leaves_no_part_of_a_disk() {
    let place = place(61);
    place.shell("zstd -q disk.raw");
    let quick = ["convert", "-q", "--journal-every", "2"];
    for words in [
        &["disk.qcow2"][..],
        &["disk.qcow2", "--preallocate"],
        &["disk.raw.zst", "--verify"],
        &["disk.raw", "-O", "qcow2"],
        &["disk.raw.zst", "-O", "qcow2", "-c", "zstd"],
    ] {
        let target = |room: &FullDisk| room.path().join("out.img");
        with_less_room_than_enough(
            |room| place.run(&[&quick, words, &[text(&target(room))]].concat()),
            |room| is_the_disk(&place, &target(room)),
        );
    }
}

/// Clusters without a known place wait in the temporary folder.
#[test]
fn a_stream_without_room_to_wait_sends_no_wrong_byte_and_ends_well() {
    let place = place(62);
    with_less_room_than_enough(
        |room| {
            let mut command = place.command(&["convert", "-q", "-", "-"]);
            command.env("TMPDIR", room.path());
            let mut cat = Command::new("cat");
            let mut cat = cat.arg(place.path("disk.qcow2")).stdout(Stdio::piped()).spawn().unwrap();
            let ran = Ran::of(command.stdin(cat.stdout.take().unwrap()).output().unwrap());
            cat.wait().unwrap();
            assert!(ran.code != 0 || ran.out == place.bytes("disk.raw"), "exit code 0, and other bytes");
            std::fs::write(place.path("ended"), if ran.code == 0 { "well" } else { "" }).unwrap();
            ran
        },
        |_| place.bytes("ended") == b"well",
    );
}

/// True if the store in this room has the image; its disk and digests must then be right.
fn has_image(place: &Place, room: &FullDisk) -> bool {
    let run = |args: &[&str]| in_store(place, room, args);
    let names = String::from_utf8(run(&["images", "-q"]).ok().out).unwrap();
    let is_there = !names.is_empty();
    if is_there {
        run(&["verify", "-q", "os:1"]).ok();
        run(&["convert", "-q", "os:1", "read-back.img"]).ok();
        place.is_the_disk("read-back.img");
    }
    is_there
}

fn in_store(place: &Place, room: &FullDisk, args: &[&str]) -> Ran {
    Ran::of(place.command(args).env("CORACLE_STORE", room.path().join("store")).output().unwrap())
}

#[test]
fn a_build_without_room_leaves_no_image() {
    let place = place(63);
    for words in [&["--layer", "none", "--format", "raw"][..], &["--layer", "zstd"]] {
        let args = [&["build", "-q", "-t", "os:1", "disk.qcow2"], words].concat();
        with_less_room_than_enough(|room| in_store(&place, room, &args), |room| has_image(&place, room));
    }
}

#[test]
fn a_pull_without_room_leaves_no_image() {
    let (place, registry) = (place(64), Registry::start());
    let image = format!("docker://{}/r:1", registry.address());
    place.run(&["build", "-q", "-t", &image, "--layer", "none", "--format", "raw", "disk.raw"]).ok();
    let args = ["pull", "-q", &image, "os:1"];
    with_less_room_than_enough(|room| in_store(&place, room, &args), |room| has_image(&place, room));
}
