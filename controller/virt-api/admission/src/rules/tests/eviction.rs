//! Evictions: the deferred ones, their messages, and the node written to the VMI.

use super::base::{context, create, with};
use crate::rules::eviction::{Evicted, is_dry, pod_of, reduced, vmi_of};
use crate::rules::{AdmissionResponse, Operation, Request, RequestContext, judge};
use cluster_model::objects::{LauncherAttempt, Pod, StoredObject as _, names};
use cluster_model::webhooks::Webhook;
use serde_json::{Value, json};

const HOOK: &str = "virt-launcher-eviction-interceptor.kubevirt.io";
const PATH: &str = "/pod-eviction-validate";
const TRIGGERED: &str = "Eviction triggered evacuation of VMI \"n/web\"";

fn name() -> String {
    names::pod("web", "1", LauncherAttempt::Start)
}

fn pod() -> Value {
    json!({
        "metadata": {
            "namespace": "n", "name": name(), "uid": "p",
            "labels": {
                "kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "1", "vmi.kubevirt.io/id": "web",
                "vm.kubevirt.io/name": "web",
            },
            "ownerReferences": [{
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "web", "uid": "1",
                "controller": true,
            }],
        },
        "spec": {"nodeName": "node1"},
        "status": {"phase": "Running"},
    })
}

fn vmi(strategy: Option<&str>) -> Value {
    json!({
        "metadata": {"namespace": "n", "name": "web", "uid": "1"},
        "spec": {"evictionStrategy": strategy, "domain": {"devices": {}}},
        "status": {"phase": "Running", "nodeName": "node1", "activePods": {"p": "node1"}},
    })
}

fn request() -> Request {
    Request { namespace: "n".into(), name: name(), kind: "Eviction".into(), ..create(json!({})) }
}

fn evicted(pod: &Value, vmi: &Value) -> Evicted {
    Evicted { pod: Pod::parse(pod.clone()), vmi: api::wire::read(vmi.clone()).ok() }
}

fn answer(evicted: Evicted, context: RequestContext) -> AdmissionResponse {
    let hook = Webhook::find_by_path(PATH).unwrap();
    assert_eq!(hook.name, HOOK);
    judge(hook, &request(), &RequestContext { evicted: Some(evicted), ..context })
}

/// The message of a deferral, and the node that is written.
fn later(answer: AdmissionResponse) -> Option<(String, Option<String>)> {
    assert_eq!((&answer.faults, &answer.patch), (&vec![], &vec![]));
    answer.later.map(|later| (later.message, later.evacuates))
}

fn refused(message: &str, node: Option<&str>) -> Option<(String, Option<String>)> {
    Some((message.to_owned(), node.map(str::to_owned)))
}

#[test]
fn each_strategy_has_its_answer_wherever_it_is_set() {
    let stays = "VMI web is configured with an eviction strategy but is not live-migratable";
    for (strategy, expected) in [
        (None, None),
        (Some("None"), None),
        (Some("LiveMigrateIfPossible"), None),
        (Some("LiveMigrate"), refused(stays, None)),
        (Some("External"), refused(TRIGGERED, Some("node1"))),
        (Some("Run"), None),
    ] {
        let own = answer(evicted(&pod(), &vmi(strategy)), context());
        assert_eq!(later(own), expected, "{strategy:?} of the VMI");
        let cluster = with(&json!({"evictionStrategy": strategy}));
        let of_cluster = answer(evicted(&pod(), &vmi(None)), cluster);
        assert_eq!(later(of_cluster), expected, "{strategy:?} of the KubeVirt object");
    }
    // A VMI that can migrate leaves its node.
    for (strategy, moves) in [("LiveMigrate", true), ("LiveMigrateIfPossible", true), ("None", false)] {
        let mut vmi = vmi(Some(strategy));
        vmi["status"]["conditions"] = json!([{"type": "LiveMigratable", "status": "True"}]);
        let expected = if moves { refused(TRIGGERED, Some("node1")) } else { None };
        assert_eq!(later(answer(evicted(&pod(), &vmi), context())), expected, "{strategy}");
    }
    // The VMI's own strategy takes precedence.
    let cluster = || with(&json!({"evictionStrategy": "LiveMigrate"}));
    assert_eq!(later(answer(evicted(&pod(), &vmi(Some("None"))), cluster())), None);
    let own = answer(evicted(&pod(), &vmi(Some("External"))), cluster());
    assert_eq!(later(own), refused(TRIGGERED, Some("node1")));
}

/// Changes of the pod and of the VMI, and the answer for the strategy External.
#[test]
fn only_the_launcher_pod_of_a_vmi_that_goes_on_is_held() {
    let target = || refused("Eviction request for target Pod", None);
    let in_progress = refused(&format!("Evacuation in progress: {TRIGGERED}"), None);
    let cases = [
        ("", json!(null), refused(TRIGGERED, Some("node1"))),
        ("vmi/status/evacuationNodeName", json!("node1"), in_progress.clone()),
        ("vmi/status/evacuationNodeName", json!("node2"), in_progress),
        ("vmi/status/evacuationNodeName", json!(""), refused(TRIGGERED, Some("node1"))),
        ("vmi/status/nodeName", json!("node2"), target()),
        ("vmi/status/nodeName", json!(null), target()),
        ("pod/spec/nodeName", json!(null), target()),
        ("pod/status/phase", json!("Succeeded"), None),
        ("pod/status/phase", json!("Failed"), None),
        ("vmi/status/phase", json!("Succeeded"), None),
        ("vmi/status/phase", json!("Failed"), None),
        // A pod that is being shut down already is not shut down faster.
        ("pod/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"), refused(TRIGGERED, Some("node1"))),
        // Labels and status of a launcher pod do not count: a guest may still run in it.
        ("pod/metadata/labels", json!({}), refused(TRIGGERED, Some("node1"))),
        ("vmi/status/activePods", json!({"q": "node1"}), refused(TRIGGERED, Some("node1"))),
        // A pod that does not belong to the VMI.
        ("pod/metadata/ownerReferences/0/uid", json!("2"), None),
        ("pod/metadata/ownerReferences/0/kind", json!("ReplicaSet"), None),
        ("pod/metadata/name", json!("virt-launcher-web-other"), None),
        ("vmi/metadata/uid", json!("2"), None),
        ("pod", json!(null), None),
        ("vmi", json!(null), None),
    ];
    for (place, value, expected) in cases {
        let mut both = json!({"pod": pod(), "vmi": vmi(Some("External"))});
        if !place.is_empty() {
            super::base::set(&mut both, &format!("/{place}"), value.clone());
        }
        let found = answer(evicted(&both["pod"], &both["vmi"]), context());
        assert_eq!(later(found), expected, "{place} = {value}");
    }
}

#[test]
fn a_refusal_is_429_in_the_words_that_tools_look_for() {
    let written = answer(evicted(&pod(), &vmi(Some("External"))), context()).write(&request());
    assert_eq!(
        written,
        json!({
            "uid": "1", "allowed": false, "status": {
                "metadata": {}, "status": "Failure", "message": TRIGGERED, "reason": "TooManyRequests", "code": 429,
            },
        })
    );
    let yes = answer(evicted(&pod(), &vmi(None)), context()).write(&request());
    assert_eq!(yes, json!({"uid": "1", "allowed": true}));
}

/// A forged name does not get into a path.
#[test]
fn what_names_no_launcher_pod_is_let_through_unseen() {
    let of = |namespace: &str, name: &str| {
        pod_of(&Request { namespace: namespace.into(), name: name.into(), ..request() })
    };
    assert_eq!(of("n", &name()).unwrap().path(), format!("/api/v1/namespaces/n/pods/{}", name()));
    for (namespace, odd) in [
        ("n", "web-0"),
        ("n", ""),
        ("", "virt-launcher-web-a"),
        ("n/secrets", "virt-launcher-web-a"),
        ("n", "virt-launcher-web/../../secrets/a"),
        ("n", "virt-launcher-web?watch=true"),
    ] {
        assert_eq!(of(namespace, odd), None, "{namespace}/{odd}");
    }
    let other = Request { operation: Operation::Update, ..request() };
    assert_eq!(pod_of(&other), None);
    // A pod that was not read is not evicted.
    let hook = Webhook::find_by_path(PATH).unwrap();
    let unseen = later(judge(hook, &request(), &context())).unwrap();
    assert!(unseen.0.contains("is not evicted now") && unseen.1.is_none(), "{unseen:?}");
}

#[test]
fn the_owner_of_a_pod_is_its_vmi_by_a_name_that_leads_nowhere_else() {
    let of = |pointer: &str, value: Value| {
        let mut pod = pod();
        if !pointer.is_empty() {
            *pod.pointer_mut(pointer).unwrap() = value;
        }
        vmi_of(&Pod::parse(pod).unwrap())
    };
    let path = of("", Value::Null).unwrap().path();
    assert_eq!(path, "/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstances/web");
    for (pointer, value) in [
        ("/metadata/ownerReferences", json!([])),
        ("/metadata/ownerReferences/0/controller", json!(false)),
        ("/metadata/ownerReferences/0/kind", json!("ReplicaSet")),
        ("/metadata/ownerReferences/0/apiVersion", json!("example.org/v1")),
        ("/metadata/ownerReferences/0/name", json!("web/../other")),
    ] {
        assert_eq!(of(pointer, value), None, "{pointer}");
    }
}

#[test]
fn a_dry_run_is_said_by_the_request_or_by_the_eviction() {
    let with = |dry_run, object| is_dry(&Request { dry_run, object, ..request() });
    assert!(with(true, json!({})) && with(false, json!({"deleteOptions": {"dryRun": ["All"]}})));
    assert!(!with(false, json!({})) && !with(false, json!({"deleteOptions": {"dryRun": []}})));
    assert!(!with(false, Value::Null));
}

#[test]
fn of_a_review_that_waits_nothing_large_is_kept() {
    let mut whole = create(json!({"deleteOptions": {"dryRun": ["All"]}, "more": "x".repeat(1000)}));
    whole.uid = "7".into();
    whole.who.name = "x".repeat(1000);
    whole.old = json!(["x".repeat(1000)]);
    whole = Request { kind: "x".repeat(1000), ..Request { namespace: "n".into(), name: name(), ..whole } };
    let kept = reduced(whole.clone());
    assert!(format!("{kept:?}").len() < 500, "{kept:?}");
    assert_eq!((pod_of(&kept), is_dry(&kept), &kept.uid), (pod_of(&whole), true, &whole.uid));
    assert!(pod_of(&kept).is_some());
}
