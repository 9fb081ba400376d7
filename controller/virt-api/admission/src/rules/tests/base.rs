//! Objects to start from, helpers to change them, and to read answers.

use crate::rules::review::Requester;
use crate::rules::{AdmissionResponse, Operation, Request, RequestContext, Sizes, judge};
use api::machine::host_folders::HOST_DISK_FOLDERS;
use cluster_model::objects::Plain;
use cluster_model::webhooks::Webhook;
use serde_json::{Value, json};

pub(super) const HANDLER: &str = "system:serviceaccount:kubevirt:kubevirt-handler";
pub(super) const CONTROLLER: &str = "system:serviceaccount:kubevirt:kubevirt-controller";

/// Context of a cluster with an empty configuration.
pub(super) fn context() -> RequestContext {
    with(&json!({}))
}

/// Context of a cluster with this configuration.
pub(super) fn with(configuration: &Value) -> RequestContext {
    let folders = json!({HOST_DISK_FOLDERS: "/var/lib/disks"});
    let object = json!({"metadata": {"annotations": folders}, "spec": {"configuration": configuration}});
    let random = ("11111111-1111-4111-8111-111111111111".to_owned(), "serial".to_owned());
    // There are no instance types and no preferences.
    let sizes = Sizes { is_complete: true, ..Sizes::default() };
    RequestContext {
        random,
        sizes,
        ..RequestContext::new("kubevirt", Some(&Plain { object, ..Plain::default() }))
    }
}

/// The request of a user who creates an object.
pub(super) fn create(object: Value) -> Request {
    let who = Requester { name: "kubernetes-admin".into(), ..Requester::default() };
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    Request { uid: "1".into(), namespace, object, who, ..Request::default() }
}

/// The request of a user who changes an object.
pub(super) fn update(old: Value, object: Value) -> Request {
    Request { operation: Operation::Update, old, ..create(object) }
}

pub(super) fn by(name: &str, node: Option<&str>, request: Request) -> Request {
    Request {
        who: Requester { name: name.into(), node: node.map(str::to_owned), ..Requester::default() },
        ..request
    }
}

/// The answer of the webhook at a path.
pub(super) fn ask(path: &str, request: &Request, context: &RequestContext) -> AdmissionResponse {
    judge(Webhook::find_by_path(path).expect("a webhook"), request, context)
}

/// The object after a mutating webhook.
pub(super) fn changed(path: &str, request: &Request, context: &RequestContext) -> Value {
    let answer = ask(path, request, context);
    assert_eq!(answer.faults, []);
    kit::json_patch(request.object.clone(), &answer.patch).unwrap()
}

/// Fields and messages of the causes.
pub(super) fn told(answer: &AdmissionResponse) -> Vec<(String, String)> {
    let written = answer.write(&create(Value::Null));
    let causes = written["status"]["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    causes.iter().map(|cause| (text(&cause["field"]), text(&cause["message"]))).collect()
}

/// Sets the value at a pointer. Missing objects on the way are created.
pub(super) fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/");
        at = match at {
            Value::Array(list) => {
                let index: usize = part.parse().expect("a number");
                if index == list.len() {
                    list.push(Value::Null);
                }
                &mut list[index]
            }
            other => &mut other[part],
        };
    }
    *at = value;
}

/// The spec of a VMI.
pub(super) fn spec() -> Value {
    json!({
        "domain": {
            "memory": {"guest": "128Mi"},
            "devices": {
                "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                "interfaces": [{"name": "default", "masquerade": {}}],
            },
        },
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [{"name": "root", "containerDisk": {"image": "registry.example/os:1"}}],
    })
}

pub(super) fn vmi() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"namespace": "n", "name": "web"},
        "spec": spec(),
    })
}

pub(super) fn vm() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": {"namespace": "n", "name": "web"},
        "spec": {"runStrategy": "Always", "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec()}},
    })
}
