//! Histories of VMIs that migrate: VirtualMachineInstanceMigrations lead to two attempts at a guest, one of which runs it.

use super::{cases, comes_to_an_end, none, nothing_is_left};
use crate::sim::event::{Event, faults, migration_event};
use crate::sim::history::Run;
use crate::sim::migration::MigrationEnd;
use api::job::Stage;
use api::launcher::{Ending, Life};
use cluster_model::objects::{Key, Kind};
use proptest::prelude::*;
use serde_json::{Value, json};

const OURS: [Kind; 4] =
    [Kind::VirtualMachine, Kind::VirtualMachineInstance, Kind::VirtualMachineInstanceMigration, Kind::Pod];

proptest! {
    #![proptest_config(cases(200))]

    /// The guest of a VMI runs in one pod at most, and that is its active one, whatever ends meanwhile. Each migration ends, or
    /// has a reason to wait.
    #[test]
    fn at_most_one_attempt_runs_the_guest(
        history in prop::collection::vec((migration_event(), faults(), 0..8_usize), 2..16)
    ) {
        nothing_is_left(&history, |key| OURS.contains(&key.kind))?;
    }
}

proptest! {
    #![proptest_config(cases(120))]

    /// The same where each event has its time.
    #[test]
    fn migrations_end_with_a_reason_whatever_goes_wrong(
        history in prop::collection::vec((migration_event(), faults()), 2..10)
    ) {
        let mut run = Run::new();
        happens(&mut run, &[Event::Vm(0, "Always")]);
        for (event, faults) in history {
            run.expect(&faults);
            happens(&mut run, &[event]);
        }
        comes_to_an_end(&mut run)?;
    }
}

/// A VM that runs, and its VMI.
fn running() -> (Run, Key) {
    let mut run = Run::new();
    run.happen(&Event::Vm(0, "Always"));
    run.settle();
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "first");
    assert_eq!(run.sim.get(&vmi)["status"]["phase"], "Running");
    (run, vmi)
}

fn happens(run: &mut Run, events: &[Event]) {
    for event in events {
        run.happen(event);
        run.settle();
        none(run.failure()).unwrap();
    }
}

/// Node of the guest, uid of its VMI, and the number of its pods that have not ended.
fn seen(run: &Run, vmi: &Key) -> (String, String, usize) {
    let object = run.sim.get(vmi);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = run.sim.keys(Kind::Pod);
    let pods = pods.iter().filter(|pod| !crate::sim::is_over(run.sim.get(pod))).count();
    (text(&object["status"]["nodeName"]), text(&object["metadata"]["uid"]), pods)
}

/// The phases of all migrations, in the order of their creation.
fn phases(run: &Run) -> Vec<String> {
    let mut all = run.sim.keys(Kind::VirtualMachineInstanceMigration);
    let version =
        |key: &Key| key.name.rsplit('-').next().unwrap_or_default().parse::<u64>().unwrap_or_default();
    all.sort_by_key(version);
    all.iter().map(|key| run.sim.phase(key).to_owned()).collect()
}

/// Reasons of failures that the migrations tell.
fn failures(run: &Run) -> Vec<String> {
    let told = run.sim.told.iter().filter(|(reason, _)| reason == "FailedMigration");
    told.map(|(_, message)| message.clone()).collect()
}

const ARRIVES: Event = Event::MigrationEnds(0, MigrationEnd::Arrives(0));

#[test]
fn a_vmi_migrates_to_and_fro_and_stays_the_same() {
    let (mut run, vmi) = running();
    let (node, uid, _) = seen(&run, &vmi);
    assert_eq!(node, "node1");
    for (order, node) in (0..6).zip(["node2", "node1"].into_iter().cycle()) {
        happens(&mut run, &[Event::Migrate(0)]);
        assert_eq!(seen(&run, &vmi).2, 2, "source and target");
        happens(&mut run, &[Event::MigrationEnds(0, MigrationEnd::Arrives(order))]);
        assert_eq!(seen(&run, &vmi), (node.to_owned(), uid.clone(), 1), "{order}");
    }
    assert_eq!(phases(&run), ["Succeeded"; 5], "the oldest was deleted");
    assert_eq!(failures(&run), [""; 0]);
    comes_to_an_end(&mut run).unwrap();
    assert_eq!((run.sim.keys(Kind::Pod), phases(&run)), (vec![], vec![]));
}

#[test]
fn a_guest_whose_migration_fails_stays_where_it_is() {
    for (end, reason) in [
        (MigrationEnd::Fails, "source node reported migration failed: no progress"),
        (MigrationEnd::TargetEnds, "Migration failed because target pod shutdown during migration"),
    ] {
        let (mut run, vmi) = running();
        let before = seen(&run, &vmi);
        happens(&mut run, &[Event::Migrate(0), Event::MigrationEnds(0, end)]);
        assert_eq!((seen(&run, &vmi), phases(&run)), (before, vec!["Failed".to_owned()]));
        assert!(failures(&run).iter().any(|message| message == reason), "{:?}", failures(&run));
    }
}

#[test]
fn a_migration_whose_nodes_do_not_come_together_ends_in_time_and_the_next_one_succeeds() {
    for (end, reason) in [
        (MigrationEnd::TargetHangs, "Migration failed: The migration waited 300 s for virt-handler of the "),
        (MigrationEnd::TargetGivesUp, "Migration failed: The target gave up: nobody came"),
    ] {
        let (mut run, vmi) = running();
        let before = seen(&run, &vmi);
        happens(&mut run, &[Event::MigrationEnds(0, end), Event::Migrate(0)]);
        assert_eq!((seen(&run, &vmi), phases(&run)), (before, vec!["Failed".to_owned()]));
        assert!(failures(&run).iter().any(|message| message.starts_with(reason)), "{:?}", failures(&run));
        happens(&mut run, &[Event::Migrate(0), ARRIVES]);
        assert_eq!(phases(&run), ["Failed", "Succeeded"]);
    }
}

/// The virt-handler of the source is gone with its node's network, or was killed.
#[test]
fn a_guest_arrives_though_its_source_never_reports_the_end() {
    let (mut run, vmi) = running();
    let uid = seen(&run, &vmi).1;
    happens(&mut run, &[Event::Migrate(0), Event::MigrationEnds(0, MigrationEnd::ArrivesUnheard)]);
    assert_eq!(seen(&run, &vmi), ("node2".to_owned(), uid, 1));
    assert_eq!(phases(&run), ["Succeeded"]);
}

#[test]
fn a_migration_is_cancelled_at_each_of_its_steps() {
    for ticks in 0..16 {
        let (mut run, vmi) = running();
        let before = seen(&run, &vmi);
        run.happen(&Event::Migrate(0));
        run.hurry(ticks);
        happens(&mut run, &[Event::Cancel(0)]);
        assert_eq!((seen(&run, &vmi), phases(&run)), (before, vec![]), "after {ticks} ticks");
        // Its VMI can be migrated again.
        happens(&mut run, &[Event::Migrate(0), ARRIVES]);
        assert_eq!(phases(&run), ["Succeeded"], "after {ticks} ticks");
    }
}

#[test]
fn a_vmi_that_is_stopped_at_each_step_of_its_migration_ends_it() {
    for ticks in 0..16 {
        let (mut run, _) = running();
        run.happen(&Event::Migrate(0));
        run.hurry(ticks);
        happens(&mut run, &[Event::Vm(0, "Halted")]);
        assert_eq!((run.sim.keys(Kind::Pod), phases(&run)), (vec![], vec![]), "after {ticks} ticks");
    }
}

#[test]
fn a_second_migration_of_a_vmi_is_refused_while_the_first_has_it() {
    let (mut run, vmi) = running();
    happens(&mut run, &[Event::Migrate(0), Event::Migrate(0)]);
    assert_eq!(phases(&run), ["Running", "Failed"]);
    assert!(failures(&run).iter().any(|message| message.contains("another migration job is in progress")));
    happens(&mut run, &[ARRIVES]);
    assert_eq!(
        (seen(&run, &vmi).0.as_str(), phases(&run)),
        ("node2", vec!["Succeeded".into(), "Failed".into()])
    );
}

#[test]
fn a_controller_that_is_killed_at_any_request_of_a_migration_goes_on_with_it() {
    use crate::sim::event::Fault;
    for request in 0..14 {
        for is_done in [true, false] {
            let (mut run, vmi) = running();
            let uid = seen(&run, &vmi).1;
            // The program ends where it has no answer.
            run.expect(&[(0, Fault::Break(request, is_done)), (usize::from(request) / 3, Fault::Restart(1))]);
            happens(&mut run, &[Event::Migrate(0), ARRIVES]);
            assert_eq!(seen(&run, &vmi), ("node2".to_owned(), uid, 1), "{request} {is_done}");
            assert_eq!(phases(&run), ["Succeeded"], "{request} {is_done}");
        }
    }
}

/// The second VM has a disk that one node can use.
#[test]
fn a_disk_goes_along_and_is_not_lost_at_whichever_request_the_controller_is_killed() {
    use crate::sim::event::Fault;
    let (vm, vmi) = (Kind::VirtualMachine, Kind::VirtualMachineInstance);
    let [vm, vmi] = [vm, vmi].map(|kind| Key::new(kind, "n", "second"));
    let claim = |spec: &Value| {
        let volume = spec["volumes"][0].clone();
        let name = volume["persistentVolumeClaim"]["claimName"]
            .as_str()
            .or_else(|| volume["dataVolume"]["name"].as_str());
        name.unwrap_or_default().to_owned()
    };
    for request in 0..24 {
        let is_done = request % 2 == 0;
        let mut run = Run::new();
        happens(&mut run, &[Event::Work(Some(Stage::Done)), Event::Vm(1, "Always")]);
        let (_, uid, _) = seen(&run, &vmi);
        assert_eq!(claim(&run.sim.get(&vmi)["spec"]), "data");
        run.expect(&[(0, Fault::Break(request, is_done)), (usize::from(request) / 3, Fault::Restart(1))]);
        happens(&mut run, &[Event::Migrate(1), Event::MigrationEnds(1, MigrationEnd::Arrives(request % 6))]);
        assert_eq!(seen(&run, &vmi), ("node2".to_owned(), uid.clone(), 1), "{request} {is_done}");
        let new = claim(&run.sim.get(&vmi)["spec"]);
        assert!(new.starts_with("data-moved-"), "{request} {is_done}: {new}");
        assert_eq!(claim(&run.sim.get(&vm)["spec"]["template"]["spec"]), new, "{request} {is_done}");
        assert_eq!(run.sim.condition(&vm, "RestartRequired"), None, "{request} {is_done}");
        // The next run has the same disk.
        happens(&mut run, &[Event::Guest(1, true)]);
        let (_, next, _) = seen(&run, &vmi);
        assert!(next != uid && claim(&run.sim.get(&vmi)["spec"]) == new, "{request} {is_done}");
    }
}

/// The guest of the second VM takes its disk along to a PVC that the VM names, or ends before. It has its own disk afterwards, or none.
#[test]
fn a_vm_whose_volumes_are_updated_has_its_own_disk_at_whichever_request_the_controller_is_killed() {
    use crate::sim::event::Fault;
    let [vm, vmi] =
        [Kind::VirtualMachine, Kind::VirtualMachineInstance].map(|kind| Key::new(kind, "n", "second"));
    let volume = json!({"name": "root", "persistentVolumeClaim": {"claimName": "new"}});
    for (request, ends_first) in (0..30).map(|request| (request, request % 3 == 0)) {
        let (is_done, of) = (request % 2 == 0, format!("{request} {ends_first}"));
        let mut run = Run::new();
        happens(&mut run, &[Event::Work(Some(Stage::Done)), Event::Vm(1, "Always")]);
        let mut claim = run.sim.get(&Key::new(Kind::PersistentVolumeClaim, "n", "data")).clone();
        claim["metadata"] = json!({"namespace": "n", "name": "new"});
        run.sim.put(Kind::PersistentVolumeClaim, claim);
        let uid = seen(&run, &vmi).1;
        let mut conditions =
            run.sim.get(&vmi)["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.push(json!({"type": "LiveMigratable", "status": "True"}));
        run.sim.change(&vmi, json!({"status": {"conditions": conditions}}));
        run.settle();
        let disks = run.sim.get(&vmi)["spec"]["domain"]["devices"]["disks"].clone();
        assert_eq!(disks[0]["name"], "root");
        run.expect(&[(0, Fault::Break(request, is_done)), (usize::from(request) / 3, Fault::Restart(1))]);
        let spec = json!({"updateVolumesStrategy": "Migration", "template": {"spec": {"volumes": [volume]}}});
        run.sim.change(&vm, json!({"spec": spec}));
        if ends_first {
            // Before the update is decided on, or soon after.
            run.hurry(usize::from(request) / 4);
            happens(&mut run, &[Event::Guest(1, true)]);
        } else {
            happens(&mut run, &[Event::MigrationEnds(1, MigrationEnd::Arrives(request % 6))]);
        }
        let object = run.sim.get(&vm);
        let is_held = run.sim.condition(&vm, "ManualRecoveryRequired").is_some();
        if ends_first {
            assert!(is_held && !run.sim.objects.contains_key(&vmi), "{of}: {object}");
            continue;
        }
        assert_eq!((is_held, run.sim.condition(&vm, "RestartRequired")), (false, None), "{of}");
        assert!(object["status"]["volumeUpdateState"].is_null(), "{of}: {object}");
        let claim = |object: &Value| object["volumes"][0]["persistentVolumeClaim"]["claimName"].clone();
        assert_eq!(claim(&run.sim.get(&vmi)["spec"]), "new", "{of}: {object}");
        assert_eq!(seen(&run, &vmi), ("node2".to_owned(), uid.clone(), 1), "{of}");
        happens(&mut run, &[Event::Guest(1, true)]);
        assert!(seen(&run, &vmi).1 != uid && claim(&run.sim.get(&vmi)["spec"]) == "new", "{of}");
    }
}

/// The launcher of the source leaves its ending to the kubelet, too.
#[test]
fn the_end_of_a_source_is_not_the_end_of_its_vmi() {
    let (mut run, vmi) = running();
    happens(&mut run, &[Event::Migrate(0)]);
    let state = run.sim.get(&vmi)["status"]["migrationState"].clone();
    let source = Key::new(Kind::Pod, "n", state["sourcePod"].as_str().unwrap());
    happens(&mut run, &[ARRIVES]);
    let message = Ending { life: Life::Succeeded, reason: None, message: None }.termination();
    let ended = json!({"exitCode": 0, "finishedAt": run.sim.now.to_string(), "message": message});
    let compute = json!([{"name": "compute", "ready": false, "state": {"terminated": ended}}]);
    run.sim.change(&source, json!({"status": {"phase": "Succeeded", "containerStatuses": compute}}));
    run.settle();
    happens(&mut run, &[Event::Vanish(0)]);
    let reasons = run.sim.reasons();
    assert!(!reasons.iter().any(|reason| reason == "Stopped"), "{reasons:?}");
    let (node, ..) = seen(&run, &vmi);
    assert_eq!(node, "node1", "it was started anew");
}

#[test]
fn a_vmi_whose_source_is_lost_during_a_migration_fails_and_takes_the_target_along() {
    let (mut run, vmi) = running();
    let uid = seen(&run, &vmi).1;
    happens(&mut run, &[Event::Migrate(0), Event::Vanish(0)]);
    let (node, next, pods) = seen(&run, &vmi);
    assert_ne!(next, uid, "the VM has a new VMI");
    assert_eq!((node.as_str(), pods), ("node1", 1));
}
