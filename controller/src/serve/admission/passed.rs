//! Labels and annotations that are written for an instance, and that its pod does not get: told, and kept on the instance.

use crate::cluster::pod::left_out;
use api::meta::ObjectMeta;

/// One warning for each kind of it. `at` is where the metadata stands.
pub(super) fn warnings(metadata: &ObjectMeta, at: &str) -> Vec<String> {
    let left = left_out(metadata);
    [("labels", left.labels), ("annotations", left.annotations)]
        .into_iter()
        .filter(|(_, keys)| !keys.is_empty())
        .map(|(field, keys)| {
            format!("{at}.{field}: the pod of the instance does not get {}", keys.join(", "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_does_not_reach_the_pod_is_named() {
        let metadata = |object| api::wire::read::<ObjectMeta>(object).unwrap();
        let told = warnings(
            &metadata(json!({
                "annotations": {"k8s.v1.cni.cncf.io/networks": "other/net", "kubevirt.io/a": "b", "example.com/a": "b"},
                "labels": {"app": "web", "batch.kubernetes.io/job-name": "a"},
            })),
            "spec.template.metadata",
        );
        assert_eq!(
            told,
            [
                "spec.template.metadata.labels: the pod of the instance does not get batch.kubernetes.io/job-name",
                "spec.template.metadata.annotations: the pod of the instance does not get example.com/a, \
                 k8s.v1.cni.cncf.io/networks",
            ]
        );
        assert_eq!(warnings(&metadata(json!({"labels": {"app": "web"}})), "metadata"), [""; 0]);
    }
}
