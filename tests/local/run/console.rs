//! The terminal as a console. `script` gives it a terminal.

use super::{Laptop, until};
use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

#[test]
fn a_terminal_becomes_the_console_and_ctrl_bracket_leaves_it() {
    let Some(laptop) = Laptop::with_guest() else { return };
    laptop.start("talk", &[]);
    laptop.says("talk", "tiny ready");
    let line = format!("stty -a > before; {} console talk; stty -a > after", super::PROGRAM);
    let mut command = std::process::Command::new("script");
    command.args(["-qefc", &line, "/dev/null"]).current_dir(laptop.place.folder());
    command.env("CORACLE_HOME", laptop.place.path("h")).env("HOME", laptop.place.folder());
    let mut terminal = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let (heard, mut screen) = (Arc::clone(&said), terminal.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut buffer) {
            heard.lock().unwrap().extend_from_slice(&buffer[..count]);
        }
    });
    let text = || String::from_utf8_lossy(&said.lock().unwrap()).into_owned();
    let mut keys = terminal.stdin.take().unwrap();
    until(|| text().contains("Ctrl-] leaves it"), text);
    until(|| text().contains("login:"), text);
    keys.write_all(b"root\n").unwrap();
    until(|| text().contains("/root #"), text);
    // Ctrl-C is the guest's.
    keys.write_all(b"sleep 1000\n").unwrap();
    until(|| text().contains("sleep 1000"), text);
    let prompts = || text().matches("/root #").count();
    // The shell may still be about to start it.
    for _ in 0..240 {
        if prompts() > 1 {
            break;
        }
        keys.write_all(b"\x03").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    keys.write_all(b"echo an\"\"swer\n").unwrap();
    until(|| text().contains("answer"), text);
    keys.write_all(b"\x1d").unwrap();
    until(|| text().contains("left; 'coracle console talk' comes back"), text);
    drop(keys);
    assert!(terminal.wait().unwrap().success());
    reader.join().unwrap();
    assert_eq!(laptop.place.bytes("before"), laptop.place.bytes("after"), "the terminal is as it was");
    assert_eq!(laptop.status("talk")["state"], "Running");
}

#[test]
fn without_a_terminal_the_output_goes_on_to_the_machines_end() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let args = ["run", "-q", "tiny:1", "--rm", "--memory", "256M", "--accel", "emulation", "--name", "piped"];
    let mut run = laptop.command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut keys = run.stdin.take().unwrap();
    laptop_says_login(&laptop);
    keys.write_all(b"root\n").unwrap();
    until(|| laptop.log("piped").contains("/root #"), || laptop.log("piped"));
    keys.write_all(b"poweroff\n").unwrap();
    drop(keys);
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    assert!(String::from_utf8_lossy(&output.stdout).contains("tiny ready"));
    laptop.is_empty();
}

fn laptop_says_login(laptop: &Laptop) {
    until(|| laptop.names(&[]) == ["piped"], || "it never ran".into());
    laptop.says("piped", "login:");
}
