//! Configurations that direct the API server to virt-api: the webhook configurations, generated from
//! virt-api's routing table, and the APIServices of the subresources and of upload tokens. All are deleted
//! when virt-api is not needed any more.

use api::cdi::{UPLOAD_GROUP, UPLOAD_VERSIONS};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_model::issue::LABEL;
use cluster_model::objects::{
    API_SERVICES, CDI_MUTATOR, CDI_VALIDATOR, Key, Kind, MUTATOR, Plain, Store, VALIDATOR, World, key,
};
use cluster_model::plan::Plan;
use cluster_model::servers::{API, SERVICE, api_service};
use cluster_model::subresources::{GROUP, VERSIONS};
use cluster_model::webhooks::{WebhookTarget, configuration};
use serde_json::{Value, json};

/// An object that leads the API server to virt-api.
struct Configuration {
    kind: Kind,
    name: &'static str,
    /// The only field that is written. Other fields (the status of an APIService) are not ours.
    field: &'static str,
    /// True if it is about kinds of CDI. Another CDI operator, if there is one, serves those.
    of_cdi: bool,
    /// Content of that field.
    content: fn(&WebhookTarget<'_>) -> Value,
}

impl Configuration {
    const fn webhooks(
        kind: Kind,
        name: &'static str,
        of_cdi: bool,
        content: fn(&WebhookTarget<'_>) -> Value,
    ) -> Configuration {
        Configuration { kind, name, field: "webhooks", of_cdi, content }
    }

    const fn service(
        name: &'static str,
        of_cdi: bool,
        content: fn(&WebhookTarget<'_>) -> Value,
    ) -> Configuration {
        Configuration { kind: Kind::APIService, name, field: "spec", of_cdi, content }
    }
}

/// All webhook configurations and APIServices.
const CONFIGURATIONS: [Configuration; 8] = [
    Configuration::webhooks(Kind::MutatingWebhookConfiguration, MUTATOR, false, |to| {
        configuration(true, false, to)
    }),
    Configuration::webhooks(Kind::ValidatingWebhookConfiguration, VALIDATOR, false, |to| {
        configuration(false, false, to)
    }),
    Configuration::webhooks(Kind::MutatingWebhookConfiguration, CDI_MUTATOR, true, |to| {
        configuration(true, true, to)
    }),
    Configuration::webhooks(Kind::ValidatingWebhookConfiguration, CDI_VALIDATOR, true, |to| {
        configuration(false, true, to)
    }),
    Configuration::service(API_SERVICES[0], false, |to| {
        api_service(GROUP, VERSIONS[0], to.namespace, to.bundle)
    }),
    Configuration::service(API_SERVICES[1], false, |to| {
        api_service(GROUP, VERSIONS[1], to.namespace, to.bundle)
    }),
    Configuration::service(API_SERVICES[2], true, |to| {
        api_service(UPLOAD_GROUP, UPLOAD_VERSIONS[0], to.namespace, to.bundle)
    }),
    Configuration::service(API_SERVICES[3], true, |to| {
        api_service(UPLOAD_GROUP, UPLOAD_VERSIONS[1], to.namespace, to.bundle)
    }),
];

fn store(world: &World, kind: Kind) -> &Store<Plain> {
    match kind {
        Kind::MutatingWebhookConfiguration => &world.mutating_webhooks,
        Kind::ValidatingWebhookConfiguration => &world.validating_webhooks,
        _ => &world.api_services,
    }
}

/// Leads the API server to virt-api, whose certificate is from one of this bundle.
pub(super) fn plan_configurations(world: &World, bundle: &str, plan: &mut Plan) {
    let bundle = STANDARD.encode(bundle);
    // Another CDI operator has its own upload API and webhooks.
    let is_other = crate::cdi::other_operator(world).is_some();
    let namespace = &world.facts.namespace;
    let secret = world.secrets.get(namespace, API.secret);
    let segment = secret.and_then(|secret| secret.paths.configured());
    let to = WebhookTarget { namespace, bundle: &bundle, segment };
    for Configuration { kind, name, field, of_cdi, content } in CONFIGURATIONS {
        let found = store(world, kind).get("", name);
        if is_other && of_cdi {
            // Objects that were created while virt-api was not asked must not count as reviewed. So the next
            // configurations are new objects ([`crate::data_volume`]).
            if let Some(is) = found.filter(|_| kind != Kind::APIService) {
                plan.delete(key(kind, &is.meta), &is.meta);
            }
            continue;
        }
        let content = content(&to);
        match found {
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

/// Deletes them when the last VM, VMI, replica set and pool is gone.
pub(super) fn take_away(world: &World, plan: &mut Plan) {
    let is_left = world.vms.all().next().is_some()
        || world.vmis.all().next().is_some()
        || world.replica_sets.all().next().is_some()
        || world.pools.all().next().is_some();
    if is_left {
        return;
    }
    for Configuration { kind, name, .. } in CONFIGURATIONS {
        if let Some(is) = store(world, kind).get("", name).filter(|is| is_ours(kind, is)) {
            plan.delete(key(kind, &is.meta), &is.meta);
        }
    }
}

/// True if none exists any more, so that the API server calls no virt-api that may be gone.
pub(crate) fn are_deleted(world: &World) -> bool {
    let found = |one: &Configuration| store(world, one.kind).get("", one.name);
    CONFIGURATIONS.iter().all(|one| found(one).is_none_or(|is| !is_ours(one.kind, is)))
}

/// True if the object points to virt-api. An APIService that another CDI operator has taken over must not be
/// deleted.
fn is_ours(kind: Kind, object: &Plain) -> bool {
    let service = object.object["spec"]["service"]["name"].as_str();
    kind != Kind::APIService || service.is_none_or(|name| name == SERVICE.0)
}
