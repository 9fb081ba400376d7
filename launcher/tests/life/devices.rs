//! Devices that change while the small guest runs: discs, the reset button, the watchdog, the screen.

use crate::vm::{Vm, ended, vmi};
use serde_json::json;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

#[test]
fn discs_are_changed_and_the_guest_begins_anew() {
    let mut machine = vmi("discs");
    machine["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "cd", "cdrom": {"bus": "sata"}}, {"name": "data", "disk": {"bus": "virtio"}}]);
    machine["spec"]["volumes"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "cd", "containerDisk": {"image": "registry.example/disc:1"}}));
    let mut vm = Vm::new();
    let disc = |name: &str| {
        let path = vm.place.path().join(name);
        fs::write(&path, format!("{name}{}", " ".repeat(4096 - name.len()))).unwrap();
        path
    };
    let (first, second) = (disc("disc one"), disc("disc two"));
    let volumes = json!({"cd": {"kind": "image", "path": first, "format": "raw"}});
    vm.launch();
    vm.boot_with(&machine, &volumes);
    let mut console = vm.console();
    console.log_in();
    let read = "echo \"<$(head -c 8 /dev/sr0 2>&1)>\"";
    console.types(read);
    console.says("<disc one>");
    vm.request(&json!({"request": "eject", "disk": "cd"}));
    vm.until("the empty drive", |state| state["doing"].is_null());
    console.types(read);
    console.says("No medium found>");
    let gone = vm.place.path().join("nowhere.iso");
    let insert = |path| json!({"request": "insert", "disk": "cd", "path": path, "format": "raw"});
    let refusal = vm.get_well("POST", "/v1/requests", &insert(&gone));
    assert!(refusal["answer"] == "denied" && refusal["reason"].as_str().unwrap().contains("nowhere.iso"));
    vm.request(&insert(&second));
    // A drive whose disc was changed says so by failing the first read.
    console.types("until head -c 8 /dev/sr0 >/dev/null 2>&1; do sleep 0.1; done");
    console.types(read);
    console.says("<disc two>");

    // A viewer of the screen is greeted by QEMU itself.
    let mut viewer = UnixStream::connect(vm.socket()).unwrap();
    let upgrade = "Connection: Upgrade\r\nUpgrade: coracle-stream\r\n\r\n";
    write!(viewer, "GET /v1/vnc HTTP/1.1\r\nHost: x\r\n{upgrade}").unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\nRFB 003.008\n") {
        let mut byte = [0];
        viewer.read_exact(&mut byte).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&said)));
        said.push(byte[0]);
    }
    assert!(said.starts_with(b"HTTP/1.1 101 "));

    // The power button and then a start, by libvirt; the reset button. The machine is the same one all the time.
    let qemu = vm.state()["qemu_pid"].clone();
    vm.request(&json!({"request": "reboot"}));
    vm.until_logged("tiny login:", 2);
    vm.request(&json!({"request": "reset"}));
    vm.until_logged("tiny login:", 3);
    let state = vm.state();
    assert_eq!((&state["life"], &state["qemu_pid"]), (&json!("Running"), &qemu), "{state}");
}

#[test]
fn a_drive_begins_without_a_disc_and_gets_one() {
    let mut machine = vmi("drive");
    machine["spec"]["domain"]["devices"]["disks"] = json!([
        {"name": "data", "disk": {"bus": "virtio"}},
        {"name": "cd", "cdrom": {"bus": "sata"}},
        {"name": "direct", "cdrom": {"bus": "sata"}, "io": "native"}
    ]);
    let vm = Vm::running(&machine);
    let path = vm.place.path().join("disc");
    fs::write(&path, format!("a disc{}", " ".repeat(4090))).unwrap();
    let mut console = vm.console();
    console.log_in();
    for (disk, device) in [("cd", "sr0"), ("direct", "sr1")] {
        let read = format!("echo \"<$(head -c 6 /dev/{device} 2>&1)>\"");
        console.types(&read);
        console.says("No medium found>");
        vm.request(&json!({"request": "insert", "disk": disk, "path": path, "format": "raw"}));
        let state = vm.until("the disc", |state| state["doing"].is_null());
        assert!(state["message"].is_null(), "{state}");
        // A drive whose disc was changed says so by failing the first read.
        console.types(&format!("until head -c 6 /dev/{device} >/dev/null 2>&1; do sleep 0.1; done"));
        console.types(&read);
        console.says("<a disc>");
    }
}

#[test]
fn a_watchdog_that_is_not_fed_ends_the_machine_or_resets_it() {
    for action in ["poweroff", "reset"] {
        let mut machine = vmi("watched");
        machine["spec"]["domain"]["devices"]["watchdog"] =
            json!({"name": "dog", "i6300esb": {"action": action}});
        let vm = Vm::running(&machine);
        let mut console = vm.console();
        console.log_in();
        console.types("watchdog -T 2 -t 600 /dev/watchdog");
        if action == "reset" {
            vm.until_logged("tiny login:", 2);
            assert_eq!(vm.state()["life"], "Running");
            continue;
        }
        let state = vm.until("an end", ended);
        assert_eq!(
            (&state["life"], &state["reason"]),
            (&json!("Failed"), &json!("WatchdogExpired")),
            "{state}"
        );
    }
}
