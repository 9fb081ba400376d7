//! Devices of the guest; disks and interfaces have files of their own.

use crate::meta::Empty;
use crate::vmi::{Disk, FeatureState, Interface};
use crate::{object, string_enum};

object! {
    /// Devices of the guest: disks, interfaces, consoles and others.
    pub struct Devices {
        /// Uses transitional virtio devices for guests with virtio 0.9 drivers. Default: false.
        pub use_virtio_transitional: Option<bool> = "useVirtioTransitional",
        /// Omits the PCI ports and the SCSI controller for hotplugged devices. Default: false.
        pub disable_hotplug: Option<bool> = "disableHotplug",
        /// Disk devices of the guest. A volume without a disk or filesystem of its name gets a disk.
        pub disks: Vec<Disk> = "disks",
        /// Watchdog device of the guest. Unset: none.
        pub watchdog: Option<Watchdog> = "watchdog",
        /// Network interfaces of the guest.
        pub interfaces: Vec<Interface> = "interfaces",
        /// Input devices of the guest. Unset: none except those of the platform.
        pub inputs: Vec<Input> = "inputs",
        /// Adds an interface on the pod network if neither interfaces nor networks are set. Default: true.
        pub autoattach_pod_interface: Option<bool> = "autoattachPodInterface",
        /// Adds a graphics device, required for VNC. Default: true.
        pub autoattach_graphics_device: Option<bool> = "autoattachGraphicsDevice",
        /// Adds a serial console to the guest. Default: true.
        pub autoattach_serial_console: Option<bool> = "autoattachSerialConsole",
        /// Copies the serial console output to the log of container `guest-console-log`. Default: true,
        /// unless the KubeVirt object sets `disableSerialConsoleLog`.
        pub log_serial_console: Option<bool> = "logSerialConsole",
        /// Adds a memory balloon device, required for memory statistics. Default: true.
        pub autoattach_mem_balloon: Option<bool> = "autoattachMemBalloon",
        /// Adds a tablet if `inputs` is empty. Default: false.
        pub autoattach_input_device: Option<bool> = "autoattachInputDevice",
        /// Adds a VSOCK device for sockets between node and guest. Default: false.
        pub autoattach_vsock: Option<bool> = "autoattachVSOCK",
        /// Random number generator (virtio-rng) of the guest. Unset: none.
        pub rng: Option<Empty> = "rng",
        /// Gives virtio disks one queue per vCPU. Default: false.
        pub block_multi_queue: Option<bool> = "blockMultiQueue",
        /// Gives virtio interfaces one queue per vCPU. Default: false.
        pub network_interface_multiqueue: Option<bool> = "networkInterfaceMultiqueue",
        /// GPUs of the node to assign to the guest.
        pub gpus: Vec<Gpu> = "gpus",
        /// Virtio serial device with node metrics (vhostmd) for the guest.
        pub downward_metrics: Option<Empty> = "downwardMetrics",
        /// Panic devices, which report a crash of the guest kernel.
        pub panic_devices: Vec<PanicDevice> = "panicDevices",
        /// Volumes that the guest mounts as filesystems through virtiofs.
        pub filesystems: Vec<Filesystem> = "filesystems",
        /// PCI, mediated or USB devices of the node to assign to the guest.
        pub host_devices: Vec<HostDevice> = "hostDevices",
        /// USB redirection from the client of `virtctl usbredir`.
        pub client_passthrough: Option<Empty> = "clientPassthrough",
        /// Sound card of the guest. Unset: none.
        pub sound: Option<Sound> = "sound",
        /// Trusted Platform Module (TPM 2.0) of the guest. Unset: none.
        pub tpm: Option<Tpm> = "tpm",
        /// Video device of the guest.
        pub video: Option<VideoDevice> = "video",
    }
}

object! {
    /// Watchdog device, which acts when the guest stops responding.
    pub struct Watchdog {
        /// Name of the watchdog device.
        pub name: String = "name",
        /// Intel 6300ESB watchdog for amd64. Default model on amd64.
        pub i6300esb: Option<I6300esb> = "i6300esb",
        /// Diag288 watchdog for s390x. Default model on s390x.
        pub diag288: Option<Diag288> = "diag288",
    }
}

object! {
    /// Intel 6300ESB watchdog, a PCI device.
    pub struct I6300esb {
        /// Action when the watchdog expires. Default: `reset`.
        pub action: Option<WatchdogAction> = "action",
    }
}

object! {
    /// Diag288 watchdog of s390x.
    pub struct Diag288 {
        /// Action when the watchdog expires. Default: `reset`.
        pub action: Option<WatchdogAction> = "action",
    }
}

object! {
    /// Input device of the guest.
    pub struct Input {
        /// Bus of the input device. Default: `usb`.
        pub bus: Option<InputBus> = "bus",
        /// Type of the input device; only `tablet` is accepted. Default: `tablet`.
        pub r#type: InputType = "type",
        /// Name of the input device, unique within the VMI.
        pub name: String = "name",
    }
}

object! {
    /// GPU of the node, assigned to the guest.
    pub struct Gpu {
        /// Name of the GPU device, unique within the VMI.
        pub name: String = "name",
        /// Extended resource of the GPU on the node, for example `nvidia.com/TU104GL`.
        pub device_name: Option<String> = "deviceName",
        /// Name of an entry in `resourceClaims` of the VMI, instead of `deviceName`.
        pub claim_name: Option<String> = "claimName",
        /// Name of the device request within the ResourceClaim.
        pub request_name: Option<String> = "requestName",
        /// Options of a virtual GPU (vGPU).
        pub virtual_gpu_options: Option<VgpuOptions> = "virtualGPUOptions",
        /// Tag of the GPU in the device metadata that cloud-init passes to the guest.
        pub tag: Option<String> = "tag",
    }
}

object! {
    /// Options of a virtual GPU (vGPU).
    pub struct VgpuOptions {
        /// Display of the virtual GPU.
        pub display: Option<VgpuDisplay> = "display",
    }
}

object! {
    /// Display of a virtual GPU.
    pub struct VgpuDisplay {
        /// Enables the display. Default: true if the object is present.
        pub enabled: Option<bool> = "enabled",
        /// Framebuffer in memory for the firmware and the boot. Default: on.
        pub ram_fb: Option<FeatureState> = "ramFB",
    }
}

object! {
    /// Panic device, which reports a crash of the guest kernel.
    pub struct PanicDevice {
        /// Model of the panic device. Default: `hyperv`.
        pub model: Option<PanicModel> = "model",
    }
}

object! {
    /// Volume that the guest mounts as a filesystem.
    pub struct Filesystem {
        /// Name of the volume and mount tag of the filesystem in the guest, at most 36 characters.
        pub name: String = "name",
        /// Shares the volume through virtiofs. Required.
        pub virtiofs: Option<Empty> = "virtiofs",
    }
}

object! {
    /// PCI, mediated or USB device of the node, assigned to the guest.
    pub struct HostDevice {
        /// Name of the host device, unique within the VMI.
        pub name: String = "name",
        /// Extended resource of the device on the node, for example `example.com/nic`.
        pub device_name: Option<String> = "deviceName",
        /// Name of an entry in `resourceClaims` of the VMI, instead of `deviceName`.
        pub claim_name: Option<String> = "claimName",
        /// Name of the device request within the ResourceClaim.
        pub request_name: Option<String> = "requestName",
        /// Tag of the device in the device metadata that cloud-init passes to the guest.
        pub tag: Option<String> = "tag",
    }
}

object! {
    /// Sound card of the guest.
    pub struct Sound {
        /// Name of the sound card.
        pub name: String = "name",
        /// Model of the sound card: `ich9` or `ac97`. Default: `ich9`.
        pub model: Option<String> = "model",
    }
}

object! {
    /// Trusted Platform Module (TPM 2.0) of the guest: model `tpm-crb` if it is persistent, else `tpm-tis`.
    pub struct Tpm {
        /// Enables the TPM. Default: true if the object is present.
        pub enabled: Option<bool> = "enabled",
        /// Keeps the state of the TPM across restarts of the VM, in a PersistentVolumeClaim of the VM.
        /// Default: false.
        pub persistent: Option<bool> = "persistent",
    }
}

object! {
    /// Video device of the guest.
    pub struct VideoDevice {
        /// Model of the video device: `vga`, `virtio`, `bochs`, `cirrus` or `ramfb`. Default: `vga` with
        /// BIOS, `bochs` with EFI.
        pub r#type: Option<String> = "type",
    }
}

string_enum! {
    /// Action when a watchdog expires.
    pub enum WatchdogAction {
        Poweroff = "poweroff",
        Reset = "reset",
        Shutdown = "shutdown",
    }
}

string_enum! {
    /// Bus of an input device.
    pub enum InputBus {
        Usb = "usb",
        Virtio = "virtio",
    }
}

string_enum! {
    /// Type of an input device.
    pub enum InputType {
        Tablet = "tablet",
        Keyboard = "keyboard",
    }
}

string_enum! {
    /// Model of a panic device.
    pub enum PanicModel {
        Hyperv = "hyperv",
        Isa = "isa",
        Pvpanic = "pvpanic",
    }
}
