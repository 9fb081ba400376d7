//! A guest that runs from an unfinished file: no run takes the file or its name away.

use super::PROGRAM;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
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
