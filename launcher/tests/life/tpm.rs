//! The TPM: what a Linux guest sees of it, and what outlives the VM.

use crate::vm::{Vm, ended, vmi};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use tests::serial::Serial;

/// The small guest as EFI starts it: where BIOS does, an initrd and a TPM exclude each other.
fn kernel() -> Value {
    let mut kernel = crate::vm::tiny();
    let vmlinuz = Path::new(kernel["kernel"].as_str().unwrap()).with_file_name("vmlinuz");
    kernel["kernel"] = json!(vmlinuz);
    kernel
}

fn with_tpm(name: &str, persistent: bool) -> Value {
    let mut vmi = vmi(name);
    vmi["spec"]["domain"]["memory"]["guest"] = json!("256Mi");
    vmi["spec"]["domain"]["firmware"]["bootloader"] = json!({"efi": {"secureBoot": false}});
    vmi["spec"]["domain"]["devices"]["tpm"] = json!({"persistent": persistent});
    vmi
}

/// Where the state of a VM is kept beside its disk.
fn beside(vm: &Vm) -> Value {
    let folder = vm.place.path().join("disk.state");
    json!({"variables": folder.join("efi-vars.fd"), "tpm": folder.join("tpm2")})
}

/// Waits for the guest, and logs in to it.
fn guest(vm: &Vm) -> Serial {
    vm.until_runs();
    vm.until_log("tiny login:");
    let mut console = vm.console();
    console.log_in();
    console
}

#[test]
fn a_guest_has_a_tpm_which_begins_anew_unless_it_is_persistent() {
    for (persistent, driver) in [(true, "tpm_crb"), (false, "tpm_tis")] {
        let vmi = with_tpm("sealed", persistent);
        let mut vm = Vm::new();
        vm.launch();
        let state = beside(&vm);
        let resolved = json!({"accelerator": "emulation", "kernel": kernel(), "state": state});
        vm.put_resolved(&vmi, &resolved);
        let mut console = guest(&vm);
        let seen = console
            .runs("cat /sys/class/tpm/tpm0/tpm_version_major; readlink /sys/class/tpm/tpm0/device/driver");
        assert!(seen.starts_with("2\n") && seen.contains(driver), "{seen}");
        let first = console.tpm_key();
        vm.request(&json!({"request": "destroy"}));
        vm.until("an end", ended);
        let kept = Path::new(state["tpm"].as_str().unwrap()).join("tpm2-00.permall");
        assert_eq!(kept.exists(), persistent, "{}", kept.display());

        vm.request(&json!({"request": "start"}));
        vm.until_logged("tiny login:", 2);
        let second = vm.console_taken().log_in().tpm_key();
        assert_eq!(first == second, persistent, "persistent: {persistent}");
        vm.end();
    }
}

/// Beside the disk, and not with the VM: another VM, of another uuid, goes on with it.
#[test]
fn another_vm_goes_on_with_the_tpm_beside_the_disk() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let state = json!({"variables": place.path().join("vars.fd"), "tpm": place.path().join("tpm2")});
    let mut keys = Vec::new();
    for (name, uuid) in
        [("one", "5d307ca9-b3ef-428c-8861-06e72d69f223"), ("two", "00000000-b3ef-428c-8861-06e72d69f223")]
    {
        let mut vmi = with_tpm(name, true);
        vmi["spec"]["domain"]["firmware"]["uuid"] = json!(uuid);
        let mut vm = Vm::new();
        vm.launch();
        vm.put_resolved(&vmi, &json!({"accelerator": "emulation", "kernel": kernel(), "state": state}));
        keys.push(guest(&vm).tpm_key());
        vm.end();
    }
    assert_eq!(keys[0], keys[1]);
}

/// As in a pod: no right of root is needed, and swtpm ends with its VM.
#[test]
fn an_ordinary_user_has_a_tpm() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may become another user");
        return;
    }
    let mut vm = Vm::of_another_user("64999");
    vm.launch();
    let mut kernel = kernel();
    for file in ["kernel", "initrd"] {
        let to = vm.place.path().join(file);
        fs::copy(kernel[file].as_str().unwrap(), &to).unwrap();
        kernel[file] = json!(to);
    }
    vm.put_resolved(&with_tpm("user", false), &json!({"accelerator": "emulation", "kernel": kernel}));
    guest(&vm).tpm_key();
    let root = vm.root.to_str().unwrap().to_owned();
    let swtpm = processes("swtpm", &root);
    assert_eq!(swtpm.len(), 1, "{swtpm:?}");
    let status = fs::read_to_string(format!("/proc/{}/status", swtpm[0])).unwrap();
    let uid = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    assert!(uid.contains("64999"), "{uid}");
    vm.end();
    let left = || processes("swtpm", &root);
    for _ in 0..600 {
        if left().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("swtpm is still there: {:?}", left());
}

/// The processes of a program of which an argument has this text.
fn processes(program: &str, argument: &str) -> Vec<u32> {
    let found =
        Command::new("pgrep").args(["-f", &format!("^[^ ]*{program} .*{argument}")]).output().unwrap();
    String::from_utf8_lossy(&found.stdout).split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
