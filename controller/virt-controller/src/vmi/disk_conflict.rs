//! VMIs that have to wait because another VMI has the same PVC ([`cluster_model::objects::DiskConflict`]).
//!
//! ```text
//!  the other VMI                                                         this one
//!  has ended, and so have its launcher pods                              goes on
//!  has ended, and a launcher pod of it has not                           waits: PvcInUse
//!  has a launcher pod, or was handed over                                waits: PvcInUse
//!  waits as well, is older (by creation time, then by uid), and
//!  could start but for a conflict with one that waits                    waits: PvcInUse
//!  waits as well, and a plan of it is being carried out                  says nothing, and is decided again when that is done
//!  waits as well                                                         goes on, if the API server knows no launcher pod of the other
//! ```
//!
//! **Guarantees.** Of VMIs that wait for one another, the oldest goes on: the order is total, so there is no
//! cycle. An older VMI that waits for something else (a PVC, a quota, another spec) does not block any, nor does
//! one that waits for a VMI that runs. A VMI
//! whose pod is being created is not overtaken: the answer is awaited first. The phase of a VMI says nothing
//! about QEMU, which may run until the kubelet says that its container ended.
//! **A second look** is taken when the launcher pod runs, before the VMI is handed over to its node
//! ([`at_hand_over`]): a virt-controller may have created the pod late, after another one had taken over its Lease.

use super::needs::{self, DiskNeeds};
use super::outcome::Outcome;
use super::waiting::wait;
use super::{VmiReconcile, key_of, phase, pod_state};
use api::vmi::{ConditionType, VirtualMachineInstance};
use cluster_model::conditions;
use cluster_model::objects::{
    ConflictCause, DiskConflict, LauncherPods, Pod, World, is_waiting, was_handed_over,
};

/// The reason of the condition `Synchronized`, and of the event.
pub(super) const REASON: &str = "PvcInUse";

/// The most VMIs in front of one for which it is found out whether they are held up. The next one counts as able to start.
const MAX_HELD_UP: usize = 16;

/// Result of the second look, when the launcher pod runs.
pub(super) enum HandOver {
    /// The guest may begin if none of these launcher pods exists.
    Free(Vec<LauncherPods>),
    /// The launcher pod of a VMI that has to give way still exists.
    HeldUp { message: String },
    /// The guest may not begin any more: another VMI has the PVC.
    Lost { message: String },
}

/// Launcher pods of other VMIs that must not exist when this VMI gets its own, since they would have one of its PVCs; an outcome if
/// the VMI must wait.
pub(super) fn rivals_for_disks(input: &VmiReconcile<'_>) -> Result<Vec<LauncherPods>, Outcome> {
    let VmiReconcile { world, vmi, .. } = *input;
    let mut rivals = Vec::new();
    let mut is_unknown = false;
    let mut held_up = 0;
    for conflict in world.disk_conflicts(vmi) {
        let other = conflict.other;
        let mut is_first = is_waiting(other) && age(other) < age(vmi) && may_start(world, other);
        if is_first && held_up < MAX_HELD_UP && is_held_up(world, other) {
            (held_up, is_first) = (held_up + 1, false);
        }
        if is_first || may_run(world, other) {
            return Err(wait(input, REASON, &message(vmi, conflict)));
        }
        if is_waiting(other) {
            is_unknown = is_unknown || world.busy.contains(&key_of(other));
            rivals.extend(LauncherPods::for_vmi(other));
        }
    }
    if is_unknown { Err(Outcome::default()) } else { Ok(rivals) }
}

/// The second look. A launcher pod may have been created late, by a virt-controller that another one had replaced
/// meanwhile, so the pods of two VMIs may exist. Each exists before its VMI is handed over: at least one of two looks
/// sees the other pod, and the younger VMI gives way.
pub(super) fn at_hand_over(input: &VmiReconcile<'_>, pod: &Pod) -> HandOver {
    let VmiReconcile { world, vmi, .. } = *input;
    let mut rivals = Vec::new();
    let mut held_up = None;
    for conflict in world.disk_conflicts(vmi) {
        let other = conflict.other;
        match world.active_pod(other) {
            // The guest of a VMI that has ended is on its way out.
            _ if phase(other).is_final() => {
                held_up = held_up.or_else(|| may_run(world, other).then(|| message(vmi, conflict)));
            }
            _ if was_handed_over(other) => return HandOver::Lost { message: message(vmi, conflict) },
            Some(its) if created_at(pod) < created_at(its) => held_up = Some(message(vmi, conflict)),
            Some(_) => return HandOver::Lost { message: message(vmi, conflict) },
            None => rivals.extend(LauncherPods::for_vmi(other)),
        }
    }
    held_up.map_or(HandOver::Free(rivals), |message| HandOver::HeldUp { message })
}

/// Reason and message of a VMI whose launcher pod runs and waits for the end of another one.
pub(super) fn held_up(input: &VmiReconcile<'_>, pod: &Pod) -> Option<(String, String)> {
    if !pod_state::is_up(pod) {
        return None;
    }
    match at_hand_over(input, pod) {
        HandOver::HeldUp { message } => Some((REASON.to_owned(), message)),
        HandOver::Free(_) | HandOver::Lost { .. } => None,
    }
}

/// The end of a VMI that has given way before its guest began.
pub(super) fn give_way(message: &str) -> Outcome {
    Outcome::default()
        .condition(ConditionType::Synchronized, "False", REASON, message)
        .event(true, REASON, message)
        .fail(REASON)
}

/// Time at which a pod was created, in seconds: of two in one second, neither is the older one.
fn created_at(pod: &Pod) -> &str {
    pod.meta.creation_timestamp.as_deref().unwrap_or_default()
}

/// True if QEMU of the VMI may run now, or will without a further decision. A VMI that has ended counts with all pods of it.
pub(super) fn may_run(world: &World, vmi: &VirtualMachineInstance) -> bool {
    if phase(vmi).is_final() {
        let any = LauncherPods::for_vmi(vmi).map(LauncherPods::any);
        return any.is_some_and(|any| world.launcher_pods(&any).iter().any(|pod| !pod.is_over()));
    }
    !is_waiting(vmi) || world.active_pod(vmi).is_some()
}

/// True if a VMI without a launcher pod waits for nothing but the disks of others.
fn may_start(world: &World, vmi: &VirtualMachineInstance) -> bool {
    let said = vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let said = conditions::find(said, &ConditionType::Synchronized).filter(|said| said.status == "False");
    said.is_none_or(|said| said.reason.as_deref() == Some(REASON))
        && !world.is_unread(&key_of(vmi))
        && matches!(needs::find(world, vmi), DiskNeeds::There(_))
}

/// True if a VMI that may run has a disk of this one, which waits.
fn is_held_up(world: &World, vmi: &VirtualMachineInstance) -> bool {
    world.disk_conflicts(vmi).into_iter().any(|conflict| may_run(world, conflict.other))
}

/// Position of a VMI in the order of those that wait for one another.
fn age(vmi: &VirtualMachineInstance) -> (&str, &str) {
    let meta = &vmi.metadata;
    (meta.creation_timestamp.as_deref().unwrap_or_default(), meta.uid.as_deref().unwrap_or_default())
}

fn message(vmi: &VirtualMachineInstance, conflict: DiskConflict<'_>) -> String {
    let DiskConflict { other, claim, cause } = conflict;
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let name = other.metadata.name.as_deref().unwrap_or_default();
    let why = match cause {
        ConflictCause::OtherWrites => "which may write to it",
        ConflictCause::OtherReads => "which would read what this VMI writes",
        ConflictCause::OtherUnread => {
            return format!(
                "VMI {name} is too large to be read, so PVC {namespace}/{claim} may be a disk of it: this VMI starts when VMI \
                 {name} and its launcher pod have ended"
            );
        }
    };
    format!(
        "PVC {namespace}/{claim} is a disk of VMI {name}, {why}: this VMI starts when VMI {name} and its launcher pod have ended; \
         disks that guests share must have shareable: true in both VMIs"
    )
}

#[cfg(test)]
mod tests {
    use crate::run::ControlLoop;
    use crate::sim::controller::Controller;
    use crate::sim::door::carry_out;
    use crate::sim::{Sim, vmi};
    use cluster_client::PlanResult;
    use cluster_client::watch::WatchMessage;
    use cluster_model::objects::{Attempt, Failure, Key, Kind};
    use cluster_model::plan::{Plan, Step};
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn on(name: &str, claim: &str) -> Value {
        let mut object = vmi(name);
        object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": claim}}]);
        object
    }

    fn claim(name: &str) -> Value {
        let meta = json!({"namespace": "n", "name": name, "uid": format!("of-{name}")});
        json!({"metadata": meta, "spec": {"volumeMode": "Block"}, "status": {"phase": "Bound"}})
    }

    fn begin() -> Sim {
        let mut sim = Sim::new();
        sim.put(Kind::PersistentVolumeClaim, claim("disk"));
        sim
    }

    #[test]
    fn a_vmi_waits_while_another_has_its_pvc_and_starts_when_that_has_ended() {
        let mut sim = begin();
        let first = sim.put(Kind::VirtualMachineInstance, on("web", "disk"));
        sim.boot(&first);
        let second = sim.put(Kind::VirtualMachineInstance, on("a", "disk"));
        sim.settle();
        assert_eq!(sim.pod_of(&second), None);
        let (status, reason, message) = sim.condition(&second, "Synchronized").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "PvcInUse"));
        assert!(message.starts_with("PVC n/disk is a disk of VMI web, which may write to it"), "{message}");
        assert_eq!(sim.get(&second)["status"]["phase"], "Pending");
        assert_eq!(sim.reasons().iter().filter(|reason| *reason == "PvcInUse").count(), 1);
        let writes = sim.writes;
        sim.settle();
        assert_eq!(sim.writes, writes, "it waits without a write");
        assert!(sim.world.dependents(&first).contains(&second), "the end of one is looked at for the other");
        sim.agent_says(&first, "Succeeded");
        sim.settle();
        let (_, reason, _) = sim.condition(&second, "Synchronized").unwrap();
        assert_eq!(
            (sim.pod_of(&second), reason.as_str()),
            (None, "PvcInUse"),
            "QEMU may still run in its pod"
        );
        let pod = sim.pod_of(&first).unwrap();
        let ended = json!({"terminated": {"exitCode": 0}, "running": null});
        let said = json!([{"name": "compute", "ready": false, "state": ended}]);
        sim.change(&pod, json!({"status": {"containerStatuses": said}}));
        assert!(
            sim.world.dependents(&pod).contains(&second),
            "the end of the container is looked at for the other"
        );
        sim.settle();
        assert!(sim.pod_of(&second).is_some());
        assert_eq!(sim.condition(&second, "Synchronized"), None);
    }

    /// virt-handler says that a VMI has failed where it hears nothing of its launcher any more.
    #[test]
    fn a_pod_of_a_failed_vmi_holds_the_pvc_until_it_is_gone() {
        let mut sim = begin();
        let first = sim.put(Kind::VirtualMachineInstance, on("web", "disk"));
        sim.boot(&first);
        let second = sim.put(Kind::VirtualMachineInstance, on("a", "disk"));
        sim.agent_says(&first, "Failed");
        sim.settle();
        let pod = sim.pod_of(&first).unwrap();
        // Its owner was taken from it, and it was never noted in the status: it is a pod of the VMI all the same.
        sim.change(&pod, json!({"metadata": {"ownerReferences": null}}));
        sim.change(&first, json!({"status": {"activePods": null}}));
        sim.settle();
        assert_eq!(sim.pod_of(&second), None);
        sim.vanish(&pod);
        assert!(sim.world.dependents(&pod).contains(&second), "that it is gone is looked at for the other");
        sim.settle();
        assert!(sim.pod_of(&second).is_some());
    }

    /// Something else keeps it from having a pod: without its claim, with a spec that is not permitted, or beyond a quota.
    #[test]
    fn an_older_vmi_that_waits_for_something_else_does_not_hold_up_a_younger_one() {
        for reason in ["FailedPvcNotFound", "InvalidSpec", "FailedCreate"] {
            let mut sim = begin();
            let mut older = on("older", "disk");
            match reason {
                "FailedPvcNotFound" => {
                    let more = json!({"name": "more", "persistentVolumeClaim": {"claimName": "more"}});
                    older["spec"]["volumes"].as_array_mut().unwrap().push(more);
                }
                "InvalidSpec" => {
                    let host = json!({"name": "more", "hostDisk": {"path": "/a.img", "type": "Disk"}});
                    older["spec"]["volumes"].as_array_mut().unwrap().push(host);
                }
                _ => {}
            }
            let older = sim.put(Kind::VirtualMachineInstance, older);
            if reason == "FailedCreate" {
                let retry = sim.now + jiff::SignedDuration::from_secs(60);
                let (about, message) = (Attempt::Make(Kind::Pod), "exceeded quota: small".to_owned());
                sim.world.failures.insert(older.clone(), Failure { about, message, times: 1, retry });
            }
            sim.settle();
            let why = |sim: &Sim| sim.condition(&older, "Synchronized").map(|(_, reason, _)| reason);
            assert_eq!(why(&sim).as_deref(), Some(reason));
            sim.advance(1);
            let younger = sim.put(Kind::VirtualMachineInstance, on("younger", "disk"));
            sim.settle();
            assert!(sim.pod_of(&younger).is_some() && sim.pod_of(&older).is_none(), "{reason}");
            // What it waited for comes, and the younger one has the disk.
            match reason {
                "FailedPvcNotFound" => drop(sim.put(Kind::PersistentVolumeClaim, claim("more"))),
                "FailedCreate" => drop(sim.world.failures.remove(&older)),
                _ => continue,
            }
            sim.settle();
            assert_eq!((why(&sim).as_deref(), sim.pod_of(&older)), (Some("PvcInUse"), None), "{reason}");
        }
    }

    /// It may wait for days, and the disk of the younger one is free.
    #[test]
    fn an_older_vmi_that_waits_for_one_that_runs_does_not_hold_up_a_younger_one() {
        let mut sim = begin();
        sim.put(Kind::PersistentVolumeClaim, claim("more"));
        let runs = sim.put(Kind::VirtualMachineInstance, on("runs", "more"));
        sim.boot(&runs);
        let mut object = on("older", "disk");
        let more = json!({"name": "more", "persistentVolumeClaim": {"claimName": "more"}});
        object["spec"]["volumes"].as_array_mut().unwrap().push(more);
        let older = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        sim.advance(1);
        let younger = sim.put(Kind::VirtualMachineInstance, on("younger", "disk"));
        let plan = crate::decide(&sim.world, &younger, sim.now);
        let asks = |step: &Step| matches!(step, Step::RequireNoLauncherPod { .. });
        assert!(creates_pod(&plan) && asks(&plan.steps[0]), "the server is asked first: {plan:?}");
        sim.settle();
        assert!(sim.pod_of(&younger).is_some() && sim.pod_of(&older).is_none());
        // Of two disks that it waits for it gets neither before both are free.
        sim.agent_says(&runs, "Succeeded");
        sim.settle();
        let pod = sim.pod_of(&runs).unwrap();
        sim.vanish(&pod);
        sim.settle();
        assert_eq!(sim.pod_of(&older), None);
        let message = sim.condition(&older, "Synchronized").unwrap().2;
        assert!(message.contains("VMI younger"), "{message}");
    }

    /// The claim that the older one waited for may have come meanwhile, and its pod with it.
    #[test]
    fn an_older_vmi_that_waits_for_something_else_is_asked_about_before_a_younger_one_starts() {
        let mut sim = begin();
        let mut object = on("older", "disk");
        let more = json!({"name": "more", "persistentVolumeClaim": {"claimName": "more"}});
        object["spec"]["volumes"].as_array_mut().unwrap().push(more);
        let older = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        sim.advance(1);
        let younger = sim.put(Kind::VirtualMachineInstance, on("younger", "disk"));
        sim.world.busy.insert(older.clone());
        let plan = crate::decide(&sim.world, &younger, sim.now);
        assert!(!creates_pod(&plan), "what comes of the other is not known yet: {plan:?}");
        sim.world.busy.clear();
        let plan = crate::decide(&sim.world, &younger, sim.now);
        let asks = |step: &Step| matches!(step, Step::RequireNoLauncherPod { .. });
        assert!(creates_pod(&plan) && asks(&plan.steps[0]), "the server is asked first: {plan:?}");
    }

    #[test]
    fn of_two_new_vmis_the_older_one_starts_whoever_is_decided_on_first() {
        for (older, younger) in [("a", "b"), ("b", "a")] {
            for is_later in [true, false] {
                let mut sim = begin();
                let older = sim.put(Kind::VirtualMachineInstance, on(older, "disk"));
                if is_later {
                    sim.advance(1);
                }
                // In one second, the uid decides: the one that was made first has the smaller one here.
                let younger = sim.put(Kind::VirtualMachineInstance, on(younger, "disk"));
                sim.settle();
                assert!(sim.pod_of(&older).is_some() && sim.pod_of(&younger).is_none(), "{older} {is_later}");
                // One that was deleted before it had a pod holds nobody up.
                sim.agent_says(&older, "Failed");
                sim.settle();
                assert!(sim.pod_of(&younger).is_some(), "{younger} {is_later}");
            }
        }
    }

    /// The pod of a younger VMI may be there already, although the picture does not have it yet.
    #[test]
    fn a_vmi_whose_pod_is_being_created_is_not_overtaken() {
        let now = Timestamp::UNIX_EPOCH;
        let mut control = ControlLoop::default();
        let settings = json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}});
        control.world.facts.namespace = "kubevirt".into();
        control.world.put(Kind::KubeVirt, settings, now);
        control.world.put(Kind::PersistentVolumeClaim, claim("disk"), now);
        let (older, younger) = (key("older"), key("younger"));
        let see = |control: &mut ControlLoop, key: &Key, uid: &str, node: Option<&str>| {
            let mut object = on(&key.name, "disk");
            object["metadata"]["uid"] = json!(uid);
            object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
            if let Some(node) = node {
                object["status"] = json!({"phase": "Scheduled", "nodeName": node});
            }
            control.handle_watch(WatchMessage::Changed(Kind::VirtualMachineInstance, object), now);
        };
        see(&mut control, &younger, "2", None);
        let (of, plan) = control.next(now).expect("a plan");
        assert!(of == younger && creates_pod(&plan), "{plan:?}");
        see(&mut control, &older, "1", None);
        for (of, plan) in std::iter::from_fn(|| control.next(now)).collect::<Vec<_>>() {
            assert!(!creates_pod(&plan), "what comes of the other is not known yet: {plan:?}");
            control.finish_plan(of, PlanResult::default(), now);
        }
        // The creation failed, and did not reach the server.
        control.finish_plan(younger.clone(), PlanResult::default(), now);
        let mut plan = None;
        while plan.is_none() {
            let (of, next) = control.next(now).expect("the older one goes on");
            assert!(of == older || !creates_pod(&next), "{next:?}");
            match creates_pod(&next) {
                true => plan = Some(next),
                false => control.finish_plan(of, PlanResult::default(), now),
            }
        }
        let asks = |step: &Step| matches!(step, Step::RequireNoLauncherPod { .. });
        assert!(asks(&plan.unwrap().steps[0]), "the server is asked first");
        control.finish_plan(older.clone(), PlanResult::default(), now);
        // It was created: the older one waits.
        see(&mut control, &younger, "2", Some("node1"));
        let plans: Vec<(Key, Plan)> = std::iter::from_fn(|| control.next(now)).collect();
        let of_older = plans.iter().find(|(of, _)| *of == older).expect("it says why it waits");
        assert!(!creates_pod(&of_older.1), "{of_older:?}");
    }

    /// Three that were created at once: the younger one waits for the older one before the pod of the first one is known, and what the
    /// older one says does not change then.
    #[test]
    fn a_vmi_is_decided_again_when_the_one_before_it_is_held_up() {
        let mut sim = begin();
        sim.put(Kind::PersistentVolumeClaim, claim("more"));
        let drain = |sim: &mut Sim, control: &mut ControlLoop| {
            while let Some((of, plan)) = control.next(sim.now) {
                let done = carry_out(sim, plan);
                control.finish_plan(of, done, sim.now);
            }
        };
        // It makes the KubeVirt object.
        let mut control = Controller::start(&mut sim, 1).control;
        drain(&mut sim, &mut control);
        let first = sim.put(Kind::VirtualMachineInstance, on("first", "disk"));
        sim.advance(1);
        let mut object = on("older", "disk");
        let more = json!({"name": "more", "persistentVolumeClaim": {"claimName": "more"}});
        object["spec"]["volumes"].as_array_mut().unwrap().push(more);
        let older = sim.put(Kind::VirtualMachineInstance, object);
        sim.advance(1);
        let younger = sim.put(Kind::VirtualMachineInstance, on("younger", "more"));
        // Its watches tell nothing more.
        let mut control = Controller::start(&mut sim, 2).control;
        let mut pod_of_first = None;
        while let Some((of, plan)) = control.next(sim.now) {
            if of == first && creates_pod(&plan) {
                pod_of_first = Some(plan);
                continue;
            }
            let done = carry_out(&mut sim, plan);
            control.finish_plan(of, done, sim.now);
        }
        let says = |sim: &Sim, key: &Key| sim.condition(key, "Synchronized").map(|(_, _, message)| message);
        let (of_older, of_younger) = (says(&sim, &older), says(&sim, &younger));
        assert!(of_younger.is_some_and(|message| message.contains("VMI older")));
        let done = carry_out(&mut sim, pod_of_first.expect("a plan"));
        control.finish_plan(first, done, sim.now);
        drain(&mut sim, &mut control);
        assert_eq!(says(&sim, &older), of_older);
        assert!(sim.pod_of(&younger).is_some() && sim.pod_of(&older).is_none());
    }

    /// Two VMIs on one PVC, each with a launcher pod: that of `late` was created by a virt-controller that was
    /// suspended within its plan, after another one had given the PVC away.
    fn two_pods(first_has_guest: bool) -> (Sim, Key, Key) {
        let mut sim = begin();
        let mut object = on("first", "disk");
        let more = json!({"name": "more", "persistentVolumeClaim": {"claimName": "more"}});
        object["spec"]["volumes"].as_array_mut().unwrap().push(more);
        let first = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        sim.advance(1);
        let late = sim.put(Kind::VirtualMachineInstance, on("late", "disk"));
        let mut plan = crate::decide(&sim.world, &late, sim.now);
        plan.steps.retain(|step| matches!(step, Step::Create { .. }));
        assert!(creates_pod(&plan), "{plan:?}");
        sim.put(Kind::PersistentVolumeClaim, claim("more"));
        sim.settle();
        assert!(sim.pod_of(&first).is_some() && sim.pod_of(&late).is_none());
        if first_has_guest {
            runs(&mut sim, &first, "node1");
        }
        sim.advance(1);
        sim.apply(plan);
        assert!(sim.pod_of(&late).is_some());
        (sim, first, late)
    }

    fn runs(sim: &mut Sim, vmi: &Key, node: &str) {
        let pod = sim.pod_of(vmi).unwrap();
        sim.pod_runs(&pod, node);
        sim.settle();
    }

    fn phase_of<'a>(sim: &'a Sim, vmi: &Key) -> &'a str {
        sim.get(vmi)["status"]["phase"].as_str().unwrap_or_default()
    }

    fn has_failed(sim: &Sim, vmi: &Key) -> bool {
        let (status, reason, message) = sim.condition(vmi, "Synchronized").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "PvcInUse"), "{message}");
        assert_eq!(sim.get(vmi)["status"]["reason"], "PvcInUse");
        phase_of(sim, vmi) == "Failed" && sim.get(vmi)["status"]["nodeName"].is_null()
    }

    #[test]
    fn a_launcher_pod_that_comes_late_gets_no_guest_while_another_vmi_has_the_pvc() {
        let (mut sim, first, late) = two_pods(true);
        runs(&mut sim, &late, "node2");
        assert!(has_failed(&sim, &late));
        assert_eq!(phase_of(&sim, &first), "Scheduled");
    }

    /// Neither has a guest yet: the younger one gives way whoever is ready first, and the older one waits for the end of its pod.
    #[test]
    fn of_two_launcher_pods_on_one_pvc_the_older_one_gets_the_guest() {
        let (mut sim, first, late) = two_pods(false);
        runs(&mut sim, &late, "node2");
        assert!(has_failed(&sim, &late));
        runs(&mut sim, &first, "node1");
        let (_, reason, _) = sim.condition(&first, "Synchronized").unwrap();
        assert_eq!((phase_of(&sim, &first), reason.as_str()), ("Scheduling", "PvcInUse"));
        let writes = sim.writes;
        sim.settle();
        assert_eq!(sim.writes, writes, "it waits without a write");
        let pod = sim.pod_of(&late).unwrap();
        sim.vanish(&pod);
        assert!(sim.world.dependents(&pod).contains(&first), "that it is gone is looked at for the other");
        sim.settle();
        assert_eq!((phase_of(&sim, &first), sim.condition(&first, "Synchronized")), ("Scheduled", None));
    }

    /// The World lags behind: the server is asked, and what it says is decided on.
    #[test]
    fn a_guest_begins_when_the_server_knows_no_launcher_pod_on_its_pvc() {
        let (mut sim, first, late) = two_pods(false);
        let unseen = sim.pod_of(&late).unwrap();
        sim.world.remove(&unseen);
        let pod = sim.pod_of(&first).unwrap();
        sim.pod_runs(&pod, "node1");
        let plan = crate::decide(&sim.world, &first, sim.now);
        assert!(matches!(plan.steps[0], Step::RequireNoLauncherPod { .. }), "{plan:?}");
        let failed = carry_out(&mut sim, plan.clone());
        let (_, error) = failed.failed.expect("the pod of the other is there");
        assert!(error.to_string().ends_with("exists; the cache was outdated"), "{error}");
        assert_eq!(failed.answers[0].1["metadata"]["name"], unseen.name);
        assert_eq!(phase_of(&sim, &first), "Scheduling");
        sim.vanish(&unseen);
        let done = carry_out(&mut sim, plan);
        assert!(done.failed.is_none() && phase_of(&sim, &first) == "Scheduled", "{:?}", done.failed);
    }

    /// It may have any PVC of its namespace.
    #[test]
    fn a_vmi_that_cannot_be_read_holds_every_pvc_while_its_launcher_pod_runs() {
        let mut sim = begin();
        let large = sim.put(Kind::VirtualMachineInstance, on("large", "disk"));
        sim.boot(&large);
        let meta = sim.get(&large)["metadata"].clone();
        let mut unread = json!({"metadata": meta});
        unread[cluster_model::objects::METADATA_ALONE] = json!(true);
        // A new leader has never read more of it.
        sim.world.remove(&large);
        sim.world.put(Kind::VirtualMachineInstance, unread, sim.now);
        let other = sim.put(Kind::VirtualMachineInstance, on("other", "disk"));
        let decide = |sim: &Sim| crate::decide(&sim.world, &other, sim.now);
        let plan = decide(&sim);
        sim.apply(plan);
        let plan = decide(&sim);
        assert!(!creates_pod(&plan), "{plan:?}");
        sim.apply(plan);
        let (_, reason, message) = sim.condition(&other, "Synchronized").unwrap();
        assert_eq!(reason, "PvcInUse");
        assert!(message.starts_with("VMI large is too large to be read"), "{message}");
        let pod = sim.pod_of(&large).unwrap();
        sim.world.remove(&pod);
        assert!(creates_pod(&decide(&sim)));
    }

    fn key(name: &str) -> Key {
        Key::new(Kind::VirtualMachineInstance, "n", name)
    }

    fn creates_pod(plan: &Plan) -> bool {
        plan.steps.iter().any(|step| matches!(step, Step::Create { key, .. } if key.kind == Kind::Pod))
    }
}
