//! VMs and VMIs that are counted while one of them is being deleted.

use super::*;
use crate::run::ControlLoop;
use crate::sim::controller::Controller;
use crate::sim::{door, replica_set};
use cluster_client::watch::WatchMessage;

/// A virt-controller that hears only what a test tells it.
struct Leader {
    sim: Sim,
    control: ControlLoop,
    /// The pool or the replica set.
    owner: Key,
    members: [Key; 3],
}

impl Leader {
    /// Three VMs run, and two are wanted.
    fn of_pool(change: Value) -> Leader {
        let (mut sim, owner) = begin(3, "Always", json!({}));
        boot(&mut sim, 3);
        sim.change(&vm_key(2), change);
        Leader::begin(sim, owner, [0, 1, 2].map(vm_key))
    }

    fn of_replica_set() -> Leader {
        let mut sim = Sim::new();
        let owner = sim.put(Kind::VirtualMachineInstanceReplicaSet, replica_set("web", 3));
        sim.settle();
        boot(&mut sim, 3);
        Leader::begin(sim, owner, [0, 1, 2].map(run_key))
    }

    fn begin(mut sim: Sim, owner: Key, members: [Key; 3]) -> Leader {
        let control = Controller::start(&mut sim, 1).control;
        sim.change(&owner, json!({"spec": {"replicas": 2}}));
        let mut leader = Leader { sim, control, owner, members };
        let owner = leader.sim.get(&leader.owner).clone();
        leader.control.handle_watch(WatchMessage::Changed(leader.owner.kind, owner), leader.sim.now);
        leader
    }

    /// A watch tells of a member as it was before anything was deleted, but for its readiness.
    fn hears(&mut self, before: &Value, is_ready: bool) {
        let mut object = before.clone();
        let kind = self.members[0].kind;
        for condition in object["status"]["conditions"].as_array_mut().unwrap() {
            if condition["type"] == "Ready" {
                condition["status"] = json!(if is_ready { "True" } else { "False" });
            }
        }
        self.control.handle_watch(WatchMessage::Changed(kind, object), self.sim.now);
    }

    /// The next plan of the owner.
    fn plan(&mut self) -> Option<Plan> {
        let (control, now, owner) = (&mut self.control, self.sim.now, &self.owner);
        std::iter::from_fn(|| control.next(now)).find(|(key, _)| key == owner).map(|(_, plan)| plan)
    }

    /// The last one is not ready and is deleted. Before the answer is there, it is ready, and the first one is not. What
    /// is deleted in the end.
    fn scales_in(mut self, breaks: Option<bool>) -> Vec<Key> {
        let before = self.members.clone().map(|key| self.sim.get(&key).clone());
        self.hears(&before[2], false);
        let plan = self.plan().expect("a plan");
        assert_eq!(deleted(&plan), [self.members[2].clone()]);
        let at = plan.steps.iter().position(|step| matches!(step, Step::Delete { .. })).unwrap();
        self.sim.wire.breaks = breaks.map(|is_done| (at as u8, is_done));
        let done = door::carry_out(&mut self.sim, plan);
        assert_eq!(done.failed.is_some(), breaks.is_some());
        self.hears(&before[0], false);
        self.hears(&before[2], true);
        self.control.finish_plan(self.owner.clone(), done, self.sim.now);
        // A watch is late.
        self.hears(&before[2], true);
        for _ in 0..5 {
            self.sim.advance(60);
            let Some(plan) = self.plan() else { continue };
            let done = door::carry_out(&mut self.sim, plan);
            self.control.finish_plan(self.owner.clone(), done, self.sim.now);
            self.hears(&before[2], true);
        }
        let is_going = |key: &Key| self.sim.objects.get(key).is_none_or(crate::sim::is_going);
        self.members.iter().filter(|key| is_going(key)).cloned().collect()
    }
}

fn deleted(plan: &Plan) -> Vec<Key> {
    let keys = plan.steps.iter().filter_map(|step| match step {
        Step::Delete { key, .. } => Some(key.clone()),
        _ => None,
    });
    keys.collect()
}

#[test]
fn no_other_one_is_deleted_while_one_goes() {
    assert_eq!(Leader::of_pool(json!({})).scales_in(None), [vm_key(2)]);
    assert_eq!(Leader::of_replica_set().scales_in(None), [run_key(2)]);
}

/// Without a finalizer a VM is gone with the answer, and a watch may still tell of it.
#[test]
fn one_that_is_gone_does_not_come_back_by_a_late_watch() {
    assert_eq!(Leader::of_pool(json!({"metadata": {"finalizers": []}})).scales_in(None), [vm_key(2)]);
}

#[test]
fn no_other_one_is_deleted_where_the_answer_was_lost() {
    assert_eq!(Leader::of_pool(json!({})).scales_in(Some(true)), [vm_key(2)]);
    assert_eq!(Leader::of_pool(json!({"metadata": {"finalizers": []}})).scales_in(Some(true)), [vm_key(2)]);
    assert_eq!(Leader::of_replica_set().scales_in(Some(true)), [run_key(2)]);
}

#[test]
fn one_is_deleted_where_the_request_was_lost() {
    assert_eq!(Leader::of_pool(json!({})).scales_in(Some(false)).len(), 1);
    assert_eq!(Leader::of_replica_set().scales_in(Some(false)).len(), 1);
}
