//! A guest that writes, on a node whose disk is nearly full: virt-handler has it paused, and lets it go on.

use crate::vm::{Vm, ended, vmi};
use serde_json::json;

#[test]
fn a_guest_that_writes_is_paused_for_the_disk_of_its_node_and_goes_on() {
    let mut vm = Vm::running(&vmi("pressure"));
    let mut console = vm.console();
    console.log_in();
    console.types(
        "n=0; while [ $n -lt 200 ]; do dd if=/dev/zero of=/dev/vda bs=64k count=16 conv=fsync 2>/dev/null; n=$((n+1)); \
         [ $n = 3 ] && echo begun $((1 + 1)); done; echo all is $((2 + 2)) written",
    );
    console.says("begun 2");
    vm.request(
        &json!({"request": "pauseForDiskPressure", "message": "VMI was paused: the disk is nearly full"}),
    );
    let state = vm.until("a pause", |state| state["life"] == "Paused" || ended(state));
    assert_eq!(state["reason"], "PausedByDiskPressure", "{state}");
    assert_eq!(state["message"], "VMI was paused: the disk is nearly full");

    // libvirt knows no cause of the pause, and a new launcher does.
    vm.kill();
    vm.launch();
    let state = vm.state();
    assert_eq!(state["reason"], "PausedByDiskPressure", "{state}");
    let mut console = vm.console();
    vm.request(&json!({"request": "resumeAfterDiskPressure"}));
    vm.until("it goes on", |state| state["life"] == "Running");
    console.says("all is 4 written");

    // A pause of a user is the user's.
    vm.request(&json!({"request": "pause"}));
    vm.until("a pause", |state| state["reason"] == "PausedByUser");
    let (status, answer) = vm.ask("POST", "/v1/requests", &json!({"request": "resumeAfterDiskPressure"}));
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((status, &answer["answer"]), (200, &json!("ignored")), "{answer}");
    assert_eq!(vm.state()["reason"], "PausedByUser");
}
