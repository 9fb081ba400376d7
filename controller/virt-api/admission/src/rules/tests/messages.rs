//! Refusals with upstream's messages, byte for byte, which users and tools look for. The tables in
//! `messages/` contain the changes and the answers, and upstream's messages that do not occur here.
//!
//! Each case runs from the review as received to the review as sent, and twice, since a dry run has the same
//! answer.

use super::base::*;
use crate::rules::{Request, RequestContext, judge, review};
use cluster_model::accounts::NODE_CLAIM;
use cluster_model::webhooks::Webhook;
use serde_json::{Value, json};

const VM: &str = "/virtualmachines-validate";
const VMI: &str = "/virtualmachineinstances-validate-create";
const CHANGED_VMI: &str = "/virtualmachineinstances-validate-update";
const SET: &str = "/virtualmachinereplicaset-validate";

/// Changes and the expected causes.
struct Case {
    configuration: Value,
    changes: Vec<(&'static str, Value)>,
    causes: Vec<Value>,
}

/// The cases of a table: changes, then the causes, then an empty line.
fn cases(table: &'static str) -> Vec<Case> {
    let blocks = table.split("\n\n").filter(|block| block.lines().any(|line| line.starts_with("! ")));
    let case = |block: &'static str| {
        let mut case = Case { configuration: json!({}), changes: Vec::new(), causes: Vec::new() };
        let mut said = None;
        for line in block.lines().filter(|line| !line.starts_with('#')) {
            if let Some(cause) = line.strip_prefix("! ") {
                said = cause.split_once(' ');
            } else if let Some(message) = line.strip_prefix("> ") {
                let (reason, field) = said.take().expect("a reason and a field before the sentence");
                case.causes.push(cause(reason, field, message));
            } else {
                let (pointer, value) = line.split_once(" = ").expect("a change");
                let value = serde_json::from_str(value).expect(line);
                match pointer {
                    "configuration" => case.configuration = value,
                    pointer => case.changes.push((pointer, value)),
                }
            }
        }
        assert!(said.is_none() && !case.changes.is_empty() && !case.causes.is_empty(), "{block}");
        case
    };
    blocks.map(case).collect()
}

pub(super) fn cause(reason: &str, field: &str, message: &str) -> Value {
    json!({"reason": reason, "field": field, "message": message})
}

/// A replica set with the VM's template.
fn replica_set() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet",
        "metadata": {"namespace": "n", "name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": vm()["spec"]["template"],
        },
    })
}

/// The request of a review that creates `object`, or changes `old` into it.
pub(super) fn request(old: Option<&Value>, object: &Value) -> Value {
    let group = object["apiVersion"].as_str().and_then(|text| text.split_once('/')).map(|(group, _)| group);
    json!({
        "uid": "1", "operation": if old.is_some() { "UPDATE" } else { "CREATE" }, "name": "web",
        "kind": {"group": group, "kind": object["kind"]}, "object": object, "oldObject": old,
        "userInfo": {"username": "kubernetes-admin"},
    })
}

/// The answer, which must be the same for a dry run.
pub(super) fn response(path: &str, request: &Value, context: &RequestContext) -> Value {
    let ask = |dry_run: bool| {
        let mut request = request.clone();
        request["dryRun"] = json!(dry_run);
        let review =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let request = Request::read(review.to_string().as_bytes()).expect("a review");
        let verdict = judge(Webhook::find_by_path(path).expect("a webhook"), &request, context);
        review::write(&request, &verdict)["response"].clone()
    };
    let response = ask(false);
    assert_eq!(ask(true), response, "a dry run");
    response
}

/// Asserts a refusal for exactly these causes.
#[track_caller]
pub(super) fn refuses(path: &str, request: &Value, context: &RequestContext, causes: &[Value]) {
    let response = response(path, request, context);
    let status = &response["status"];
    assert_eq!(status["details"]["causes"], json!(causes), "{path}");
    let messages: Vec<&str> = causes.iter().map(|cause| cause["message"].as_str().unwrap()).collect();
    assert_eq!(status["message"], messages.join(", "));
    assert_eq!((&response["allowed"], &status["code"]), (&json!(false), &json!(422)));
    assert_eq!(status["reason"], "Invalid");
}

/// As [`refuses`], for every case of a table. In a template, the paths of the changes are prefixed.
pub(super) fn all_refused(table: &'static str, path: &str, object: &Value, in_template: bool) -> usize {
    let place = |pointer: &str| match in_template {
        true => format!("/spec/template{pointer}"),
        false => pointer.to_owned(),
    };
    let named = |text: &Value| {
        let text = text.as_str().unwrap();
        match in_template {
            true => {
                text.replace("spec.", "spec.template.spec.").replace("metadata.", "spec.template.metadata.")
            }
            false => text.to_owned(),
        }
    };
    let cases = cases(table);
    for Case { configuration, changes, causes } in &cases {
        let mut object = object.clone();
        for (pointer, value) in changes {
            set(&mut object, &place(pointer), value.clone());
        }
        let causes: Vec<Value> = causes
            .iter()
            .map(|one| cause(one["reason"].as_str().unwrap(), &named(&one["field"]), &named(&one["message"])))
            .collect();
        refuses(path, &request(None, &object), &with(configuration), &causes);
    }
    cases.len()
}

#[test]
fn a_vm_is_refused_in_the_words_of_upstream() {
    assert_eq!(response(VM, &request(None, &vm()), &context())["allowed"], true);
    assert!(all_refused(include_str!("messages/vm.txt"), VM, &vm(), false) > 12);
}

#[test]
fn a_vmi_is_refused_in_the_words_of_upstream_wherever_it_stands() {
    let objects = [(VMI, vmi(), false), (VM, vm(), true), (SET, replica_set(), true)];
    let tables = [
        (include_str!("messages/domain.txt"), 38),
        (include_str!("messages/disks.txt"), 22),
        (include_str!("messages/volumes.txt"), 15),
        (include_str!("messages/networks.txt"), 25),
    ];
    for (path, object, in_template) in objects {
        assert_eq!(response(path, &request(None, &object), &context())["allowed"], true, "{path}");
        for (table, least) in tables {
            assert!(all_refused(table, path, &object, in_template) > least, "{table}");
        }
    }
}

#[test]
fn what_is_too_long_is_refused_in_the_words_of_upstream() {
    let text = |length: usize| json!("a".repeat(length));
    let cloud_init = |source: &str, field: &str, text: Value| json!({"name": "seed", source: {field: text}});
    let data = |source: &str, name: &str, advice: &str| {
        format!(
            "spec.volumes[1].{source} {name} exceeds 2048 byte limit. Should use {advice} for larger data."
        )
    };
    let (no_cloud, drive) = ("cloudInitNoCloud", "cloudInitConfigDrive");
    let encoded = format!("{}YQ==", "YWFh".repeat(682));
    for (pointer, fits, is_too_long, field, message) in [
        (
            "/spec/domain/devices/disks/0/serial",
            text(256),
            text(257),
            "spec.domain.devices.disks[0].serial",
            "spec.domain.devices.disks[0] must be less than or equal to 256 in length, if specified".to_owned(),
        ),
        (
            "/spec/dnsConfig",
            json!({"searches": [text(128), text(127)]}),
            json!({"searches": [text(128), text(128)]}),
            "spec.dnsConfig.searches",
            "must not have more than 256 characters (including spaces) in the search list".to_owned(),
        ),
        (
            "/spec/volumes/1",
            cloud_init(no_cloud, "userData", text(2048)),
            cloud_init(no_cloud, "userData", text(2049)),
            "spec.volumes[1].cloudInitNoCloud",
            data(no_cloud, "userdata", "UserDataSecretRef"),
        ),
        (
            "/spec/volumes/1",
            cloud_init(no_cloud, "networkData", text(2048)),
            cloud_init(no_cloud, "networkData", text(2049)),
            "spec.volumes[1].cloudInitNoCloud",
            data(no_cloud, "networkdata", "NetworkDataSecretRef"),
        ),
        (
            "/spec/volumes/1",
            cloud_init(drive, "userDataBase64", json!(encoded)),
            cloud_init(drive, "userDataBase64", json!(format!("YWFh{encoded}"))),
            "spec.volumes[1].cloudInitConfigDrive",
            data(drive, "userdata", "UserDataSecretRef"),
        ),
        (
            "/spec/hostname",
            text(63),
            text(64),
            "spec.hostname",
            "spec.hostname does not conform to the kubernetes DNS_LABEL rules : must be no more than 63 characters"
                .to_owned(),
        ),
    ] {
        let mut object = vmi();
        set(&mut object, pointer, fits);
        assert_eq!(response(VMI, &request(None, &object), &context())["allowed"], true, "{pointer}");
        set(&mut object, pointer, is_too_long);
        let causes = [cause("FieldValueInvalid", field, &message)];
        refuses(VMI, &request(None, &object), &context(), &causes);
    }
}

#[test]
fn a_change_is_refused_in_the_words_of_upstream() {
    let changed = |pointer: &str, value: Value| {
        let mut object = vmi();
        set(&mut object, pointer, value);
        object
    };
    let old = vmi();
    let spec = cause("FieldValueNotSupported", "spec", "update of VMI object is restricted");
    let new = changed("/spec/domain/memory/guest", json!("256Mi"));
    refuses(CHANGED_VMI, &request(Some(&old), &new), &context(), &[spec]);
    let labels = cause(
        "FieldValueNotSupported",
        "metadata.labels",
        "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited",
    );
    let new = changed("/metadata/labels/kubevirt.io~1nodeName", json!("node1"));
    refuses(CHANGED_VMI, &request(Some(&old), &new), &context(), &[labels]);
    let elsewhere = changed("/status", json!({"nodeName": "node1", "phase": "Running"}));
    let mut asked = request(Some(&elsewhere), &elsewhere);
    asked["userInfo"] = json!({"username": HANDLER, "extra": {NODE_CLAIM: ["node2"]}});
    let owner = cause(
        "FieldValueInvalid",
        "status.nodeName",
        "Node restriction, virt-handler is only allowed to modify VMIs it owns",
    );
    refuses(CHANGED_VMI, &asked, &context(), &[owner]);
    asked["userInfo"]["extra"][NODE_CLAIM] = json!(["node1"]);
    assert_eq!(response(CHANGED_VMI, &asked, &context())["allowed"], true);
}

#[test]
fn a_replica_set_is_refused_in_the_words_of_upstream() {
    let changed = |pointer: &str, value: Value| {
        let mut object = replica_set();
        set(&mut object, pointer, value);
        object
    };
    let template = cause("FieldValueRequired", "spec.template", "missing virtual machine template.");
    refuses(SET, &request(None, &changed("/spec/template", Value::Null)), &context(), &[template]);
    let labels = cause("FieldValueInvalid", "spec.selector", "selector does not match labels.");
    let other = changed("/spec/template/metadata/labels/app", json!("db"));
    refuses(SET, &request(None, &other), &context(), &[labels]);
    let selector = cause("FieldValueInvalid", "spec.selector", "selector is immutable after creation.");
    let mut other = changed("/spec/selector/matchLabels/tier", json!("a"));
    set(&mut other, "/spec/template/metadata/labels/tier", json!("a"));
    refuses(SET, &request(Some(&replica_set()), &other), &context(), &[selector]);
}

#[test]
fn ten_causes_are_said_and_the_others_counted() {
    let mut object = vm();
    for disk in 1..=12 {
        let pointer = format!("/spec/template/spec/domain/devices/disks/{disk}");
        set(&mut object, &pointer, json!({"name": format!("lost{disk}"), "disk": {}}));
    }
    let status = &response(VM, &request(None, &object), &context())["status"];
    let messages: Vec<String> = (1..=10)
        .map(|disk| {
            let at = format!("spec.template.spec.domain.devices.disks[{disk}]");
            format!("{at}.Name 'lost{disk}' not found.")
        })
        .collect();
    assert_eq!(status["message"], format!("{}, and 2 more validation errors", messages.join(", ")));
    let causes = status["details"]["causes"].as_array().unwrap();
    assert!(causes.iter().map(|cause| &cause["message"]).eq(&messages), "{causes:?}");
}
