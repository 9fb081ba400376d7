//! Arguments that are passed to QEMU directly, properties of libvirt's devices, and capabilities of QEMU that
//! libvirt must not use.

use super::xml::Element;
use serde_json::Value;

/// Arguments that libvirt passes to QEMU unchanged.
#[derive(Default)]
pub(super) struct QemuArguments {
    args: Vec<String>,
    properties: Vec<(String, &'static str, u64)>,
    unknown: Vec<&'static str>,
}

impl QemuArguments {
    /// An option and its value.
    pub(super) fn arg(&mut self, option: &str, value: String) {
        self.args.extend([option.to_string(), value]);
    }

    /// A device of our own, in JSON, as libvirt's are: QEMU creates those in their order, but devices in the
    /// old notation before them, when their buses do not exist yet.
    pub(super) fn device(&mut self, properties: &Value) {
        self.arg("-device", properties.to_string());
    }

    /// A property of a device that libvirt creates.
    pub(super) fn property(&mut self, alias: String, name: &'static str, value: u64) {
        self.properties.push((alias, name, value));
    }

    /// Hides a capability of QEMU from libvirt, by libvirt's name for it.
    pub(super) fn without(&mut self, capability: &'static str) {
        self.unknown.push(capability);
    }

    pub(super) fn elements(self) -> impl Iterator<Item = Element> {
        let args = self.args.into_iter().map(|arg| Element::new("qemu:arg").at("value", arg));
        let devices = self.properties.into_iter().map(|(alias, name, value)| {
            let property =
                Element::new("qemu:property").at("name", name).at("type", "unsigned").at("value", value);
            Element::new("qemu:device").at("alias", alias).and(Element::new("qemu:frontend").and(property))
        });
        let unknown = self.unknown.into_iter().map(|name| Element::new("qemu:del").at("capability", name));
        [
            Element::new("qemu:commandline").with(args),
            Element::new("qemu:capabilities").with(unknown),
            Element::new("qemu:override").with(devices),
        ]
        .into_iter()
        .filter(|element| !element.is_empty())
    }
}
