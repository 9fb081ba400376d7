//! Features of the platform.

use super::Domain;
use super::error::DomainError;
use super::xml::Element;
use api::machine::Boot;

impl Domain<'_> {
    pub(super) fn features(&self) -> Result<Element, DomainError> {
        let features = &self.machine.features;
        let secure = matches!(self.machine.firmware.boot, Boot::Efi { secure: true, .. });
        if secure && features.smm == Some(false) {
            let why = "secure boot needs system management mode: without it a guest could write to the firmware's variables";
            return Err(DomainError::refused("spec.domain.features.smm.enabled", why));
        }
        let smm = features.smm.or(secure.then_some(true));
        let switch = |name, on: bool| Element::new(name).at("state", if on { "on" } else { "off" });
        let apic = features.apic.map(|apic| Element::new("apic").maybe_at("eoi", apic.eoi.map(on)));
        Ok(Element::new("features")
            .with(features.acpi.then(|| Element::new("acpi")))
            .with(apic)
            .with(self.hyperv())
            .with(features.kvm_hidden.map(|hidden| Element::new("kvm").and(switch("hidden", hidden))))
            .with(features.pvspinlock.map(|on| switch("pvspinlock", on)))
            .with(smm.map(|on| switch("smm", on)))
            // Its interrupts would delay a vCPU with a deadline.
            .with((!self.machine.cpu.realtime.is_empty()).then(|| switch("pmu", false)))
            // A back door of VMware's, not used here.
            .and(switch("vmport", false)))
    }
}

fn on(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
