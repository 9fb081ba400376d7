//! All steps as an ordinary user.

use super::{PROGRAM, fetched, free_port, guest, launcher, until};
use std::process::{Command, Stdio};
use tests::coracle::Ran;
use tests::disk::copy_program;
use tests::place::Place;
use tests::serial::{Serial, says};

const USER: &str = "64998";

/// A command of a user without groups who owns this folder.
fn as_user(place: &Place, line: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    command.args(["env", "-u", "XDG_RUNTIME_DIR", "-u", "CORACLE_HOME"]);
    command.arg(format!("HOME={}", place.folder().display())).args(["sh", "-c", line]);
    command.current_dir(place.folder());
    command
}

#[test]
fn an_ordinary_user_needs_no_more_than_the_programs() {
    if !launcher().is_file() || !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may become another user, and virt-launcher must have been built");
        return;
    }
    let place = Place::empty(PROGRAM);
    // The user may not be able to read the folder of the build.
    for file in [PROGRAM.as_ref(), launcher().as_path()] {
        copy_program(file, place.path(file.file_name().unwrap().to_str().unwrap()));
    }
    place.shell(&format!("cp -r {} tiny && chown -R {USER}:{USER} .", guest().display()));
    let command = |line: &str| as_user(&place, &format!("./coracle {line}"));
    let run = |line: &str| Ran::of(command(line).stdin(Stdio::null()).output().unwrap());
    let build =
        "build -q -t tiny:1 --kernel tiny/vmlinux --initrd tiny/initrd --cmdline \"$(cat tiny/cmdline)\"";
    run(build).ok();
    let port = free_port();
    let start = format!("run -d -q tiny:1 --memory 256M --accel emulation --name own -p {port}:80");
    run(&start).ok();
    let names = || String::from_utf8(run("ps -q").ok().out).unwrap();
    assert_eq!(names(), "own\n");
    let said = || String::from_utf8_lossy(&run("logs own").out).into_owned();
    until(|| says(said().as_bytes(), "login:", 1), said);
    until(|| fetched(port).is_some(), || "the port leads nowhere".into());
    // The console without a terminal: input reaches the guest.
    let mut console = Serial::of(command("console own"));
    assert_eq!(console.log_in().runs("id -u"), "0\n");
    console.power_off();
    until(|| names().is_empty(), || format!("{}\n{}", said(), console.text()));
    assert!(said().contains("reboot: Power down"), "{}", said());

    run(&start).ok();
    run("stop own -t 60").ok();
    run("rm own").ok();
    let left = place.shell(&format!(
        "find .local/state/coracle/vms /tmp/coracle-{USER} -mindepth 1 ! -name .home; ps -u {USER} -o stat=,args= | grep -v ^Z || true"
    ));
    let left = String::from_utf8_lossy(&left).into_owned();
    assert!(left.lines().all(|line| line.is_empty()), "left behind: {left}");
}

#[test]
fn a_port_that_only_root_may_have_is_told_by_a_dry_run() {
    let lowest = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    if lowest.trim() != "1024" || !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may become another user, and everybody may have low ports here");
        return;
    }
    let place = Place::empty(PROGRAM);
    copy_program(PROGRAM, place.path("coracle"));
    place.shell(&format!("truncate -s 1M disk.img && chown -R {USER}:{USER} ."));
    let line = "./coracle run disk.img --dry-run -p 80:80";
    Ran::of(as_user(&place, line).output().unwrap()).refused(1, "ports below 1024 are for root");
}
