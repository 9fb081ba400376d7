//! VMs and VMIs that are taken out or deleted by their user while others are deleted, and deletions of a leader that
//! is not one any more.

use super::leader::{Leader, deleted};
use super::*;
use crate::sim::controller::Controller;
use crate::sim::door;
use cluster_client::error::ErrorKind;
use cluster_model::metadata::SCALE_IN;

fn leaders() -> [Leader; 2] {
    [Leader::of_pool(json!({})), Leader::of_replica_set()]
}

/// `kubectl label … app-`.
fn without_label() -> Value {
    json!({"metadata": {"labels": {"app": null}}})
}

/// Carries out the next plan of a leader up to its first deletion, which is on its way.
fn send(leader: &mut Leader) -> Step {
    let mut plan = leader.plan().expect("a plan");
    let at = plan.steps.iter().position(|step| matches!(step, Step::Delete { .. })).expect("a deletion");
    let Step::Delete { key, uid, .. } = plan.steps[at].clone() else { panic!("{plan:?}") };
    plan.steps.truncate(at);
    let failed = door::carry_out(&mut leader.sim, plan).failed;
    assert!(failed.is_none(), "{failed:?}");
    // The version is that of the answer to the step before.
    let version = leader.sim.get(&key)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    Step::Delete { key, uid, version }
}

/// A deletion reaches the API server.
fn arrive(leader: &mut Leader, deletion: Step) -> Option<ErrorKind> {
    let plan = Plan { steps: vec![deletion], again: None };
    door::carry_out(&mut leader.sim, plan).failed.map(|(_, error)| error.kind())
}

fn is_chosen(sim: &Sim, key: &Key) -> bool {
    !sim.get(key)["metadata"]["annotations"][SCALE_IN].is_null()
}

fn has_owner(sim: &Sim, key: &Key) -> bool {
    sim.get(key)["metadata"]["ownerReferences"].is_array()
}

/// The watch of the owner is the quicker one.
#[test]
fn one_that_its_user_takes_out_before_a_scale_in_is_kept() {
    for mut leader in leaders() {
        let (before, out) = (leader.states(), leader.members[1].clone());
        leader.sim.change(&out, without_label());
        leader.hears(&before[1], false);
        let plan = leader.plan().expect("a plan");
        assert_eq!(deleted(&plan), std::slice::from_ref(&out));
        assert_eq!(leader.carry_out(plan), Some(ErrorKind::Conflict));
        leader.works();
        assert_eq!(leader.going(), [], "the watch is still silent");
        leader.hears_all();
        leader.works();
        assert_eq!(leader.going(), []);
        assert!(!has_owner(&leader.sim, &out) && !is_chosen(&leader.sim, &out), "{:?}", leader.sim.get(&out));
        assert!(has_owner(&leader.sim, &leader.members[0]) && has_owner(&leader.sim, &leader.members[2]));
    }
}

#[test]
fn one_that_its_user_takes_out_is_kept_where_its_deletion_is_on_the_way() {
    for mut leader in leaders() {
        let deletion = send(&mut leader);
        let Step::Delete { key, .. } = &deletion else { panic!("{deletion:?}") };
        leader.sim.change(key, without_label());
        assert_eq!(arrive(&mut leader, deletion), Some(ErrorKind::Conflict));
        leader.control = Controller::start(&mut leader.sim, 2).control;
        leader.works();
        assert_eq!(leader.going(), []);
    }
}

#[test]
fn a_vm_that_its_user_takes_out_before_another_template_is_kept() {
    let (mut sim, pool) = begin(3, "Always", json!({}));
    boot(&mut sim, 3);
    let disk = json!({"metadata": {"name": "data"}, "spec": blank()});
    let template = json!({"virtualMachineTemplate": {"spec": {"dataVolumeTemplates": [disk]}}});
    let mut leader = Leader::begin(sim, pool, [0, 1, 2].map(vm_key), template);
    leader.sim.change(&vm_key(1), without_label());
    let plan = leader.plan().expect("a plan");
    assert!(deleted(&plan).contains(&vm_key(1)), "{plan:?}");
    assert_eq!(leader.carry_out(plan), Some(ErrorKind::Conflict));
    leader.works();
    assert!(!leader.going().contains(&vm_key(1)), "the watch is still silent");
    leader.hears_of(vm_key(1));
    leader.works();
    assert!(!leader.going().contains(&vm_key(1)));
    assert!(!has_owner(&leader.sim, &vm_key(1)));
}

/// Another one has been chosen, as the picture has one too many.
#[test]
fn one_that_its_user_deletes_or_takes_out_is_not_counted() {
    for is_deleted in [true, false] {
        for mut leader in leaders() {
            let [_, chosen, last] = leader.members.clone();
            let before = leader.states();
            match is_deleted {
                true => leader.sim.delete(&last),
                false => leader.sim.change(&last, without_label()),
            }
            leader.hears(&before[1], false);
            let plan = leader.plan().expect("a plan");
            assert_eq!(deleted(&plan), std::slice::from_ref(&chosen));
            assert_eq!(leader.carry_out(plan), Some(ErrorKind::Conflict));
            leader.works();
            let going = if is_deleted { vec![last] } else { Vec::new() };
            assert_eq!(leader.going(), going, "the watch is still silent");
            leader.hears_all();
            leader.works();
            assert_eq!(leader.going(), going);
            assert!(!is_chosen(&leader.sim, &chosen), "the choice is taken back");
        }
    }
}

/// The next leader lists everything before or after the choice is written, and another one is not ready then.
#[test]
fn a_deletion_of_the_leader_before_is_counted() {
    for is_early in [false, true] {
        for mut leader in leaders() {
            let (before, last) = (leader.states(), leader.members[2].clone());
            let early = Controller::start(&mut leader.sim, 2).control;
            leader.hears(&before[2], false);
            let deletion = send(&mut leader);
            leader.control = match is_early {
                true => early,
                false => Controller::start(&mut leader.sim, 3).control,
            };
            leader.hears(&before[0], false);
            if is_early {
                let plan = leader.plan().expect("a plan");
                assert_eq!(deleted(&plan), [leader.members[0].clone()]);
                assert_eq!(leader.carry_out(plan), Some(ErrorKind::Conflict));
                leader.works();
                assert_eq!(leader.going(), [], "the watch is still silent");
                leader.hears_all();
                leader.hears_of(leader.owner.clone());
            }
            leader.works();
            let going = leader.going();
            assert_eq!(going.len(), 1);
            assert!(is_early || going == [last], "{going:?}");
            // It is too late now, for whichever it is.
            arrive(&mut leader, deletion);
            assert_eq!(leader.going(), going);
        }
    }
}

#[test]
fn a_deletion_on_its_way_has_no_effect_where_more_are_wanted_again_or_its_owner_is_paused() {
    for change in [json!({"replicas": 3}), json!({"paused": true})] {
        for mut leader in leaders() {
            let deletion = send(&mut leader);
            let Step::Delete { key, .. } = deletion.clone() else { panic!("{deletion:?}") };
            assert!(is_chosen(&leader.sim, &key));
            let owner = leader.owner.clone();
            leader.sim.change(&owner, json!({"spec": change}));
            leader.control = Controller::start(&mut leader.sim, 2).control;
            leader.works();
            assert!(!is_chosen(&leader.sim, &key), "{change}");
            assert_eq!(arrive(&mut leader, deletion), Some(ErrorKind::Conflict));
            assert_eq!(leader.going(), [], "{change}");
        }
    }
}

/// The watch of the owner is silent, and more are wanted meanwhile.
#[test]
fn none_is_deleted_for_an_old_number() {
    for mut leader in leaders() {
        let owner = leader.owner.clone();
        leader.sim.change(&owner, json!({"spec": {"replicas": 3}}));
        let plan = leader.plan().expect("a plan");
        assert_eq!(deleted(&plan).len(), 1);
        assert_eq!(leader.carry_out(plan), Some(ErrorKind::Conflict));
        leader.works();
        assert_eq!(leader.going(), [], "the watch is still silent");
        leader.hears_of(owner);
        leader.works();
        assert_eq!(leader.going(), []);
        assert!(leader.members.iter().all(|key| !is_chosen(&leader.sim, key)));
    }
}

/// A policy of the cluster refuses changes of them.
#[test]
fn a_choice_that_is_refused_is_told_and_tried_again() {
    for mut leader in leaders() {
        let is_pool = leader.owner.kind == Kind::VirtualMachinePool;
        leader.sim.wire.locks = Some(leader.members[0].kind);
        let plan = leader.plan().expect("a plan");
        assert_eq!(leader.carry_out(plan), Some(ErrorKind::Refused));
        let plan = leader.plan().expect("a plan that tells");
        assert_eq!(leader.carry_out(plan), None);
        let (status, reason, message) = leader.sim.condition(&leader.owner, "ReplicaFailure").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("True", "FailedScaleIn"));
        assert!(message.contains("web-") && message.contains("it is locked"), "{message}");
        let events =
            |leader: &Leader| leader.sim.warnings.iter().filter(|told| *told == "FailedScaleIn").count();
        assert_eq!(events(&leader), usize::from(is_pool));
        assert!(leader.plan().is_none(), "its time has not come");
        leader.works();
        assert_eq!((leader.going(), events(&leader)), (Vec::new(), usize::from(is_pool)));
        leader.sim.wire.locks = None;
        leader.works();
        assert_eq!(leader.going().len(), 1);
        assert_eq!(leader.sim.condition(&leader.owner, "ReplicaFailure"), None);
    }
}

/// The choice of one was written, and that of another one refused.
#[test]
fn those_that_are_chosen_go_while_the_choice_of_another_one_is_refused() {
    for mut leader in leaders() {
        let (uid, owner) = (leader.sim.uid(&leader.owner), leader.owner.clone());
        let chosen = leader.members[2].clone();
        leader.sim.change(&chosen, json!({"metadata": {"annotations": {SCALE_IN: uid}}}));
        leader.sim.change(&owner, json!({"spec": {"replicas": 1}}));
        leader.hears_all();
        leader.hears_of(owner);
        leader.sim.wire.locks = Some(chosen.kind);
        let plan = leader.plan().expect("a plan");
        assert_eq!(deleted(&plan).len(), 2);
        assert_eq!(leader.carry_out(plan), Some(ErrorKind::Refused));
        let plan = leader.plan().expect("a plan");
        assert_eq!(deleted(&plan), [chosen]);
    }
}

#[test]
fn one_that_cannot_be_let_go_is_told_and_stops_no_scale_out() {
    for mut leader in leaders() {
        let (out, owner) = (leader.members[1].clone(), leader.owner.clone());
        leader.sim.change(&out, without_label());
        leader.sim.change(&owner, json!({"spec": {"replicas": 3}}));
        leader.hears_all();
        leader.hears_of(owner.clone());
        leader.sim.wire.locks = Some(out.kind);
        let plan = leader.plan().expect("a plan");
        assert_eq!(leader.carry_out(plan), Some(ErrorKind::Refused));
        assert_eq!(leader.sim.keys(out.kind).len(), 4, "another one is there");
        let plan = leader.plan().expect("a plan that tells");
        assert_eq!(leader.carry_out(plan), None);
        assert_eq!(leader.sim.condition(&owner, "ReplicaFailure").unwrap().1, "FailedScaleIn");
        leader.sim.wire.locks = None;
        leader.works();
        assert!(!has_owner(&leader.sim, &out));
        assert_eq!(leader.sim.condition(&owner, "ReplicaFailure"), None);
    }
}

/// A user may write the annotation. It is no reason to delete more.
#[test]
fn a_choice_of_a_user_changes_the_order_alone() {
    for mut leader in leaders() {
        let uid = leader.sim.uid(&leader.owner);
        for key in leader.members.clone() {
            leader.sim.change(&key, json!({"metadata": {"annotations": {SCALE_IN: uid}}}));
        }
        leader.hears_all();
        leader.works();
        assert_eq!(leader.going().len(), 1);
        let going = leader.going();
        let left = leader.members.iter().filter(|key| !going.contains(key));
        assert!(left.clone().count() == 2 && left.clone().all(|key| !is_chosen(&leader.sim, key)));
    }
}
