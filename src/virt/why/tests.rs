//! Tests of the page's text in each situation.

use super::fetch::volumes;
use super::finding::find;
use super::situations::{
    condition, event, facts, filled, of_ends, of_guests, of_migrations, of_offline, of_pods, of_vms,
    of_volumes, pod, vm, vmi,
};
use super::{Facts, page};
use jiff::Timestamp;
use serde_json::json;

fn now() -> Timestamp {
    "2026-09-01T10:10:00Z".parse().unwrap()
}

#[test]
fn each_situation_is_found_in_the_words_of_whoever_stands_still() {
    for (situation, facts, says, words, advice) in
        [of_vms(), of_pods(), of_guests(), of_migrations(), of_volumes(), of_ends(), of_offline()].concat()
    {
        let found = find(&facts, now());
        assert!(found.says.starts_with(says), "{situation}: {}", found.says);
        let said: Vec<String> =
            found.quotes.iter().map(|words| format!("{}: {}", words.source, words.text)).collect();
        assert_eq!(said.join(" | "), words, "{situation}");
        let all = found.advice.join("; ");
        assert!(all.contains(advice) && (!advice.is_empty() || all.is_empty()), "{situation}: {all}");
        let text = page(&facts, "virtctl", now());
        assert!(!text.contains("$virt") && text.contains("\nObjects\n"), "{situation}: {text}");
    }
}

/// The advice names the field that the scheduler's request comes from: a request, else a limit, rarely the
/// guest's CPUs.
#[test]
fn advice_names_the_field_by_which_cpus_are_asked_for() {
    let said =
        [condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")];
    let at = "spec.template.spec.domain";
    for (instancetype, resources, field) in [
        (json!(null), json!({"limits": {"cpu": "9"}}), format!("{at}.resources.limits.cpu")),
        (
            json!({"name": "large"}),
            json!({"limits": {"cpu": "9"}, "requests": {"cpu": "8"}}),
            format!("{at}.resources.requests.cpu"),
        ),
        (
            json!({"name": "large"}),
            json!({"limits": {"memory": "1Gi"}}),
            "another instance type: spec.instancetype".to_owned(),
        ),
        (json!(null), json!(null), format!("{at}.cpu")),
    ] {
        let mut vm = vm("Always", json!({"printableStatus": "ErrorUnschedulable"})).unwrap();
        vm["spec"]["template"]["spec"]["domain"] = json!({"resources": resources});
        vm["spec"]["instancetype"] = instancetype;
        let facts = Facts {
            vm: Some(vm),
            vmi: vmi("Scheduling", &said),
            pods: pod(None, "Pending", json!({"conditions": said})),
            volumes: filled(),
            ..facts()
        };
        let wanted = format!("make room on a node, or give the VM fewer CPUs ({field})");
        assert_eq!(find(&facts, now()).advice, [wanted]);
    }
}

#[test]
fn a_page_has_all_that_is_known() {
    let unschedulable = "0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available: 1 No \
                         preemption victims found for incoming pod.";
    let mut facts = Facts {
        vm: vm("Always", json!({"printableStatus": "ErrorUnschedulable"})),
        vmi: vmi("Scheduling", &[condition("PodScheduled", "False", "Unschedulable", unschedulable)]),
        pods: pod(
            None,
            "Pending",
            json!({"conditions": [condition("PodScheduled", "False", "Unschedulable", unschedulable)]}),
        ),
        volumes: filled(),
        events: vec![event("Pod", "virt-launcher-web-x", "FailedScheduling", "no\u{1b}[2J room")],
        unread: vec!["Node n1: forbidden".to_owned()],
        ..facts()
    };
    let wanted = "\
VM web waits for a node: no node can take its launcher pod.
Since 2026-09-01T10:05:00Z, for 5m.

In the words of
  the scheduler, condition PodScheduled, Unschedulable of Pod virt-launcher-web-x:
    0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available: 1 No
    preemption victims found for incoming pod.
  csi-provisioner, event FailedScheduling of Pod virt-launcher-web-x:
    no [2J room

What to do
  - make room on a node, or give the VM less memory (spec.template.spec.domain.memory)

Objects
  VM          web                  ErrorUnschedulable, run strategy Always
  VMI         web                  Scheduling
                                   PodScheduled is False (Unschedulable), for 5m: 0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
  Pod         virt-launcher-web-x  Pending
  DataVolume  disk                 Succeeded
  PVC         disk                 Bound, storage class fast (volume root)

Not read
  - Node n1: forbidden

Events, newest first
LAST SEEN  TYPE     REASON            OBJECT                   FROM             MESSAGE
5m         Warning  FailedScheduling  Pod virt-launcher-web-x  csi-provisioner  no [2J room
";
    assert_eq!(page(&facts, "virtctl", now()), wanted);
    facts.events = vec![facts.events[0].clone(); 13];
    let text = page(&facts, "kubectl virt", now());
    assert!(
        text.ends_with("(1 older events are left out)\nAll of them: kubectl virt events web -n blue\n"),
        "{text}"
    );
}

/// The VMI without a guest, by which the disks move, is paused and not ready: the VM is not.
#[test]
fn a_page_of_disks_that_move_does_not_say_that_a_guest_is_paused() {
    let facts = of_offline().into_iter().next().map(|(_, facts, ..)| facts).unwrap();
    let text = page(&facts, "virtctl", now());
    assert!(!text.contains("Paused") && !text.contains("GuestNotRunning"), "{text}");
    assert!(text.contains("Running on node n1, without a guest: it moves the disks\n"), "{text}");
}

/// A command is to be copied from the page: its line is not wrapped.
#[test]
fn the_patch_of_the_volumes_is_one_line() {
    let facts = of_volumes().into_iter().find(|(name, ..)| name.starts_with("a restart is refused"));
    let text = page(&facts.unwrap().1, "virtctl", now());
    let patch = r#"    kubectl patch vm web -n blue --type=json -p '[{"op":"test","path":"/spec/template/spec/volumes/0/name","value":"root"},{"op":"replace","path":"/spec/template/spec/volumes/0","value":{"name":"root","persistentVolumeClaim":{"claimName":"disk-moved-abcde"}}},{"op":"remove","path":"/spec/dataVolumeTemplates/1"}]'"#;
    assert!(text.lines().any(|line| line == patch), "{text}");
}

/// Texts of users do not end the quoted text of the command.
#[test]
fn a_patch_with_a_quotation_mark_is_not_printed() {
    let facts = of_volumes().into_iter().find(|(name, ..)| name.starts_with("a restart is refused"));
    let mut facts = facts.unwrap().1;
    for object in [&mut facts.vm, &mut facts.vmi] {
        let text = object.as_ref().unwrap().to_string().replace("root", "root'; reboot");
        *object = serde_json::from_str(&text).ok();
    }
    let text = page(&facts, "virtctl", now());
    assert!(text.contains("kubectl edit vm web") && !text.contains("reboot\""), "{text}");
}

#[test]
fn the_time_of_a_state_has_seconds() {
    let mut facts = of_offline().into_iter().next().map(|(_, facts, ..)| facts).unwrap();
    facts.vmi.as_mut().unwrap()["status"]["migrationState"]["startTimestamp"] =
        json!("2026-09-01T10:05:00.123456Z");
    let text = page(&facts, "virtctl", now());
    assert!(text.contains("Since 2026-09-01T10:05:00Z, for"), "{text}");
}

/// Migrations of an update of volumes have the names of earlier ones.
#[test]
fn events_of_an_earlier_migration_of_the_name_are_not_cited_and_are_told_apart() {
    let found = of_migrations().into_iter().find(|(name, ..)| *name == "target is prepared");
    let mut facts = found.unwrap().1;
    facts.events[0].uid = "m0".to_owned();
    facts.events[1].when = "2026-09-01T10:04:59Z".parse().ok();
    let found = find(&facts, now());
    assert_eq!(found.quotes, []);
    let text = page(&facts, "virtctl", now());
    assert!(text.contains("VirtualMachineInstanceMigration move-1 (an earlier one)  "), "{text}");
}

/// The end of the last migrations, which no rule tells.
#[test]
fn a_page_has_the_newest_migrations_and_why_they_failed() {
    let migration = |number: usize, status: serde_json::Value| json!({"metadata": {"name": format!("move-{number}")}, "status": status});
    let failed = json!({"phase": "Failed", "migrationState": {"failureReason": "target is full"}});
    let blocked =
        json!({"phase": "Pending", "conditions": [condition("migrationBlockedByBackup", "True", "", "b")]});
    let done = json!({"phase": "Succeeded"});
    let facts = Facts {
        vm: vm("Always", json!({"printableStatus": "Running"})),
        vmi: vmi("Running", &[]),
        migrations: vec![
            migration(4, blocked),
            migration(3, failed),
            migration(2, done.clone()),
            migration(1, done),
        ],
        ..facts()
    };
    let text = page(&facts, "virtctl", now());
    let (_, objects) = text.split_once("Objects\n").unwrap();
    let wanted = "  \
  VM         web     Running, run strategy Always
  VMI        web     Running
  Migration  move-4  Pending
                     migrationBlockedByBackup is True, for 5m: b
  Migration  move-3  Failed: target is full
  Migration  move-2  Succeeded

";
    assert!(objects.starts_with(wanted), "{objects}");
}

#[test]
fn odd_objects_make_a_page_too() {
    let odd = [
        json!(null),
        json!(7),
        json!([]),
        json!({"status": []}),
        json!({"status": {"conditions": {"a": 1}}}),
    ];
    for vm in &odd {
        for vmi in &odd {
            for other in &odd {
                let facts = Facts {
                    vm: Some(vm.clone()),
                    vmi: Some(vmi.clone()),
                    pods: vec![other.clone()],
                    migrations: vec![other.clone()],
                    node: Some(other.clone()),
                    ..facts()
                };
                assert!(page(&facts, "virtctl", now()).contains("Objects"));
                let facts = Facts { vmi: None, ..facts };
                assert!(page(&facts, "virtctl", now()).contains("Objects"));
            }
        }
    }
    assert!(volumes(Some(&odd[3]), Some(&odd[1])).is_empty());
}
