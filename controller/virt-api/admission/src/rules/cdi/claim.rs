//! A PVC with the label `cdi.kubevirt.io/applyStorageProfile: "true"`: missing fields get defaults, as for a
//! DataVolume.
//!
//! ```text
//!  StorageClass, named or the default one ─► StorageProfile ─► access modes, volume mode ─► size, with room for a file system
//! ```
//!
//! Defaulting never refuses a PVC: the API server reports fields that are still missing. The CDIConfig turns
//! it off with `webhookPvcRendering: Disabled`.
//!
//! **Exports.** Annotations that request an image of the disk are validated on PVCs and DataVolumes, with the
//! rules of virt-controller ([`export::Request`]). A PVC whose annotations do not change may always be
//! written.

use crate::rules::{AdmissionResponse, Operation, Request, RequestContext, patch};
use api::cdi::annotations::{APPLY_PROFILE, CONTENT_TYPE};
use api::cdi::{ClaimPropertySet, WebhookPvcRendering};
use api::claim::ClaimSpec;
use api::fault::Fault;
use api::job::export;
use api::quantity::Quantity;
use api::wire::{self, Wire};
use cluster_model::config::overhead::Overhead;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Fills in defaults from the StorageProfile, if the PVC asks for it by its label.
pub(crate) fn complete(request: &Request, context: &RequestContext) -> AdmissionResponse {
    let (object, world) = (&request.object, &*context.storage);
    let wants = object["metadata"]["labels"][APPLY_PROFILE] == "true";
    let rendering = &world.disk_settings().imports.webhook_pvc_rendering;
    let is_off = *rendering == Some(WebhookPvcRendering::Disabled);
    // The API server reports a spec that cannot be read.
    let spec = wire::read::<ClaimSpec>(object["spec"].clone()).ok();
    let Some(mut spec) = spec.filter(|_| wants && !is_off && request.operation == Operation::Create) else {
        return AdmissionResponse::yes();
    };
    let read = spec.write();
    let is_archive = object["metadata"]["annotations"][CONTENT_TYPE] == "archive";
    let named = spec.storage_class_name.as_deref();
    let class = if named == Some("") { None } else { world.storage_class(named, !is_archive) };
    let Some(class) = class else {
        let what = "no StorageClass is known that fills in access modes, volume mode and size";
        return AdmissionResponse { warnings: vec![what.to_owned()], ..AdmissionResponse::yes() };
    };
    let name = class.meta.name.as_deref().unwrap_or_default();
    spec.storage_class_name = class.meta.name.clone();
    if is_archive && spec.volume_mode.is_none() {
        spec.volume_mode = Some("Filesystem".to_owned());
    }
    let profile = world.storage_profiles.get("", name).and_then(|profile| profile.status.as_ref());
    let sets = profile.map_or(&[][..], |status| &status.claim_property_sets);
    ClaimPropertySet::fill(sets, &mut spec.access_modes, &mut spec.volume_mode);
    if let Some(asked) = spec.storage().and_then(Quantity::bytes) {
        let bytes = match spec.is_block() {
            true => Some(asked),
            false => Overhead::for_class(world, Some(name)).claim_for(asked),
        };
        let bytes = bytes.unwrap_or(asked).max(class.smallest().unwrap_or(0));
        if bytes > asked {
            let resources = spec.resources.get_or_insert_default();
            resources.requests.insert("storage".to_owned(), Quantity::of_bytes(bytes));
        }
    }
    let whole = |spec| json!({"spec": spec});
    let patch = patch::of(object, &whole(read), &whole(spec.write()));
    AdmissionResponse { patch, ..AdmissionResponse::yes() }
}

/// Validates the annotations of a PVC that request an export.
pub(crate) fn judge(request: &Request) -> AdmissionResponse {
    match exports(request) {
        faults if faults.is_empty() => AdmissionResponse::yes(),
        faults => AdmissionResponse::no(faults),
    }
}

/// Faults of changed annotations that request an export.
pub(super) fn exports(request: &Request) -> Vec<Fault> {
    let (old, new) = (annotations(&request.old), annotations(&request.object));
    let unknown = export::unknown(&new);
    let is_said = request.operation == Operation::Create
        || export::fingerprint_text(&old) != export::fingerprint_text(&new)
        || export::unknown(&old) != unknown;
    if request.is_leaving() || !is_said {
        return Vec::new();
    }
    // A misspelt `target` requests nothing, although its author waits for an export.
    match export::is_requested(&new) {
        true => export::Request::from_annotations(&new).err().unwrap_or_default(),
        false => unknown,
    }
}

/// Annotations that are strings. The API server refuses others.
fn annotations(object: &Value) -> BTreeMap<String, String> {
    let said = object["metadata"]["annotations"].as_object().into_iter().flatten();
    said.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::objects::{Kind, World};
    use jiff::Timestamp;
    use std::sync::Arc;

    /// A cluster with one class, whose volumes are preferably block devices.
    fn context(rendering: &str) -> RequestContext {
        let mut world = World::default();
        let mut put = |kind, object| world.put(kind, object, Timestamp::UNIX_EPOCH);
        let annotations = json!({
            "storageclass.kubernetes.io/is-default-class": "true",
            "cdi.kubevirt.io/minimumSupportedPvcSize": "1Gi",
        });
        put(
            Kind::StorageClass,
            json!({"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "p"}),
        );
        let sets = json!([
            {"accessModes": ["ReadWriteMany"], "volumeMode": "Block"},
            {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
        ]);
        put(
            Kind::StorageProfile,
            json!({"metadata": {"name": "fast"}, "status": {"claimPropertySets": sets}}),
        );
        put(
            Kind::CDIConfig,
            json!({"metadata": {"name": "config"}, "spec": {"webhookPvcRendering": rendering}}),
        );
        RequestContext { storage: Arc::new(world), ..RequestContext::new("kubevirt", None) }
    }

    /// The spec of a PVC as it is stored.
    fn kept(label: &str, annotations: Value, spec: Value, context: &RequestContext) -> Value {
        let mut object = json!({"metadata": {"labels": {APPLY_PROFILE: label}}});
        object["metadata"]["annotations"] = annotations;
        object["spec"] = spec;
        let request = Request { object: object.clone(), operation: Operation::Create, ..Request::default() };
        let answer = complete(&request, context);
        assert!(answer.faults.is_empty());
        kit::json_patch(object, &answer.patch).unwrap()["spec"].clone()
    }

    fn asks(size: &str) -> Value {
        json!({"resources": {"requests": {"storage": size}}})
    }

    #[test]
    fn what_a_pvc_leaves_out_is_filled_in_where_it_asks_for_it() {
        let on = context("Enabled");
        let filled = kept("true", json!({}), asks("2Gi"), &on);
        assert_eq!(
            filled,
            json!({
                "accessModes": ["ReadWriteMany"], "volumeMode": "Block", "storageClassName": "fast",
                "resources": {"requests": {"storage": "2Gi"}},
            })
        );
        assert_eq!(kept("true", json!({}), asks("1Mi"), &on)["resources"], asks("1073741824")["resources"]);
        let archive = kept("true", json!({CONTENT_TYPE: "archive"}), asks("2Gi"), &on);
        assert_eq!(
            (&archive["volumeMode"], &archive["accessModes"]),
            (&json!("Filesystem"), &json!(["ReadWriteOnce"]))
        );
        assert_eq!(archive["resources"], asks("2276332667")["resources"]);
        for (label, context) in [("true", context("Disabled")), ("false", on)] {
            assert_eq!(kept(label, json!({}), asks("2Gi"), &context), asks("2Gi"), "{label}");
        }
    }

    fn asking(target: &str, format: &str) -> Value {
        let name = |word: &str| format!("cdi.kubevirt.io/storage.export.{word}");
        let said = json!({(name("target")): target, (name("format")): format, "other": "x"});
        json!({"metadata": {"annotations": said}, "spec": {}})
    }

    #[test]
    fn exports_are_judged_where_they_are_asked_for() {
        let good = asking("docker://registry.example/os/golden:1", "raw");
        let bad = asking("registry.example/os", "vmdk");
        let none = asking("", "vmdk");
        let judged = |old: &Value, object: &Value| {
            let operation = if old.is_null() { Operation::Create } else { Operation::Update };
            let request =
                Request { old: old.clone(), object: object.clone(), operation, ..Request::default() };
            judge(&request).faults
        };
        for old in [&Value::Null, &good, &none, &json!({"metadata": {}})] {
            assert!(judged(old, &good).is_empty() && judged(old, &none).is_empty());
            let faults = judged(old, &bad);
            let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
            let at = |word: &str| format!("metadata.annotations[cdi.kubevirt.io/storage.export.{word}]");
            assert_eq!(fields, [at("target"), at("format")]);
        }
        let misspelt =
            json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.export.targt": "docker://h/a:1"}}});
        for old in [Value::Null, json!({"metadata": {}}), none.clone()] {
            let faults = judged(&old, &misspelt);
            assert!(faults.len() == 1 && faults[0].message.ends_with("storage.export.target?"), "{faults:?}");
        }
        assert!(judged(&misspelt, &misspelt).is_empty(), "it may be bound");
        // An existing PVC, from before the webhook, may be bound, labelled and deleted.
        let mut bound = bad.clone();
        bound["metadata"]["labels"] = json!({"a": "b"});
        assert!(judged(&bad, &bound).is_empty());
        let mut leaving = bad.clone();
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(judged(&good, &leaving).is_empty());
    }
}
