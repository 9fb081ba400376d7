//! Host devices of the guest: PCI devices, mediated devices (parts of one, such as a virtual GPU), USB
//! devices.
//!
//! Their addresses come from the device plugin of the node, or from the status of the VMI
//! (`vm::host_devices`). libvirt is told the driver and binds nothing (`managed='no'`): a PCI device is bound
//! to vfio-pci before it is offered.

use super::controller::USB_PORTS;
use super::error::DomainError;
use super::input::usb_address;
use super::pci_devices::PciDevice;
use super::xml::Element;
use super::{Domain, alias};
use api::machine::{HostDevice, PciAddress};

/// Address of a device on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAddress {
    /// A PCI device, bound to vfio-pci.
    Pci(PciAddress),
    /// UUID of a mediated device.
    Mediated(String),
    Usb {
        /// Bus number, from 1.
        bus: u16,
        /// Device number, from 1; a new one each time that the device is plugged in.
        device: u16,
    },
}

/// Numbers of USB buses and devices.
const USB_NUMBERS: std::ops::RangeInclusive<u16> = 1..=999;

impl HostAddress {
    /// Parses a PCI address: `0000:81:00.0`.
    pub fn pci(text: &str) -> Option<HostAddress> {
        PciAddress::parse(text).map(HostAddress::Pci)
    }

    /// Parses the UUID of a mediated device: `83b8f4f2-509f-382f-3c1e-e6bfe0fa1001`.
    pub fn mediated(text: &str) -> Option<HostAddress> {
        api::machine::uuid(text).map(HostAddress::Mediated)
    }

    /// Parses bus and device number of a USB device: `1:4`.
    pub fn usb(text: &str) -> Option<HostAddress> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            text.parse().ok().filter(|number| digits && USB_NUMBERS.contains(number))
        };
        let (bus, device) = text.split_once(':')?;
        Some(HostAddress::Usb { bus: number(bus)?, device: number(device)? })
    }

    fn is_usb(&self) -> bool {
        matches!(self, HostAddress::Usb { .. })
    }
}

/// True if one of these devices needs a USB controller.
pub(super) fn has_usb(devices: &[Vec<HostAddress>]) -> bool {
    devices.iter().flatten().any(HostAddress::is_usb)
}

/// The element of a PCI device of the host. The caller adds its alias, and its address in the guest.
pub(super) fn pci(PciAddress { domain, bus, slot, function }: PciAddress) -> Element {
    let address = Element::new("address")
        .at("domain", format!("0x{domain:04x}"))
        .at("bus", format!("0x{bus:02x}"))
        .at("slot", format!("0x{slot:02x}"))
        .at("function", format!("0x{function:x}"));
    hostdev("pci")
        .at("managed", "no")
        .and(Element::new("driver").at("name", "vfio"))
        .and(Element::new("source").and(address))
}

impl Domain<'_> {
    pub(super) fn host_devices(&self) -> Result<Vec<Element>, DomainError> {
        let mut elements = Vec::new();
        let mut usb = 0;
        for (n, device) in self.machine.host_devices.iter().enumerate() {
            let addresses = self.host.host_devices.get(n).filter(|addresses| !addresses.is_empty());
            let addresses = addresses
                .ok_or_else(|| DomainError::unplaced(format!("{} `{}`", device.list.field(), device.name)))?;
            for (nth, address) in addresses.iter().enumerate() {
                let place = match address {
                    HostAddress::Usb { .. } => Some(self.usb_port(&mut usb)?),
                    HostAddress::Pci(_) | HostAddress::Mediated(_) => {
                        // One entry of the spec has several devices only if they are USB devices.
                        self.places.element(PciDevice::HostDevice(n))
                    }
                };
                let name = match nth {
                    0 => device.alias(),
                    nth => format!("{}_usb{nth}", device.alias()),
                };
                elements.push(source(device, address).and(alias(&name)).with(place));
            }
        }
        Ok(elements)
    }

    /// Address on a USB port below those of the inputs and of USB redirection.
    fn usb_port(&self, taken: &mut usize) -> Result<Element, DomainError> {
        let above = self.machine.inputs.iter().filter(|input| !input.virtio).count()
            + self.host.usb_redirection.len()
            + *taken;
        *taken += 1;
        let disks = self.machine.disks.iter().filter(|disk| disk.bus == api::machine::Bus::Usb).count();
        match USB_PORTS.checked_sub(above).filter(|port| *port > disks) {
            Some(port) => Ok(usb_address(port)),
            None => {
                Err(DomainError::NoRoom { what: "USB devices", limit: USB_PORTS, on: "a USB controller" })
            }
        }
    }
}

fn source(device: &HostDevice, address: &HostAddress) -> Element {
    match address {
        HostAddress::Pci(address) => pci(*address),
        HostAddress::Mediated(uuid) => {
            let element = hostdev("mdev").at("model", "vfio-pci");
            let element = match device.display {
                Some(display) if display.ramfb => element.at("display", "on").at("ramfb", "on"),
                Some(_) => element.at("display", "on"),
                None => element,
            };
            element.and(Element::new("source").and(Element::new("address").at("uuid", uuid)))
        }
        HostAddress::Usb { bus, device } => {
            let address = Element::new("address").at("bus", bus).at("device", device);
            hostdev("usb").at("managed", "no").and(Element::new("source").and(address))
        }
    }
}

fn hostdev(kind: &str) -> Element {
    Element::new("hostdev").at("mode", "subsystem").at("type", kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_form() {
        let address = PciAddress { domain: 0, bus: 0x81, slot: 0, function: 1 };
        assert_eq!(HostAddress::pci("0000:81:00.1"), Some(HostAddress::Pci(address)));
        let uuid = "83B8f4f2-509f-382f-3c1e-e6bfe0fa1001";
        assert_eq!(HostAddress::mediated(uuid), Some(HostAddress::Mediated(uuid.to_ascii_lowercase())));
        assert_eq!(HostAddress::usb("1:004"), Some(HostAddress::Usb { bus: 1, device: 4 }));
        for odd in ["", "81:00.1", "0000:81:00.1 ", "../../etc", "0000:81:00.1'/><x"] {
            assert_eq!(HostAddress::pci(odd), None, "{odd}");
        }
        for odd in
            ["", "83b8f4f2", "83b8f4f2-509f-382f-3c1e-e6bfe0fa100g", "../3b8f4f2-509f-382f-3c1e-e6bfe0fa1"]
        {
            assert_eq!(HostAddress::mediated(odd), None, "{odd}");
        }
        for odd in ["", "1", "1:", ":4", "0:4", "1:0", "1:1000", "+1:4", "1:4:5", "1:4 ", "-1:4"] {
            assert_eq!(HostAddress::usb(odd), None, "{odd}");
        }
    }
}
