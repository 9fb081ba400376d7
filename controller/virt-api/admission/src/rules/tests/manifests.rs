//! Every manifest under `tests/manifests` passes the webhooks that its objects have in a cluster.

use super::base::*;
use crate::rules::{Request, RequestContext, Sizes};
use api::instancetype::{MatcherKind, Role, Scope};
use api::preset::VirtualMachineInstancePreset;
use cluster_model::instancetypes::LiveObject;
use cluster_model::webhooks::WEBHOOKS;
use serde_json::Value;
use tests::manifests::Manifest;

#[test]
fn every_manifest_is_accepted_or_refused_as_it_says() {
    let all = Manifest::all();
    assert!(all.len() >= 150, "{}", all.len());
    let wrong: Vec<String> = all
        .iter()
        .filter_map(|manifest| Some(format!("{}: {}", manifest.name(), judged(manifest)?)))
        .collect();
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

/// The difference from the expected answers.
fn judged(manifest: &Manifest) -> Option<String> {
    let documents = match api::yaml::parse(&manifest.text) {
        Ok(documents) => documents,
        Err(wrong) => return Some(format!("{wrong:?}")),
    };
    let objects = documents.into_iter().map(|document| document.value).collect();
    let (asked, refused) = refused(objects, &manifest.configuration());
    let expected = manifest.said("refused");
    match (asked, &refused[..]) {
        // A DataSource and an ObjectTransfer have no webhook.
        (0, _) if !manifest.name().starts_with("data-volumes/data-source") => {
            Some("no webhook is asked".to_owned())
        }
        (_, []) if expected.is_empty() => None,
        (_, said)
            if said.len() == expected.len()
                && expected.iter().all(|text| said.iter().any(|said| said.contains(text))) =>
        {
            None
        }
        (_, said) => Some(format!("{said:?}")),
    }
}

/// Number of webhooks for the creation of these objects, and their refusals.
pub(super) fn refused(mut objects: Vec<Value>, configuration: &Value) -> (usize, Vec<String>) {
    // The KubeVirt object has an effect in one namespace alone, which a document has to name.
    for object in objects.iter_mut().filter(|object| object["kind"] != "KubeVirt") {
        object["metadata"]["namespace"] = "default".into();
    }
    let (sizes, presets) = (sizes(&objects), presets(&objects));
    let context = RequestContext { sizes, presets, ..with(configuration) };
    let mut asked = 0;
    let mut refused = Vec::new();
    for object in objects {
        let mut object = object;
        let webhooks: Vec<_> = WEBHOOKS.iter().filter(|webhook| webhook.is_about_new(&object)).collect();
        for webhook in webhooks {
            asked += 1;
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            let answer = ask(webhook.path, &Request { kind, ..create(object.clone()) }, &context);
            refused.extend(told(&answer).into_iter().map(|(_, message)| message));
            object = kit::json_patch(object, &answer.patch).unwrap();
        }
    }
    (asked, refused)
}

/// The instance types and preferences among the objects, and those of the common set.
fn sizes(objects: &[Value]) -> Sizes {
    let live = |object: &Value| {
        let (role, scope) = match object["kind"].as_str()? {
            "VirtualMachineInstancetype" => (Role::Instancetype, Scope::Namespace),
            "VirtualMachineClusterInstancetype" => (Role::Instancetype, Scope::Cluster),
            "VirtualMachinePreference" => (Role::Preference, Scope::Namespace),
            "VirtualMachineClusterPreference" => (Role::Preference, Scope::Cluster),
            _ => return None,
        };
        let meta = api::wire::read(object["metadata"].clone()).expect("metadata");
        Some(LiveObject { kind: MatcherKind { role, scope }, meta, spec: object["spec"].clone() })
    };
    let common = api::instancetype::common::objects();
    Sizes { live: objects.iter().chain(&common).filter_map(live).collect(), is_complete: true }
}

/// The presets among the objects.
fn presets(objects: &[Value]) -> Vec<VirtualMachineInstancePreset> {
    let presets = objects.iter().filter(|object| object["kind"] == "VirtualMachineInstancePreset");
    presets.map(|preset| api::wire::read(preset.clone()).expect("a preset")).collect()
}
