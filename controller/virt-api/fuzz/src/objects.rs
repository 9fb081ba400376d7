//! Properties of the answers for objects of our schemas, with any user and cluster settings.
//!
//! ```text
//!  bytes ─► settings (KubeVirt) ─► object and the one before it ─► user, operation ─► AdmissionReview ─► judged
//! ```

use crate::generate::{Chance, change, made};
use crate::judged::{context, judged, reviewed};
use admission::rules::migration::{ActiveMigration, MigrationFacts};
use cluster_model::webhooks::WEBHOOKS;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Users of the requests.
const USERS: [&str; 4] = [
    "kubernetes-admin",
    "system:serviceaccount:kubevirt:kubevirt-handler",
    "system:serviceaccount:kubevirt:kubevirt-controller",
    "system:serviceaccount:kubevirt:kubevirt-apiserver",
];

/// Four bytes choose the webhook, user and operation, the original object, and the number of changes. The
/// changes follow.
pub(crate) fn admission(input: &[u8]) {
    let Some((&[hook, who, begin, changes], rest)) = input.split_first_chunk::<4>() else { return };
    let hook = &WEBHOOKS[usize::from(hook) % WEBHOOKS.len()];
    let chance = &mut Chance::new(rest);
    let (kind, base) = begun(hook.path);
    let schema = &schemas()[kind];

    let mut context = context(json!({}));
    if begin & 0x80 != 0 {
        let mut settings = begun("/kubevirt").1;
        change(&schemas()["KubeVirt"], &mut settings, chance);
        change(&schemas()["KubeVirt"], &mut settings, chance);
        context = crate::judged::context(settings);
    }
    context.left = (begin & 0x40 != 0).then_some("Virtual Machines");
    context.migration = (begin & 0x08 != 0).then(|| migration_facts(begin));
    if begin & 0x20 != 0 {
        context.installations = vec![("kubevirt".to_owned(), "other".to_owned())];
    }
    let mut object = if begin & 1 == 0 { base } else { made(schema, chance) };
    let mut old = object.clone();
    for i in 0..changes & 15 {
        if chance.is_over() {
            break;
        }
        change(schema, &mut object, chance);
        if i == changes >> 4 {
            old = object.clone();
        }
    }
    if begin & 0x10 != 0 && object["metadata"].is_object() {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let operation = ["CREATE", "UPDATE", "DELETE"][usize::from(who >> 2) % 3];
    if operation == "CREATE" {
        old = Value::Null;
    }
    let mut user = json!({"username": USERS[usize::from(who & 3)]});
    if who & 0x80 != 0 {
        user["extra"] = json!({"authentication.kubernetes.io/node-name": ["node1"]});
    }
    let request = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": operation, "namespace": "n", "name": "web", "kind": {"kind": kind},
        "object": object, "oldObject": old, "userInfo": user,
    });
    judged(&reviewed(&request), hook, &context);
}

/// The VMI of a migration, and whether another migration of it has not ended.
fn migration_facts(begin: u8) -> MigrationFacts {
    let conditions = json!([{"type": "LiveMigratable", "status": "False", "reason": "a", "message": "b"}]);
    let status =
        if begin & 0x04 == 0 { json!({"phase": "Running"}) } else { json!({"conditions": conditions}) };
    let vmi = json!({"metadata": {"name": "web"}, "spec": {"domain": {"devices": {}}}, "status": status});
    let active = (begin & 0x02 != 0).then(ActiveMigration::default);
    MigrationFacts {
        vmi: api::wire::read(vmi).ok().map(Box::new),
        vm: (begin & 0x01 != 0).then(Box::default),
        active,
    }
}

/// The schemas of our kinds, by kind.
fn schemas() -> &'static BTreeMap<String, Value> {
    static SCHEMAS: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let schema = |mut definition: Value| {
            let kind = definition["spec"]["names"]["kind"].as_str().expect("a kind").to_owned();
            (kind, definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take())
        };
        api::crd::all().into_iter().map(schema).map(with_metadata).collect()
    })
}

/// The API server validates metadata itself. This schema has the fields that we read.
fn with_metadata((kind, mut schema): (String, Value)) -> (String, Value) {
    let word = json!({"type": "string"});
    let words = json!({"type": "object", "additionalProperties": word});
    schema["properties"]["metadata"] = json!({"type": "object", "properties": {
        "name": word, "generateName": word, "namespace": word, "uid": word, "labels": words, "annotations": words,
        "deletionTimestamp": word, "finalizers": {"type": "array", "items": word},
    }});
    (kind, schema)
}

/// The kind of a webhook, and a valid object of it.
fn begun(path: &str) -> (&'static str, Value) {
    let spec = json!({
        "domain": {
            "memory": {"guest": "128Mi"},
            "devices": {
                "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                "interfaces": [{"name": "default", "masquerade": {}}],
            },
        },
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [{"name": "root", "containerDisk": {"image": "registry.example/os:1"}}],
    });
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    let object = |kind: &'static str, spec: Value| {
        let metadata = json!({"namespace": "n", "name": "web"});
        (kind, json!({"apiVersion": "kubevirt.io/v1", "kind": kind, "metadata": metadata, "spec": spec}))
    };
    if path.starts_with("/migration-policy") {
        let selectors = json!({"namespaceSelector": {"zone": "a"}});
        let experimental = json!({"stallDetector": {"ewmaAlpha": "0.4"}});
        let spec =
            json!({"selectors": selectors, "bandwidthPerMigration": "64Mi", "experimental": experimental});
        return object("MigrationPolicy", spec);
    }
    match path.trim_start_matches('/').split('-').next() {
        Some("virtualmachines") => {
            object("VirtualMachine", json!({"runStrategy": "Always", "template": template}))
        }
        Some("virtualmachineinstances") => object("VirtualMachineInstance", spec),
        Some("migration") => object("VirtualMachineInstanceMigration", json!({"vmiName": "web"})),
        Some("virtualmachinereplicaset") => object(
            "VirtualMachineInstanceReplicaSet",
            json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}),
        ),
        Some("virtualmachinepool") => {
            let vm = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"runStrategy": "Always", "template": template}});
            object(
                "VirtualMachinePool",
                json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "virtualMachineTemplate": vm}),
            )
        }
        _ => object(
            "KubeVirt",
            json!({"configuration": {"developerConfiguration": {"featureGates": ["HostDisk"]}}}),
        ),
    }
}
