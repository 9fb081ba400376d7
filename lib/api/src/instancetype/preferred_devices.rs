//! Devices in a preference.

use crate::meta::Empty;
use crate::object;
use crate::vmi::{BlockSize, Bus, Cache, InputBus, InputType, Io, PanicModel, Tpm, VgpuOptions};

object! {
    /// Devices, buses and models of a VM that leaves them unset.
    pub struct DevicePreferences {
        /// Adds a graphics device, required for VNC. Unset: no preference.
        pub preferred_autoattach_graphics_device: Option<bool> = "preferredAutoattachGraphicsDevice",
        /// Adds a memory balloon device. Unset: no preference.
        pub preferred_autoattach_mem_balloon: Option<bool> = "preferredAutoattachMemBalloon",
        /// Adds an interface on the pod network if the VM has none. Unset: no preference.
        pub preferred_autoattach_pod_interface: Option<bool> = "preferredAutoattachPodInterface",
        /// Adds a serial console to the guest. Unset: no preference.
        pub preferred_autoattach_serial_console: Option<bool> = "preferredAutoattachSerialConsole",
        /// Adds a tablet if the VM has no inputs. Unset: no preference.
        pub preferred_autoattach_input_device: Option<bool> = "preferredAutoattachInputDevice",
        /// Omits the PCI ports and the SCSI controller for hotplugged devices. Unset: no preference.
        pub preferred_disable_hotplug: Option<bool> = "preferredDisableHotplug",
        /// Options of virtual GPUs that set none. Unset: no preference.
        pub preferred_virtual_gpu_options: Option<VgpuOptions> = "preferredVirtualGPUOptions",
        /// Model of a sound card that sets none: `ich9` or `ac97`. Unset: no preference.
        pub preferred_sound_model: Option<String> = "preferredSoundModel",
        /// Uses transitional virtio devices for guests with virtio 0.9 drivers. Unset: no preference.
        pub preferred_use_virtio_transitional: Option<bool> = "preferredUseVirtioTransitional",
        /// Bus of input devices that set none. Unset: no preference.
        pub preferred_input_bus: Option<InputBus> = "preferredInputBus",
        /// Type of input devices that set none. Unset: no preference.
        pub preferred_input_type: Option<InputType> = "preferredInputType",
        /// Bus of hard disks that set none. Unset: no preference.
        pub preferred_disk_bus: Option<Bus> = "preferredDiskBus",
        /// Bus of LUNs that set none. Unset: no preference.
        pub preferred_lun_bus: Option<Bus> = "preferredLunBus",
        /// Bus of CD-ROM drives that set none. Unset: no preference.
        pub preferred_cdrom_bus: Option<Bus> = "preferredCdromBus",
        /// IOThread of its own for each hard disk on bus `virtio`. Unset: no preference.
        pub preferred_disk_dedicated_io_thread: Option<bool> = "preferredDiskDedicatedIoThread",
        /// Cache mode of hard disks that set none. Unset: no preference.
        pub preferred_disk_cache: Option<Cache> = "preferredDiskCache",
        /// Asynchronous I/O mode of hard disks that set none. Unset: no preference.
        pub preferred_disk_io: Option<Io> = "preferredDiskIO",
        /// Block sizes of hard disks that set none. Unset: no preference.
        pub preferred_disk_block_size: Option<BlockSize> = "preferredDiskBlockSize",
        /// Model of interfaces that set none, for example `virtio` or `e1000e`. Unset: no preference.
        pub preferred_interface_model: Option<String> = "preferredInterfaceModel",
        /// Random number generator (virtio-rng) of the guest. Unset: no preference.
        pub preferred_rng: Option<Empty> = "preferredRng",
        /// Gives virtio disks one queue per vCPU. Unset: no preference.
        pub preferred_block_multi_queue: Option<bool> = "preferredBlockMultiQueue",
        /// Gives virtio interfaces one queue per vCPU. Unset: no preference.
        pub preferred_network_interface_multi_queue: Option<bool> = "preferredNetworkInterfaceMultiQueue",
        /// Trusted Platform Module (TPM 2.0) of a VM that does not set one. Unset: no preference.
        pub preferred_tpm: Option<Tpm> = "preferredTPM",
        /// Masquerade binding of interfaces on the pod network that set no binding. Unset: no preference.
        pub preferred_interface_masquerade: Option<Empty> = "preferredInterfaceMasquerade",
        /// Model of panic devices that set none; a VM without a panic device gets one. Unset: no preference.
        pub preferred_panic_device_model: Option<PanicModel> = "preferredPanicDeviceModel",
        /// Model of the video device of a VM that sets none. Unset: no preference.
        pub preferred_video_type: Option<String> = "preferredVideoType",
    }
}
