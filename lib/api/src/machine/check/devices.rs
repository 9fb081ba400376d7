//! Devices with few fields, and devices that are refused.

use super::super::devices::WatchdogAction;
use super::super::{Boot, Firmware, Input, Panic, Serial, Sound, SoundModel, Tpm, Video, Watchdog};
use super::{Check, Site, text};
use crate::meta::{Empty, ObjectMeta};
use crate::vmi::{self, Devices, InputBus, InputType, PanicModel};
use crate::wire::Path;
use std::collections::BTreeSet;

/// Annotation by which an EFI guest gets the video device of a BIOS guest.
const VGA_FOR_EFI: &str = "kubevirt.io/vga-display-efi-x86";
/// Supported models of video devices.
const SCREENS: [&str; 5] = ["vga", "virtio", "bochs", "cirrus", "ramfb"];

/// Devices that have few fields each.
pub(super) struct MinorDevices {
    pub(super) inputs: Vec<Input>,
    pub(super) usb_redirection: bool,
    pub(super) downward_metrics: bool,
    pub(super) vsock: bool,
    pub(super) watchdog: Option<Watchdog>,
    pub(super) video: Option<Video>,
    pub(super) sound: Option<Sound>,
    pub(super) panics: Vec<Panic>,
    pub(super) tpm: Option<Tpm>,
}

pub(super) fn small(
    devices: &Devices,
    metadata: &ObjectMeta,
    at: &Path,
    check: &mut Check<'_>,
) -> MinorDevices {
    let at = at.child("devices");
    let Devices {
        use_virtio_transitional: _, // the caller
        disable_hotplug: _,         // the caller
        disks: _,                   // disk.rs
        watchdog,
        interfaces: _, // interface.rs
        inputs,
        autoattach_pod_interface: _, // the defaults
        autoattach_graphics_device,
        autoattach_serial_console: _, // `serial`
        log_serial_console: _,        // `serial`
        autoattach_mem_balloon: _,    // the caller
        autoattach_input_device: _,   // the defaults
        autoattach_vsock,
        rng: _,                          // the caller
        block_multi_queue: _,            // the caller
        network_interface_multiqueue: _, // the caller
        gpus: _,                         // host_device.rs
        downward_metrics,
        panic_devices,
        filesystems: _,  // filesystem.rs
        host_devices: _, // host_device.rs
        client_passthrough,
        sound,
        tpm,
        video,
        other: _,
    } = devices;
    let vsock = *autoattach_vsock == Some(true);
    if vsock && !check.settings.gate("VSOCK") {
        check.invalid(at.child("autoattachVSOCK"), "VSOCK feature gate is not enabled in kubevirt-config");
    }
    if vsock {
        let hint = "only virt-controller assigns context IDs; reach the guest over its network (--publish)";
        check.not_yet_at(&[Site::Laptop], at.child("autoattachVSOCK"), hint);
    }
    let downward_metrics = matches!(downward_metrics, Some(Empty { other: _ }));
    if downward_metrics && !check.settings.gate("DownwardMetrics") {
        let message =
            "downwardMetrics virtio serial is not allowed: DownwardMetrics feature gate is not enabled";
        check.invalid(at.child("downwardMetrics"), message);
    }
    let usb_redirection = matches!(client_passthrough, Some(Empty { other: _ }));
    if usb_redirection {
        let hint = "give the VMI a disk with bus usb; only a cluster has clients";
        check.not_yet_at(&[Site::Laptop], at.child("clientPassthrough"), hint);
    }

    let screen = autoattach_graphics_device.unwrap_or(true);
    let vga = metadata.annotations.contains_key(VGA_FOR_EFI);
    MinorDevices {
        usb_redirection,
        downward_metrics,
        vsock,
        inputs: input_devices(inputs, &at.child("inputs"), check),
        watchdog: watchdog.as_ref().and_then(|watchdog| watchdog_of(watchdog, &at.child("watchdog"), check)),
        sound: sound.as_ref().map(|sound| sound_of(sound, &at.child("sound"), check)),
        video: screen_of(video.as_ref(), screen, vga, &at.child("video"), check),
        panics: panic_devices
            .iter()
            .enumerate()
            .map(|(i, device)| panic(device, &at.child("panicDevices").index(i), check))
            .collect(),
        tpm: tpm.as_ref().and_then(tpm_of),
    }
}

/// Refuses a TPM beside a direct kernel boot with BIOS: QEMU lets BIOS load the initrd where the ACPI tables
/// end, and a TPM makes those longer.
pub(super) fn tpm_beside(firmware: &Firmware, tpm: Option<Tpm>, at: &Path, check: &mut Check<'_>) {
    let has_initrd = firmware.kernel.as_ref().is_some_and(|kernel| kernel.initrd_path.is_some());
    if tpm.is_some() && has_initrd && matches!(firmware.boot, Boot::Bios { .. }) {
        let message = "a TPM cannot be had where BIOS starts a kernel with an initrd (firmware.kernelBoot), which would lie over \
                       the guest's ACPI tables; boot with firmware.bootloader.efi";
        check.invalid(at.child("tpm"), message);
    }
}

fn tpm_of(tpm: &vmi::Tpm) -> Option<Tpm> {
    let vmi::Tpm { enabled, persistent, other: _ } = tpm;
    enabled.unwrap_or(true).then(|| Tpm { persistent: persistent.unwrap_or(false) })
}

/// Checks the serial console.
pub(super) fn serial(devices: &Devices, at: &Path, check: &mut Check<'_>) -> Option<Serial> {
    if devices.autoattach_serial_console.unwrap_or(true) {
        return Some(Serial { log: devices.log_serial_console.unwrap_or(true) });
    }
    if devices.log_serial_console == Some(true) {
        let at = at.child("devices").child("logSerialConsole");
        check.invalid(at, "there is no serial console to keep a log of: autoattachSerialConsole is false");
    }
    None
}

fn input_devices(inputs: &[vmi::Input], at: &Path, check: &mut Check<'_>) -> Vec<Input> {
    let mut names = BTreeSet::new();
    let mut result = Vec::new();
    for (i, vmi::Input { bus, r#type, name, other: _ }) in inputs.iter().enumerate() {
        let at = at.index(i);
        if !matches!(bus, None | Some(InputBus::Usb | InputBus::Virtio)) {
            check.invalid(at.child("bus"), "Input device can have only virtio or usb bus.");
        }
        if *r#type != InputType::Tablet {
            check.invalid(at.child("type"), "Input device can have only tablet type.");
        }
        text::device_name(name, &at, check);
        if !names.insert(name) {
            check.duplicate(at.child("name"), format!("input device {name:?} is given twice"));
        }
        result.push(Input { name: name.clone(), virtio: *bus == Some(InputBus::Virtio) });
    }
    result
}

fn watchdog_of(watchdog: &vmi::Watchdog, at: &Path, check: &mut Check<'_>) -> Option<Watchdog> {
    let vmi::Watchdog { name, i6300esb, diag288, other: _ } = watchdog;
    text::device_name(name, at, check);
    if let Some(vmi::Diag288 { action: _, other: _ }) = diag288 {
        check.not_supported(at.child("diag288"), "amd64 only supports I6300ESB watchdog device");
        return None;
    }
    let Some(vmi::I6300esb { action, other: _ }) = i6300esb else {
        check.required(at, format!("{at} must have a model, like i6300esb"));
        return None;
    };
    let action = match action {
        Some(vmi::WatchdogAction::Poweroff) => WatchdogAction::Poweroff,
        None | Some(vmi::WatchdogAction::Reset) => WatchdogAction::Reset,
        Some(vmi::WatchdogAction::Shutdown) => WatchdogAction::Shutdown,
        Some(vmi::WatchdogAction::Other(word)) => {
            let at = at.child("i6300esb").child("action");
            let message = format!(
                "{at} is set with an unrecognized option: {word}, must be one of: [poweroff reset shutdown]"
            );
            check.invalid(&at, message);
            WatchdogAction::Reset
        }
    };
    Some(Watchdog { name: name.clone(), action })
}

fn screen_of(
    video: Option<&vmi::VideoDevice>,
    there: bool,
    vga: bool,
    at: &Path,
    check: &mut Check<'_>,
) -> Option<Video> {
    let model = video.and_then(|vmi::VideoDevice { r#type, other: _ }| text::non_empty(r#type));
    if !there {
        if video.is_some() {
            let message = "Video configuration is not allowed when autoattachGraphicsDevice is set to false";
            check.invalid(at, message);
        }
        return None;
    }
    Some(match model {
        None if vga => Video::Model("vga".to_owned()),
        None => Video::Default,
        Some(model) => {
            if !SCREENS.contains(&model) {
                let message = format!("video model '{model}' is not supported on amd64 architecture");
                check.not_supported(at.child("type"), message);
            }
            Video::Model(model.to_owned())
        }
    })
}

fn sound_of(sound: &vmi::Sound, at: &Path, check: &mut Check<'_>) -> Sound {
    let vmi::Sound { name, model, other: _ } = sound;
    if name.is_empty() {
        check.required(at, "Sound device requires a name field.");
    }
    text::device_name(name, at, check);
    let model = match text::non_empty(model) {
        None | Some("ich9") => SoundModel::Ich9,
        Some("ac97") => SoundModel::Ac97,
        Some(_) => {
            check.not_supported(
                at.child("model"),
                "Sound device type is not supported. Options: 'ich9' or 'ac97'",
            );
            SoundModel::Ich9
        }
    };
    Sound { name: name.clone(), model }
}

fn panic(device: &vmi::PanicDevice, at: &Path, check: &mut Check<'_>) -> Panic {
    let vmi::PanicDevice { model, other: _ } = device;
    match model {
        None | Some(PanicModel::Hyperv) => Panic::Hyperv,
        Some(PanicModel::Isa) => Panic::Isa,
        Some(PanicModel::Pvpanic) => Panic::Pvpanic,
        Some(PanicModel::Other(word)) => {
            let at = at.child("model");
            let message = format!(
                "{at} is set with an unrecognized model {word}, must be one of: [hyperv isa pvpanic]"
            );
            check.invalid(&at, message);
            Panic::Hyperv
        }
    }
}
