//! The webhook configurations: made from the table that virt-api answers by, and taken away when nobody answers any more.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubernetes::issue::LABEL;
use kubernetes::objects::{Key, Kind, MUTATOR, Plain, Store, VALIDATOR, World, key};
use kubernetes::plan::Plan;
use kubernetes::webhooks;
use serde_json::{Value, json};

/// The configurations: kind, name, and whether its webhooks change what they are asked about.
const CONFIGURATIONS: [(Kind, &str, bool); 2] = [
    (Kind::MutatingWebhookConfiguration, MUTATOR, true),
    (Kind::ValidatingWebhookConfiguration, VALIDATOR, false),
];

fn store(world: &World, kind: Kind) -> &Store<Plain> {
    if kind == Kind::MutatingWebhookConfiguration {
        &world.mutating_webhooks
    } else {
        &world.validating_webhooks
    }
}

/// Leads the API server to virt-api, whose certificate is from one of this bundle.
pub(super) fn lead(world: &World, bundle: &str, plan: &mut Plan) {
    for (kind, name, mutates) in CONFIGURATIONS {
        let webhooks = webhooks::configuration(mutates, &world.facts.namespace, &STANDARD.encode(bundle));
        match store(world, kind).get("", name) {
            Some(is) => {
                let mut should = is.object.clone();
                should["webhooks"] = webhooks;
                should["metadata"]["labels"][LABEL.0] = json!(LABEL.1);
                plan.update(kind, &is.meta, &is.object, &should, false);
            }
            None => plan.create(Key::new(kind, "", name), object(kind, name, &webhooks)),
        }
    }
}

fn object(kind: Kind, name: &str, webhooks: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {"name": name, "labels": {LABEL.0: LABEL.1, "kubevirt.io": ""}},
        "webhooks": webhooks,
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
    for (kind, name, _) in CONFIGURATIONS {
        if let Some(is) = store(world, kind).get("", name) {
            plan.delete(key(kind, &is.meta), &is.meta);
        }
    }
}

/// None is there any more: nobody is asked who may be gone.
pub(crate) fn gone(world: &World) -> bool {
    CONFIGURATIONS.iter().all(|(kind, name, _)| store(world, *kind).get("", name).is_none())
}
