//! The labels and annotations of a VM of a pool: those of the template, and those of others.
//!
//! Which the template gave stands in an annotation of the VM, by their keys. Another template takes away what was given and is in it
//! no more, and what it has gets its values. All else somebody else wrote, and it stays.
//!
//! **Assumptions.** The annotation may be forged by whoever may change the VM: it takes no more than that VM's labels and
//! annotations, and none of [`OURS`]. Where it is missing or cannot be read, nothing is taken away.

use api::meta::ObjectMeta;
use api::pool::FAILING_SINCE;
use cluster_model::metadata::FENCING;
use serde_json::{Value, json};

/// Annotation of a VM of a pool: sums of the template that the VM was last written by.
pub(super) const SUMS: &str = "kubevirt.io/vm-pool-template-sums";
/// Annotation of a VM of a pool: keys of the labels and annotations that the template gave.
pub(super) const KEYS: &str = "kubevirt.io/vm-pool-template-keys";
/// Annotations that no template gives, and none takes away.
const OURS: [&str; 4] = [FENCING, FAILING_SINCE, SUMS, KEYS];

/// Notes what a VM is given. All of it is of the template.
pub(super) fn note(given: &mut ObjectMeta) {
    let labels: Vec<&String> = given.labels.keys().collect();
    let annotations: Vec<&String> = given.annotations.keys().collect();
    let keys = json!({"labels": labels, "annotations": annotations}).to_string();
    given.annotations.insert(KEYS.to_owned(), keys);
}

/// Gives a VM what it would be given if it were made now.
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
