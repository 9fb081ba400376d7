//! Objects that an upload creates. Pure.

use super::annotations::{APPLY_PROFILE, BIND_AT_ONCE, CONTENT_TYPE, TARGET};
use super::wish::Wish;
use crate::virt::object::Kind;
use serde_json::{Map, Value, json};

/// Content type of an archive.
pub(super) const ARCHIVE: &str = "archive";
const DISK: &str = "kubevirt";

/// The DataVolume. Fields without a flag are left to the StorageProfile.
pub(super) fn data_volume(wish: &Wish, namespace: &str) -> Value {
    let mut storage = json!({"resources": {"requests": {"storage": wish.size}}});
    if let Some(class) = &wish.storage_class {
        storage["storageClassName"] = json!(class);
    }
    if let Some(mode) = &wish.access_mode {
        storage["accessModes"] = json!([mode]);
    }
    if let Some(mode) = wish.volume_mode {
        storage["volumeMode"] = json!(mode.word());
    }
    let mut metadata = metadata(wish, namespace);
    if wish.force_bind {
        metadata["annotations"] = json!({BIND_AT_ONCE: ""});
    }
    json!({
        "apiVersion": Kind::DataVolume.api_version(),
        "kind": Kind::DataVolume.name(),
        "metadata": metadata,
        "spec": {"source": {"upload": {}}, "contentType": content_type(wish), "storage": storage},
    })
}

/// The PVC of an upload without a DataVolume.
pub(super) fn claim(wish: &Wish, namespace: &str) -> Value {
    let mut metadata = metadata(wish, namespace);
    let mut annotations = json!({TARGET: "", CONTENT_TYPE: content_type(wish)});
    if wish.force_bind {
        annotations[BIND_AT_ONCE] = json!("");
    }
    metadata["annotations"] = annotations;
    metadata["labels"][APPLY_PROFILE] = json!("true");
    let mode = wish.access_mode.as_deref().unwrap_or("ReadWriteOnce");
    let mut spec = json!({"accessModes": [mode], "resources": {"requests": {"storage": wish.size}}});
    if let Some(class) = &wish.storage_class {
        spec["storageClassName"] = json!(class);
    }
    if let Some(mode) = wish.volume_mode {
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
pub(super) fn data_source(wish: &Wish, namespace: &str) -> Value {
    json!({
        "apiVersion": Kind::DataSource.api_version(),
        "kind": Kind::DataSource.name(),
        "metadata": metadata(wish, namespace),
        "spec": {"source": {"pvc": {"name": wish.name, "namespace": namespace}}},
    })
}

/// JSON patch by which an existing DataSource refers to the PVC.
pub(super) fn change_of_data_source(wish: &Wish, namespace: &str, there: &Value) -> Value {
    let mut labels = there["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.extend(named(wish));
    // The operation `replace` needs an existing field.
    let op = if there["metadata"]["labels"].is_object() { "replace" } else { "add" };
    let source = if there["spec"]["source"]["pvc"].is_object() { "replace" } else { "add" };
    json!([
        {"op": op, "path": "/metadata/labels", "value": labels},
        {"op": source, "path": "/spec/source/pvc", "value": {"name": wish.name, "namespace": namespace}},
    ])
}

/// The request for an upload token.
pub(super) fn token_request(wish: &Wish, namespace: &str) -> Value {
    json!({
        "apiVersion": Kind::UploadTokenRequest.api_version(),
        "kind": Kind::UploadTokenRequest.name(),
        "metadata": {"generateName": "token-for-virtctl-", "namespace": namespace},
        "spec": {"pvcName": wish.name},
    })
}

fn metadata(wish: &Wish, namespace: &str) -> Value {
    let mut metadata = json!({"name": wish.name, "namespace": namespace});
    if !wish.labels.is_empty() {
        metadata["labels"] = Value::Object(named(wish));
    }
    metadata
}

fn named(wish: &Wish) -> Map<String, Value> {
    wish.labels.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect()
}

fn content_type(wish: &Wish) -> &'static str {
    if wish.is_archive { ARCHIVE } else { DISK }
}

#[cfg(test)]
mod tests {
    use super::super::wish::VolumeMode;
    use super::super::wish::tests::plain;
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
        let all = Wish {
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
        let wish = Wish {
            kind: Kind::PersistentVolumeClaim,
            volume_mode: Some(VolumeMode::Block),
            force_bind: true,
            ..plain()
        };
        assert_eq!(
            claim(&wish, "blue"),
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
        let wish = Wish { labels: vec![("l", "new".to_owned())], ..plain() };
        let there = json!({
            "metadata": {"labels": {"l": "old", "m": "kept"}}, "spec": {"source": {"pvc": {"name": "old"}}},
        });
        let target = json!({"name": "d", "namespace": "blue"});
        assert_eq!(
            change_of_data_source(&wish, "blue", &there),
            json!([
                {"op": "replace", "path": "/metadata/labels", "value": {"l": "new", "m": "kept"}},
                {"op": "replace", "path": "/spec/source/pvc", "value": target},
            ])
        );
        let bare = change_of_data_source(&plain(), "blue", &json!({}));
        assert_eq!((&bare[0]["op"], &bare[1]["op"]), (&json!("add"), &json!("add")));
    }
}
