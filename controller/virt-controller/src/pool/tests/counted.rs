//! VMs and VMIs that are counted while one of them is being deleted.

use super::leader::{Leader, deleted};
use super::*;
use crate::sim::door;

/// The last one is not ready and is deleted. Before the answer is there, it is ready, and the first one is not. What
/// is deleted in the end.
fn scales_in(mut leader: Leader, breaks: Option<bool>) -> Vec<Key> {
    let before = leader.states();
    leader.hears(&before[2], false);
    let plan = leader.plan().expect("a plan");
    assert_eq!(deleted(&plan), [leader.members[2].clone()]);
    let at = plan.steps.iter().position(|step| matches!(step, Step::Delete { .. })).unwrap();
    leader.sim.wire.breaks = breaks.map(|is_done| (at as u8, is_done));
    let done = door::carry_out(&mut leader.sim, plan);
    assert_eq!(done.failed.is_some(), breaks.is_some());
    leader.hears(&before[0], false);
    leader.hears(&before[2], true);
    leader.control.finish_plan(leader.owner.clone(), done, leader.sim.now);
    // A watch is late.
    leader.hears(&before[2], true);
    for _ in 0..5 {
        leader.sim.advance(60);
        let Some(plan) = leader.plan() else { continue };
        leader.carry_out(plan);
        leader.hears(&before[2], true);
    }
    leader.going()
}

#[test]
fn no_other_one_is_deleted_while_one_goes() {
    assert_eq!(scales_in(Leader::of_pool(json!({})), None), [vm_key(2)]);
    assert_eq!(scales_in(Leader::of_replica_set(), None), [run_key(2)]);
}

/// Without a finalizer a VM is gone with the answer, and a watch may still tell of it.
#[test]
fn one_that_is_gone_does_not_come_back_by_a_late_watch() {
    assert_eq!(scales_in(Leader::of_pool(json!({"metadata": {"finalizers": []}})), None), [vm_key(2)]);
}

#[test]
fn no_other_one_is_deleted_where_the_answer_was_lost() {
    assert_eq!(scales_in(Leader::of_pool(json!({})), Some(true)), [vm_key(2)]);
    assert_eq!(scales_in(Leader::of_pool(json!({"metadata": {"finalizers": []}})), Some(true)), [vm_key(2)]);
    assert_eq!(scales_in(Leader::of_replica_set(), Some(true)), [run_key(2)]);
}

#[test]
fn one_is_deleted_where_the_request_was_lost() {
    assert_eq!(scales_in(Leader::of_pool(json!({})), Some(false)).len(), 1);
    assert_eq!(scales_in(Leader::of_replica_set(), Some(false)).len(), 1);
}
