//! One virt-controller: the loop's own ControlLoop, what it has not heard yet, and what is on its way to the server and back.

use super::{News, Sim, door};
use crate::polls::PollResult;
use crate::run::ControlLoop;
use cluster_client::PlanResult;
use cluster_client::watch::WatchMessage;
use cluster_model::objects::{Key, Kind};
use cluster_model::plan::Plan;
use cluster_model::polls::NoAnswer;
use serde_json::json;
use std::collections::BTreeMap;

/// Plans on their way at once, as in the loop.
const AT_ONCE: usize = 16;

pub(crate) struct Controller {
    pub(crate) control: ControlLoop,
    number: usize,
    /// Kinds that nothing is heard of: until when, and whether all of it is lost then.
    deaf: BTreeMap<Kind, (usize, bool)>,
    /// Until when requests and answers take how many ticks each.
    slow: (usize, usize),
    flights: Vec<InFlight>,
}

/// Something on its way, and when it arrives.
enum InFlight {
    There(usize, Key, Plan),
    Back(usize, Key, PlanResult),
}

impl Controller {
    /// Begins: everything is listed. `number` is its own.
    pub(crate) fn start(sim: &mut Sim, number: usize) -> Controller {
        sim.watchers.insert(number, News::new());
        let mut control = ControlLoop::new(sim.world.facts.clone());
        for kind in watched() {
            control.handle_watch(listed(sim, kind), sim.now);
        }
        Controller { control, number, deaf: BTreeMap::new(), slow: (0, 0), flights: Vec::new() }
    }

    /// Ends, in the middle of whatever it does.
    pub(crate) fn stop(&self, sim: &mut Sim) {
        sim.watchers.remove(&self.number);
    }

    pub(crate) fn hears_nothing_of(&mut self, kind: Kind, until: usize, lost: bool) {
        self.deaf.insert(kind, (until, lost));
    }

    /// It never hears anything again.
    pub(crate) fn hears_nothing(&mut self) {
        watched().for_each(|kind| self.hears_nothing_of(kind, usize::MAX, false));
    }

    pub(crate) fn slow_down(&mut self, until: usize, ticks: usize) {
        self.slow = (until, ticks);
    }

    /// Something of it is still to come, whatever the others do.
    pub(crate) fn waits(&self, tick: usize) -> bool {
        !self.flights.is_empty() || self.deaf.values().any(|(until, _)| *until > tick)
    }

    /// Hears what is new, decides, and lets arrive what arrives now. Whether anything moved.
    pub(crate) fn tick(&mut self, sim: &mut Sim, tick: usize) -> bool {
        let mut moved = self.receive(sim, tick);
        let pause = if self.slow.0 > tick { self.slow.1 } else { 0 };
        let mut fresh = Vec::new();
        while self.flights.len() + fresh.len() < AT_ONCE {
            let Some((key, plan)) = self.control.next(sim.now) else { break };
            fresh.push(InFlight::There(tick + pause, key, plan));
        }
        if sim.wire.meddles && !fresh.is_empty() {
            sim.wire.meddles = false;
            fresh.iter().for_each(|flight| flight.change_meanwhile(sim));
        }
        for (key, (uid, _)) in std::mem::take(&mut self.control.questions) {
            moved = true;
            let digest = |number: u8| format!("sha256:{}", format!("{number:02x}").repeat(32));
            let answer = match sim.tag {
                0 => Err((NoAnswer::Unreachable, None)),
                number => Ok(digest(number)),
            };
            self.control.handle_poll(PollResult { key, uid, at: sim.now, answer });
        }
        self.flights.extend(fresh);
        for flight in std::mem::take(&mut self.flights) {
            match flight {
                InFlight::There(when, key, plan) if when <= tick => {
                    moved = true;
                    self.flights.push(InFlight::Back(tick + pause, key, door::carry_out(sim, plan)));
                }
                still => self.flights.push(still),
            }
        }
        for flight in std::mem::take(&mut self.flights) {
            match flight {
                InFlight::Back(when, key, done) if when <= tick => {
                    moved = true;
                    self.control.finish_plan(key, done, sim.now);
                }
                still => self.flights.push(still),
            }
        }
        moved
    }

    fn receive(&mut self, sim: &mut Sim, tick: usize) -> bool {
        let mut moved = false;
        for kind in watched() {
            let is_lost = match self.deaf.get(&kind) {
                Some((until, _)) if *until > tick => continue,
                Some((_, is_lost)) => *is_lost,
                None => false,
            };
            self.deaf.remove(&kind);
            let news = sim.watchers.get_mut(&self.number).and_then(|news| news.remove(&kind));
            if is_lost {
                self.control.handle_watch(listed(sim, kind), sim.now);
            }
            for seen in news.into_iter().flatten().filter(|_| !is_lost) {
                moved = true;
                self.control.handle_watch(seen, sim.now);
            }
            moved |= is_lost;
        }
        moved
    }
}

impl InFlight {
    /// Somebody else changes what it is about.
    fn change_meanwhile(&self, sim: &mut Sim) {
        if let InFlight::There(_, key, _) = self
            && sim.objects.contains_key(key)
        {
            let note = sim.version.to_string();
            sim.change(key, json!({"metadata": {"annotations": {"meddled": note}}}));
        }
    }
}

fn listed(sim: &Sim, kind: Kind) -> WatchMessage {
    WatchMessage::Listed(kind, sim.keys(kind).iter().map(|key| sim.get(key).clone()).collect())
}

/// The kinds that virt-controller follows.
fn watched() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| !kind.about().controller.follows.is_empty())
}
