//! Memory, the size of its pages, and whether others share it.

use super::Domain;
use super::xml::Element;

impl Domain<'_> {
    pub(super) fn memory(&self) -> Vec<Element> {
        let memory = self.machine.memory;
        let mut elements = vec![Element::of("memory", memory.guest).at("unit", "b")];
        let huge = memory.hugepage.map(|size| {
            let page = Element::new("page").at("size", size).at("unit", "b");
            Element::new("hugepages").and(page)
        });
        // virtiofsd works in the guest's memory, and gets it as an open file.
        let shared = (!self.machine.filesystems.is_empty()).then(|| {
            let file = Element::new("source").at("type", "memfd");
            [file, Element::new("access").at("mode", "shared")]
        });
        let backing = Element::new("memoryBacking").with(huge).with(shared.into_iter().flatten());
        if !backing.is_empty() {
            elements.push(backing);
        }
        elements
    }
}
