//! Hyper-V enlightenments. They are KVM's, so an emulated guest has none. Enlightenments of a TLB flush for
//! which libvirt 9.0 has no elements are passed to QEMU directly, as properties of every CPU.

use super::Domain;
use super::qemu_arguments::QemuArguments;
use super::xml::Element;
use api::machine::Hyperv;
use api::machine::hyperv::Enlightenments;

impl Domain<'_> {
    pub(super) fn hyperv(&self) -> Option<Element> {
        let element = Element::new("hyperv");
        match &self.machine.features.hyperv {
            _ if self.emulated() => None,
            Hyperv::None => None,
            Hyperv::Passthrough => Some(element.at("mode", "passthrough")),
            Hyperv::These(these) => Some(element.at("mode", "custom").with(switches(these))),
        }
    }

    /// Enlightenments that are passed to QEMU directly.
    pub(super) fn hyperv_past(&self, qemu_arguments: &mut QemuArguments) {
        let Hyperv::These(these) = &self.machine.features.hyperv else { return };
        let Some(flush) = these.tlbflush.filter(|_| !self.emulated()) else { return };
        for (name, on) in [("direct", flush.direct), ("ext", flush.extended)] {
            if on {
                qemu_arguments
                    .arg("-global", format!("{}.hv-tlbflush-{name}=on", self.machine.arch.facts().cpu_type));
            }
        }
    }
}

fn switches(these: &Enlightenments) -> impl Iterator<Item = Element> {
    let switch = |name: &'static str, is_on: bool| is_on.then(|| on(name));
    let timer = |direct: bool| on("stimer").with(direct.then(|| on("direct")));
    [
        switch("relaxed", these.relaxed),
        switch("vapic", these.vapic),
        these.spinlocks.map(|retries| on("spinlocks").at("retries", retries)),
        switch("vpindex", these.vpindex),
        switch("runtime", these.runtime),
        switch("synic", these.synic),
        these.synictimer.map(|synictimer| timer(synictimer.direct)),
        switch("reset", these.reset),
        these.vendor_id.as_ref().map(|vendor| on("vendor_id").at("value", vendor)),
        switch("frequencies", these.frequencies),
        switch("reenlightenment", these.reenlightenment),
        switch("tlbflush", these.tlbflush.is_some()),
        switch("ipi", these.ipi),
        switch("evmcs", these.evmcs),
    ]
    .into_iter()
    .flatten()
}

fn on(name: &'static str) -> Element {
    Element::new(name).at("state", "on")
}
