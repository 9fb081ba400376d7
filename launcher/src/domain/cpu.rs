//! vCPUs: their number and their model.
//!
//! Under emulation the host's CPU does not matter: QEMU emulates any model as far as it can. libvirt answers
//! `host-model` there with a made-up guess (`EPYC` and two dozen differences from it on Debian 12) and refuses
//! `host-passthrough`. Both become `maximum`: all features that QEMU can emulate, which is the purpose of both. A named
//! model stays, without libvirt's check, since QEMU leaves out (and logs) what it cannot emulate; of the newer models
//! some feature is always missing, and a VM that asked for such a model would never start.

use super::Domain;
use super::xml::Element;
use api::machine::cpu::{Feature, Model, Policy};

/// Intel took it out of its CPUs, but named models of QEMU's still ask for it.
const GONE: &str = "mpx";

impl Domain<'_> {
    pub(super) fn vcpu(&self) -> Element {
        let cpu = &self.machine.cpu;
        let all = self.sockets().saturating_mul(cpu.cores).saturating_mul(cpu.threads);
        let now = (all != cpu.count()).then(|| cpu.count());
        Element::of("vcpu", all).at("placement", "static").maybe_at("current", now)
    }

    pub(super) fn cpu(&self) -> Element {
        let cpu = &self.machine.cpu;
        let mode = |mode| Element::new("cpu").at("mode", mode);
        let (element, model) = match (&cpu.model, self.emulated()) {
            (Model::HostModel | Model::HostPassthrough, true) => (mode("maximum"), None),
            (Model::HostModel, false) => (mode("host-model"), None),
            (Model::HostPassthrough, false) => (mode("host-passthrough"), None),
            (Model::Named(name), emulated) => {
                let check = emulated.then_some("none");
                // Never another model than the one of the spec.
                let model = Element::of("model", name).at("fallback", "forbid");
                (mode("custom").at("match", "exact").maybe_at("check", check), Some(model))
            }
        };
        let gone = model.is_some() && cpu.features.iter().all(|feature| feature.name != GONE);
        let topology = Element::new("topology")
            .at("sockets", self.sockets())
            .at("cores", cpu.cores)
            .at("threads", cpu.threads);
        element
            .with(model)
            .and(topology)
            .with(cpu.features.iter().map(feature))
            .with(gone.then(|| Element::new("feature").at("policy", "disable").at("name", GONE)))
    }

    /// Sockets, with those that may be hotplugged.
    fn sockets(&self) -> u32 {
        let cpu = &self.machine.cpu;
        cpu.max_sockets.map_or(cpu.sockets, |most| most.max(cpu.sockets))
    }
}

fn feature(feature: &Feature) -> Element {
    let policy = match feature.policy {
        Policy::Force => "force",
        Policy::Require => "require",
        Policy::Optional => "optional",
        Policy::Disable => "disable",
        Policy::Forbid => "forbid",
    };
    Element::new("feature").at("policy", policy).at("name", &feature.name)
}
