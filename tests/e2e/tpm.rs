//! A TPM, and what of it outlives a VMI.

use crate::tiny;
use tests::cluster::Space;
use tests::serial::Serial;

/// Asks the TPM for the public part of the endorsement key that was made with it (TPM2_ReadPublic of 81010001).
const KEY: &str = "exec 3<>/dev/tpm0; printf '\\x80\\x01\\x00\\x00\\x00\\x0e\\x00\\x00\\x01\\x73\\x81\\x01\\x00\\x01' >&3; \
                   sha256sum <&3; exec 3>&-";

fn with_tpm(persistent: bool) -> String {
    let tpm = format!("        devices:\n          tpm: {{persistent: {persistent}}}\n");
    let efi = "        firmware:\n          bootloader: {efi: {secureBoot: false, persistent: true}}\n";
    let efi = if persistent { efi.to_owned() } else { efi.replace("persistent: true", "persistent: false") };
    // BIOS would put the initrd over the ACPI tables.
    tiny("sealed", "Always")
        .replace("        devices:\n", &tpm)
        .replace("        firmware:\n", &efi)
        .replace("tiny:1", "tiny-efi:1")
        .replace("/boot/vmlinux", "/boot/vmlinuz")
}

fn key(console: &mut Serial) -> String {
    assert_eq!(console.log_in().runs("cat /sys/class/tpm/tpm0/tpm_version_major"), "2\n");
    let key = console.runs(KEY);
    // Not of nothing.
    assert!(key.len() > 64 && !key.starts_with("e3b0c442"), "{key}");
    key
}

/// The keys of two VMIs of one VM.
fn keys(space: &Space, persistent: bool) -> (String, String) {
    space.apply(&with_tpm(persistent));
    let first = key(&mut space.console_when_ready("sealed"));
    let uid = space.get("vmi/sealed", ".metadata.uid");
    space.run(&["delete", "pod", &space.pod_of("sealed")]);
    space.another("vmi/sealed", &uid);
    (first, key(&mut space.console_when_ready("sealed")))
}

#[test]
fn a_persistent_tpm_is_kept_in_a_pvc_of_its_vm_and_goes_with_it() {
    let Some(space) = Space::new("tpm-kept") else { return };
    let (first, second) = keys(&space, true);
    assert_eq!(first, second);
    let claims = space.run(&["get", "pvc", "-l", "persistent-state-for=sealed", "-o", "name"]);
    let claim = claims.trim().to_owned();
    assert!(claim.starts_with("persistentvolumeclaim/persistent-state-for-sealed-"), "{claims}");
    assert_eq!(space.get(&claim, ".metadata.ownerReferences[0].kind"), "VirtualMachine");
    space.run(&["delete", "vm", "sealed"]);
    space.gone(&claim);
}

#[test]
fn another_tpm_begins_anew_and_needs_no_pvc() {
    let Some(space) = Space::new("tpm-anew") else { return };
    let (first, second) = keys(&space, false);
    assert_ne!(first, second);
    assert_eq!(space.run(&["get", "pvc", "-o", "name"]).trim(), "");
}
