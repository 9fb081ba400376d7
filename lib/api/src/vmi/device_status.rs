//! Observed state of the devices of a VMI that are of ResourceClaims.

use crate::object;

object! {
    /// Devices of the node that ResourceClaims (dynamic resource allocation) allocate to the VMI.
    pub struct DeviceStatus {
        /// GPUs of ResourceClaims, one entry for each GPU of the spec with `claimName`.
        pub gpu_statuses: Vec<DeviceStatusInfo> = "gpuStatuses",
        /// Host devices of ResourceClaims, one entry for each host device of the spec with `claimName`.
        pub host_device_statuses: Vec<DeviceStatusInfo> = "hostDeviceStatuses",
    }
}

object! {
    /// Observed state of a device of the VMI.
    pub struct DeviceStatusInfo by "name" {
        /// Name of the device in the spec of the VMI.
        pub name: String = "name",
        /// Device of the node that the ResourceClaim allocates.
        pub device_resource_claim_status: Option<DeviceResourceClaimStatus> = "deviceResourceClaimStatus",
    }
}

object! {
    /// Device of the node that a ResourceClaim allocates.
    pub struct DeviceResourceClaimStatus {
        /// Name of the device in its ResourceSlice.
        pub name: Option<String> = "name",
        /// Name of the ResourceClaim in the namespace of the VMI.
        pub resource_claim_name: Option<String> = "resourceClaimName",
        /// Attributes of the device, from its ResourceSlice.
        pub attributes: Option<DeviceAttribute> = "attributes",
    }
}

object! {
    /// Attributes by which a device is found on its node.
    pub struct DeviceAttribute {
        /// PCI address of the device on the node, for example `0000:81:00.0`.
        pub pci_address: Option<String> = "pciAddress",
        /// UUID of the mediated device on the node.
        pub mdev_uuid: Option<String> = "mDevUUID",
    }
}
