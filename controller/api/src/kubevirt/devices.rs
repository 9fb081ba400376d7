//! Devices of the nodes that machines may have.

use crate::object;
use std::collections::BTreeMap;

object! {
    /// Devices of the nodes that machines may have.
    pub struct PermittedHostDevices {
        /// PCI devices.
        pub pci_host_devices: Vec<PciHostDevice> = "pciHostDevices",
        /// Parts of devices that their drivers divide.
        pub mediated_devices: Vec<MediatedHostDevice> = "mediatedDevices",
        /// USB devices.
        pub usb: Vec<UsbHostDevice> = "usb",
    }
}

object! {
    /// PCI devices that machines may have.
    pub struct PciHostDevice {
        /// Maker and product: `10de:1eb8`.
        pub pci_vendor_selector: String = "pciVendorSelector",
        /// The resource that the node advertises.
        pub resource_name: String = "resourceName",
        /// Somebody else advertises it.
        pub external_resource_provider: Option<bool> = "externalResourceProvider",
    }
}

object! {
    /// Parts of devices that machines may have.
    pub struct MediatedHostDevice {
        /// The type's name: `GRID T4-1Q`.
        pub mdev_name_selector: String = "mdevNameSelector",
        /// The resource that the node advertises.
        pub resource_name: String = "resourceName",
        /// Somebody else advertises it.
        pub external_resource_provider: Option<bool> = "externalResourceProvider",
    }
}

object! {
    /// USB devices that machines may have.
    pub struct UsbHostDevice {
        /// The resource that the node advertises.
        pub resource_name: String = "resourceName",
        /// Devices that belong together: one of each.
        pub selectors: Vec<UsbSelector> = "selectors",
        /// Somebody else advertises it.
        pub external_resource_provider: Option<bool> = "externalResourceProvider",
    }
}

object! {
    /// A USB device.
    pub struct UsbSelector {
        /// The maker's number: `046d`.
        pub vendor: String = "vendor",
        /// The product's number: `c077`.
        pub product: String = "product",
    }
}

object! {
    /// Into what devices are divided.
    pub struct MediatedDevices {
        /// Deprecated: `mediatedDeviceTypes`.
        pub mediated_devices_types: Vec<String> = "mediatedDevicesTypes",
        /// The types that are made on every node that can.
        pub mediated_device_types: Vec<String> = "mediatedDeviceTypes",
        /// The types that are made on some nodes.
        pub node_mediated_device_types: Vec<NodeMediatedDevices> = "nodeMediatedDeviceTypes",
        /// Whether they are made at all; not said is yes.
        pub enabled: Option<bool> = "enabled",
    }
}

object! {
    /// Into what the devices of some nodes are divided.
    pub struct NodeMediatedDevices {
        /// Labels of the nodes.
        pub node_selector: BTreeMap<String, String> = "nodeSelector",
        /// Deprecated: `mediatedDeviceTypes`.
        pub mediated_devices_types: Vec<String> = "mediatedDevicesTypes",
        /// The types that are made on them.
        pub mediated_device_types: Vec<String> = "mediatedDeviceTypes",
    }
}
