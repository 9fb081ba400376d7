//! A TPM and the variables of EFI, and what of them outlives a VMI.

use crate::tiny;
use tests::cluster::Space;
use tests::serial::Serial;

/// Asks the TPM for the public part of the endorsement key that was made with it (TPM2_ReadPublic of 81010001).
pub(crate) const KEY: &str = "exec 3<>/dev/tpm0; printf '\\x80\\x01\\x00\\x00\\x00\\x0e\\x00\\x00\\x01\\x73\\x81\\x01\\x00\\x01' >&3; \
                   sha256sum <&3; exec 3>&-";

/// A variable of EFI, of a vendor of its own; the first four bytes of the file are its attributes, here those of one that is kept.
pub(crate) const VARIABLE: &str = "/sys/firmware/efi/efivars/Word-2f6b7c1e-90d4-4a53-8e1b-c0a1e5ac1e00";
const EFIVARS: &str = "mount -t efivarfs efivarfs /sys/firmware/efi/efivars";

pub(crate) fn with_tpm(persistent: bool) -> String {
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

/// What the guest finds: the key of its TPM, and what it has written into the variable.
pub(crate) fn found(console: &mut Serial) -> (String, String) {
    assert_eq!(console.log_in().runs("cat /sys/class/tpm/tpm0/tpm_version_major"), "2\n");
    let key = console.runs(KEY);
    // Not of nothing.
    assert!(key.len() > 64 && !key.starts_with("e3b0c442"), "{key}");
    assert_eq!(console.runs(EFIVARS), "");
    (key, console.runs(&format!("[ ! -e {VARIABLE} ] || tail -c +5 {VARIABLE}")))
}

/// What the guests of two VMIs of one VM find, the first of which has written the variable.
fn of_two(space: &Space, persistent: bool) -> [(String, String); 2] {
    space.apply(&with_tpm(persistent));
    let mut console = space.console_when_ready("sealed");
    let first = found(&mut console);
    assert_eq!(
        console.runs(&format!("printf '\\7\\0\\0\\0kept' >{VARIABLE}; tail -c +5 {VARIABLE}")),
        "kept"
    );
    let uid = space.get("vmi/sealed", ".metadata.uid");
    space.run(&["delete", "pod", &space.pod_of("sealed")]);
    space.another("vmi/sealed", &uid);
    [first, found(&mut space.console_when_ready("sealed"))]
}

#[test]
fn a_persistent_tpm_and_efi_are_kept_in_a_pvc_of_their_vm_and_go_with_it() {
    let Some(space) = Space::new("tpm-kept") else { return };
    let [(first, nothing), (second, variable)] = of_two(&space, true);
    assert_eq!(first, second);
    assert_eq!((nothing.as_str(), variable.as_str()), ("", "kept"));
    let claims = space.run(&["get", "pvc", "-l", "persistent-state-for=sealed", "-o", "name"]);
    let claim = claims.trim().to_owned();
    assert!(claim.starts_with("persistentvolumeclaim/persistent-state-for-sealed-"), "{claims}");
    assert_eq!(space.get(&claim, ".metadata.ownerReferences[0].kind"), "VirtualMachine");
    space.run(&["delete", "vm", "sealed"]);
    space.gone(&claim);
}

#[test]
fn another_tpm_and_efi_begin_anew_and_need_no_pvc() {
    let Some(space) = Space::new("tpm-anew") else { return };
    let [(first, _), (second, variable)] = of_two(&space, false);
    assert_ne!(first, second);
    assert_eq!(variable, "");
    assert_eq!(space.run(&["get", "pvc", "-o", "name"]).trim(), "");
}
