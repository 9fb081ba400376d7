//! A history: what people want and what happens, and what goes wrong meanwhile.
//!
//! ```text
//!  event ─► ticks: the others step, each controller hears, decides, writes ─► nobody moves? time passes ─► the next event
//!              ▲
//!              └── faults, each at its tick
//! ```
//!
//! Between two events time may pass until all has come to an end ([`Run::settle`]), so that the same events have the same
//! end, whatever went wrong; or only a few ticks ([`Run::hurry`]).

use super::controller::Controller;
use super::event::{Event, Fault, VMS};
use super::others::OtherPrograms;
use super::{Sim, is_going};
use cluster_model::objects::{Key, Kind};
use cluster_model::uploads::TARGET;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Nobody waits longer, but for the next start after some that failed.
const LONGEST: SignedDuration = SignedDuration::from_secs(400);
/// Time passes in steps, in which the node's virt-handler says that it is there.
const STEP: SignedDuration = SignedDuration::from_secs(60);
/// More ticks than anything takes.
const TICKS: usize = 400;

/// A cluster in which a history happens.
pub(crate) struct Run {
    pub(crate) sim: Sim,
    others: OtherPrograms,
    /// The one that acts; nobody, while none has begun again.
    controller: Option<Controller>,
    /// Those that do not know yet that another acts, and until when they go on.
    old: Vec<(Controller, usize)>,
    begins: usize,
    full: usize,
    late: usize,
    tick: usize,
    /// How many controllers there were.
    begun: usize,
    faults: Vec<(usize, Fault)>,
}

impl Run {
    /// An empty cluster, in which the controller has come to rest.
    pub(crate) fn new() -> Run {
        let (mut sim, mut others) = (Sim::empty(), OtherPrograms::default());
        sim.slow_collector = true;
        others.beat(&mut sim);
        let mut run = Run {
            sim,
            others,
            controller: None,
            old: Vec::new(),
            begins: 0,
            full: 0,
            late: 0,
            tick: 0,
            begun: 0,
            faults: Vec::new(),
        };
        run.settle();
        run
    }

    // ── What happens ────────────────────────────────────────────────────────────────────────────────────────────

    /// What is to go wrong from now on.
    pub(crate) fn expect(&mut self, faults: &[(usize, Fault)]) {
        self.faults.extend(faults.iter().map(|(after, fault)| (self.tick + after, fault.clone())));
    }

    pub(crate) fn happen(&mut self, event: &Event) {
        event.happen(&mut self.sim, &mut self.others);
    }

    /// Nothing is wrong any more, with the node nor with its images.
    pub(crate) fn heal(&mut self) {
        (self.others.silent, self.others.no_images) = (false, false);
    }

    /// Everything of people's goes, in whatever state it is.
    pub(crate) fn clear(&mut self) {
        for kind in [
            Kind::DataImportCron,
            Kind::VirtualMachine,
            Kind::VirtualMachineInstanceReplicaSet,
            Kind::VirtualMachineInstance,
            Kind::DataVolume,
        ] {
            for key in self.sim.keys(kind) {
                self.sim.delete(&key);
            }
        }
        let claims = self.sim.keys(Kind::PersistentVolumeClaim);
        for key in claims {
            if !self.sim.get(&key)["metadata"]["annotations"][TARGET].is_null() {
                self.sim.delete(&key);
            }
        }
    }

    // ── How it goes on ──────────────────────────────────────────────────────────────────────────────────────────

    /// So many ticks, and hardly any time.
    pub(crate) fn hurry(&mut self, ticks: usize) {
        for _ in 0..ticks {
            if !self.step() {
                self.pass(SignedDuration::from_secs(2));
            }
        }
    }

    /// Until nothing is to come any more.
    pub(crate) fn settle(&mut self) {
        let mut end = None;
        for _ in 0..TICKS {
            end = if self.is_disturbed() { None } else { end.or(Some(self.after(LONGEST))) };
            if self.step() {
                continue;
            }
            if end.is_some_and(|end| self.sim.now >= end) && !self.is_disturbed() && !self.is_awaited() {
                self.sim.wire = super::door::Wire::default();
                return;
            }
            self.pass(STEP);
        }
        panic!("it never settles");
    }

    fn after(&self, span: SignedDuration) -> Timestamp {
        self.sim.now.checked_add(span).unwrap()
    }

    /// Something is wrong still, or about to be.
    fn is_disturbed(&self) -> bool {
        let tick = self.tick;
        !self.faults.is_empty()
            || !self.old.is_empty()
            || [self.begins, self.full, self.late].iter().any(|until| *until > tick)
            || self.controller.as_ref().is_none_or(|controller| controller.waits(tick))
    }

    /// A VM waits to be started again.
    fn is_awaited(&self) -> bool {
        let until =
            |vm: &Value| vm.pointer("/status/startFailure/retryAfterTimestamp")?.as_str()?.parse().ok();
        let vms = self.sim.objects.iter().filter(|(key, _)| key.kind == Kind::VirtualMachine);
        vms.filter_map(|(_, vm)| until(vm)).any(|until: Timestamp| until > self.sim.now)
    }

    /// One tick. Whether anything moved.
    fn step(&mut self) -> bool {
        self.tick += 1;
        let tick = self.tick;
        let all = std::mem::take(&mut self.faults);
        let (now, later): (Vec<_>, Vec<_>) = all.into_iter().partition(|(when, _)| *when <= tick);
        self.faults = later;
        now.into_iter().for_each(|(_, fault)| self.go_wrong(fault));
        if self.controller.is_none() && self.begins <= tick {
            self.begun += 1;
            self.controller = Some(Controller::start(&mut self.sim, self.begun));
        }
        (self.sim.wire.full, self.others.late) = (self.full > tick, self.late > tick);
        let mut moved = self.others.act(&mut self.sim);
        let (go_on, end): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.old).into_iter().partition(|(_, until)| *until > tick);
        end.iter().for_each(|(controller, _)| controller.stop(&mut self.sim));
        self.old = go_on;
        for (controller, _) in &mut self.old {
            moved |= controller.tick(&mut self.sim, tick);
        }
        if let Some(controller) = &mut self.controller {
            moved |= controller.tick(&mut self.sim, tick);
        }
        moved
    }

    fn go_wrong(&mut self, fault: Fault) {
        let tick = self.tick;
        let controller = self.controller.as_mut();
        match fault {
            Fault::Restart(ticks) => {
                if let Some(controller) = self.controller.take() {
                    controller.stop(&mut self.sim);
                    self.begins = tick + ticks;
                }
            }
            Fault::Deaf(kind, ticks, is_lost) => {
                controller.into_iter().for_each(|one| one.hears_nothing_of(kind, tick + ticks, is_lost));
            }
            Fault::Slow(ticks) => controller.into_iter().for_each(|one| one.slow_down(tick + 6, ticks)),
            Fault::Twin(ticks) => {
                if let Some(mut old) = self.controller.take() {
                    old.hears_nothing();
                    self.old.push((old, tick + ticks));
                }
            }
            Fault::Break(requests, is_done) => self.sim.wire.breaks = Some((requests, is_done)),
            Fault::Meddle => self.sim.wire.meddles = true,
            Fault::Full(ticks) => self.full = tick + ticks,
            Fault::Late(ticks) => self.late = tick + ticks,
        }
    }

    /// Time passes: until somebody wanted to look again, and no longer than this.
    fn pass(&mut self, longest: SignedDuration) {
        let now = self.sim.now;
        let controllers = self.old.iter().map(|(controller, _)| controller).chain(&self.controller);
        let wanted = controllers.flat_map(|controller| controller.control.delayed.times());
        let most = self.after(longest);
        let next = wanted.filter(|time| *time > now).fold(most, Timestamp::min);
        self.sim.now = next;
        self.others.beat(&mut self.sim);
    }

    // ── What must be so ─────────────────────────────────────────────────────────────────────────────────────────

    /// Where all has come to an end: nothing is to be done, by the picture that is right nor by the controller's own; and
    /// what is wanted is there. What is not so, if anything.
    pub(crate) fn failure(&self) -> Option<String> {
        let now = self.sim.now;
        let pictures = self.controller.iter().map(|controller| ("its own", &controller.control.world));
        for (whose, world) in pictures.chain([("the right", &self.sim.world)]) {
            for key in self.sim.objects.keys() {
                let plan = crate::decide(world, key, now);
                if !plan.is_empty() {
                    return Some(format!("{key}: by {whose} picture there is to be done {plan:#?}"));
                }
            }
        }
        let migrations = self.sim.keys(Kind::VirtualMachineInstanceMigration);
        migrations
            .iter()
            .find_map(|key| self.unreported(key))
            .or_else(|| self.sim.keys(Kind::VirtualMachine).iter().find_map(|key| self.unwanted(key)))
    }

    /// A migration that neither has ended, nor goes on in the status of its VMI, nor has a reason to wait.
    fn unreported(&self, key: &Key) -> Option<String> {
        let object = self.sim.get(key);
        let phase = object["status"]["phase"].as_str().unwrap_or_default();
        let goes_on = ["PreparingTarget", "TargetReady", "Running", "Succeeded", "Failed"].contains(&phase);
        let waits = object["metadata"]["annotations"]["kubevirt.io/migrationPendingReason"].is_string();
        let target_waits = phase == "Scheduling" && (self.others.silent || self.others.no_images);
        (!goes_on && !waits && !target_waits).then(|| format!("{key} waits without a reason: {object:#}"))
    }

    /// Why a VM is not as its strategy wants it, where nothing is in its way.
    fn unwanted(&self, key: &Key) -> Option<String> {
        let vm = self.sim.get(key);
        let found = self.sim.objects.get(&Key::new(Kind::VirtualMachineInstance, "n", &key.name));
        let owner = |vmi: &Value| vmi["metadata"]["ownerReferences"][0]["uid"].clone();
        let anothers = found.is_some_and(|vmi| owner(vmi) != vm["metadata"]["uid"]);
        if self.others.silent || self.others.no_images || is_going(vm) || anothers {
            return None;
        }
        let phase = found.map(|vmi| vmi["status"]["phase"].as_str().unwrap_or_default());
        let strategy = vm["spec"]["runStrategy"].as_str()?;
        // Without settings nothing begins, and it says so.
        if phase == Some("Pending") && self.sim.keys(Kind::KubeVirt).is_empty() {
            return None;
        }
        let is_right = match strategy {
            // The other waits for its disk, perhaps for ever.
            "Always" => key.name != VMS[0] || phase == Some("Running"),
            "Halted" => phase.is_none(),
            _ => true,
        };
        (!is_right).then(|| format!("{key} is {strategy}, and its VMI {phase:?}: {:#}", vm["status"]))
    }
}
