//! The loop, driven by hand.

use super::*;
use serde_json::json;

/// A pod without the label of launchers, whose end no watch tells.
#[test]
fn what_is_found_gone_when_it_is_deleted_is_forgotten() {
    let mut control = ControlLoop::default();
    let object =
        |uid: &str| json!({"metadata": {"namespace": "n", "name": "a", "uid": uid, "resourceVersion": "5"}});
    let (key, now) = (Key::new(Kind::Pod, "n", "a"), Timestamp::UNIX_EPOCH);
    let gone = |uid: &str| PlanResult { gone: vec![(key.clone(), uid.to_owned())], ..PlanResult::default() };
    control.handle_watch(WatchMessage::Changed(Kind::Pod, object("2")), now);
    let about = Key::new(Kind::VirtualMachineInstance, "n", "a");
    control.finish_plan(about.clone(), gone("1"), now);
    assert_eq!(control.world.uid(&key).as_deref(), Some("2"), "another has the name by now");
    control.finish_plan(about, gone("2"), now);
    assert_eq!(control.world.uid(&key), None);
}

/// Whoever makes and deletes objects that are to be looked at in a hundred years fills no memory.
#[test]
fn what_is_gone_is_not_looked_at_later() {
    let (mut control, now) = (ControlLoop::default(), Timestamp::UNIX_EPOCH);
    let key = Key::new(Kind::DataImportCron, "n", "a");
    let object = json!({"metadata": {"namespace": "n", "name": "a", "uid": "1"}});
    control.handle_watch(WatchMessage::Changed(Kind::DataImportCron, object), now);
    control.delayed.insert(key.clone(), Timestamp::MAX);
    control.handle_watch(WatchMessage::Gone(key, "1".to_owned()), now);
    while control.next(now).is_some() {}
    assert_eq!(control.delayed.times().next(), None);
}

/// A VM that asks for nothing is not to run, and one that cannot be read asks for what it asked before.
#[test]
fn what_cannot_be_read_any_more_stays_as_it_is() {
    let now = Timestamp::UNIX_EPOCH;
    let whole = |version: &str| {
        json!({
            "metadata": {"namespace": "n", "name": "a", "uid": "1", "resourceVersion": version},
            "spec": {"runStrategy": "Always", "replicas": 2, "template": {"spec": {"domain": {"devices": {}}}}},
        })
    };
    let in_part = |version: &str| {
        let metadata = whole(version)["metadata"].clone();
        json!({"metadata": metadata, "metadataAlone": true})
    };
    for kind in [Kind::VirtualMachine, Kind::VirtualMachineInstanceReplicaSet] {
        let mut control = ControlLoop::default();
        let key = Key::new(kind, "n", "a");
        let plan =
            |control: &mut ControlLoop| std::iter::from_fn(|| control.next(now)).find(|(at, _)| *at == key);
        control.handle_watch(WatchMessage::Changed(kind, whole("5")), now);
        let (_, made) = plan(&mut control).unwrap();
        control.finish_plan(key.clone(), PlanResult::default(), now);
        control.handle_watch(WatchMessage::Changed(kind, in_part("6")), now);
        let (_, told) = plan(&mut control).unwrap();
        let [Step::RecordEvent(note)] = told.steps.as_slice() else { panic!("{told:?}") };
        assert_eq!((note.reason, note.key.kind), ("TooLarge", kind));
        control.finish_plan(key.clone(), PlanResult::default(), now);
        control.handle_watch(WatchMessage::Changed(kind, in_part("7")), now);
        assert!(plan(&mut control).is_none(), "it is said once");
        // News of before, and then the same object, whole.
        control.handle_watch(WatchMessage::Changed(kind, whole("4")), now);
        assert!(plan(&mut control).is_none());
        control.handle_watch(WatchMessage::Changed(kind, whole("8")), now);
        assert_eq!(plan(&mut control).unwrap().1.steps.len(), made.steps.len());
        control.finish_plan(key.clone(), PlanResult::default(), now);
        // Nobody has read it before.
        let mut control = ControlLoop::default();
        control.handle_watch(WatchMessage::Changed(kind, in_part("5")), now);
        let steps = plan(&mut control).unwrap().1.steps;
        assert!(matches!(steps.as_slice(), [Step::RecordEvent(_)]), "{steps:?}");
    }
}

/// Whoever has many objects about which nothing is to be done keeps the loop from nothing else.
#[test]
fn a_turn_decides_on_one_key() {
    let mut control = ControlLoop::default();
    let now = Timestamp::UNIX_EPOCH;
    (0..3).for_each(|n| control.dirty.insert(Key::new(Kind::Pod, "n", format!("pod-{n}"))));
    for left in [2, 1, 0] {
        assert!(matches!(control.decide_next(now), Decision::Empty));
        assert_eq!(control.dirty.len(), left);
    }
    assert!(matches!(control.decide_next(now), Decision::Idle));
}

#[test]
fn the_answer_to_a_write_does_not_bring_back_what_is_gone() {
    let mut control = ControlLoop::default();
    let object = |uid: &str, version: &str| json!({"metadata": {"namespace": "n", "name": "a", "uid": uid, "resourceVersion": version}});
    let key = Key::new(Kind::VirtualMachineInstance, "n", "a");
    let answer = |object| PlanResult {
        answers: vec![(Kind::VirtualMachineInstance, object)],
        writes: 1,
        ..PlanResult::default()
    };
    control.handle_watch(
        WatchMessage::Changed(Kind::VirtualMachineInstance, object("1", "5")),
        Timestamp::UNIX_EPOCH,
    );
    control.handle_watch(WatchMessage::Gone(key.clone(), "1".to_owned()), Timestamp::UNIX_EPOCH);
    control.finish_plan(key.clone(), answer(object("1", "6")), Timestamp::UNIX_EPOCH);
    assert!(control.world.vmis.get("n", "a").is_none());
    control.finish_plan(key.clone(), answer(object("2", "7")), Timestamp::UNIX_EPOCH);
    let is_there = |control: &ControlLoop| control.world.vmis.get("n", "a").is_some();
    assert!(is_there(&control), "another of that name");
    control.handle_watch(WatchMessage::Gone(key.clone(), "1".to_owned()), Timestamp::UNIX_EPOCH);
    assert!(is_there(&control), "that news is not about this one");
    control
        .handle_watch(WatchMessage::Listed(Kind::VirtualMachineInstance, Vec::new()), Timestamp::UNIX_EPOCH);
    control.finish_plan(key, answer(object("2", "8")), Timestamp::UNIX_EPOCH);
    assert!(!is_there(&control), "a list that lacks it is such news too");
}

/// Two objects of a kind are followed, each by its name: the news of one is none of the other.
#[test]
fn an_object_that_is_followed_by_its_name_goes_alone() {
    let mut control = ControlLoop::default();
    let key = |name: &str| Key::new(Kind::Secret, "n", name);
    let object = |name: &str| json!({"metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": "5"}});
    let now = Timestamp::UNIX_EPOCH;
    for name in ["a", "b"] {
        control.handle_watch(WatchMessage::Only(key(name), Some(object(name))), now);
    }
    assert_eq!(control.listed.len(), 2);
    control.handle_watch(WatchMessage::Only(key("a"), None), now);
    let is_there = |name: &str| control.world.secrets.get("n", name).is_some();
    assert!(!is_there("a") && is_there("b"));
}

/// An answer that comes late is about an object that is gone, and may be wrong for the next one of its name.
#[test]
fn the_answer_to_a_poll_is_for_the_object_that_it_was_asked_for() {
    let mut control = ControlLoop::default();
    let (key, now) = (Key::new(Kind::DataImportCron, "n", "images"), Timestamp::UNIX_EPOCH);
    let object =
        json!({"metadata": {"namespace": "n", "name": "images", "uid": "2", "resourceVersion": "5"}});
    control.handle_watch(WatchMessage::Changed(Kind::DataImportCron, object), now);
    let mut told = |uid: &str, answer| {
        control.handle_poll(polls::PollResult { key: key.clone(), uid: uid.to_owned(), at: now, answer });
        control.world.polls.values().map(|(_, polled)| polled.failures).next()
    };
    let failed = || Err((cluster_model::polls::NoAnswer::Silent, None));
    assert_eq!(told("1", failed()), None);
    assert_eq!((told("2", failed()), told("2", failed())), (Some(1), Some(2)));
    assert_eq!(told("2", Ok("sha256:0".to_owned())), Some(0));
    control.handle_watch(WatchMessage::Gone(key.clone(), "2".to_owned()), now);
    assert!(control.world.polls.is_empty(), "nothing is kept of what is gone");
}

/// A PVC without a DataVolume: the key that its disk is decided on under has no object, and so no end.
#[test]
fn nothing_is_counted_of_what_failed_once_and_is_gone() {
    let mut control = ControlLoop::default();
    let (key, now) = (Key::new(Kind::DataVolume, "n", "disk"), Timestamp::UNIX_EPOCH);
    let after = |seconds| now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    for (about, kind) in [(Some(Attempt::Make(Kind::Pod)), ErrorKind::Refused), (None, ErrorKind::Conflict)] {
        let error = Error::new(kind, "exceeded quota");
        control.finish_plan(
            key.clone(),
            PlanResult { failed: Some((about, error)), ..PlanResult::default() },
            now,
        );
        assert_eq!(control.failed.get(&key), Some(&1));
        assert!(control.next(after(60)).is_none(), "there is no such PVC any more");
        assert!(control.failed.is_empty() && control.world.failures.is_empty(), "{about:?}");
        assert!(control.delayed.times().next().is_none(), "{:?}", control.delayed);
    }
}

#[test]
fn what_could_not_be_made_is_said_at_once_and_tried_again_later() {
    let mut control = ControlLoop::new(ClusterFacts {
        image_volumes: true,
        namespace: "kubevirt".into(),
        ..ClusterFacts::default()
    });
    let settings = json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}});
    let now = Timestamp::UNIX_EPOCH;
    control.world.put(Kind::KubeVirt, settings, now);
    let mut object = crate::sim::vmi("web");
    object["metadata"]["uid"] = json!("1");
    control.handle_watch(WatchMessage::Changed(Kind::VirtualMachineInstance, object), now);
    let (key, plan) = control.next(now).expect("a plan");
    assert!(matches!(plan.steps[0], Step::Create { .. }));
    let error = Error::new(ErrorKind::Refused, "exceeded quota");
    control.finish_plan(
        key,
        PlanResult { failed: Some((Some(Attempt::Make(Kind::Pod)), error)), ..PlanResult::default() },
        now,
    );
    let (_, plan) = control.next(now).expect("a plan that says so");
    assert!(plan.steps.iter().all(|step| !matches!(step, Step::Create { .. })), "{plan:?}");
    assert!(plan.steps.iter().any(
        |step| matches!(step, Step::Patch { change, .. } if change.to_string().contains("exceeded quota"))
    ));
    control.world.busy.clear();
    let later = now.checked_add(SignedDuration::from_secs(60)).unwrap();
    let again = control.world.vmis.get("n", "web").cloned();
    assert!(again.is_some() && control.delayed.times().all(|time| time <= later));
}

/// By an hour: so long a creation that was refused would not be tried again, and a pod that is over would keep its VMI.
#[test]
fn a_clock_that_is_set_back_delays_nothing() {
    let now = Timestamp::UNIX_EPOCH;
    let after = |seconds| now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    for (set_back, is_tried) in [(0, false), (1, false), (3600, true)] {
        let mut control = ControlLoop::new(ClusterFacts {
            image_volumes: true,
            namespace: "kubevirt".into(),
            ..ClusterFacts::default()
        });
        let settings = json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}});
        control.world.put(Kind::KubeVirt, settings, now);
        let mut object = crate::sim::vmi("web");
        object["metadata"]["uid"] = json!("1");
        control.handle_watch(WatchMessage::Changed(Kind::VirtualMachineInstance, object), after(3600));
        let (key, _) = control.next(after(3600)).expect("a plan");
        let failed = || {
            let error = Error::new(ErrorKind::Refused, "exceeded quota");
            PlanResult { failed: Some((Some(Attempt::Make(Kind::Pod)), error)), ..PlanResult::default() }
        };
        control.finish_plan(key.clone(), failed(), after(3600));
        let (_, plan) = control.next(after(3600)).expect("a plan that says so");
        assert!(plan.steps.iter().all(|step| !matches!(step, Step::Create { .. })), "{plan:?}");
        control.finish_plan(key.clone(), PlanResult::default(), after(3600));
        while control.next(after(3600)).is_some() {
            control.world.busy.clear();
        }
        let pod = ("n".to_owned(), "pod".to_owned());
        control.world.over.insert(pod.clone(), ("2".to_owned(), after(3600)));
        let present = after(3600 - set_back);
        let plan = control.next(present).map(|(_, plan)| plan);
        let creates = |plan: &Plan| plan.steps.iter().any(|step| matches!(step, Step::Create { .. }));
        assert_eq!(plan.as_ref().is_some_and(creates), is_tried, "{set_back}: {plan:?}");
        assert_eq!(control.world.over[&pod].1 <= present, is_tried || set_back == 0, "{set_back}");
    }
}
