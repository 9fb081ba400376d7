//! Values of a preference for devices that the VM leaves unset.

use super::preferences::{open as fill, text};
use crate::defaults::Binding;
use crate::instancetype::{DevicePreferences, PreferenceSpec};
use crate::vmi::{Devices, Disk, DiskTarget, Input, Interface, Network, PanicDevice, Spec, VideoDevice};

/// Adds the devices that the defaults would add with their own values, so that the preference applies to
/// them.
pub(super) fn open(preference: &PreferenceSpec, spec: &mut Spec, binding: Option<Binding>) {
    let Some(preferred) = &preference.devices else { return };
    let devices = &mut spec.domain.devices;
    fill(&mut devices.autoattach_pod_interface, &preferred.preferred_autoattach_pod_interface);
    fill(&mut devices.autoattach_input_device, &preferred.preferred_autoattach_input_device);
    for volume in &spec.volumes {
        let is_used = devices.disks.iter().any(|disk| disk.name == volume.name)
            || devices.filesystems.iter().any(|filesystem| filesystem.name == volume.name);
        if !is_used {
            devices.disks.push(Disk { name: volume.name.clone(), ..Disk::default() });
        }
    }
    if devices.autoattach_input_device == Some(true) && devices.inputs.is_empty() {
        devices.inputs.push(Input { name: "default-0".to_owned(), ..Input::default() });
    }
    let binding = match preferred.preferred_interface_masquerade {
        Some(_) => binding.map(|_| Binding::Masquerade),
        None => binding,
    };
    if let Some(binding) = binding {
        crate::defaults::networks(spec, binding);
    }
}

/// Sets unset fields. `networks`: the networks that interfaces connect to.
pub(super) fn apply(preferred: &DevicePreferences, networks: &[Network], devices: &mut Devices) {
    let DevicePreferences {
        preferred_autoattach_graphics_device,
        preferred_autoattach_mem_balloon,
        preferred_autoattach_pod_interface,
        preferred_autoattach_serial_console,
        preferred_autoattach_input_device,
        preferred_disable_hotplug,
        preferred_virtual_gpu_options,
        preferred_sound_model,
        preferred_use_virtio_transitional,
        preferred_input_bus,
        preferred_input_type,
        preferred_disk_bus: _,
        preferred_lun_bus: _,
        preferred_cdrom_bus: _,
        preferred_disk_dedicated_io_thread: _,
        preferred_disk_cache: _,
        preferred_disk_io: _,
        preferred_disk_block_size: _,
        preferred_interface_model,
        preferred_rng,
        preferred_block_multi_queue,
        preferred_network_interface_multi_queue,
        preferred_tpm,
        preferred_interface_masquerade,
        preferred_panic_device_model,
        preferred_video_type,
        other: _,
    } = preferred;
    for (said, preferred) in [
        (&mut devices.autoattach_graphics_device, preferred_autoattach_graphics_device),
        (&mut devices.autoattach_mem_balloon, preferred_autoattach_mem_balloon),
        (&mut devices.autoattach_pod_interface, preferred_autoattach_pod_interface),
        (&mut devices.autoattach_serial_console, preferred_autoattach_serial_console),
        (&mut devices.autoattach_input_device, preferred_autoattach_input_device),
        (&mut devices.disable_hotplug, preferred_disable_hotplug),
        (&mut devices.use_virtio_transitional, preferred_use_virtio_transitional),
        (&mut devices.block_multi_queue, preferred_block_multi_queue),
        (&mut devices.network_interface_multiqueue, preferred_network_interface_multi_queue),
    ] {
        fill(said, preferred);
    }
    fill(&mut devices.rng, preferred_rng);
    fill(&mut devices.tpm, preferred_tpm);
    if let Some(sound) = &mut devices.sound {
        text(&mut sound.model, preferred_sound_model);
    }
    for gpu in &mut devices.gpus {
        fill(&mut gpu.virtual_gpu_options, preferred_virtual_gpu_options);
    }
    for disk in &mut devices.disks {
        of_disk(preferred, disk);
    }
    for interface in &mut devices.interfaces {
        text(&mut interface.model, preferred_interface_model);
        if is_unbound(interface) && is_of_pod(interface, networks) {
            fill(&mut interface.masquerade, preferred_interface_masquerade);
        }
    }
    for input in &mut devices.inputs {
        fill(&mut input.bus, preferred_input_bus);
        if let Some(kind) = preferred_input_type.as_ref().filter(|_| input.r#type.as_str().is_empty()) {
            input.r#type = kind.clone();
        }
    }
    if let Some(model) = preferred_panic_device_model {
        if devices.panic_devices.is_empty() {
            devices.panic_devices.push(PanicDevice::default());
        }
        for device in &mut devices.panic_devices {
            device.model.get_or_insert_with(|| model.clone());
        }
    }
    if preferred_video_type.is_some() {
        text(&mut devices.video.get_or_insert_with(VideoDevice::default).r#type, preferred_video_type);
    }
}

fn of_disk(preferred: &DevicePreferences, disk: &mut Disk) {
    if disk.disk.is_none() && disk.cdrom.is_none() && disk.lun.is_none() {
        disk.disk = Some(DiskTarget::default());
    }
    if let Some(cdrom) = &mut disk.cdrom {
        fill(&mut cdrom.bus, &preferred.preferred_cdrom_bus);
    }
    if let Some(lun) = &mut disk.lun {
        fill(&mut lun.bus, &preferred.preferred_lun_bus);
    }
    let Some(target) = &mut disk.disk else { return };
    fill(&mut target.bus, &preferred.preferred_disk_bus);
    let is_virtio = target.bus == Some(crate::vmi::Bus::Virtio);
    fill(&mut disk.block_size, &preferred.preferred_disk_block_size);
    fill(&mut disk.cache, &preferred.preferred_disk_cache);
    fill(&mut disk.io, &preferred.preferred_disk_io);
    if is_virtio {
        fill(&mut disk.dedicated_io_thread, &preferred.preferred_disk_dedicated_io_thread);
    }
}

fn is_unbound(interface: &Interface) -> bool {
    let Interface { bridge, slirp, masquerade, sriov, macvtap, passt, passt_binding, binding, .. } =
        interface;
    let bound = [bridge, slirp, masquerade, sriov, macvtap, passt, passt_binding];
    bound.into_iter().all(Option::is_none) && binding.is_none()
}

fn is_of_pod(interface: &Interface, networks: &[Network]) -> bool {
    networks.iter().any(|network| network.name == interface.name && network.pod.is_some())
}
