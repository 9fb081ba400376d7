//! The guest's clock and timers, if the spec sets them. The reference time counter of Hyper-V is KVM's, so an
//! emulated guest has none. A guest that relies on the time stamp counter gets the frequency that
//! virt-controller has chosen.

use super::Domain;
use super::xml::Element;
use api::machine::Timer;
use api::machine::cpu::Offset;

impl Domain<'_> {
    pub(super) fn clock(&self) -> Option<Element> {
        // Under emulation the counter is QEMU's own.
        let tsc = self.machine.cpu.tsc.filter(|_| !self.emulated());
        let counter = tsc.map(|hertz| Element::new("timer").at("name", "tsc").at("frequency", hertz));
        let element = Element::new("clock");
        let Some(clock) = &self.machine.clock else {
            return counter.map(|counter| element.at("offset", "utc").and(counter));
        };
        let element = match &clock.offset {
            // `reset`: a change of the clock by the guest is forgotten when the VM ends.
            Offset::Utc(None) => element.at("offset", "utc").at("adjustment", "reset"),
            Offset::Utc(Some(seconds)) => {
                element.at("offset", "variable").at("adjustment", seconds).at("basis", "utc")
            }
            Offset::Timezone(zone) => element.at("offset", "timezone").at("timezone", zone),
        };
        let is_there = |timer: &&Timer| !(timer.name == "hypervclock" && timer.present && self.emulated());
        Some(element.with(clock.timers.iter().filter(is_there).map(timer)).with(counter))
    }
}

fn timer(timer: &Timer) -> Element {
    Element::new("timer")
        .at("name", timer.name)
        .maybe_at("tickpolicy", timer.tick_policy.as_ref())
        .maybe_at("track", timer.track.as_ref())
        .at("present", if timer.present { "yes" } else { "no" })
}
