//! A source that a program has locked by `flock`: one that has started the run, one that has ended, and another one.

use super::PROGRAM;
use std::fs::File;
use std::process::Command;
use std::time::Duration;
use tests::coracle;
use tests::place::Place;

const SIZE: u64 = 8 << 20;

#[test]
fn a_lock_of_an_ancestor_or_of_a_program_that_has_ended_is_not_in_the_way() {
    let place = Place::with_disk(PROGRAM, SIZE, 91);
    let convert = format!("{PROGRAM} convert -q disk.raw");
    for (name, line) in [
        ("child.img", format!("flock --exclusive disk.raw {convert} child.img")),
        // A shell with more to do does not become the program that it starts.
        ("deep.img", format!("flock disk.raw sh -c 'sh -c \"{convert} deep.img; exit \\$?\"; exit $?'")),
        ("left.img", format!("exec 9<disk.raw; flock 9; {convert} left.img")),
    ] {
        let line = format!("command -v flock > /dev/null || exit 100; {line}");
        let ran = coracle::command("bash", place.folder(), &["-c", &line]).output().unwrap();
        if ran.status.code() == Some(100) {
            return println!("left out: no program flock");
        }
        coracle::Ran::of(ran).ok();
        place.is_the_disk(name);
    }
}

#[test]
fn a_lock_of_another_program_that_lives_is_in_the_way() {
    let place = Place::with_disk(PROGRAM, SIZE, 92);
    let disk = place.path("disk.raw");
    let program =
        Command::new("flock").args(["--exclusive", "--no-fork"]).arg(&disk).args(["sleep", "60"]).spawn();
    let Ok(mut program) = program else { return println!("left out: no program flock") };
    let here = File::open(&disk).unwrap();
    while here.try_lock().is_ok() {
        here.unlock().unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let locked = format!("another program (process {}) has locked it", program.id());
    let ran = place.run(&["convert", "-q", "disk.raw", "out.img"]);
    program.kill().unwrap();
    program.wait().unwrap();
    ran.refused(1, &locked);
    assert!(!place.path("out.img").exists());
    place.run(&["convert", "-q", "disk.raw", "out.img"]).ok();
}
