//! A guest that runs from an unfinished file, or from the bytes of a disk under another name: no run takes the file or its name
//! away, writes to the disk, or reads it while it changes.

use super::{PROGRAM, text};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tests::loop_device::{Loop, Partitions};
use tests::place::Place;

const SIZE: u64 = 8 << 20;

/// A QEMU that has a file open for writing; `None` with a printed reason if there is none here.
struct Guest(Child);

impl Guest {
    fn on(path: &Path) -> Option<Guest> {
        let mut command = Command::new("qemu-io");
        command.args(["-f", "raw"]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guest = match command.spawn() {
            Ok(child) => Guest(child),
            Err(e) => {
                println!("left out: qemu-io: {e}");
                return None;
            }
        };
        // It stays open until the guest is dropped.
        writeln!(guest.0.stdin.as_mut().unwrap(), "write -P 1 0 512").unwrap();
        let mut line = String::new();
        BufReader::new(guest.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("wrote"), "{line}");
        Some(guest)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_partial_that_a_guest_runs_from_keeps_its_name() {
    let place = Place::with_disk(PROGRAM, SIZE, 84);
    place.shell("truncate -s 8M disk.img.partial");
    let partial = place.path("disk.img.partial");
    let before = std::fs::metadata(&partial).unwrap().ino();
    let Some(guest) = Guest::on(&partial) else { return };
    for words in [&[][..], &["--resume"]] {
        let args = [&["convert", "-q", "disk.raw", "disk.img"], words].concat();
        place.run(&args).refused(1, "disk.img.partial is in use: a running QEMU");
    }
    assert_eq!(std::fs::metadata(&partial).unwrap().ino(), before, "the guest's file has lost its name");
    assert!(!place.path("disk.img").exists());
    drop(guest);
    place.run(&["convert", "-q", "disk.raw", "disk.img"]).ok();
    place.shell("cmp disk.raw disk.img");
}

/// What is wrong with the command stays when the guest has ended.
#[test]
fn a_wrong_command_is_told_before_the_use_of_the_disk() {
    let place = Place::with_disk(PROGRAM, SIZE, 88);
    let Some(guest) = Guest::on(&place.path("disk.raw")) else { return };
    for (args, said) in [
        (&["disk.raw", "x.vmdk"][..], "raw and qcow2 are what can be written"),
        (&["disk.raw", "./disk.raw"], "is the source itself"),
        (&["--resize", "1M", "disk.raw", "out.img"], "--resize 1 MiB is smaller than the disk"),
        (&["--path", "a.img", "disk.raw", "out.img"], "leave out --path"),
    ] {
        place.run(&[&["convert", "-q"], args].concat()).refused(2, said);
    }
    place.run(&["convert", "-q", "disk.raw", "out.img"]).refused(1, "a running QEMU writes to disk.raw");
    assert!(!place.path("out.img").exists());
    drop(guest);
}

/// A guest on one name, and a run that writes to the other or reads it, each way round. `own`: a disk beside both.
fn is_refused(place: &Place, name: &Path, guest: &Path, said: &str) -> Option<()> {
    let running = Guest::on(guest)?;
    let said = format!("a running QEMU writes to {}, {said}", guest.display());
    place.run(&["convert", "-q", "disk.raw", text(name)]).refused(1, &said);
    place.run(&["convert", "-q", text(name), "out.img"]).refused(1, &said);
    let mut command = place.command(&["convert", "-q", "-", "out.img"]);
    command.stdin(std::fs::File::open(name).unwrap());
    tests::coracle::Ran::of(command.output().unwrap()).refused(1, &said);
    assert!(!place.path("out.img").exists());
    drop(running);
    Some(())
}

#[test]
fn the_bytes_of_a_guest_are_not_written_or_read_under_the_name_of_a_device_over_its_file() {
    let place = Place::with_disk(PROGRAM, SIZE, 86);
    place.shell("truncate -s 16M back");
    let back = place.path("back");
    let Some(device) = Loop::over(&back, &[]) else { return };
    let Some(above) = Loop::over(&device.0, &[]) else { return };
    for (name, guest, said) in [
        (&device.0, &back, "on which it lies"),
        (&above.0, &back, "on which it lies"),
        (&device.0, &above.0, "which lies on it"),
    ] {
        if is_refused(&place, name, guest, said).is_none() {
            return;
        }
    }
    // A file is not replaced while a device lies over it.
    let Some(guest) = Guest::on(&device.0) else { return };
    place.run(&["convert", "-q", "disk.raw", "back"]).refused(1, "the loop device");
    place.run(&["convert", "-q", "back", "out.img"]).refused(1, "which lies on it");
    drop(guest);
    place.run(&["convert", "-q", "disk.raw", text(&above.0)]).ok();
    place.shell(&format!("cmp -n {SIZE} disk.raw back"));
}

#[test]
fn the_bytes_of_a_guest_are_not_written_or_read_under_the_name_of_its_partition_or_disk() {
    let place = Place::with_disk(PROGRAM, SIZE, 87);
    place.shell("truncate -s 32M back");
    let Some(disk) = Loop::over(&place.path("back"), &[]) else { return };
    let Some(partitions) = Partitions::of(&disk, SIZE) else { return };
    let [one, two] = &partitions.nodes;
    if is_refused(&place, &disk.0, one, "which lies on it").is_none() {
        return;
    }
    is_refused(&place, one, &disk.0, "on which it lies").unwrap();
    // Two partitions of one disk are two disks.
    let guest = Guest::on(one).unwrap();
    place.run(&["convert", "-q", "disk.raw", text(two)]).ok();
    place.run(&["convert", "-q", text(two), "out.img"]).ok();
    place.shell(&format!("cmp -n {SIZE} disk.raw {} && cmp disk.raw out.img", two.display()));
    drop(guest);
    place.run(&["convert", "-q", "disk.raw", text(one)]).ok();
}

#[test]
fn an_archive_does_not_take_the_partial_that_a_guest_runs_from() {
    let place = Place::with_disk(PROGRAM, SIZE, 88);
    place.shell("truncate -s 8M image.tar.partial");
    let partial = place.path("image.tar.partial");
    let before = std::fs::metadata(&partial).unwrap().ino();
    let Some(guest) = Guest::on(&partial) else { return };
    let args = ["build", "-q", "-t", "oci-archive:image.tar", "disk.raw"];
    place.run(&args).refused(1, "image.tar.partial is in use: a running QEMU");
    let now = std::fs::metadata(&partial).unwrap();
    assert_eq!((now.ino(), now.len()), (before, SIZE), "the guest's file has lost its name or bytes");
    drop(guest);
    place.run(&args).ok();
    assert!(!partial.exists());
}

/// A loop device that another program has made of an unfinished file.
#[test]
fn a_partial_with_a_loop_device_keeps_its_name() {
    let place = Place::with_disk(PROGRAM, SIZE, 89);
    for (name, args) in [
        ("disk.img.partial", &["convert", "-q", "disk.raw", "disk.img"][..]),
        ("image.tar.partial", &["build", "-q", "-t", "oci-archive:image.tar", "disk.raw"]),
    ] {
        place.shell(&format!("truncate -s 8M {name}"));
        let Some(device) = Loop::over(&place.path(name), &[]) else { return };
        let said = format!("{name} is in use: the loop device {} is attached", device.0.display());
        place.run(args).refused(1, &said);
        assert!(place.path(name).exists(), "{name}");
        drop(device);
        place.run(args).ok();
    }
}
