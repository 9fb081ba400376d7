//! Tests of the page's text in each situation.

use super::fetch::volumes;
use super::finding::find;
use super::situations::{
    condition, event, facts, filled, of_ends, of_guests, of_migrations, of_pods, of_vms, of_volumes, pod, vm,
    vmi,
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
        [of_vms(), of_pods(), of_guests(), of_migrations(), of_volumes(), of_ends()].concat()
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
