//! Killed processes: no VM is lost, and no process or file leaks.

use super::{Laptop, below, launcher, until};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

fn kill(pid: &str) {
    assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
}

fn launcher_of(laptop: &Laptop) -> String {
    let home = laptop.place.path("h").display().to_string();
    let line = format!("pgrep -f 'virt-launcher run --root {home}'");
    String::from_utf8(laptop.place.shell(&line)).unwrap().trim().to_owned()
}

#[test]
fn a_run_that_is_killed_leaves_a_vm_that_ps_shows_and_rm_removes() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let args = ["run", "-q", "tiny:1", "--memory", "256M", "--accel", "emulation", "--name", "left"];
    let mut run = laptop.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(|| laptop.names(&[]) == ["left"], || "it never ran".into());
    until(|| laptop.status("left")["state"] == "Running", || laptop.status("left").to_string());
    run.kill().unwrap();
    run.wait().unwrap();
    laptop.says("left", "tiny ready");
    assert_eq!(laptop.status("left")["state"], "Running");
    laptop.run(&["rm", "-f", "left"]).ok();
    laptop.is_empty();
}

#[test]
fn a_run_that_is_killed_at_any_moment_leaks_nothing() {
    let Some(laptop) = Laptop::with_guest() else { return };
    for pause in [5, 20, 60, 120, 250, 500, 900] {
        let args = ["run", "-d", "-q", "tiny:1", "--memory", "256M", "--accel", "emulation", "--name", "any"];
        let mut run = laptop.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(pause));
        run.kill().unwrap();
        run.wait().unwrap();
        // A child before its exec still holds the locks of the killed process; the next command cleans up.
        let is_swept = || {
            for name in laptop.names(&["-a"]) {
                laptop.run(&["rm", "-f", &name]).ok();
            }
            below(&laptop.place.path("h/state/vms")).is_empty()
        };
        until(is_swept, || format!("left behind: {:?}", below(&laptop.place.path("h/state/vms"))));
        laptop.is_empty();
    }
}

#[test]
fn a_launcher_that_nobody_waits_for_makes_no_folder_again() {
    let Some(laptop) = Laptop::with_guest() else { return };
    std::fs::create_dir(laptop.place.path("slow")).unwrap();
    let program = laptop.place.path("slow/virt-launcher");
    let slow = "#!/bin/sh\n: >\"$0.began\"\nsleep 3\nexec \"$REAL_LAUNCHER\" \"$@\"\n";
    std::fs::write(&program, slow).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let args = ["run", "-d", "-q", "tiny:1", "--memory", "256M", "--accel", "emulation", "--name", "slow"];
    let mut command = laptop.command(&args);
    command.env("REAL_LAUNCHER", launcher()).env("CORACLE_LAUNCHER", &program);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = laptop.place.path("slow/virt-launcher.began");
    until(|| began.exists(), || "no launcher was started".into());
    run.kill().unwrap();
    run.wait().unwrap();
    laptop.run(&["rm", "-f", "slow"]).ok();
    laptop.is_empty();
}

#[test]
fn a_launcher_that_is_killed_loses_no_vm() {
    let Some(laptop) = Laptop::with_guest() else { return };
    laptop.start("kept", &[]);
    laptop.says("kept", "tiny ready");
    let process = laptop.status("kept")["qemu_pid"].clone();
    let first = launcher_of(&laptop);
    kill(&first);
    until(|| laptop.status("kept")["state"] == "Unwatched", || laptop.status("kept").to_string());
    assert_eq!(laptop.names(&[]), ["kept"]);
    let why = laptop.status("kept")["message"].as_str().unwrap_or_default().to_owned();
    assert!(
        why.contains("the virt-launcher that watched it has ended") && why.contains("starts another one"),
        "{why}"
    );
    laptop.run(&["pause", "kept"]).ok();
    laptop.run(&["unpause", "kept"]).ok();
    let status = laptop.status("kept");
    assert_eq!((&status["state"], &status["qemu_pid"]), (&"Running".into(), &process), "{status}");
    assert_ne!(launcher_of(&laptop), first);
    laptop.run(&["rm", "-f", "kept"]).ok();
    laptop.is_empty();
}

#[test]
fn a_vm_without_launcher_and_without_qemu_can_be_removed() {
    let Some(laptop) = Laptop::with_guest() else { return };
    laptop.start("dead", &[]);
    let process = laptop.status("dead")["qemu_pid"].to_string();
    kill(&launcher_of(&laptop));
    kill(&process);
    until(|| laptop.status("dead")["state"] == "Failed", || laptop.status("dead").to_string());
    assert_eq!(laptop.names(&[]), Vec::<String>::new());
    laptop.run(&["rm", "dead"]).ok();
    laptop.is_empty();
}

/// Zombies: the first process of a container may reap children late or never.
#[test]
#[allow(unsafe_code)]
fn a_qemu_that_is_a_zombie_does_not_run() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let args = ["run", "-d", "-q", "tiny:1", "--memory", "256M", "--accel", "emulation", "--name", "dead"];
    let run = laptop.command(&args);
    // A shell that becomes the parent of all orphans, and waits for none of them.
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$@\"; echo started; read _", "sh"]).arg(run.get_program()).args(run.get_args());
    shell.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(laptop.place.folder()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let subreaper = || Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?);
    // SAFETY: between fork and exec only two system calls are made, and no memory is taken.
    unsafe { shell.pre_exec(subreaper) };
    let mut shell = shell.spawn().unwrap();
    let mut told = [0; 13];
    shell.stdout.as_mut().unwrap().read_exact(&mut told).unwrap();
    assert_eq!(told.as_slice(), b"dead\nstarted\n");
    let qemu = laptop.status("dead")["qemu_pid"].clone();
    let process = qemu.to_string();
    let launcher = launcher_of(&laptop);
    let is_zombie =
        |pid: &String| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ");
    kill(&launcher);
    kill(&process);
    until(|| is_zombie(&launcher) && is_zombie(&process), || "they still run".into());
    let status = laptop.status("dead");
    assert!(status["state"] == "Failed" && status["qemu_pid"].is_null(), "{status}");
    assert_eq!(laptop.names(&[]), Vec::<String>::new());
    laptop.run(&["pause", "dead"]).refused(1, "dead does not run");
    laptop.run(&["restart", "dead"]).ok();
    let status = laptop.status("dead");
    assert_eq!(status["state"], "Running");
    assert!(is_zombie(&process) && status["qemu_pid"] != qemu, "{status}");
    // libvirt waits for the monitor of a zombie, and shows a running domain meanwhile.
    let log = std::fs::read_to_string(laptop.place.path("h/state/vms/dead/launcher.log")).unwrap();
    assert!(!log.contains("took over") && log.contains("is a zombie"), "{log}");
    drop(shell.stdin.take());
    shell.wait().unwrap();
    laptop.run(&["rm", "-f", "dead"]).ok();
    laptop.is_empty();
}
