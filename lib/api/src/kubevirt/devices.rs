//! Host devices that VMIs are permitted to use.

use crate::object;
use std::collections::BTreeMap;

object! {
    /// Host devices that VMIs are permitted to use.
    pub struct PermittedHostDevices {
        /// PCI devices that VMIs are permitted to use.
        pub pci_host_devices: Vec<PciHostDevice> = "pciHostDevices",
        /// Mediated devices that VMIs are permitted to use.
        pub mediated_devices: Vec<MediatedHostDevice> = "mediatedDevices",
        /// USB devices that VMIs are permitted to use.
        pub usb: Vec<UsbHostDevice> = "usb",
    }
}

object! {
    /// PCI devices that VMIs are permitted to use.
    pub struct PciHostDevice {
        /// PCI vendor and product ID, for example `10de:1eb8`.
        pub pci_vendor_selector: String = "pciVendorSelector",
        /// Extended resource that the nodes advertise, for example `nvidia.com/TU104GL`.
        pub resource_name: String = "resourceName",
        /// Leaves the advertisement to a device plugin outside this installation. Default: false.
        pub external_resource_provider: Option<bool> = "externalResourceProvider",
    }
}

object! {
    /// Mediated devices that VMIs are permitted to use.
    pub struct MediatedHostDevice {
        /// Name of the mediated device type, for example `GRID T4-1Q`.
        pub mdev_name_selector: String = "mdevNameSelector",
        /// Extended resource that the nodes advertise, for example `nvidia.com/GRID_T4-1Q`.
        pub resource_name: String = "resourceName",
        /// Leaves the advertisement to a device plugin outside this installation. Default: false.
        pub external_resource_provider: Option<bool> = "externalResourceProvider",
    }
}

object! {
    /// USB devices that VMIs are permitted to use.
    pub struct UsbHostDevice {
        /// Extended resource that the nodes advertise, for example `example.com/storage`.
        pub resource_name: String = "resourceName",
        /// USB devices that are assigned together, one per selector.
        pub selectors: Vec<UsbSelector> = "selectors",
        /// Leaves the advertisement to a device plugin outside this installation. Default: false.
        pub external_resource_provider: Option<bool> = "externalResourceProvider",
    }
}

object! {
    /// Selector of a USB device by vendor and product.
    pub struct UsbSelector {
        /// USB vendor ID, for example `046d`.
        pub vendor: String = "vendor",
        /// USB product ID, for example `c077`.
        pub product: String = "product",
    }
}

object! {
    /// Mediated devices to create on the nodes.
    pub struct MediatedDevices {
        /// Deprecated, use `mediatedDeviceTypes`: types to create.
        pub mediated_devices_types: Vec<String> = "mediatedDevicesTypes",
        /// Types of mediated devices to create on every capable node.
        pub mediated_device_types: Vec<String> = "mediatedDeviceTypes",
        /// Types of mediated devices to create on selected nodes.
        pub node_mediated_device_types: Vec<NodeMediatedDevices> = "nodeMediatedDeviceTypes",
        /// Enables the creation of mediated devices. Default: true.
        pub enabled: Option<bool> = "enabled",
    }
}

object! {
    /// Types of mediated devices to create on selected nodes.
    pub struct NodeMediatedDevices {
        /// Labels of the nodes to select.
        pub node_selector: BTreeMap<String, String> = "nodeSelector",
        /// Deprecated, use `mediatedDeviceTypes`: types to create.
        pub mediated_devices_types: Vec<String> = "mediatedDevicesTypes",
        /// Types of mediated devices to create on the nodes.
        pub mediated_device_types: Vec<String> = "mediatedDeviceTypes",
    }
}
