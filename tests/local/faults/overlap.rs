//! A source below its target: refused before a byte of it is overwritten.

use super::{PROGRAM, done, text};
use std::fs::File;
use tests::coracle::Ran;
use tests::loop_device::Loop;
use tests::place::Place;

const SIZE: u64 = 8 << 20;

#[test]
fn a_source_below_the_device_that_is_written_stays_as_it_is() {
    let place = Place::with_disk(PROGRAM, SIZE, 81);
    place.qcow2("disk.qcow2", "");
    place.shell("truncate -s 16M disk.qcow2");
    let before = place.bytes("disk.qcow2");
    let Some(below) = Loop::over(&place.path("disk.qcow2"), &[]) else { return };
    let Some(above) = Loop::over(&below.0, &[]) else { return };
    for device in [text(&below.0), text(&above.0)] {
        let refusal = "is read: the target lies on";
        place.run(&["convert", "disk.qcow2", device]).refused(3, refusal);
        // The command has the device as an open descriptor alone.
        let mut command = place.command(&["convert", "-", device]);
        command.stdin(File::open(place.path("disk.qcow2")).unwrap());
        Ran::of(command.output().unwrap()).refused(3, refusal);
        assert!(place.bytes("disk.qcow2") == before, "it was written to");
    }
    place
        .run(&["convert", text(&above.0), text(&below.0)])
        .refused(3, "what is to be read lies on the target");
    // Another file of the same file system is accepted.
    place.qcow2("other.qcow2", "");
    place.run(&["convert", "-q", "other.qcow2", text(&above.0)]).ok();
    place.shell(&format!("cmp -n {SIZE} disk.raw {}", above.0.display()));
}

#[test]
fn an_image_below_the_device_that_is_written_stays_as_it_is() {
    let place = Place::with_disk(PROGRAM, SIZE, 82);
    for (name, file) in [("oci-archive:image.tar", "image.tar"), ("oci:layout", "layout/index.json")] {
        place.run(&["build", "-q", "-t", name, "--layer", "none", "disk.raw"]).ok();
        place.shell(&format!("truncate -s %1M {file}"));
        let before = place.bytes(file);
        let Some(device) = Loop::over(&place.path(file), &[]) else { return };
        let ran = place.run(&["convert", name, text(&device.0)]);
        assert_ne!(ran.code, 0, "{name}");
        assert!(place.bytes(file) == before, "{name}: it was written to: {}", ran.err);
    }
}

#[test]
fn a_file_is_not_made_on_the_disk_that_is_read() {
    let place = Place::with_disk(PROGRAM, SIZE, 83);
    let mounted = place.path("mounted");
    std::fs::create_dir(&mounted).unwrap();
    place.shell("truncate -s 32M system.img && mkfs.ext4 -q system.img");
    let (image, at) = (place.path("system.img"), text(&mounted));
    if !done("mount", &["-o", "loop", text(&image), at]) {
        println!("left out: nothing can be mounted here");
        return;
    }
    let ran = place.run(&["convert", "system.img", "mounted/out.img"]);
    let names = std::fs::read_dir(&mounted).unwrap().count();
    let other = place.run(&["convert", "-q", "disk.raw", "mounted/out.img"]);
    let is_right = place.same("mounted/out.img");
    assert!(done("umount", &[at]));
    ran.refused(3, "the target lies on the device or file that is to be read");
    assert_eq!(names, 1, "only lost+found");
    other.ok();
    assert!(is_right);
}

/// A run that begins anew removes the `.partial` first: the only copy of a disk would go with it.
#[test]
fn a_source_that_is_the_partial_file_of_its_target_stays_as_it_is() {
    let place = Place::with_disk(PROGRAM, SIZE, 84);
    place.shell("cp disk.raw out.img.partial");
    let refusal = "where the disk for out.img would be written";
    place.run(&["convert", "out.img.partial", "out.img"]).refused(2, refusal);
    let mut command = place.command(&["convert", "-", "out.img"]);
    command.stdin(File::open(place.path("out.img.partial")).unwrap());
    Ran::of(command.output().unwrap()).refused(2, refusal);
    assert!(place.same("out.img.partial") && !place.path("out.img").exists());
    place.run(&["convert", "-q", "out.img.partial", "other.img"]).ok();
}
