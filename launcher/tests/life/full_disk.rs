//! A VM that is handed over while the disk of its launcher is full, from no room at all to a little less than enough: it waits for
//! room with its reason, and one QEMU runs once there is some.

use crate::vm::{Vm, ended, tiny, vmi};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use tests::full_disk::{FullDisk, PAGE};

/// Pages that are left: for none of the VM's files, for its own file, its seed, its disk, for some of libvirt's and QEMU's.
const SHORT: [u64; 6] = [0, 2, 16, 28, 32, 40];

fn is_long() -> bool {
    std::env::var_os("CORACLE_TEST_TIER").is_some_and(|tier| tier == "all")
}

/// A VM with a disk of its own, and a seed.
fn of_two_files() -> Value {
    let mut vmi = vmi("full");
    let disks = vmi["spec"]["domain"]["devices"]["disks"].as_array_mut().unwrap();
    disks.push(json!({"name": "seed", "disk": {"bus": "virtio"}}));
    let text = "#!/bin/sh\n".repeat(200);
    let volumes = vmi["spec"]["volumes"].as_array_mut().unwrap();
    volumes.push(json!({"name": "seed", "cloudInitNoCloud": {"userData": text}}));
    vmi
}

/// The processes of QEMU whose files lie there.
fn qemus(root: &Path) -> usize {
    let root = root.display().to_string();
    let lines = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let is_qemu = |line: &Vec<u8>| {
        let line = String::from_utf8_lossy(line);
        line.starts_with("/usr/bin/qemu-system") && line.contains(&root)
    };
    lines.filter(is_qemu).count()
}

/// True if a file is absent or whole.
fn is_whole(path: &Path) -> bool {
    fs::read(path).map_or(true, |text| serde_json::from_slice::<Value>(&text).is_ok())
}

/// Starts the VM with so many pages left, and says what it waited for; nothing where that was enough.
fn start_with(pages: u64) -> Option<Option<String>> {
    let disk = FullDisk::of_bytes(256 << 20)?;
    let mut vm = Vm::behind(&[], Some(disk.path().join("r")));
    vm.launch();
    disk.fill_but(pages * PAGE);
    let (object, root) = (of_two_files(), vm.root.clone());
    let sync =
        json!({"vmi": &object, "generation": 1, "resolved": {"accelerator": "emulation", "kernel": tiny()}});
    let (status, answer) = vm.ask("PUT", "/v1/vm", &sync);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(is_whole(&root.join("vm.json")), "{pages} pages: a part of vm.json");
    if status != 200 {
        assert_eq!(status, 507, "{pages} pages: {answer}");
        assert_eq!((vm.state()["life"].as_str(), qemus(&root)), (Some("Empty"), 0), "{pages} pages");
        disk.empty();
        vm.get_well("PUT", "/v1/vm", &sync);
        runs_once(&mut vm, pages);
        return Some(Some(answer));
    }
    let waits = |state: &Value| state["reason"] == "NoSpace" || state["life"] == "Running" || ended(state);
    let state = vm.until("an outcome", waits);
    assert!(!ended(&state), "{pages} pages: {state}: {}", vm.log());
    let said = state["message"].as_str().map(str::to_owned);
    if state["life"] != "Running" {
        assert_eq!((state["life"].as_str(), qemus(&root)), (Some("Preparing"), 0), "{pages} pages: {state}");
        for file in ["seeds", "disks", "state.json"] {
            let left = names(&root.join(file));
            assert!(left.iter().all(|name| !name.contains("partial")), "{pages} pages: {left:?}");
        }
    }
    disk.empty();
    runs_once(&mut vm, pages);
    Some(said)
}

/// The VM runs, in one QEMU, with a disk and a seed that are whole.
fn runs_once(vm: &mut Vm, pages: u64) {
    let state = vm.until("it runs", |state| state["life"] == "Running" || ended(state));
    assert_eq!(state["life"], "Running", "{pages} pages: {state}: {}", vm.log());
    assert!(state["reason"].is_null(), "{state}");
    assert_eq!(qemus(&vm.root), 1, "{pages} pages");
    assert!(is_whole(&vm.root.join("vm.json")) && is_whole(&vm.root.join("state.json")));
    vm.request(&json!({"request": "destroy"}));
    vm.until("an end", ended);
    assert_eq!(qemus(&vm.root), 0, "{pages} pages");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_start_without_room_waits_for_it_at_each_phase() {
    let long: Vec<u64> = (0..160).collect();
    let all: &[u64] = if is_long() { &long } else { &SHORT };
    let said = Mutex::new(BTreeSet::new());
    // Each waits for a tick, mostly.
    for some in all.chunks(6) {
        std::thread::scope(|scope| {
            for &pages in some {
                let said = &said;
                scope.spawn(move || {
                    if let Some(Some(message)) = start_with(pages) {
                        eprintln!("{pages} pages: {message}");
                        said.lock().unwrap().insert(message);
                    }
                });
            }
        });
    }
    let said = said.into_inner().unwrap();
    if said.is_empty() {
        return eprintln!("left out: there is no disk to fill");
    }
    // libvirt keeps what it has found out about QEMU when a domain is defined, where that is not kept already.
    let of_libvirt = ["cannot start test_full", "cannot define the domain"];
    for phases in [&["cannot keep the VM in"][..], &["cannot make the disk"], &["ISO image"], &of_libvirt] {
        let is_met = |message: &String| phases.iter().any(|phase| message.contains(phase));
        assert!(said.iter().any(is_met), "none waited in {phases:?}: {said:#?}");
    }
}

/// A pod that is deleted while its VM waits for room ends at once, and QEMU was never started.
#[test]
fn a_vm_that_waits_for_room_ends_with_its_pod() {
    let Some(disk) = FullDisk::of_bytes(256 << 20) else { return };
    let mut vm = Vm::behind(&[], Some(disk.path().join("r")));
    vm.launch();
    disk.fill_but(16 * PAGE);
    assert_eq!(vm.put(&of_two_files(), &json!({}))["answer"], "queued");
    let state = vm.until("the reason", |state| state["reason"] == "NoSpace" || ended(state));
    assert_eq!(state["life"], "Preparing", "{state}");
    vm.end();
    assert_eq!(qemus(&vm.root), 0);
}
