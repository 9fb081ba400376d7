//! Devices; disks and interfaces have files of their own.

use crate::meta::Empty;
use crate::vmi::{Disk, FeatureState, Interface};
use crate::{object, words};

object! {
    /// The devices.
    pub struct Devices {
        /// Old guests see virtio 0.9 devices.
        pub use_virtio_transitional: Option<bool> = "useVirtioTransitional",
        /// No controllers for devices that come later.
        pub disable_hotplug: Option<bool> = "disableHotplug",
        /// Disks.
        pub disks: Vec<Disk> = "disks",
        /// A watchdog.
        pub watchdog: Option<Watchdog> = "watchdog",
        /// Network interfaces.
        pub interfaces: Vec<Interface> = "interfaces",
        /// Input devices.
        pub inputs: Vec<Input> = "inputs",
        /// An interface on the pod's network where none is named; not said is yes.
        pub autoattach_pod_interface: Option<bool> = "autoattachPodInterface",
        /// A screen; not said is yes.
        pub autoattach_graphics_device: Option<bool> = "autoattachGraphicsDevice",
        /// A serial console; not said is yes.
        pub autoattach_serial_console: Option<bool> = "autoattachSerialConsole",
        /// The serial console's output is kept in a log.
        pub log_serial_console: Option<bool> = "logSerialConsole",
        /// A memory balloon; not said is yes.
        pub autoattach_mem_balloon: Option<bool> = "autoattachMemBalloon",
        /// An input device where none is named.
        pub autoattach_input_device: Option<bool> = "autoattachInputDevice",
        /// A socket between host and guest.
        pub autoattach_vsock: Option<bool> = "autoattachVSOCK",
        /// A source of randomness.
        pub rng: Option<Empty> = "rng",
        /// One queue of each virtio disk for each processor.
        pub block_multi_queue: Option<bool> = "blockMultiQueue",
        /// One queue of each virtio interface for each processor.
        pub network_interface_multiqueue: Option<bool> = "networkInterfaceMultiqueue",
        /// GPUs of the host.
        pub gpus: Vec<Gpu> = "gpus",
        /// Figures of the host for the guest.
        pub downward_metrics: Option<Empty> = "downwardMetrics",
        /// Devices by which a guest says that it has panicked.
        pub panic_devices: Vec<PanicDevice> = "panicDevices",
        /// Volumes that the guest mounts as file systems.
        pub filesystems: Vec<Filesystem> = "filesystems",
        /// Devices of the host.
        pub host_devices: Vec<HostDevice> = "hostDevices",
        /// USB devices of whoever looks at the screen.
        pub client_passthrough: Option<Empty> = "clientPassthrough",
        /// A sound card.
        pub sound: Option<Sound> = "sound",
        /// A TPM.
        pub tpm: Option<Tpm> = "tpm",
        /// The screen's model.
        pub video: Option<VideoDevice> = "video",
    }
}

object! {
    /// A watchdog.
    pub struct Watchdog {
        /// Its name.
        pub name: String = "name",
        /// The one for PCs.
        pub i6300esb: Option<I6300esb> = "i6300esb",
        /// The one for s390x.
        pub diag288: Option<Diag288> = "diag288",
    }
}

object! {
    /// An Intel 6300ESB.
    pub struct I6300esb {
        /// What it does; not said is `reset`.
        pub action: Option<WatchdogAction> = "action",
    }
}

object! {
    /// A watchdog of s390x.
    pub struct Diag288 {
        /// What it does; not said is `reset`.
        pub action: Option<WatchdogAction> = "action",
    }
}

object! {
    /// An input device.
    pub struct Input {
        /// How it is attached.
        pub bus: Option<InputBus> = "bus",
        /// What it is.
        pub r#type: InputType = "type",
        /// Its name.
        pub name: String = "name",
    }
}

object! {
    /// A GPU of the host.
    pub struct Gpu {
        /// Its name.
        pub name: String = "name",
        /// The resource that the node advertises.
        pub device_name: Option<String> = "deviceName",
        /// The claim's name.
        pub claim_name: Option<String> = "claimName",
        /// The request of that claim.
        pub request_name: Option<String> = "requestName",
        /// How it is used.
        pub virtual_gpu_options: Option<VgpuOptions> = "virtualGPUOptions",
        /// A note to the guest.
        pub tag: Option<String> = "tag",
    }
}

object! {
    /// How a part of a GPU is used.
    pub struct VgpuOptions {
        /// Whether it is a display.
        pub display: Option<VgpuDisplay> = "display",
    }
}

object! {
    /// Whether it is a display.
    pub struct VgpuDisplay {
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: Option<bool> = "enabled",
        /// Whether the firmware can write to it.
        pub ram_fb: Option<FeatureState> = "ramFB",
    }
}

object! {
    /// A device by which a guest says that it has panicked.
    pub struct PanicDevice {
        /// Its model; not said is `hyperv`.
        pub model: Option<PanicModel> = "model",
    }
}

object! {
    /// A volume that the guest mounts as a file system.
    pub struct Filesystem {
        /// Its name.
        pub name: String = "name",
        /// The only way there is.
        pub virtiofs: Option<Empty> = "virtiofs",
    }
}

object! {
    /// A device of the host.
    pub struct HostDevice {
        /// Its name.
        pub name: String = "name",
        /// The resource that the node advertises.
        pub device_name: Option<String> = "deviceName",
        /// The claim's name.
        pub claim_name: Option<String> = "claimName",
        /// The request of that claim.
        pub request_name: Option<String> = "requestName",
        /// A note to the guest.
        pub tag: Option<String> = "tag",
    }
}

object! {
    /// A sound card.
    pub struct Sound {
        /// Its name.
        pub name: String = "name",
        /// `ich9` or `ac97`.
        pub model: Option<String> = "model",
    }
}

object! {
    /// A TPM.
    pub struct Tpm {
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: Option<bool> = "enabled",
        /// What it holds outlives the machine.
        pub persistent: Option<bool> = "persistent",
    }
}

object! {
    /// The screen.
    pub struct VideoDevice {
        /// Its model.
        pub r#type: Option<String> = "type",
    }
}

words! {
    /// What happens when the guest does not answer.
    #[allow(missing_docs)]
    pub enum WatchdogAction {
        Poweroff = "poweroff",
        Reset = "reset",
        Shutdown = "shutdown",
    }
}

words! {
    /// How an input device is attached.
    #[allow(missing_docs)]
    pub enum InputBus {
        Usb = "usb",
        Virtio = "virtio",
    }
}

words! {
    /// What it is.
    #[allow(missing_docs)]
    pub enum InputType {
        Tablet = "tablet",
        Keyboard = "keyboard",
    }
}

words! {
    /// The model of a panic device.
    #[allow(missing_docs)]
    pub enum PanicModel {
        Hyperv = "hyperv",
        Isa = "isa",
        Pvpanic = "pvpanic",
    }
}
