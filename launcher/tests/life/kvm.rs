//! KVM itself. A host whose KVM starts no Linux still runs a boot sector.

use crate::vm::{Vm, node_info, vmi};
use serde_json::json;
use std::fs;

/// Writes the text after it to the serial port, letter by letter, and stops.
const SECTOR: &[u8] = &[
    0x31, 0xc0, 0x8e, 0xd8, 0xfc, // xor ax,ax; mov ds,ax; cld
    0xbe, 0x21, 0x7c, // mov si,text
    0xac, 0x84, 0xc0, 0x74, 0x11, // next: lodsb; test al,al; jz stop
    0x88, 0xc3, 0xba, 0xfd, 0x03, // mov bl,al; mov dx,0x3fd
    0xec, 0xa8, 0x20, 0x74, 0xfb, // busy: in al,dx; test al,0x20; jz busy
    0xb2, 0xf8, 0x88, 0xd8, 0xee, 0xeb, 0xea, // mov dl,0xf8; mov al,bl; out dx,al; jmp next
    0xf4, 0xeb, 0xfd, // stop: hlt; jmp stop
];

#[test]
fn a_boot_sector_runs_under_kvm() {
    if fs::File::options().read(true).write(true).open("/dev/kvm").is_err() {
        eprintln!("skipped: /dev/kvm is not there for us");
        return;
    }
    let mut vm = Vm::new();
    let disk = vm.place.path().join("disk");
    let mut bytes = SECTOR.to_vec();
    bytes.extend(b"a sector on the processor\r\n\0");
    bytes.resize(510, 0);
    bytes.extend([0x55, 0xaa]);
    bytes.resize(1 << 20, 0);
    fs::write(&disk, bytes).unwrap();
    let mut vmi = vmi("kvm");
    // The host's model may name features that a nested one does not have.
    vmi["spec"]["domain"]["cpu"] = json!({"model": "kvm64"});
    vmi["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let volumes = json!({"data": {"kind": "file", "path": disk, "format": "raw"}});
    vm.launch();
    vm.put_resolved(&vmi, &json!({"accelerator": "kvm", "volumes": volumes}));
    let state = vm.until_runs();
    vm.until_log("a sector on the processor");
    let line = fs::read(format!("/proc/{}/cmdline", state["qemu_pid"])).unwrap();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    assert!(line.contains("accel=kvm") || line.contains("-accel kvm"), "{line}");
}

/// Asks the processor who its hypervisor is (CPUID 40000000h), and writes the answer into the text that it prints.
const ASKS: &[u8] = &[
    0x31, 0xc0, 0x8e, 0xd8, 0xfc, // xor ax,ax; mov ds,ax; cld
    0x66, 0xb8, 0x00, 0x00, 0x00, 0x40, 0x0f, 0xa2, // mov eax,0x40000000; cpuid
    0x66, 0x89, 0x1e, 0x44, 0x7c, // mov [vendor],ebx
    0x66, 0x89, 0x0e, 0x48, 0x7c, // mov [vendor+4],ecx
    0x66, 0x89, 0x16, 0x4c, 0x7c, // mov [vendor+8],edx
    0xbe, 0x38, 0x7c, // mov si,text
    0xac, 0x84, 0xc0, 0x74, 0x11, // next: lodsb; test al,al; jz stop
    0x88, 0xc3, 0xba, 0xfd, 0x03, // mov bl,al; mov dx,0x3fd
    0xec, 0xa8, 0x20, 0x74, 0xfb, // busy: in al,dx; test al,0x20; jz busy
    0xb2, 0xf8, 0x88, 0xd8, 0xee, 0xeb, 0xea, // mov dl,0xf8; mov al,bl; out dx,al; jmp next
    0xf4, 0xeb, 0xfd, // stop: hlt; jmp stop
];

/// A KVM that is itself emulated may have none: then QEMU is asked for them, and the guest sees what there is.
fn kvm_has_enlightenments() -> bool {
    node_info()["cpu"]["hyperv"].as_array().unwrap().contains(&json!("relaxed"))
}

#[test]
fn a_guest_sees_the_hypervisor_of_its_enlightenments() {
    if fs::File::options().read(true).write(true).open("/dev/kvm").is_err() {
        eprintln!("skipped: /dev/kvm is not there for us");
        return;
    }
    let mut vm = Vm::new();
    let disk = vm.place.path().join("disk");
    let mut bytes = ASKS.to_vec();
    bytes.extend(b"hypervisor <............>\r\n\0");
    bytes.resize(510, 0);
    bytes.extend([0x55, 0xaa]);
    bytes.resize(1 << 20, 0);
    fs::write(&disk, bytes).unwrap();
    let mut vmi = vmi("enlightened");
    vmi["spec"]["domain"]["cpu"] = json!({"model": "kvm64"});
    vmi["spec"]["domain"]["features"]["hyperv"] =
        json!({"spinlocks": {"spinlocks": 8191}, "vendorid": {"vendorid": "CoracleHv123"}});
    vmi["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let volumes = json!({"data": {"kind": "file", "path": disk, "format": "raw"}});
    vm.launch();
    vm.put_resolved(&vmi, &json!({"accelerator": "kvm", "volumes": volumes}));
    let state = vm.until_runs();
    match kvm_has_enlightenments() {
        true => vm.until_log("hypervisor <CoracleHv123>"),
        false => vm.until_log("hypervisor <"),
    }
    let line = fs::read(format!("/proc/{}/cmdline", state["qemu_pid"])).unwrap();
    let line = String::from_utf8_lossy(&line);
    assert!(line.contains("hv-spinlocks=0x1fff"), "{line}");
}
