//! EFI firmware and its variables.

use crate::vm::{Vm, ended, vmi};
use serde_json::{Value, json};
use std::fs;

#[test]
fn the_firmware_keeps_its_variables_only_if_they_are_persistent() {
    for persistent in [true, false] {
        let mut vmi = vmi("efi");
        vmi["spec"]["domain"]["firmware"]["bootloader"] =
            json!({"efi": {"secureBoot": false, "persistent": persistent}});
        let mut vm = Vm::new();
        vm.launch();
        let resolved = json!({"accelerator": "emulation"});
        vm.put_resolved(&vmi, &resolved);
        vm.until_runs();
        vm.until_log("BdsDxe: ");
        vm.request(&json!({"request": "destroy"}));
        vm.until("an end", ended);
        let kept = vm.root.join("nvram/vars.fd");
        let first = fs::read(&kept).unwrap();

        // The next life waits before its first instruction, so that only the launcher has touched them.
        vmi["spec"]["startStrategy"] = json!("Paused");
        let answer: Value = vm.put_resolved(&vmi, &resolved);
        assert_eq!(answer["answer"], "ignored", "{answer}");
        vm.request(&json!({"request": "start"}));
        let state = vm.until("a pause", |state| state["life"] == "Paused");
        assert_eq!(state["reason"], "PausedByUser", "{state}");
        assert_eq!(fs::read(&kept).unwrap() == first, persistent, "persistent: {persistent}");
    }
}
