//! A virt-controller that hears only what a test tells it.

use super::*;
use crate::run::ControlLoop;
use crate::sim::controller::Controller;
use crate::sim::{door, replica_set};
use cluster_client::error::ErrorKind;
use cluster_client::watch::WatchMessage;

pub(super) struct Leader {
    pub(super) sim: Sim,
    pub(super) control: ControlLoop,
    /// The pool or the replica set.
    pub(super) owner: Key,
    pub(super) members: [Key; 3],
}

impl Leader {
    /// Three VMs run, and two are wanted.
    pub(super) fn of_pool(change: Value) -> Leader {
        let (mut sim, owner) = begin(3, "Always", json!({}));
        boot(&mut sim, 3);
        sim.change(&vm_key(2), change);
        Leader::begin(sim, owner, [0, 1, 2].map(vm_key), json!({"replicas": 2}))
    }

    pub(super) fn of_replica_set() -> Leader {
        let mut sim = Sim::new();
        let owner = sim.put(Kind::VirtualMachineInstanceReplicaSet, replica_set("web", 3));
        sim.settle();
        boot(&mut sim, 3);
        Leader::begin(sim, owner, [0, 1, 2].map(run_key), json!({"replicas": 2}))
    }

    /// A leader that hears of a change of the owner's spec alone.
    pub(super) fn begin(mut sim: Sim, owner: Key, members: [Key; 3], change: Value) -> Leader {
        let control = Controller::start(&mut sim, 1).control;
        sim.change(&owner, json!({"spec": change}));
        let mut leader = Leader { sim, control, owner, members };
        leader.hears_of(leader.owner.clone());
        leader
    }

    /// The members as they are now.
    pub(super) fn states(&self) -> [Value; 3] {
        self.members.clone().map(|key| self.sim.get(&key).clone())
    }

    /// A watch tells of a member as it was before anything was deleted, but for its readiness.
    pub(super) fn hears(&mut self, before: &Value, is_ready: bool) {
        let mut object = before.clone();
        let kind = self.members[0].kind;
        for condition in object["status"]["conditions"].as_array_mut().unwrap() {
            if condition["type"] == "Ready" {
                condition["status"] = json!(if is_ready { "True" } else { "False" });
            }
        }
        self.control.handle_watch(WatchMessage::Changed(kind, object), self.sim.now);
    }

    /// A watch tells of an object as it is.
    pub(super) fn hears_of(&mut self, key: Key) {
        let object = self.sim.get(&key).clone();
        self.control.handle_watch(WatchMessage::Changed(key.kind, object), self.sim.now);
    }

    /// The watches tell of all members as they are.
    pub(super) fn hears_all(&mut self) {
        for key in self.members.clone() {
            self.hears_of(key);
        }
    }

    /// The next plan of the owner.
    pub(super) fn plan(&mut self) -> Option<Plan> {
        let (control, now, owner) = (&mut self.control, self.sim.now, &self.owner);
        std::iter::from_fn(|| control.next(now)).find(|(key, _)| key == owner).map(|(_, plan)| plan)
    }

    /// Carries out a plan of the owner. Returns why it ended early.
    pub(super) fn carry_out(&mut self, plan: Plan) -> Option<ErrorKind> {
        let done = door::carry_out(&mut self.sim, plan);
        let failed = done.failed.as_ref().map(|(_, error)| error.kind());
        self.control.finish_plan(self.owner.clone(), done, self.sim.now);
        failed
    }

    /// Carries out the next plans of the owner.
    pub(super) fn works(&mut self) {
        for _ in 0..5 {
            self.sim.advance(60);
            if let Some(plan) = self.plan() {
                self.carry_out(plan);
            }
        }
    }

    /// Members that are gone or being deleted.
    pub(super) fn going(&self) -> Vec<Key> {
        let is_going = |key: &&Key| self.sim.objects.get(key).is_none_or(crate::sim::is_going);
        self.members.iter().filter(is_going).cloned().collect()
    }
}

/// The objects that a plan deletes.
pub(super) fn deleted(plan: &Plan) -> Vec<Key> {
    let keys = plan.steps.iter().filter_map(|step| match step {
        Step::Delete { key, .. } => Some(key.clone()),
        _ => None,
    });
    keys.collect()
}
