//! Source of a new PVC, as the API server stores it: what is not kept is dropped without a word, and of `dataSource` and `dataSourceRef`
//! each is filled in from the other.

use serde_json::{Map, Value};

/// Makes of a PVC that a client creates what the API server stores: `DropDisabledFields` without CrossNamespaceVolumeDataSource,
/// `EnforceDataSourceBackwardsCompatibility` and `NormalizeDataSources`, in their order.
pub fn store_data_source(claim: &mut Value) {
    let Some(spec) = claim["spec"].as_object_mut() else { return };
    let take = |spec: &mut Map<String, Value>, field: &str| {
        spec.remove(field).filter(|reference| !reference.is_null())
    };
    let (mut source, mut reference) = (take(spec, "dataSource"), take(spec, "dataSourceRef"));
    // It has no such field.
    if let Some(fields) = source.as_mut().and_then(Value::as_object_mut) {
        fields.remove("namespace");
    }
    let is_far = |reference: &Value| reference["namespace"].as_str().is_some_and(|other| !other.is_empty());
    reference = reference.filter(|reference| !is_far(reference));
    if reference.is_none() {
        source = source.filter(is_kept);
    }
    let (source, reference) = (source.clone().or_else(|| reference.clone()), reference.or(source));
    for (field, named) in [("dataSource", source), ("dataSourceRef", reference)] {
        spec.extend(named.map(|named| (field.to_owned(), named)));
    }
}

/// True for a PVC of the core group and for a VolumeSnapshot.
fn is_kept(source: &Value) -> bool {
    let text = |field: &str| source[field].as_str().unwrap_or_default();
    let kept = [("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")];
    kept.contains(&(text("apiGroup"), text("kind")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_source_is_kept_copied_or_dropped() {
        let claim = json!({"kind": "PersistentVolumeClaim", "name": "a"});
        let of_group = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "a"});
        let snapshot = of_group("snapshot.storage.k8s.io", "VolumeSnapshot");
        let import = of_group("cdi.kubevirt.io", "VolumeImportSource");
        let far = json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "far"});
        let none = Value::Null;
        for (source, reference, stored) in [
            (&none, &none, &none),
            (&claim, &none, &claim),
            (&none, &claim, &claim),
            (&snapshot, &none, &snapshot),
            (&none, &import, &import),
            (&import, &import, &import),
            (&import, &none, &none),
            (&of_group("v1", "PersistentVolumeClaim"), &none, &none),
            (&of_group("example.com", "VolumeSnapshot"), &none, &none),
            (&json!({"kind": "VolumeSnapshot", "name": "a"}), &none, &none),
            (&none, &far, &none),
            (&far, &none, &claim),
        ] {
            let mut object = json!({"spec": {"dataSource": source, "dataSourceRef": reference}});
            store_data_source(&mut object);
            let spec = &object["spec"];
            assert_eq!(
                (&spec["dataSource"], &spec["dataSourceRef"]),
                (stored, stored),
                "{source} {reference}"
            );
        }
    }
}
