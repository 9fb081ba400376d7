//! Host devices, and the environment variables by which a device plugin names them to the launcher.
//!
//! ```text
//!  spec: deviceName ─► resource of the pod ─► scheduler, kubelet ─Allocate─► device plugin
//!                                                                                │ variables of the container
//!  launcher: `PCI_RESOURCE_…`, `MDEV_PCI_RESOURCE_…`, `USB_RESOURCE_…` ◄─────────┘
//! ```
//!
//! So the author of a spec cannot choose an address. The names of the variables are KubeVirt's: other
//! vendors' device plugins set them too.
//!
//! A device of a ResourceClaim (dynamic resource allocation) has no such variable. virt-controller finds its address in the
//! ResourceSlices of its driver:
//!
//! ```text
//!  spec: claimName, requestName ─► pod ─► scheduler: ResourceClaim ─► kubelet: device files of the container
//!                                                    └─ virt-controller ─► ResourceSlice ─► status.deviceStatus ─► launcher
//! ```
//!
//! The launcher uses the device only if the kubelet has given its container the device file.

/// A device of the node that is assigned to the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDevice {
    /// Name of the device; unique among the devices of its list.
    pub name: String,
    /// List of the spec that the device stands in.
    pub list: List,
    pub origin: Origin,
    /// Display of a mediated device.
    pub display: Option<Display>,
    /// Tag of the device in the config drive.
    pub tag: Option<String>,
}

/// Origin of a device of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Extended resource that the device is one of (`deviceName`).
    Resource(String),
    Claim(Claimed),
}

/// A device of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The entry of `resourceClaims` (`claimName`).
    pub claim: String,
    /// The request in the ResourceClaim (`requestName`).
    pub request: String,
    /// PCI address from the status of the VMI, not validated.
    pub pci_address: Option<String>,
    /// UUID of a mediated device, from the status of the VMI.
    pub mediated: Option<String>,
}

/// The list of a spec that a host device stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Gpus,
    HostDevices,
}

/// Display of a virtual GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Display {
    /// The device has a frame buffer in memory until the guest's driver runs.
    pub ramfb: bool,
}

/// Most host devices of a VMI: that many PCIe root ports are reserved for them.
pub const MOST: usize = 24;

/// Prefix of the variable with the addresses of PCI devices: `0000:81:00.0`.
pub const PCI: &str = "PCI_RESOURCE";
/// Prefix of the variable with the UUIDs of mediated devices.
pub const MEDIATED: &str = "MDEV_PCI_RESOURCE";
/// Prefix of the variable with buses and numbers of USB devices: `1:4`.
pub const USB: &str = "USB_RESOURCE";

/// Name of the variable of a resource: `PCI_RESOURCE_NVIDIA_COM_TU104GL` for `nvidia.com/TU104GL`.
pub fn variable(prefix: &str, resource: &str) -> String {
    let name = |letter: char| if matches!(letter, '/' | '.') { '_' } else { letter.to_ascii_uppercase() };
    format!("{prefix}_{}", resource.chars().map(name).collect::<String>())
}

impl List {
    /// Name of the field below `domain.devices`.
    pub fn field(self) -> &'static str {
        match self {
            List::Gpus => "gpus",
            List::HostDevices => "hostDevices",
        }
    }
}

impl HostDevice {
    /// Request of a ResourceClaim that the device comes from; `None` if it comes from an extended resource.
    pub fn claimed(&self) -> Option<&Claimed> {
        match &self.origin {
            Origin::Claim(claimed) => Some(claimed),
            Origin::Resource(_) => None,
        }
    }

    /// Alias of the device in libvirt, the same as KubeVirt's. A dot becomes `_`, since libvirt drops names
    /// with a dot.
    pub fn alias(&self) -> String {
        let prefix = match self.list {
            List::Gpus => "gpu",
            List::HostDevices => "hostdevice",
        };
        format!("{prefix}-{}", self.name.replace('.', "_"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_the_names_of_kubevirt() {
        assert_eq!(variable(PCI, "nvidia.com/TU104GL"), "PCI_RESOURCE_NVIDIA_COM_TU104GL");
        assert_eq!(variable(MEDIATED, "nvidia.com/GRID_T4-1Q"), "MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_T4-1Q");
        assert_eq!(variable(USB, "kubevirt.io/usb.stick"), "USB_RESOURCE_KUBEVIRT_IO_USB_STICK");
    }

    #[test]
    fn libvirt_keeps_the_name_of_a_device() {
        let device = |list, name: &str| HostDevice {
            name: name.into(),
            list,
            origin: Origin::Resource("a.b/c".into()),
            display: None,
            tag: None,
        };
        assert_eq!(device(List::Gpus, "a.b").alias(), "gpu-a_b");
        assert_eq!(device(List::HostDevices, "card").alias(), "hostdevice-card");
    }
}
