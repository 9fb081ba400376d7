//! Host devices of this VM, from the environment variables that device plugins set in the launcher's
//! container, and from the status of the VMI for devices of ResourceClaims.
//!
//! No address comes from the spec. Each entry of a list has one PCI or mediated device, or as many USB
//! devices as its resource has selectors. So the addresses of one resource are divided evenly among its
//! entries, in order.
//!
//! A device of a ResourceClaim is checked twice: its address or UUID must be valid, and the kubelet must have
//! given the container the device file of its IOMMU group ([`DeviceFiles`]). The ResourceSlice of a DRA
//! driver is not trusted beyond that.

use crate::domain::host_device::HostAddress;
use crate::error::{Error, ErrorKind, Result};
use api::machine::host_device::{Claimed, MEDIATED, Origin, PCI, USB, variable};
use api::machine::{HostDevice, Machine, PciAddress};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Longest variable that is read, and most addresses in one.
const LONGEST: usize = 16 << 10;
const MOST: usize = 256;

/// Host devices of the VM, by the position in its list.
pub(crate) fn host_devices(
    machine: &Machine,
    value: impl Fn(&str) -> Option<String>,
    given: &DeviceFiles,
) -> Result<Vec<Vec<HostAddress>>> {
    let mut entries: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut all = Vec::new();
    for (n, device) in machine.host_devices.iter().enumerate() {
        all.push(match &device.origin {
            Origin::Resource(resource) => {
                entries.entry(resource).or_default().push(n);
                Vec::new()
            }
            Origin::Claim(claimed) => vec![of_claim(device, claimed, given)?],
        });
    }
    for (resource, entries) in entries {
        let shares = shares(resource, entries.len(), &value)?;
        for (entry, share) in entries.into_iter().zip(shares) {
            if let Some(place) = all.get_mut(entry) {
                *place = share;
            }
        }
    }
    let mut places = all.iter().flatten();
    while let Some(place) = places.next() {
        if places.clone().any(|other| other == place) {
            return Err(Error::refused(format!(
                "spec.domain.devices: two entries of gpus and hostDevices are the device {}, and a guest has it once: look at the \
                 ResourceClaims and at the DRA driver",
                address_text(place)
            )));
        }
    }
    Ok(all)
}

fn address_text(address: &HostAddress) -> String {
    match address {
        HostAddress::Pci(address) => address.to_string(),
        HostAddress::Mediated(uuid) => uuid.clone(),
        HostAddress::Usb { bus, device } => format!("{bus}:{device}"),
    }
}

/// Folders with the IOMMU groups of devices, and with the device files of this container.
#[derive(Clone, Debug)]
pub(crate) struct DeviceFiles {
    sys: PathBuf,
    vfio: PathBuf,
}

impl DeviceFiles {
    /// The folders of this container.
    pub(crate) fn here() -> DeviceFiles {
        DeviceFiles { sys: "/sys/bus".into(), vfio: "/dev/vfio".into() }
    }

    /// Reason why the device is not this container's: the kubelet has not given it the file of the IOMMU
    /// group. `None` if it has.
    fn lacks(&self, address: &HostAddress) -> Option<String> {
        let place = match address {
            HostAddress::Pci(address) => format!("pci/devices/{address}"),
            HostAddress::Mediated(uuid) => format!("mdev/devices/{uuid}"),
            HostAddress::Usb { .. } => return None,
        };
        let link = std::fs::read_link(self.sys.join(place).join("iommu_group")).ok();
        let Some(group) = link.as_ref().and_then(|link| link.file_name()) else {
            let why = "it has no IOMMU group on this node: the device does not exist, or the IOMMU is off";
            return Some(why.to_owned());
        };
        (!self.vfio.join(group).exists()).then(|| {
            format!(
                "the container does not have /dev/vfio/{}, the file of its IOMMU group: the kubelet has given it another device than \
                 the ResourceSlice of its driver says",
                group.to_string_lossy()
            )
        })
    }
}

/// The device of a ResourceClaim, from the status of the VMI.
fn of_claim(device: &HostDevice, claimed: &Claimed, given: &DeviceFiles) -> Result<HostAddress> {
    let Claimed { claim, request, pci_address, mediated } = claimed;
    let what = format!(
        "spec.domain.devices.{} '{}' (request {request} of the ResourceClaim {claim})",
        device.list.field(),
        device.name
    );
    let odd = |field: &str, text: &str| {
        let shown: String = text.chars().take(64).collect();
        Error::refused(format!("{what}: {field} {shown:?} in the status of the VMI is not an address"))
    };
    // A device that is part of another may have the address of that, too.
    let address = match (mediated, pci_address) {
        (Some(uuid), _) => HostAddress::mediated(uuid).ok_or_else(|| odd("mDevUUID", uuid))?,
        (None, Some(text)) => HostAddress::pci(text).ok_or_else(|| odd("pciAddress", text))?,
        (None, None) => {
            let what = format!(
                "{what}: virt-controller has not written to status.deviceStatus of the VMI where it is"
            );
            return Err(Error::new(ErrorKind::NotFound, what));
        }
    };
    match given.lacks(&address) {
        None => Ok(address),
        Some(why) => Err(Error::refused(format!(
            "{what} is {}, and {why}; look at the DRA driver",
            address_text(&address)
        ))),
    }
}

/// Devices of each of the `entries` entries with one resource.
fn shares(
    resource: &str,
    entries: usize,
    value: &impl Fn(&str) -> Option<String>,
) -> Result<Vec<Vec<HostAddress>>> {
    let read = |prefix, parse| read(&variable(prefix, resource), parse, value);
    let mut single: Vec<Vec<HostAddress>> = Vec::new();
    for found in [read(PCI, HostAddress::pci)?, read(MEDIATED, HostAddress::mediated)?] {
        single.extend(found.into_iter().map(|address| vec![address]));
    }
    let usb = read(USB, HostAddress::usb)?;
    let left = entries.saturating_sub(single.len());
    if left > 0 && !usb.is_empty() && usb.len().is_multiple_of(left) {
        single.extend(usb.chunks(usb.len() / left).map(<[_]>::to_vec));
    }
    if single.len() < entries {
        return Err(too_few(resource, entries, single.len(), usb.len()));
    }
    single.truncate(entries);
    Ok(single)
}

/// Addresses in a variable; empty if it is not set. A duplicate address is an error of the device plugin.
fn read(
    name: &str,
    parse: fn(&str) -> Option<HostAddress>,
    value: &impl Fn(&str) -> Option<String>,
) -> Result<Vec<HostAddress>> {
    let Some(text) = value(name).filter(|text| !text.is_empty()) else { return Ok(Vec::new()) };
    let wrong = |why: String| {
        Error::refused(format!(
            "the variable {name} of this container, which a device plugin has set, {why}; look at that device plugin"
        ))
    };
    if text.len() > LONGEST {
        return Err(wrong(format!("has {} bytes, more than {LONGEST}", text.len())));
    }
    let mut found = Vec::new();
    for address in text.split(',').map(str::trim) {
        let shown = || address.chars().take(64).collect::<String>();
        let read =
            parse(address).ok_or_else(|| wrong(format!("holds {:?}, which is not an address", shown())))?;
        if found.contains(&read) {
            return Err(wrong(format!("holds {} twice", shown())));
        }
        if found.len() == MOST {
            return Err(wrong(format!("holds more than {MOST} addresses")));
        }
        found.push(read);
    }
    Ok(found)
}

fn too_few(resource: &str, entries: usize, single: usize, usb: usize) -> Error {
    let found = match (single, usb) {
        (0, 0) => "no device".to_owned(),
        (single, 0) => format!("{single}"),
        (single, usb) => format!("{single}, and {usb} USB devices, which cannot be shared out evenly"),
    };
    let names = [PCI, MEDIATED, USB].map(|prefix| variable(prefix, resource)).join(", ");
    Error::new(
        ErrorKind::NotFound,
        format!(
            "spec.domain.devices: {entries} entries of gpus and hostDevices have the resource {resource}, and device plugins have \
             given this container {found} of it (variables {names}); look at the log of virt-handler on this node, or at the \
             device plugin that permittedHostDevices of the KubeVirt object leaves it to"
        ),
    )
}

/// Prefix of the variables with the addresses of virtual functions.
const FUNCTIONS: &str = "PCIDEVICE";
/// Prefix of the PCI class of network devices; no more of the class is read.
const NETWORK: &str = "0x02";
const CLASS: u64 = 16;
/// Prefix of the variable with the resource of a network, before the network's name.
const RESOURCE_OF: &str = "KUBEVIRT_RESOURCE_NAME_";

/// Refuses a virtual function that the device plugin of its network has not given to the pod, if the plugin
/// sets variables. (A plugin without variables tells only Multus; the kubelet then keeps other devices from
/// the launcher.)
pub(super) fn check_assigned(
    network: &str,
    address: &str,
    value: impl Fn(&str) -> Option<String>,
) -> Result<()> {
    let resource = value(&format!("{RESOURCE_OF}{network}"));
    let Some(variable) = resource.map(|resource| variable(FUNCTIONS, &resource)) else { return Ok(()) };
    let Some(given) = value(&variable) else { return Ok(()) };
    if given.len() <= LONGEST && given.split(',').any(|one| one == address) {
        return Ok(());
    }
    Err(Error::refused(format!(
        "the virtual function {address} of the network '{network}' is none that {variable}, which the device plugin of the node \
         sets, has for this pod"
    )))
}

/// Refuses a virtual function that is not a network device. The author of a NetworkAttachmentDefinition can
/// name any resource of the node there, but other devices of VMIs must be permitted by
/// `permittedHostDevices`. `sysfs`: path of `/sys`.
pub(super) fn check_network_device(network: &str, address: &str, sysfs: &Path) -> Result<()> {
    let refused = |why: String| {
        let address: String = address.chars().filter(|c| !c.is_control()).take(64).collect();
        Err(Error::refused(format!("the virtual function {address} of the network '{network}' {why}")))
    };
    let Some(parsed) = PciAddress::parse(address) else {
        return refused("is not the address of a PCI device".to_owned());
    };
    let path = sysfs.join(format!("bus/pci/devices/{parsed}/class"));
    let mut class = String::new();
    let read = File::open(&path).and_then(|file| file.take(CLASS).read_to_string(&mut class));
    match read {
        Ok(_) if class.starts_with(NETWORK) => Ok(()),
        Ok(_) => refused(format!("is not a network device: its PCI class is {:?}", class.trim())),
        Err(e) => refused(format!("cannot be checked: {}: {e}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::vmi::VirtualMachineInstance;
    use serde_json::json;

    fn machine(gpus: &[&str], others: &[&str]) -> Machine {
        let list = |resources: &[&str]| {
            let each = resources.iter().enumerate();
            each.map(|(n, resource)| json!({"name": format!("d{n}"), "deviceName": resource}))
                .collect::<Vec<_>>()
        };
        let vmi: VirtualMachineInstance = api::wire::read(json!({
            "metadata": {"name": "vm", "namespace": "n"},
            "spec": {"domain": {
                "memory": {"guest": "128Mi"},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"gpus": list(gpus), "hostDevices": list(others), "autoattachPodInterface": false},
            }},
        }))
        .unwrap();
        Machine::check_again(&vmi).unwrap()
    }

    fn of(machine: &Machine, variables: &[(&str, &str)]) -> Result<Vec<Vec<HostAddress>>> {
        let value =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        host_devices(machine, value, &nothing())
    }

    /// A host that shows no IOMMU group.
    fn nothing() -> DeviceFiles {
        DeviceFiles { sys: "/nowhere".into(), vfio: "/nowhere".into() }
    }

    /// A host with a mediated device in the group 7, and a card in the group 12. The container has these
    /// files.
    fn tree(root: &Path, files: &[&str]) -> DeviceFiles {
        let given = DeviceFiles { sys: root.join("sys"), vfio: root.join("vfio") };
        std::fs::create_dir(&given.vfio).unwrap();
        for (place, group) in [(format!("mdev/devices/{UUID}"), "7"), (format!("pci/devices/{CARD}"), "12")] {
            let folder = given.sys.join(place);
            std::fs::create_dir_all(&folder).unwrap();
            let link = format!("../../../kernel/iommu_groups/{group}");
            std::os::unix::fs::symlink(link, folder.join("iommu_group")).unwrap();
        }
        files.iter().for_each(|file| std::fs::write(given.vfio.join(file), "").unwrap());
        given
    }

    const CARD: &str = "0000:82:00.1";

    /// With a GPU and a card of the ResourceClaim `c`, as a status says where they are.
    fn claimed(gpu: &serde_json::Value, card: &serde_json::Value) -> Machine {
        let device =
            |name: &str, request: &str| json!({"name": name, "claimName": "c", "requestName": request});
        let told = |name: &str, attributes: &serde_json::Value| json!([{"name": name, "deviceResourceClaimStatus": {"resourceClaimName": "one", "attributes": attributes}}]);
        let vmi: VirtualMachineInstance = api::wire::read(json!({
            "metadata": {"name": "vm", "namespace": "n"},
            "spec": {
                "resourceClaims": [{"name": "c", "resourceClaimName": "one"}],
                "domain": {
                    "memory": {"guest": "128Mi"},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": {
                        "gpus": [device("gpu", "gpu")], "hostDevices": [device("card", "card")],
                        "autoattachPodInterface": false,
                    },
                },
            },
            "status": {"deviceStatus": {"gpuStatuses": told("gpu", gpu), "hostDeviceStatuses": told("card", card)}},
        }))
        .unwrap();
        Machine::check_again(&vmi).unwrap()
    }

    #[test]
    fn devices_of_claims_are_where_the_status_says() {
        let gpu = json!({"mDevUUID": UUID, "pciAddress": "0000:81:00.0"});
        let machine = claimed(&gpu, &json!({"pciAddress": CARD}));
        let root = tempfile::tempdir().unwrap();
        let given = tree(root.path(), &["7", "12", "vfio"]);
        let found = host_devices(&machine, |_| Some("0000:99:00.0".to_owned()), &given).unwrap();
        let card = HostAddress::pci(CARD).unwrap();
        assert_eq!(found, [vec![HostAddress::Mediated(UUID.into())], vec![card]]);
    }

    #[test]
    fn a_status_that_says_no_address_is_refused_by_name() {
        let card = json!({"pciAddress": CARD});
        let root = tempfile::tempdir().unwrap();
        let given = tree(root.path(), &["7", "12"]);
        for (gpu, kind, why) in [
            (
                json!({"pciAddress": "../../etc/passwd"}),
                ErrorKind::Refused,
                "pciAddress \"../../etc/passwd\"",
            ),
            (json!({"mDevUUID": "'/><disk"}), ErrorKind::Refused, "mDevUUID"),
            (json!({"mDevUUID": "x", "pciAddress": "0000:81:00.0"}), ErrorKind::Refused, "mDevUUID \"x\""),
            (json!({}), ErrorKind::NotFound, "has not written to status.deviceStatus"),
            (card.clone(), ErrorKind::Refused, "two entries"),
        ] {
            let said = host_devices(&claimed(&gpu, &card), |_| None, &given).unwrap_err();
            assert_eq!(said.kind(), kind, "{said}");
            assert!(said.to_string().contains(why), "{said}");
        }
    }

    #[test]
    fn a_device_whose_file_the_kubelet_has_not_given_is_refused() {
        let machine = claimed(&json!({"mDevUUID": UUID}), &json!({"pciAddress": CARD}));
        let root = tempfile::tempdir().unwrap();
        let said = host_devices(&machine, |_| None, &tree(root.path(), &["7", "vfio"])).unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Refused);
        let said = said.to_string();
        assert!(said.contains("hostDevices 'card'") && said.contains("does not have /dev/vfio/12"), "{said}");
        // One that the node does not have at all is none either.
        let said = of(&machine, &[]).unwrap_err().to_string();
        assert!(said.contains("gpus 'gpu'") && said.contains("has no IOMMU group"), "{said}");
    }

    const UUID: &str = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001";

    #[test]
    fn entries_have_the_devices_of_their_resource_in_order() {
        let machine = machine(&["v.io/gpu", "v.io/vgpu"], &["v.io/usb", "v.io/gpu", "v.io/usb"]);
        let variables = [
            ("PCI_RESOURCE_V_IO_GPU", "0000:81:00.0,0000:82:00.0"),
            ("MDEV_PCI_RESOURCE_V_IO_VGPU", UUID),
            ("USB_RESOURCE_V_IO_USB", "1:2,1:3,2:2,2:3"),
        ];
        let pci = |bus| HostAddress::pci(&format!("0000:{bus}:00.0")).unwrap();
        let usb = |bus, device| HostAddress::Usb { bus, device };
        let found = of(&machine, &variables).unwrap();
        assert_eq!(
            found,
            [
                vec![pci(81)],
                vec![HostAddress::Mediated(UUID.into())],
                vec![usb(1, 2), usb(1, 3)],
                vec![pci(82)],
                vec![usb(2, 2), usb(2, 3)],
            ]
        );
        assert_eq!(of(&self::machine(&[], &[]), &variables).unwrap(), Vec::<Vec<_>>::new());
    }

    #[test]
    fn a_device_that_is_missing_is_named() {
        let two = machine(&["v.io/gpu", "v.io/gpu"], &[]);
        for (variables, found) in [
            (&[][..], "no device"),
            (&[("PCI_RESOURCE_V_IO_GPU", "")], "no device"),
            (&[("PCI_RESOURCE_V_IO_GPU", "0000:81:00.0")], "1 of it"),
            (&[("USB_RESOURCE_V_IO_GPU", "1:2,1:3,1:4")], "3 USB devices"),
        ] {
            let said = of(&two, variables).unwrap_err();
            assert_eq!(said.kind(), ErrorKind::NotFound);
            let said = said.to_string();
            assert!(said.contains("the resource v.io/gpu") && said.contains(found), "{said}");
            assert!(said.contains("MDEV_PCI_RESOURCE_V_IO_GPU"), "{said}");
        }
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        let one = machine(&["v.io/gpu"], &[]);
        let long = "0000:81:00.0,".repeat(2000);
        let many: Vec<String> = (0..300).map(|n| format!("0000:{:02x}:{:02x}.0", n / 32, n % 32)).collect();
        let many = many.join(",");
        for (name, value, why) in [
            ("PCI_RESOURCE_V_IO_GPU", "../../etc/passwd", "is not an address"),
            ("PCI_RESOURCE_V_IO_GPU", "0000:81:00.0,", "is not an address"),
            ("PCI_RESOURCE_V_IO_GPU", "0000:81:00.0,0000:81:00.0", "twice"),
            ("MDEV_PCI_RESOURCE_V_IO_GPU", "'/><disk", "is not an address"),
            ("USB_RESOURCE_V_IO_GPU", "0:0", "is not an address"),
            ("PCI_RESOURCE_V_IO_GPU", &long, "more than 16384"),
            ("PCI_RESOURCE_V_IO_GPU", &many, "more than 256"),
        ] {
            let said = of(&one, &[(name, value)]).unwrap_err();
            assert_eq!(said.kind(), ErrorKind::Refused, "{said}");
            assert!(said.to_string().contains(name) && said.to_string().contains(why), "{said}");
        }
    }

    #[test]
    fn a_virtual_function_is_a_network_device() {
        let sysfs = tempfile::tempdir().unwrap();
        let device = |address: &str, class: &str| {
            let folder = sysfs.path().join("bus/pci/devices").join(address);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("class"), class).unwrap();
        };
        device("0000:65:00.2", "0x020000\n");
        device("0000:81:00.0", "0x030000\n");
        assert!(check_network_device("blue", "0000:65:00.2", sysfs.path()).is_ok());
        for (address, why) in [
            ("0000:81:00.0", "is not a network device: its PCI class is \"0x030000\""),
            ("0000:65:00.3", "cannot be checked"),
            ("../../0000:65:00.2", "is not the address of a PCI device"),
        ] {
            let error = check_network_device("blue", address, sysfs.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(error.to_string().contains(why) && error.to_string().contains("'blue'"), "{error}");
        }
    }

    #[test]
    fn a_virtual_function_is_one_of_the_pods() {
        let with = |given: Option<&str>, address: &str| {
            check_assigned("blue", address, |name| match name {
                "KUBEVIRT_RESOURCE_NAME_blue" => Some("intel.com/vf_a".to_owned()),
                "PCIDEVICE_INTEL_COM_VF_A" => given.map(str::to_owned),
                _ => None,
            })
        };
        assert!(with(Some("0000:65:00.1,0000:65:00.2"), "0000:65:00.2").is_ok());
        assert!(with(None, "0000:65:00.2").is_ok(), "the plugin tells Multus alone");
        assert!(check_assigned("blue", "0000:65:00.2", |_| None).is_ok());
        for given in ["", "0000:65:00.1", "0000:65:00.20"] {
            let error = with(Some(given), "0000:65:00.2").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(error.to_string().contains("PCIDEVICE_INTEL_COM_VF_A"), "{error}");
        }
    }
}
