//! The terminal as a console; `script` provides a terminal.

use super::Laptop;
use tests::serial::Serial;

#[test]
fn a_terminal_becomes_the_console_and_ctrl_bracket_leaves_it() {
    let Some(laptop) = Laptop::with_guest() else { return };
    laptop.start("talk", &[]);
    laptop.says("talk", "tiny ready");
    let line = format!("stty -a > before; {} console talk; stty -a > after", super::PROGRAM);
    let mut command = std::process::Command::new("script");
    command.args(["-qefc", &line, "/dev/null"]).current_dir(laptop.place.folder());
    command.env("CORACLE_HOME", laptop.place.path("h")).env("HOME", laptop.place.folder());
    let mut terminal = Serial::of(command);
    terminal.says("Ctrl-] leaves it").log_in();
    // Ctrl-C is sent to the guest. Input during a program that never ends is lost.
    terminal.types("sleep 1000").says("sleep 1000");
    terminal.keys_are(b"\x03");
    terminal.types("echo he\"\"re");
    while !terminal.comes("here") {
        // The shell had not started the program yet.
        terminal.keys_are(b"\x03");
        terminal.types("echo he\"\"re");
    }
    assert_eq!(terminal.runs("echo answer"), "answer\n");
    terminal.keys_are(b"\x1d");
    terminal.says("left; 'coracle console talk' comes back").ends();
    assert!(terminal.succeeded());
    assert_eq!(laptop.place.bytes("before"), laptop.place.bytes("after"), "the terminal is as it was");
    assert_eq!(laptop.status("talk")["state"], "Running");
}

#[test]
fn the_end_of_a_pipe_leaves_the_console_and_the_vm_goes_on() {
    let Some(laptop) = Laptop::with_guest() else { return };
    laptop.start("talk", &[]);
    laptop.says("talk", "tiny ready");
    let mut console = Serial::of(laptop.command(&["console", "talk"]));
    console.log_in().types("echo pi\"\"ped").says("piped");
    console.closes();
    console.ends();
    assert!(console.succeeded());
    // Standard input is empty here.
    let ran = laptop.run(&["console", "talk"]).ok();
    let told = ran.err;
    assert!(told.contains("left at the end of standard input"), "{told}");
    assert_eq!(laptop.status("talk")["state"], "Running");
}

#[test]
fn without_a_terminal_the_output_goes_on_to_the_vms_end() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let args = ["run", "-q", "tiny:1", "--rm", "--memory", "256M", "--accel", "emulation", "--name", "piped"];
    let mut run = Serial::of(laptop.command(&args));
    run.log_in().power_off();
    run.closes();
    assert!(run.ends().contains("Power down"), "{}", run.text());
    assert!(run.succeeded());
    laptop.is_empty();
}
