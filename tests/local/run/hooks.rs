//! Programs that change the domain before a start.

use super::Laptop;

/// An executable file with these lines. A child process writes it: if this process had it open, a concurrent
/// fork could inherit the descriptor, and the file could not be executed.
fn hook(laptop: &Laptop, name: &str, lines: &str) -> String {
    laptop.place.shell(&format!("cat >{name} <<'END'\n#!/bin/sh\n{lines}\nEND\nchmod 755 {name}"));
    laptop.place.path(name).display().to_string()
}

const BOARD: &str = r#"printf '%s\n' "$4" | sed "s|</sysinfo>|<baseBoard><entry name='manufacturer'>Radical</entry></baseBoard></sysinfo>|""#;
const PRODUCT: &str = r#"printf '%s\n' "$4" | sed "s|<entry name='manufacturer'>Radical<|&/entry><entry name='product'>Board<|""#;

#[test]
fn hooks_change_the_domain_at_each_start_one_after_the_other() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let (board, product) = (hook(&laptop, "board.sh", BOARD), hook(&laptop, "product.sh", PRODUCT));
    laptop.start("hooked", &["--hook", &board, "--hook", &product]);
    let told = || {
        let process = laptop.status("hooked")["qemu_pid"].to_string();
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap();
        String::from_utf8_lossy(&line).replace('\0', " ")
    };
    assert!(told().contains("type=2,manufacturer=Radical,product=Board"), "{}", told());
    laptop.run(&["stop", "hooked", "-t", "0"]).ok();
    laptop.run(&["restart", "hooked"]).ok();
    assert!(told().contains("type=2,manufacturer=Radical,product=Board"), "{}", told());
    laptop.run(&["rm", "-f", "hooked"]).ok();
    laptop.is_empty();
}

#[test]
fn a_hook_that_fails_keeps_the_vm_from_starting_and_is_told_with_its_words() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let run = |hook: &str| {
        let args = ["run", "-d", "-q", "tiny:1", "--memory", "256M", "--accel", "emulation", "--name", "no"];
        laptop.run(&[&args[..], &["--hook", hook]].concat())
    };
    run(&hook(&laptop, "bad.sh", "echo no such board >&2; exit 3"))
        .refused(1, "exit status: 3: no such board");
    let other = r#"printf '%s\n' "$4" | sed "s|<name>default_no|<name>other|""#;
    run(&hook(&laptop, "other.sh", other)).refused(3, "changed the name of the domain");
    // The error quotes libvirt.
    let nonsense = r#"printf '%s\n' "$4" | sed "s|<domain type='[a-z]*'|<domain type='nothing'|""#;
    run(&hook(&laptop, "nonsense.sh", nonsense)).refused(1, "could not start");
    let plain = laptop.place.path("plain.txt");
    std::fs::write(&plain, "").unwrap();
    run(&plain.display().to_string()).refused(1, "cannot be run");
    laptop.is_empty();
}
