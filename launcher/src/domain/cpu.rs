//! vCPUs: their number and their model.
//!
//! Under emulation the host's CPU does not matter: QEMU emulates any model as far as it can. libvirt answers
//! `host-model` there with a made-up guess (`EPYC` and two dozen differences from it on Debian 12) and
//! refuses `host-passthrough`. Both become `maximum`: all features that QEMU can emulate, which is the
//! purpose of both. A named model stays, without libvirt's check, since QEMU leaves out (and logs) what it
//! cannot emulate; of the newer models some feature is always missing, and a VM that asked for such a model
//! would never start.

use super::Domain;
use super::xml::Element;
use api::cpus;
use api::machine::cpu::{Feature, Model, Policy};
use std::collections::BTreeSet;

/// A CPU feature that Intel removed from its CPUs, but named models of QEMU still require.
const GONE: &str = "mpx";

impl Domain<'_> {
    pub(super) fn vcpu(&self) -> Element {
        let cpu = &self.machine.cpu;
        let all = cpu.max_count();
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
            .with(self.cells())
            .with(cpu.features.iter().map(feature))
            .with(gone.then(|| Element::new("feature").at("policy", "disable").at("name", GONE)))
    }

    /// NUMA cells of the guest. Hotplugged memory needs a cell.
    fn cells(&self) -> Option<Element> {
        let cell = |id: usize, cpus: String, memory: u64| {
            let cell = Element::new("cell").at("id", id).at("cpus", cpus);
            cell.at("memory", memory).at("unit", "b")
        };
        let own = self.host.pinning.iter().flat_map(|pinning| pinning.cells.iter().enumerate());
        let mut cells: Vec<Element> =
            own.map(|(id, own)| cell(id, cpus::write(own.vcpus.iter().copied()), own.memory)).collect();
        if cells.is_empty() && self.machine.memory.most.is_some() {
            let all = cpus::write(0..self.machine.cpu.max_count());
            cells.push(cell(0, all, self.machine.memory.guest));
        }
        (!cells.is_empty()).then(|| Element::new("numa").with(cells))
    }

    /// CPU of each thread, and the threads with real-time priority.
    pub(super) fn cpu_tune(&self) -> Option<Element> {
        let pinning = self.host.pinning.as_ref()?;
        let vcpu = |(vcpu, cpu): (usize, &u32)| Element::new("vcpupin").at("vcpu", vcpu).at("cpuset", cpu);
        let pin = |name, cpu: u32| Element::new(name).at("cpuset", cpu);
        let realtime = &self.machine.cpu.realtime;
        let scheduler = (!realtime.is_empty()).then(|| {
            let element = Element::new("vcpusched").at("vcpus", cpus::write(realtime.iter().copied()));
            element.at("scheduler", "fifo").at("priority", 1)
        });
        let mut element = Element::new("cputune").with(pinning.vcpus.iter().enumerate().map(vcpu));
        if let Some(cpu) = pinning.emulator {
            element = element.and(pin("emulatorpin", cpu));
            // An I/O thread is not a vCPU, but it stays off their CPUs, too.
            for thread in 1..=self.threads.total() {
                element = element.and(pin("iothreadpin", cpu).at("iothread", thread));
            }
        }
        Some(element.with(scheduler))
    }

    /// Binds the memory of each cell to its node.
    pub(super) fn numa_tune(&self) -> Option<Element> {
        let cells = &self.host.pinning.as_ref().filter(|pinning| pinning.bound)?.cells;
        let nodes: BTreeSet<u32> = cells.iter().map(|cell| cell.node).collect();
        let strict = |name| Element::new(name).at("mode", "strict");
        let of_cell = cells
            .iter()
            .enumerate()
            .map(|(id, cell)| strict("memnode").at("cellid", id).at("nodeset", cell.node));
        Some(Element::new("numatune").and(strict("memory").at("nodeset", cpus::write(nodes))).with(of_cell))
    }

    /// Number of sockets, with those that may be hotplugged.
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
