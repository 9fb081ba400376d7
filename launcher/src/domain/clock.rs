//! The guest's clock and timers, where the spec sets them. The reference time counter of Hyper-V is KVM's: an emulated guest
//! has none.

use super::Domain;
use super::xml::Element;
use api::machine::Timer;
use api::machine::cpu::Offset;

impl Domain<'_> {
    pub(super) fn clock(&self) -> Option<Element> {
        let clock = self.machine.clock.as_ref()?;
        let element = Element::new("clock");
        let element = match &clock.offset {
            // `reset`: the time that the guest sets its clock to is forgotten when the VM ends.
            Offset::Utc(None) => element.at("offset", "utc").at("adjustment", "reset"),
            Offset::Utc(Some(seconds)) => {
                element.at("offset", "variable").at("adjustment", seconds).at("basis", "utc")
            }
            Offset::Timezone(zone) => element.at("offset", "timezone").at("timezone", zone),
        };
        let is_there = |timer: &&Timer| !(timer.name == "hypervclock" && timer.present && self.emulated());
        Some(element.with(clock.timers.iter().filter(is_there).map(timer)))
    }
}

fn timer(timer: &Timer) -> Element {
    Element::new("timer")
        .at("name", timer.name)
        .maybe_at("tickpolicy", timer.tick_policy.as_ref())
        .maybe_at("track", timer.track.as_ref())
        .at("present", if timer.present { "yes" } else { "no" })
}
