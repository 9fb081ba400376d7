//! A launcher that is the first process of its pod.

use crate::vm::{Vm, vmi};
use serde_json::json;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::serial::Serial;

/// A pod, as far as processes go: PID 1 is virt-launcher.
const POD: [&str; 4] = ["unshare", "--pid", "--fork", "--mount-proc"];

fn children(pid: u64) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn send(pid: u64, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn is_gone(pid: u64) {
    let began = Instant::now();
    while crate::is_alive(pid) {
        assert!(began.elapsed() < Duration::from_secs(120), "{pid} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_first_process_passes_signals_on_and_reaps_every_child() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may make a namespace of processes");
        return;
    }
    let mut vm = Vm::behind(&POD, None);
    vm.launch();
    vm.boot(&vmi("first"));
    let first = children(u64::from(vm.pid()))[0];
    let all = children(first);
    // The launcher, and QEMU, which has become a child of the first process.
    assert_eq!(all.len(), 2, "{all:?}");

    // The console, as with `kubectl exec`.
    let mut command = Command::new(env!("CARGO_BIN_EXE_virt-launcher"));
    command.args(["console", "--socket"]).arg(vm.socket());
    let mut console = Serial::of(command);
    console.log_in();

    send(first, rustix::process::Signal::TERM);
    let status = vm.wait();
    assert!(status.success(), "{status}: {}", vm.log());
    all.iter().for_each(|pid| is_gone(*pid));
    let last: serde_json::Value =
        serde_json::from_slice(&fs::read(vm.root.join("state.json")).unwrap()).unwrap();
    assert_eq!((&last["life"], &last["reason"]), (&json!("Succeeded"), &json!("Shutdown")), "{last}");
    console.ends();
    assert!(console.succeeded(), "the console ends with its VM");
}

#[test]
fn a_vm_ends_with_the_launcher_of_its_pod() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may make a namespace of processes");
        return;
    }
    let mut vm = Vm::behind(&POD, None);
    vm.launch();
    vm.boot(&vmi("dies"));
    let first = children(u64::from(vm.pid()))[0];
    let all = children(first);
    let has_socket =
        |pid: &&u64| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().starts_with("virt-launcher");
    let launcher = all.iter().find(has_socket).copied().unwrap();
    send(launcher, rustix::process::Signal::KILL);
    assert_eq!(vm.wait().code(), Some(128 + 9), "the container ends as its launcher did");
    all.iter().for_each(|pid| is_gone(*pid));
}
