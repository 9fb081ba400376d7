//! Labels and annotations of a VMI that its pod does not get, and those of a DataVolume template that its
//! DataVolume does not get. They are kept on the object, with a warning.

use api::kubevirt::AnnotationPolicy;
use api::machine::machine_type_map::MachineTypeMap;
use api::machine::warnings;
use api::meta::ObjectMeta;
use api::vm::DataVolumeTemplate;
use api::vmi::Spec;
use api::wire::Path;
use cluster_model::metadata::{OmittedKeys, left_out, left_out_of_disk};

/// A warning for the labels and one for the annotations. `at` is the path of the metadata.
pub(super) fn warnings(metadata: &ObjectMeta, policy: AnnotationPolicy, at: &str) -> Vec<String> {
    told(left_out(metadata, policy), at, "the launcher pod of the VMI").collect()
}

/// Warnings about valid but surprising fields of a spec at the path `at`.
pub(super) fn of_spec(spec: &Spec, at: &str, machine_type_map: &MachineTypeMap) -> Vec<String> {
    warnings::warnings(spec, &Path::of(at), machine_type_map)
        .into_iter()
        .map(|(field, note)| format!("{field}: {note}"))
        .collect()
}

/// A warning for the labels and one for the annotations of each DataVolume template.
pub(super) fn of_disks(templates: &[DataVolumeTemplate], policy: AnnotationPolicy) -> Vec<String> {
    let metadata = templates.iter().map(|template| template.metadata.as_ref()).enumerate();
    let told = |(n, metadata)| {
        let at = format!("spec.dataVolumeTemplates[{n}].metadata");
        told(left_out_of_disk(metadata, policy), &at, "the DataVolume").collect::<Vec<_>>()
    };
    metadata.filter_map(|(n, metadata)| Some((n, metadata?))).flat_map(told).collect()
}

fn told(left: OmittedKeys<'_>, at: &str, who: &str) -> impl Iterator<Item = String> {
    let kinds = [("labels", left.labels), ("annotations", left.annotations)];
    let told = kinds.into_iter().filter(|(_, keys)| !keys.is_empty());
    told.map(move |(field, keys)| format!("{at}.{field}: {who} does not get {}", keys.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_does_not_reach_the_pod_is_named() {
        let metadata = |object| api::wire::read::<ObjectMeta>(object).unwrap();
        let written = metadata(json!({
            "annotations": {"k8s.v1.cni.cncf.io/networks": "other/net", "kubevirt.io/a": "b", "example.com/a": "b"},
            "labels": {"app": "web", "batch.kubernetes.io/job-name": "a"},
        }));
        for (policy, keys) in [
            (AnnotationPolicy::Pass, "k8s.v1.cni.cncf.io/networks"),
            (AnnotationPolicy::Strict, "example.com/a, k8s.v1.cni.cncf.io/networks"),
        ] {
            let at = "spec.template.metadata";
            let expected = [
                format!("{at}.labels: the launcher pod of the VMI does not get batch.kubernetes.io/job-name"),
                format!("{at}.annotations: the launcher pod of the VMI does not get {keys}"),
            ];
            assert_eq!(warnings(&written, policy, at), expected);
        }
        let written = metadata(json!({"labels": {"app": "web"}}));
        assert_eq!(warnings(&written, AnnotationPolicy::Strict, "metadata"), [""; 0]);
    }

    #[test]
    fn what_does_not_reach_a_disk_is_named_with_its_template() {
        let template = |metadata: serde_json::Value| DataVolumeTemplate {
            metadata: Some(api::wire::read(metadata).unwrap()),
            ..DataVolumeTemplate::default()
        };
        let templates = [
            template(
                json!({"name": "a", "labels": {"app": "web"}, "annotations": {"cdi.kubevirt.io/storage.bind.immediate.requested": ""}}),
            ),
            DataVolumeTemplate::default(),
            template(json!({
                "name": "b",
                "labels": {"batch.kubernetes.io/job-name": "a"},
                "annotations": {
                    "k8s.v1.cni.cncf.io/networks": "other/net",
                    "cdi.kubevirt.io/storage.clone.token": "a",
                    "kubectl.kubernetes.io/last-applied-configuration": "{}",
                },
            })),
        ];
        assert_eq!(
            of_disks(&templates, AnnotationPolicy::Pass),
            [
                "spec.dataVolumeTemplates[2].metadata.labels: the DataVolume does not get batch.kubernetes.io/job-name",
                "spec.dataVolumeTemplates[2].metadata.annotations: the DataVolume does not get \
                 cdi.kubevirt.io/storage.clone.token, k8s.v1.cni.cncf.io/networks",
            ]
        );
    }
}
