//! Memory, the size of its pages, and its sharing with other processes.

use super::Domain;
use super::xml::Element;

/// Number of memory modules that can be added.
const SLOTS: u32 = 16;

impl Domain<'_> {
    pub(super) fn memory(&self) -> Vec<Element> {
        let memory = self.machine.memory;
        let most = memory.most.map(|most| Element::of("maxMemory", most).at("slots", SLOTS).at("unit", "b"));
        let mut elements: Vec<Element> = most.into_iter().collect();
        elements.push(Element::of("memory", memory.guest).at("unit", "b"));
        let huge = memory.hugepage.map(|size| {
            let page = Element::new("page").at("size", size).at("unit", "b");
            Element::new("hugepages").and(page)
        });
        // A write to a page that is shared (KSM) copies it, and the vCPU waits for that.
        let own = (!self.machine.cpu.realtime.is_empty()).then(|| Element::new("nosharepages"));
        // virtiofsd and passt access the guest's memory, and get it as an open file.
        let is_shared = !self.machine.filesystems.is_empty() || self.has_vhost_user();
        let shared = is_shared.then(|| {
            let file = Element::new("source").at("type", "memfd");
            [file, Element::new("access").at("mode", "shared")]
        });
        let backing = Element::new("memoryBacking").with(huge).with(own).with(shared.into_iter().flatten());
        if !backing.is_empty() {
            elements.push(backing);
        }
        elements
    }
}
