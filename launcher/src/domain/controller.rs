//! Controllers that other devices are plugged into: root ports, and controllers of USB, SATA, SCSI and
//! channels. All are in the XML, unused ones too, so that libvirt adds none.

use super::Domain;
use super::pci;
use super::pci_devices::{PciDevice, has_scsi, sata_controllers};
use super::xml::Element;
use api::machine::{Bus, Chipset};

/// Most devices of one USB controller.
pub(super) const USB_PORTS: usize = 15;

impl Domain<'_> {
    pub(super) fn controllers(&self) -> Vec<Element> {
        let mut all = Vec::new();
        let root = match self.machine.chipset {
            Chipset::Q35 => "pcie-root",
            Chipset::I440fx => "pci-root",
        };
        all.push(controller("pci", 0, Some(root)));
        for port in 0..self.places.ports() {
            all.push(
                controller("pci", port + 1, Some("pcie-root-port"))
                    .with(self.places.element(PciDevice::Port(port))),
            );
        }
        all.push(if self.places.get(PciDevice::Usb).is_some() {
            controller("usb", 0, Some("qemu-xhci"))
                .at("ports", USB_PORTS)
                .with(self.places.element(PciDevice::Usb))
        } else {
            controller("usb", 0, Some("none"))
        });
        if has_scsi(self.machine) {
            all.push(self.scsi());
        }
        let built_in = usize::from(self.machine.chipset == Chipset::Q35);
        if built_in == 1 {
            all.push(controller("sata", 0, None).and(pci::element(pci::on_root(0x1f, 2))));
        }
        for n in 0..sata_controllers(self.machine) {
            all.push(controller("sata", n + built_in, None).with(self.places.element(PciDevice::Sata(n))));
        }
        all.push(
            controller("virtio-serial", 0, Some(self.virtio())).with(self.places.element(PciDevice::Serial)),
        );
        all
    }

    fn scsi(&self) -> Element {
        let busy = self.machine.disks.iter().any(|disk| disk.bus == Bus::Scsi);
        let queues = (busy && self.machine.block_multi_queue).then(|| self.queues());
        let driver = queues.map(|queues| Element::new("driver").at("queues", queues));
        controller("scsi", 0, Some(self.virtio())).with(driver).with(self.places.element(PciDevice::Scsi))
    }

    /// Number of queues of a virtio device: one for each vCPU.
    pub(super) fn queues(&self) -> u32 {
        self.machine.cpu.count().clamp(1, 256)
    }
}

fn controller(kind: &str, index: usize, model: Option<&str>) -> Element {
    Element::new("controller").at("type", kind).at("index", index).maybe_at("model", model)
}
