//! System and chassis in the SMBIOS of the guest: the system from the cluster, the chassis from the VM.

use super::Domain;
use super::xml::Element;

impl Domain<'_> {
    pub(super) fn sysinfo(&self) -> Element {
        let (firmware, chassis) = (&self.machine.firmware, &self.machine.chassis);
        let smbios = &self.host.hardware.smbios;
        let system = [
            ("manufacturer", Some(smbios.manufacturer.as_str())),
            ("product", Some(smbios.product.as_str())),
            ("version", smbios.version.as_deref()),
            ("serial", firmware.serial.as_deref()),
            ("uuid", Some(firmware.uuid.as_str())),
            ("sku", smbios.sku.as_deref()),
            ("family", Some(smbios.family.as_str())),
        ];
        let case = [
            ("manufacturer", &chassis.manufacturer),
            ("version", &chassis.version),
            ("serial", &chassis.serial),
            ("asset", &chassis.asset),
            ("sku", &chassis.sku),
        ];
        let chassis = table("chassis", case.into_iter().map(|(name, value)| (name, value.as_deref())));
        Element::new("sysinfo")
            .at("type", "smbios")
            .and(table("system", system))
            .with((!chassis.is_empty()).then_some(chassis))
    }
}

fn table<'v>(
    name: &'static str,
    entries: impl IntoIterator<Item = (&'static str, Option<&'v str>)>,
) -> Element {
    let entry =
        |(name, value): (&'static str, Option<&str>)| Some(Element::of("entry", value?).at("name", name));
    Element::new(name).with(entries.into_iter().filter_map(entry))
}
