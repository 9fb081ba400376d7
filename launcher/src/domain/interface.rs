//! Interfaces. libvirt handles an interface on an existing tap and one of passt, which libvirt starts
//! (`passt`). A user-mode network is passed to QEMU directly (`usernet`). A virtual function of a card is a
//! host device (`host_device`).

use super::error::DomainError;
use super::pci_devices::PciDevice;
use super::qemu_arguments::QemuArguments;
use super::xml::Element;
use super::{Domain, alias, host_device};
use api::launcher::Link;
use api::machine::{Interface, Nic, PciAddress};

impl Domain<'_> {
    /// An interface, by its position. `None` for a user-mode network.
    pub(super) fn interface(
        &self,
        position: usize,
        qemu_arguments: &mut QemuArguments,
    ) -> Result<Option<Element>, DomainError> {
        let Some(nic) = self.machine.interfaces.get(position) else { return Ok(None) };
        let link = self.host.links.get(&nic.name);
        let (name, mac, mtu) =
            match link.ok_or_else(|| DomainError::unplaced(format!("interface `{}`", nic.name)))? {
                Link::Tap { name, mac, mtu, .. } => (name, mac, mtu),
                Link::Device { address, .. } => {
                    return self.virtual_function(position, nic, address).map(Some);
                }
                // Its place stays free: libvirt gives it to the interface of the sidecar.
                Link::Sidecar { .. } => return Ok(None),
                Link::Passt { device, mac } => {
                    let element = self.passt(position, nic, device, mac)?;
                    return Ok(Some(element));
                }
                Link::User { .. } => return self.user_network(position, nic, qemu_arguments).map(|()| None),
            };
        let queues = self.machine.network_multi_queue && nic.model == Nic::Virtio && self.queues() > 1;
        let element = Element::new("interface")
            .at("type", "ethernet")
            .and(Element::new("mac").at("address", checked_mac(mac, &field(position, "macAddress"))?))
            .and(Element::new("target").at("dev", name).at("managed", "no"))
            .and(Element::new("model").at("type", self.nic_model(nic.model)))
            .with(mtu.map(|size| Element::new("mtu").at("size", size)))
            .with(queues.then(|| Element::new("driver").at("queues", self.queues())))
            .with((!nic.up).then(|| Element::new("link").at("state", "down")));
        Ok(Some(self.placed(position, nic, element)))
    }

    /// Adds the parts that every link has: name, PCI address, and boot order.
    pub(super) fn placed(&self, position: usize, nic: &Interface, element: Element) -> Element {
        element
            .with(nic.boot_order.map(|order| Element::new("boot").at("order", order)))
            // Without a boot order the guest never boots from it, and loading its option ROM takes time.
            .with(nic.boot_order.is_none().then(|| Element::new("rom").at("enabled", "no")))
            .with(nic.acpi_index.map(|index| Element::new("acpi").at("index", index)))
            .and(alias(&nic.name))
            .with(self.places.element(PciDevice::Interface(position)))
    }

    /// True if libvirt handles the interface.
    pub(super) fn is_libvirts(&self, nic: &Interface) -> bool {
        let link = self.host.links.get(&nic.name);
        matches!(link, Some(Link::Tap { .. } | Link::Device { .. } | Link::Passt { .. }))
    }

    /// The element of a virtual function of a card of the host, passed through to the guest.
    fn virtual_function(
        &self,
        position: usize,
        nic: &Interface,
        address: &str,
    ) -> Result<Element, DomainError> {
        let address = PciAddress::parse(address).ok_or_else(|| {
            let why =
                format!("`{address}` is not the address of a PCI device of this host, like 0000:65:00.2");
            DomainError::refused(field(position, "sriov"), why)
        })?;
        Ok(host_device::pci(address)
            .with(nic.boot_order.map(|order| Element::new("boot").at("order", order)))
            .and(alias(&format!("sriov-{}", nic.name)))
            .with(self.places.element(PciDevice::Interface(position))))
    }

    pub(super) fn nic_model(&self, model: Nic) -> &'static str {
        match model {
            Nic::Virtio => self.virtio(),
            Nic::E1000 => "e1000",
            Nic::E1000e => "e1000e",
            Nic::Igb => "igb",
            Nic::Ne2kPci => "ne2k_pci",
            Nic::Pcnet => "pcnet",
            Nic::Rtl8139 => "rtl8139",
        }
    }
}

/// The path of an interface's field.
pub(super) fn field(position: usize, name: &str) -> String {
    format!("spec.domain.devices.interfaces[{position}].{name}")
}

/// The MAC address, which must be one of a single device, with six bytes.
pub(super) fn checked_mac<'m>(mac: &'m str, field: &str) -> Result<&'m str, DomainError> {
    let bytes: Vec<_> = mac.split(':').collect();
    let whole = bytes.len() == 6
        && bytes.iter().all(|byte| byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let of_many = mac.as_bytes().get(1).is_some_and(|digit| (digit & 1 == 1) == digit.is_ascii_digit());
    match (whole, of_many) {
        (false, _) => {
            Err(DomainError::refused(field, format!("`{mac}` is not a MAC address (like 02:00:00:00:00:01)")))
        }
        (true, true) => Err(DomainError::refused(
            field,
            format!("`{mac}` is a multicast address; an interface needs a unicast address"),
        )),
        (true, false) => Ok(mac),
    }
}
