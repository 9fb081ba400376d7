//! Real VMs: libvirt and QEMU from Debian, a Linux guest under emulation, the launcher's own program.

#![allow(clippy::unwrap_used)]

mod agent;
mod daemon;
mod devices;
mod disk_pressure;
mod disks;
mod efi;
mod first;
mod full_disk;
mod kvm;
mod metrics;
mod migration;
mod redirection;
mod tpm;
mod vm;
mod windows;

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use vm::{Vm, ended, vmi};

#[test]
fn a_vm_starts_pauses_and_ends_on_request() {
    let mut vm = Vm::running(&vmi("life"));
    let state = vm.state();
    assert_eq!(state["targets"]["data"], "vda");
    let qemu = state["qemu_pid"].as_u64().unwrap();
    assert!(Path::new(&format!("/proc/{qemu}")).exists());
    let mut console = vm.console();
    console.log_in();
    console.types("echo $((6 * 7))$(uname -s)");
    console.says("42Linux");

    let (status, picture) = vm.ask("GET", "/v1/screenshot", &Value::Null);
    assert_eq!((status, &picture[..8]), (200, &b"\x89PNG\r\n\x1a\n"[..]));
    let (status, refusal) = vm.ask("GET", "/v1/guest/info", &Value::Null);
    assert_eq!(status, 503, "{}", String::from_utf8_lossy(&refusal));

    vm.request(&json!({"request": "pause"}));
    let state = vm.until("a pause", |state| state["life"] == "Paused");
    assert_eq!(state["reason"], "PausedByUser");
    vm.request(&json!({"request": "unpause"}));
    vm.until("it runs", |state| state["life"] == "Running");
    vm.request(&json!({"request": "reset"}));
    vm.request(&json!({"request": "shutdown"}));
    let state = vm.until("an end", ended);
    assert_eq!((&state["life"], &state["reason"]), (&json!("Succeeded"), &json!("Shutdown")), "{state}");
    assert!(!is_alive(qemu));
    let last = console.ends();
    assert!(last.contains("Power down"), "{last}");

    vm.request(&json!({"request": "start"}));
    let state = vm.until("it runs again", |state| state["life"] == "Running");
    let qemu = state["qemu_pid"].as_u64().unwrap();
    vm.until_log("tiny login:");
    vm.end();
    assert!(!is_alive(qemu));
    assert!(!vm.socket().exists());
}

/// `CORACLE_TAKEOVERS=50` repeats it 50 times.
#[test]
fn a_new_launcher_takes_over_the_vm_of_a_killed_one() {
    let times = std::env::var("CORACLE_TAKEOVERS").map_or(4, |times| times.parse().unwrap());
    let mut vm = Vm::running(&vmi("taken"));
    let qemu = vm.state()["qemu_pid"].clone();
    let mut console = vm.console();
    console.log_in();
    // Load, on the vCPU, the disk and the serial console.
    console.types("n=0; while :; do n=$((n+1)); [ $((n % 2000)) = 0 ] && echo at $n; done & ");
    console.types("while :; do dd if=/dev/zero of=/dev/vda bs=64k count=64 2>/dev/null; done &");
    console.says("at 2000");
    for _ in 0..times {
        vm.kill();
        assert!(is_alive(qemu.as_u64().unwrap()), "QEMU went with its launcher");
        vm.launch();
        let state = vm.state();
        assert_eq!((&state["life"], &state["qemu_pid"]), (&json!("Running"), &qemu), "{state}: {}", vm.log());
    }
    let mut console = vm.console();
    console.types("");
    console.types("echo still $((1 + 1)) here");
    console.says("still 2 here");
    vm.request(&json!({"request": "pause"}));
    vm.until("a pause", |state| state["life"] == "Paused");
    vm.request(&json!({"request": "destroy"}));
    let state = vm.until("an end", ended);
    assert_eq!(state["reason"], "Destroyed");
}

#[test]
fn a_panic_of_the_guest_is_reported() {
    let mut vmi = vmi("panics");
    vmi["spec"]["domain"]["devices"]["panicDevices"] = json!([{"model": "isa"}]);
    let vm = Vm::running(&vmi);
    let mut console = vm.console();
    console.log_in();
    console.types("echo c >/proc/sysrq-trigger");
    let state = vm.until("an end", ended);
    assert_eq!((&state["life"], &state["reason"]), (&json!("Failed"), &json!("GuestPanicked")), "{state}");
}

#[test]
fn a_qemu_that_dies_is_reported_and_a_disk_in_use_names_its_vm() {
    let disk = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    disk.as_file().set_len(8 << 20).unwrap();
    let volumes = json!({"data": {"kind": "file", "path": disk.path(), "format": "raw"}});
    let with_claim = |name: &str| {
        let mut vmi = vmi(name);
        vmi["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        vmi
    };
    let mut first = Vm::new();
    first.launch();
    first.put(&with_claim("first"), &volumes);
    let state = first.until("it runs", |state| state["life"] == "Running" || ended(state));
    let qemu = state["qemu_pid"].as_u64().unwrap_or_else(|| panic!("{state}"));

    let mut second = Vm::new();
    second.launch();
    second.put(&with_claim("second"), &volumes);
    let state = second.until("an end", ended);
    assert_eq!((&state["life"], &state["reason"]), (&json!("Failed"), &json!("StartFailed")));
    let message = state["message"].as_str().unwrap();
    assert!(message.contains("'data'") && message.contains("test_first"), "{message}");

    let pid = rustix::process::Pid::from_raw(i32::try_from(qemu).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let state = first.until("an end", ended);
    assert_eq!((&state["life"], &state["reason"]), (&json!("Failed"), &json!("Crashed")), "{state}");
    second.request(&json!({"request": "start"}));
    second.until("it runs", |state| state["life"] == "Running");
}

#[test]
fn a_full_disk_pauses_the_guest_until_there_is_space() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may mount a small file system");
        return;
    }
    // A file system of its own with 24 MiB for the VM, seen by the launcher alone. The ballast is more than the launcher
    // wants to be free before the VM goes on (16 MiB): libvirt and QEMU write on while the VM is paused.
    let script = "mount -t tmpfs -o size=48m none /mnt && head -c 24M /dev/zero >/mnt/ballast && exec \"$@\"";
    let before = ["unshare", "--mount", "sh", "-c", script, "sh"];
    let mut vm = Vm::behind(&before, Some(PathBuf::from("/mnt/r")));
    vm.launch();
    vm.boot(&vmi("full"));
    let mut console = vm.console();
    console.log_in();
    console.types("dd if=/dev/urandom of=/dev/vda bs=1M count=30 && sync && echo all is $((2 + 2)) written");
    let state = vm.until("a pause", |state| state["life"] == "Paused" || ended(state));
    assert_eq!(state["reason"], "PausedIOError", "{state}");
    let message = state["message"].as_str().unwrap();
    assert!(message.contains("'data'") && message.contains("free space"), "{message}");
    fs::remove_file(format!("/proc/{}/root/mnt/ballast", vm.pid())).unwrap();
    vm.until("it goes on", |state| state["life"] == "Running");
    console.says("all is 4 written");
}

#[test]
fn an_ordinary_user_runs_a_vm() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may become another user");
        return;
    }
    // A user without a name.
    let user = "64999";
    let mut vm = Vm::of_another_user(user);
    vm.launch();
    let kernel = vm.tiny_for_all();
    vm.put_resolved(&vmi("user"), &json!({"accelerator": "emulation", "kernel": kernel}));
    let state = vm.until("it runs", |state| state["life"] == "Running" || ended(state));
    assert_eq!(state["life"], "Running", "{state}");
    vm.until_log("tiny login:");
    let qemu = state["qemu_pid"].as_u64().unwrap();
    let status = fs::read_to_string(format!("/proc/{qemu}/status")).unwrap();
    let uid = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    assert!(uid.contains(user), "{uid}");
    vm.end();
}

/// True if it runs: a zombie does not.
fn is_alive(pid: u64) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
    })
}
