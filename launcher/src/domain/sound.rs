//! The sound card. libvirt gives it the audio backend `none`, so no sound leaves QEMU.

use super::pci_devices::PciDevice;
use super::xml::Element;
use super::{Domain, alias};
use api::machine::SoundModel;

impl Domain<'_> {
    pub(super) fn sound(&self) -> Option<Element> {
        let sound = self.machine.sound.as_ref()?;
        let model = match sound.model {
            SoundModel::Ich9 => "ich9",
            SoundModel::Ac97 => "ac97",
        };
        let element = Element::new("sound").at("model", model).and(alias(&sound.name));
        Some(element.with(self.places.element(PciDevice::Sound)))
    }
}
