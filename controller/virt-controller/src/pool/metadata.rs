//! Labels and annotations of a VM of a pool: those of the template, and those of other clients.
//!
//! An annotation of the VM lists the keys that come from the template. When the template changes, keys that
//! it does not have any more are removed, and its other keys get the new values. All other labels and
//! annotations stay.
//!
//! **Assumptions.** A user who may change the VM may forge the annotation: it can remove only that VM's
//! labels and annotations, and none of [`OURS`]. If it is missing or cannot be read, nothing is removed.

use api::meta::ObjectMeta;
use api::pool::FAILING_SINCE;
use cluster_model::metadata::{FENCING, SCALE_IN};
use serde_json::{Value, json};

/// Annotation of a VM of a pool: sums of the template that the VM was last written by.
pub(super) const SUMS: &str = "kubevirt.io/vm-pool-template-sums";
/// Annotation of a VM of a pool: keys of the labels and annotations that the template gave.
pub(super) const KEYS: &str = "kubevirt.io/vm-pool-template-keys";
/// Annotations that a template neither sets nor removes.
const OURS: [&str; 5] = [FENCING, FAILING_SINCE, SCALE_IN, SUMS, KEYS];

/// Records the keys of the labels and annotations of a VM. All of them come from the template.
pub(super) fn note(given: &mut ObjectMeta) {
    let labels: Vec<&String> = given.labels.keys().collect();
    let annotations: Vec<&String> = given.annotations.keys().collect();
    let keys = json!({"labels": labels, "annotations": annotations}).to_string();
    given.annotations.insert(KEYS.to_owned(), keys);
}

/// Updates the labels and annotations of a VM to those of a new one.
pub(super) fn update(metadata: &mut ObjectMeta, given: ObjectMeta) {
    let noted = metadata.annotations.get(KEYS);
    let noted: Value = noted.and_then(|noted| serde_json::from_str(noted).ok()).unwrap_or_default();
    for key in keys(&noted["labels"]) {
        metadata.labels.remove(key);
    }
    for key in keys(&noted["annotations"]).filter(|key| !OURS.contains(key)) {
        metadata.annotations.remove(key);
    }
    metadata.labels.extend(given.labels);
    metadata.annotations.extend(given.annotations);
}

fn keys(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}
