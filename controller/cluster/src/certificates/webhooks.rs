//! What leads the API server to virt-api: the webhook configurations, made from the table that virt-api answers by, and the
//! APIServices of the subresources and of upload tokens. All are taken away when nobody answers any more.

use api::cdi::{UPLOAD_GROUP, UPLOAD_VERSIONS};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubernetes::issue::LABEL;
use kubernetes::objects::{API_SERVICES, Key, Kind, MUTATOR, Plain, Store, VALIDATOR, World, key};
use kubernetes::plan::Plan;
use kubernetes::servers::api_service;
use kubernetes::subresources::{GROUP, VERSIONS};
use kubernetes::webhooks;
use serde_json::{Value, json};

/// An object that leads the API server to virt-api.
struct Configuration {
    kind: Kind,
    name: &'static str,
    /// The field that says all of it. What stands beside (the status of an APIService) is not ours.
    field: &'static str,
    /// That field, of an installation in this namespace, whose certificate is from one of this bundle.
    content: fn(&str, &str) -> Value,
}

/// All of them.
const CONFIGURATIONS: [Configuration; 6] = [
    Configuration {
        kind: Kind::MutatingWebhookConfiguration,
        name: MUTATOR,
        field: "webhooks",
        content: |namespace, bundle| webhooks::configuration(true, namespace, bundle),
    },
    Configuration {
        kind: Kind::ValidatingWebhookConfiguration,
        name: VALIDATOR,
        field: "webhooks",
        content: |namespace, bundle| webhooks::configuration(false, namespace, bundle),
    },
    Configuration {
        kind: Kind::APIService,
        name: API_SERVICES[0],
        field: "spec",
        content: |namespace, bundle| api_service(GROUP, VERSIONS[0], namespace, bundle),
    },
    Configuration {
        kind: Kind::APIService,
        name: API_SERVICES[1],
        field: "spec",
        content: |namespace, bundle| api_service(GROUP, VERSIONS[1], namespace, bundle),
    },
    Configuration {
        kind: Kind::APIService,
        name: API_SERVICES[2],
        field: "spec",
        content: |namespace, bundle| api_service(UPLOAD_GROUP, UPLOAD_VERSIONS[0], namespace, bundle),
    },
    Configuration {
        kind: Kind::APIService,
        name: API_SERVICES[3],
        field: "spec",
        content: |namespace, bundle| api_service(UPLOAD_GROUP, UPLOAD_VERSIONS[1], namespace, bundle),
    },
];

fn store(world: &World, kind: Kind) -> &Store<Plain> {
    match kind {
        Kind::MutatingWebhookConfiguration => &world.mutating_webhooks,
        Kind::ValidatingWebhookConfiguration => &world.validating_webhooks,
        _ => &world.api_services,
    }
}

/// Leads the API server to virt-api, whose certificate is from one of this bundle.
pub(super) fn lead(world: &World, bundle: &str, plan: &mut Plan) {
    let bundle = STANDARD.encode(bundle);
    for Configuration { kind, name, field, content } in CONFIGURATIONS {
        let content = content(&world.facts.namespace, &bundle);
        match store(world, kind).get("", name) {
            Some(is) => {
                let mut should = is.object.clone();
                should[field] = content;
                should["metadata"]["labels"][LABEL.0] = json!(LABEL.1);
                plan.update(kind, &is.meta, &is.object, &should, false);
            }
            None => plan.create(Key::new(kind, "", name), object(kind, name, field, &content)),
        }
    }
}

fn object(kind: Kind, name: &str, field: &str, content: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {"name": name, "labels": {LABEL.0: LABEL.1, "kubevirt.io": ""}},
        field: content,
    })
}

/// Takes them away, once no VM, VMI or replica set is left that they look after.
pub(super) fn take_away(world: &World, plan: &mut Plan) {
    let is_left = world.vms.all().next().is_some()
        || world.vmis.all().next().is_some()
        || world.replica_sets.all().next().is_some();
    if is_left {
        return;
    }
    for Configuration { kind, name, .. } in CONFIGURATIONS {
        if let Some(is) = store(world, kind).get("", name) {
            plan.delete(key(kind, &is.meta), &is.meta);
        }
    }
}

/// None is there any more: nobody is asked who may be gone.
pub(crate) fn gone(world: &World) -> bool {
    CONFIGURATIONS.iter().all(|one| store(world, one.kind).get("", one.name).is_none())
}
