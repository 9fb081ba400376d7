//! Targets that cannot be written, or not completely.

use crate::place::{Place, TIME};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tests::disk::same;
use tests::measure::measure;

/// A small file system, unmounted on drop; `None` with a printed reason if the host has none.
struct Small(PathBuf);

impl Small {
    fn new(place: &Place, options: &str) -> Option<Small> {
        let at = place.path("small");
        std::fs::create_dir(&at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Small(at)),
            why => {
                println!("skipped: nothing can be mounted here: {why:?}");
                None
            }
        }
    }

    fn remount(&self, options: &str) {
        let status = Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.0).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_says_so_and_goes_on_when_there_is_room() {
    let place = Place::new(62);
    place.shell("head -c 12M /dev/urandom > disk.raw");
    place.qcow2("disk.qcow2", "");
    let Some(small) = Small::new(&place, "size=4m") else { return };
    let run = |args: &[&str]| {
        let mut command = place.command(args);
        measure(&mut command, TIME).ran
    };
    // With several threads the disk may be full before its beginning is written, and then nothing can be
    // resumed.
    let ran = run(&["convert", "-q", "--threads", "1", "disk.qcow2", "small/out.img"]).refused(1, "full");
    assert!(ran.err.contains("small/out.img.partial") && ran.err.contains("make room"), "{}", ran.err);
    assert!(!place.path("small/out.img").exists());
    small.remount("size=32m");
    let ran = run(&["convert", "--json", "disk.qcow2", "small/out.img"]).ok();
    assert!(ran.json()["resumed_at"].is_u64(), "{}", ran.json());
    assert!(same(&place.path("disk.raw"), &place.path("small/out.img")));
    assert_eq!(std::fs::read_dir(place.path("small")).unwrap().count(), 1);
    small.remount("size=16m");
    run(&["convert", "-q", "--preallocate", "disk.raw", "small/more.img"]).refused(1, "free");
    assert_eq!(std::fs::read_dir(place.path("small")).unwrap().count(), 1);
    small.remount("ro");
    let ran = run(&["convert", "-q", "disk.qcow2", "small/new.img"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("small"), "{}", ran.err);
    run(&["convert", "-q", "disk.qcow2", "small/out.img"]).refused(1, "small");
}

#[test]
fn targets_that_may_not_be_replaced() {
    let place = Place::new(63);
    place.qcow2("disk.qcow2", "");
    place.shell(
        "echo mine > real; ln -s real link.img; ln -s nowhere dangling.img; mkdir folder.img; mkfifo pipe.img
         qemu-img create -q -f raw held.img 1M; qemu-img create -q -f qcow2 held.qcow2 1M; echo > locked.img",
    );
    let run = |target: &str| place.run(&["convert", "-q", "disk.raw", target]);
    for (target, said) in [
        ("link.img", "symbolic link"),
        ("dangling.img", "symbolic link"),
        ("folder.img", "folder"),
        ("pipe.img", "pipe"),
    ] {
        run(target).refused(3, said);
        assert!(!place.path(&format!("{target}.partial")).exists(), "{target}");
    }
    assert_eq!(place.shell("cat real"), b"mine\n");
    run("/dev/null").refused(3, "device");

    for file in ["held.img", "held.qcow2"] {
        let format = if file.ends_with("img") { "raw" } else { "qcow2" };
        let mut qemu = Command::new("qemu-io");
        let qemu = qemu.args(["-f", format, file]).current_dir(place.folder());
        let mut qemu = qemu.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        qemu.stdin.as_mut().unwrap().write_all(b"write -P 1 0 512\n").unwrap();
        qemu.stdout.as_mut().unwrap().read_exact(&mut [0; 20]).unwrap();
        let ran = run(file).refused(1, "in use");
        assert!(!place.path(&format!("{file}.partial")).exists(), "{}", ran.err);
        // Nor may it be read while it is written.
        place.run(&["convert", "-q", file, "out.img"]).refused(1, "QEMU");
        drop(qemu.stdin.take());
        qemu.wait().unwrap();
        run(file).ok();
    }
    let mut holder =
        Command::new("flock").arg(place.path("locked.img")).args(["sleep", "30"]).spawn().unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while Command::new("flock")
        .arg("-n")
        .arg(place.path("locked.img"))
        .arg("true")
        .status()
        .unwrap()
        .success()
    {
        assert!(std::time::Instant::now() < until);
    }
    run("locked.img").refused(1, "in use");
    holder.kill().unwrap();
    holder.wait().unwrap();
}
