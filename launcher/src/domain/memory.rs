//! Memory, and the size of its pages.

use super::Domain;
use super::xml::Element;

impl Domain<'_> {
    pub(super) fn memory(&self) -> Vec<Element> {
        let memory = self.machine.memory;
        let mut elements = vec![Element::of("memory", memory.guest).at("unit", "b")];
        if let Some(size) = memory.hugepage {
            let page = Element::new("page").at("size", size).at("unit", "b");
            elements.push(Element::new("memoryBacking").and(Element::new("hugepages").and(page)));
        }
        elements
    }
}
