//! KVM itself. A host whose KVM starts no Linux still runs a boot sector.

use crate::vm::{Vm, vmi};
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
