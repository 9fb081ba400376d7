//! Objects that an upload creates. Pure.

use super::annotations::{APPLY_PROFILE, BIND_AT_ONCE, CONTENT_TYPE, TARGET};
use super::params::UploadParams;
use cluster_model::objects::Kind;
use serde_json::{Map, Value, json};

/// Content type of an archive.
pub(super) const ARCHIVE: &str = "archive";
const DISK: &str = "kubevirt";

/// The DataVolume. Fields without a flag are left to the StorageProfile.
pub(super) fn data_volume(params: &UploadParams, namespace: &str) -> Value {
    let mut storage = json!({"resources": {"requests": {"storage": params.size}}});
    if let Some(class) = &params.storage_class {
        storage["storageClassName"] = json!(class);
    }
    if let Some(mode) = &params.access_mode {
        storage["accessModes"] = json!([mode]);
    }
    if let Some(mode) = params.volume_mode {
        storage["volumeMode"] = json!(mode.word());
    }
    let mut metadata = metadata(params, namespace);
    if params.force_bind {
        metadata["annotations"] = json!({BIND_AT_ONCE: ""});
    }
    json!({
        "apiVersion": Kind::DataVolume.api_version(),
        "kind": Kind::DataVolume.name(),
        "metadata": metadata,
        "spec": {"source": {"upload": {}}, "contentType": content_type(params), "storage": storage},
    })
}

/// The PVC of an upload without a DataVolume.
pub(super) fn claim(params: &UploadParams, namespace: &str) -> Value {
    let mut metadata = metadata(params, namespace);
    let mut annotations = json!({TARGET: "", CONTENT_TYPE: content_type(params)});
    if params.force_bind {
        annotations[BIND_AT_ONCE] = json!("");
    }
    metadata["annotations"] = annotations;
    metadata["labels"][APPLY_PROFILE] = json!("true");
    let mode = params.access_mode.as_deref().unwrap_or("ReadWriteOnce");
    let mut spec = json!({"accessModes": [mode], "resources": {"requests": {"storage": params.size}}});
    if let Some(class) = &params.storage_class {
        spec["storageClassName"] = json!(class);
    }
    if let Some(mode) = params.volume_mode {
        spec["volumeMode"] = json!(mode.word());
    }
    json!({
        "apiVersion": Kind::PersistentVolumeClaim.api_version(),
        "kind": Kind::PersistentVolumeClaim.name(),
        "metadata": metadata,
        "spec": spec,
    })
}

/// The DataSource that refers to the PVC.
pub(super) fn data_source(params: &UploadParams, namespace: &str) -> Value {
    json!({
        "apiVersion": Kind::DataSource.api_version(),
        "kind": Kind::DataSource.name(),
        "metadata": metadata(params, namespace),
        "spec": {"source": {"pvc": {"name": params.name, "namespace": namespace}}},
    })
}

/// JSON patch by which an existing DataSource refers to the PVC.
pub(super) fn change_of_data_source(params: &UploadParams, namespace: &str, there: &Value) -> Value {
    let mut labels = there["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.extend(named(params));
    // The operation `replace` needs an existing field.
    let op = if there["metadata"]["labels"].is_object() { "replace" } else { "add" };
    let source = if there["spec"]["source"]["pvc"].is_object() { "replace" } else { "add" };
    json!([
        {"op": op, "path": "/metadata/labels", "value": labels},
        {"op": source, "path": "/spec/source/pvc", "value": {"name": params.name, "namespace": namespace}},
    ])
}

/// The request for an upload token.
pub(super) fn token_request(params: &UploadParams, namespace: &str) -> Value {
    json!({
        "apiVersion": Kind::UploadTokenRequest.api_version(),
        "kind": Kind::UploadTokenRequest.name(),
        "metadata": {"generateName": "token-for-virtctl-", "namespace": namespace},
        "spec": {"pvcName": params.name},
    })
}

fn metadata(params: &UploadParams, namespace: &str) -> Value {
    let mut metadata = json!({"name": params.name, "namespace": namespace});
    if !params.labels.is_empty() {
        metadata["labels"] = Value::Object(named(params));
    }
    metadata
}

fn named(params: &UploadParams) -> Map<String, Value> {
    params.labels.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect()
}

fn content_type(params: &UploadParams) -> &'static str {
    if params.is_archive { ARCHIVE } else { DISK }
}

#[cfg(test)]
mod tests {
    use super::super::params::VolumeMode;
    use super::super::params::tests::plain;
    use super::*;

    #[test]
    fn a_data_volume_says_what_the_user_said_and_nothing_else() {
        assert_eq!(
            data_volume(&plain(), "blue"),
            json!({
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
                "metadata": {"name": "d", "namespace": "blue"},
                "spec": {
                    "source": {"upload": {}}, "contentType": "kubevirt",
                    "storage": {"resources": {"requests": {"storage": "1Gi"}}},
                },
            })
        );
        let all = UploadParams {
            is_archive: true,
            storage_class: Some("fast".to_owned()),
            access_mode: Some("ReadWriteMany".to_owned()),
            volume_mode: Some(VolumeMode::Filesystem),
            force_bind: true,
            labels: vec![("instancetype.kubevirt.io/default-preference", "fedora".to_owned())],
            ..plain()
        };
        let made = data_volume(&all, "blue");
        assert_eq!(
            made["metadata"],
            json!({
                "name": "d", "namespace": "blue",
                "annotations": {"cdi.kubevirt.io/storage.bind.immediate.requested": ""},
                "labels": {"instancetype.kubevirt.io/default-preference": "fedora"},
            })
        );
        assert_eq!(
            made["spec"],
            json!({
                "source": {"upload": {}}, "contentType": "archive",
                "storage": {
                    "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast",
                    "accessModes": ["ReadWriteMany"], "volumeMode": "Filesystem",
                },
            })
        );
    }

    #[test]
    fn a_pvc_has_an_access_mode_and_asks_for_the_profile() {
        let params = UploadParams {
            kind: Kind::PersistentVolumeClaim,
            volume_mode: Some(VolumeMode::Block),
            force_bind: true,
            ..plain()
        };
        assert_eq!(
            claim(&params, "blue"),
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": "d", "namespace": "blue",
                    "labels": {"cdi.kubevirt.io/applyStorageProfile": "true"},
                    "annotations": {
                        "cdi.kubevirt.io/storage.upload.target": "",
                        "cdi.kubevirt.io/storage.contentType": "kubevirt",
                        "cdi.kubevirt.io/storage.bind.immediate.requested": "",
                    },
                },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            })
        );
    }

    #[test]
    fn a_data_source_that_is_there_keeps_its_other_labels() {
        let params = UploadParams { labels: vec![("l", "new".to_owned())], ..plain() };
        let there = json!({
            "metadata": {"labels": {"l": "old", "m": "kept"}}, "spec": {"source": {"pvc": {"name": "old"}}},
        });
        let target = json!({"name": "d", "namespace": "blue"});
        assert_eq!(
            change_of_data_source(&params, "blue", &there),
            json!([
                {"op": "replace", "path": "/metadata/labels", "value": {"l": "new", "m": "kept"}},
                {"op": "replace", "path": "/spec/source/pvc", "value": target},
            ])
        );
        let bare = change_of_data_source(&plain(), "blue", &json!({}));
        assert_eq!((&bare[0]["op"], &bare[1]["op"]), (&json!("add"), &json!("add")));
    }
}
