//! The firmware of a VMI.

use super::super::firmware::Image;
use super::super::{Boot, Chipset, Firmware, KernelBoot};
use super::{Check, text};
use crate::vmi;
use crate::wire::Path;

/// Values of the rest of the VMI that the check of the firmware needs.
pub(super) struct FirmwareInput {
    pub(super) chipset: Chipset,
    pub(super) smm: Option<bool>,
    pub(super) serial: bool,
}

pub(super) fn firmware(
    firmware: Option<&vmi::Firmware>,
    given: &FirmwareInput,
    domain: &Path,
    check: &mut Check<'_>,
) -> Firmware {
    let at = domain.child("firmware");
    let empty = vmi::Firmware::default();
    let vmi::Firmware { uuid, bootloader, serial, kernel_boot, acpi, other: _ } = firmware.unwrap_or(&empty);

    let uuid_at = at.child("uuid");
    let uuid = match text::non_empty(uuid) {
        Some(written) => text::uuid(written).unwrap_or_else(|| {
            let form = "must be of the form 5d307ca9-b3ef-428c-8861-06e72d69f223";
            check.invalid(&uuid_at, format!("{uuid_at} '{written}' {form}"));
            String::new()
        }),
        None => {
            check.required(&uuid_at, format!("{uuid_at} is a required field; the defaults fill it in"));
            String::new()
        }
    };
    if let Some(why) = text::non_empty(serial).and_then(text::not_plain) {
        check.invalid(at.child("serial"), format!("{at}.serial {why}"));
    }
    if let Some(vmi::Acpi { slic_name_ref, msdm_name_ref, other: _ }) = acpi {
        check.not_yet_some(&text::non_empty(slic_name_ref), at.child("acpi").child("slicNameRef"));
        check.not_yet_some(&text::non_empty(msdm_name_ref), at.child("acpi").child("msdmNameRef"));
    }
    Firmware {
        uuid,
        serial: text::non_empty(serial).map(str::to_owned),
        boot: boot(bootloader.as_ref(), given, domain, check),
        kernel: kernel_boot.as_ref().and_then(|kernel| kernel_of(kernel, &at.child("kernelBoot"), check)),
    }
}

fn boot(
    bootloader: Option<&vmi::Bootloader>,
    given: &FirmwareInput,
    domain: &Path,
    check: &mut Check<'_>,
) -> Boot {
    let at = domain.child("firmware").child("bootloader");
    let bios = Boot::Bios { use_serial: false };
    let Some(vmi::Bootloader { bios: wants_bios, efi, other: _ }) = bootloader else {
        return bios;
    };
    if wants_bios.is_some() && efi.is_some() {
        check
            .invalid(&at, format!("{at} has both EFI and BIOS configured, but they are mutually exclusive."));
        return bios;
    }
    if let Some(vmi::Bios { use_serial, other: _ }) = wants_bios {
        let use_serial = use_serial.unwrap_or(false);
        if use_serial && !given.serial {
            let at = at.child("bios").child("useSerial");
            check.invalid(at, "the BIOS can only write to a serial console that is there");
        }
        return Boot::Bios { use_serial };
    }
    let Some(vmi::Efi { secure_boot, persistent, other: _ }) = efi else {
        return bios;
    };
    let secure = secure_boot.unwrap_or(true);
    if secure && given.smm != Some(true) {
        let message = format!(
            "{domain} has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently disabled."
        );
        check.invalid(&at, message);
    }
    if secure && given.chipset == Chipset::I440fx {
        check.invalid(
            &at,
            format!("{at} has EFI SecureBoot enabled. SecureBoot requires the machine type q35."),
        );
    }
    Boot::Efi { secure, persistent: persistent.unwrap_or(false) }
}

fn kernel_of(kernel: &vmi::KernelBoot, at: &Path, check: &mut Check<'_>) -> Option<KernelBoot> {
    let vmi::KernelBoot { kernel_args, container, other: _ } = kernel;
    let args = text::non_empty(kernel_args);
    if let Some(why) = args.and_then(text::not_plain) {
        check.invalid(at.child("kernelArgs"), format!("{at}.kernelArgs {why}"));
    }
    let without_kernel = "kernel arguments cannot be provided without an external kernel";
    let Some(container) = container else {
        if args.is_some() {
            check.invalid(at.child("kernelArgs"), without_kernel);
        }
        return None;
    };
    let vmi::KernelContainer {
        image,
        image_pull_secret,
        image_pull_policy,
        kernel_path,
        initrd_path,
        other: _,
    } = container;
    let container_at = at.child("container");
    if image.is_empty() {
        let message = format!("{container_at} must be defined with an image");
        check.required(container_at.child("image"), message);
    }
    let (kernel_path, initrd_path) = (text::non_empty(kernel_path), text::non_empty(initrd_path));
    if kernel_path.is_none() && initrd_path.is_none() {
        check.required(
            &container_at,
            format!(
                "{container_at} must be defined with at least one of the following: kernelPath, initrdPath"
            ),
        );
    } else if kernel_path.is_none() && args.is_some() {
        check.invalid(at.child("kernelArgs"), without_kernel);
    }
    for (name, path) in [("kernelPath", kernel_path), ("initrdPath", initrd_path)] {
        if path == Some("/") {
            let at = container_at.child(name);
            check.invalid(&at, format!("{at} must not point to root"));
        } else if path.is_some_and(|path| !text::is_clean(path)) {
            let at = container_at.child(name);
            check
                .invalid(&at, format!("{at} must be an absolute path to a file without relative components"));
        }
    }
    Some(KernelBoot {
        image: Some(image_of(image, image_pull_secret, image_pull_policy, &container_at, check)),
        kernel_path: kernel_path.map(str::to_owned),
        initrd_path: initrd_path.map(str::to_owned),
        args: args.map(str::to_owned),
    })
}

/// Checks an image in a registry, with its pull policy and pull secret.
pub(super) fn image_of(
    name: &str,
    secret: &Option<String>,
    policy: &Option<String>,
    at: &Path,
    check: &mut Check<'_>,
) -> Image {
    if let Some(why) = text::not_plain(name) {
        check.invalid(at.child("image"), format!("{at}.image {why}"));
    }
    let policy = text::non_empty(policy);
    if let Some(policy) = policy.filter(|policy| !["Always", "IfNotPresent", "Never"].contains(policy)) {
        let at = at.child("imagePullPolicy");
        check.invalid(
            &at,
            format!("{at} is set with an unrecognized option: {policy}, must be one of: [Always IfNotPresent Never]"),
        );
    }
    Image {
        name: name.to_owned(),
        pull_policy: policy.map(str::to_owned),
        pull_secret: text::non_empty(secret).map(str::to_owned),
    }
}
