//! Devices that change while the small guest runs: CD-ROM media, the reset button, the watchdog, the screen.

use crate::vm::{Vm, ended, vmi};
use serde_json::json;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

#[test]
fn media_of_a_cdrom_are_changed_and_the_guest_reboots() {
    let mut vmi = vmi("media");
    vmi["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "cd", "cdrom": {"bus": "sata"}}, {"name": "data", "disk": {"bus": "virtio"}}]);
    vmi["spec"]["volumes"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "cd", "containerDisk": {"image": "registry.example/iso:1"}}));
    let mut vm = Vm::new();
    let iso = |name: &str| {
        let path = vm.place.path().join(name);
        fs::write(&path, format!("{name}{}", " ".repeat(4096 - name.len()))).unwrap();
        path
    };
    let (first, second) = (iso("disc one"), iso("disc two"));
    let volumes = json!({"cd": {"kind": "image", "path": first, "format": "raw"}});
    vm.launch();
    vm.boot_with(&vmi, &volumes);
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
    // The guest opens its drive all the time, which closes the tray.
    console.types("until head -c 8 /dev/sr0 >/dev/null 2>&1; do :; done; echo \"it has\"\" media\"");
    vm.request(&insert(&second));
    let state = vm.until("the media", |state| state["doing"].is_null());
    assert!(state["message"].is_null() && state["life"] == "Running", "{state}");
    console.says("it has media");
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

    // The power button and then a start, by libvirt; the reset button. The domain stays the same one.
    let qemu = vm.state()["qemu_pid"].clone();
    vm.request(&json!({"request": "reboot"}));
    vm.until_logged("tiny login:", 2);
    vm.request(&json!({"request": "reset"}));
    vm.until_logged("tiny login:", 3);
    let state = vm.state();
    assert_eq!((&state["life"], &state["qemu_pid"]), (&json!("Running"), &qemu), "{state}");
}

#[test]
fn a_cdrom_without_media_gets_some() {
    let mut vmi = vmi("drive");
    vmi["spec"]["domain"]["devices"]["disks"] = json!([
        {"name": "data", "disk": {"bus": "virtio"}},
        {"name": "cd", "cdrom": {"bus": "sata"}},
        {"name": "direct", "cdrom": {"bus": "sata"}, "io": "native"}
    ]);
    let vm = Vm::running(&vmi);
    let path = vm.place.path().join("disc");
    fs::write(&path, format!("a disc{}", " ".repeat(4090))).unwrap();
    let mut console = vm.console();
    console.log_in();
    for (disk, device) in [("cd", "sr0"), ("direct", "sr1")] {
        let read = format!("echo \"<$(head -c 6 /dev/{device} 2>&1)>\"");
        console.types(&read);
        console.says("No medium found>");
        vm.request(&json!({"request": "insert", "disk": disk, "path": path, "format": "raw"}));
        let state = vm.until("the media", |state| state["doing"].is_null());
        assert!(state["message"].is_null(), "{state}");
        // A CD-ROM with new media fails its first read.
        console.types(&format!("until head -c 6 /dev/{device} >/dev/null 2>&1; do sleep 0.1; done"));
        console.types(&read);
        console.says("<a disc>");
    }
}

#[test]
fn a_watchdog_that_is_not_fed_ends_or_resets_the_vm() {
    for action in ["poweroff", "reset"] {
        let mut vmi = vmi("watched");
        vmi["spec"]["domain"]["devices"]["watchdog"] = json!({"name": "dog", "i6300esb": {"action": action}});
        let vm = Vm::running(&vmi);
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
