//! State that belongs to the system on a disk, and not to its VM: EFI variables, and the TPM.

use super::Laptop;
use tests::serial::Serial;

/// A variable that the guest writes.
const VARIABLE: &str = "/sys/firmware/efi/efivars/Coracle-2b8d5e4c-6f3f-4a55-9a5b-0d6a3f1e7c11";

#[test]
fn a_second_vm_of_a_disk_has_the_tpm_and_the_efi_variables_of_the_first() {
    let Some(laptop) = Laptop::with_guest() else { return };
    // EFI starts a compressed kernel.
    laptop.build_guest("tiny-efi:1", "vmlinuz");
    let run = |name: &str| {
        let args =
            ["run", "-q", "tiny-efi:1", "--disk", "own.img:16M", "--efi", "--tpm", "--rm", "--name", name];
        let mut guest =
            Serial::of(laptop.command(&[&args[..], &["--memory", "256M", "--accel", "emulation"]].concat()));
        guest.log_in();
        assert_eq!(guest.runs("mount -t efivarfs none /sys/firmware/efi/efivars"), "");
        guest
    };
    let ends = |mut guest: Serial| {
        guest.power_off();
        guest.closes();
        assert!(guest.ends().contains("Power down"), "{}", guest.text());
        assert!(guest.succeeded());
        laptop.is_empty();
    };
    let mut guest = run("first");
    let key = guest.tpm_key();
    assert_eq!(
        guest.runs(&format!("ls {VARIABLE}*")),
        format!("ls: {VARIABLE}*: No such file or directory\n")
    );
    // Four bytes of attributes come first: non-volatile, and accessible for firmware and system.
    assert_eq!(guest.runs(&format!("printf '\\007\\0\\0\\0kept' >{VARIABLE}")), "");
    ends(guest);
    for file in ["efi-vars.fd", "tpm2/tpm2-00.permall"] {
        assert!(laptop.place.path("own.img.state").join(file).is_file(), "there is no {file}");
    }

    // Only the disk and the state beside it are left of the first VM.
    let mut guest = run("second");
    assert_eq!(guest.tpm_key(), key);
    assert_eq!(guest.runs(&format!("tail -c +5 {VARIABLE}")), "kept");
    ends(guest);
}
