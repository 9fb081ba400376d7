//! Wrong bytes before a mark: a resumed run would not write them again, so the journal becomes invalid.

use super::PROGRAM;
use super::held::{has_mark, is_held};
use std::process::Stdio;
use std::time::Duration;
use tests::http::{Behaviour, Server};
use tests::place::Place;

const SIZE: u64 = (12 << 20) + 512 * 9;

/// Kills a run that has a mark, and is not at its end.
fn killed_behind_a_mark(place: &Place, args: &[&str]) {
    let mut command = place.command(args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !has_mark(&place.path("out.img")) {
        assert!(child.try_wait().unwrap().is_none(), "it ended without a mark");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(is_held(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_difference_that_verify_finds_behind_a_resumed_run_is_not_found_for_ever() {
    let place = Place::with_disk(PROGRAM, SIZE, 91);
    place.qcow2("disk.qcow2", "");
    // The run has seconds left when it has a mark, on the busiest machine.
    let slow = Behaviour { rate: Some(512 << 10), ..Behaviour::default() };
    let server = Server::start(place.bytes("disk.qcow2"), slow);
    let url = server.url("/disk.qcow2");
    let args = ["convert", "--json", "--verify", "--journal-every", "2", &url, "out.img"];
    killed_behind_a_mark(&place, &args);
    server.set(Behaviour::default());

    // The first byte of the disk that is not zero lies before any mark.
    let first = place.bytes("disk.raw").iter().position(|&byte| byte != 0).unwrap();
    let spoil = format!("printf '\\0' | dd of=out.img.partial bs=1 seek={first} conv=notrunc status=none");
    place.shell(&format!("{spoil}; sync out.img.partial"));
    place.run(&args).refused(1, "does not read back");
    assert!(!place.path("out.img").exists());
    place.nothing_beside("out.img");
    let ran = place.run(&args).ok();
    assert!(ran.json()["resumed_at"].is_null(), "{}", ran.json());
    place.is_the_disk("out.img");
}

/// The marks of a run that does not compare have no sum of the disk.
#[test]
fn a_run_that_compares_does_not_go_on_with_one_that_did_not() {
    let place = Place::with_disk(PROGRAM, SIZE, 92);
    place.qcow2("disk.qcow2", "");
    let slow = Behaviour { rate: Some(512 << 10), ..Behaviour::default() };
    let server = Server::start(place.bytes("disk.qcow2"), slow);
    let url = server.url("/disk.qcow2");
    let args = ["convert", "--json", "--journal-every", "2", &url, "out.img"];
    killed_behind_a_mark(&place, &args);
    server.set(Behaviour::default());
    let ran = place.run(&[&args[..], &["--verify"]].concat()).ok();
    assert!(ran.json()["resumed_at"].is_null(), "{}", ran.json());
    place.is_the_disk("out.img");
}
