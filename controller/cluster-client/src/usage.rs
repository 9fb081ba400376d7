//! Pods that use the disks of a namespace, from a list of its pods.

use super::object::meta;
use cluster_model::objects::LauncherPods;
use cluster_model::plan::Mounts;
use serde_json::Value;

/// A launcher pod of one of these VMIs.
pub fn launcher_of<'a>(
    pods: impl IntoIterator<Item = &'a Value>,
    vmis: &[LauncherPods],
) -> Option<&'a Value> {
    pods.into_iter().find(|pod| {
        let meta = meta(pod);
        vmis.iter().any(|vmi| vmi.contains(&meta))
    })
}

/// The name of a running pod that mounts the PVC in this way.
pub fn mounter<'a>(pods: impl IntoIterator<Item = &'a Value>, claim: &str, by: Mounts) -> Option<String> {
    let pod = pods.into_iter().find(|pod| match by {
        Mounts::ToWrite => mounts_writable(pod, claim),
        Mounts::Any => mounts(pod, claim),
    })?;
    Some(pod["metadata"]["name"].as_str().unwrap_or_default().to_owned())
}

/// True if the pod may run and references the PVC: the kubelet mounts it even if no container uses it.
fn mounts(pod: &Value, claim: &str) -> bool {
    is_unread(pod) || !has_ended(pod) && of_claim(pod, claim).next().is_some()
}

/// True if only the pod's metadata are known: it may reference any PVC.
fn is_unread(pod: &Value) -> bool {
    pod["spec"].is_null()
}

fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase)
}

fn of_claim<'a>(pod: &'a Value, claim: &str) -> impl Iterator<Item = &'a Value> {
    list(&pod["spec"]["volumes"]).filter(move |volume| volume["persistentVolumeClaim"]["claimName"] == claim)
}

fn mounts_writable(pod: &Value, claim: &str) -> bool {
    let spec = &pod["spec"];
    let mut of_claim =
        of_claim(pod, claim).filter(|volume| volume["persistentVolumeClaim"]["readOnly"] != true);
    let is_written = |volume: &Value| {
        let named = |one: &&Value| one["name"] == volume["name"];
        let containers = ["containers", "initContainers", "ephemeralContainers"];
        containers.iter().flat_map(|field| list(&spec[field])).any(|container| {
            let mut mounts = list(&container["volumeMounts"]).filter(named);
            mounts.any(|mount| mount["readOnly"] != true)
                || list(&container["volumeDevices"]).any(|one| named(&one))
        })
    };
    is_unread(pod) || !has_ended(pod) && of_claim.any(is_written)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(source: &Value, mount: &Value, phase: &str) -> Value {
        json!({
            "metadata": {"name": "a"},
            "spec": {
                "volumes": [{"name": "v", "persistentVolumeClaim": source}],
                "containers": [{"name": "c"}, mount],
            },
            "status": {"phase": phase},
        })
    }

    #[test]
    fn a_pod_writes_where_neither_its_volume_nor_its_mount_is_for_reading() {
        let (claim, mount) = (json!({"claimName": "disk"}), json!({"volumeMounts": [{"name": "v"}]}));
        let device = json!({"volumeDevices": [{"name": "v"}]});
        let reads = json!({"claimName": "disk", "readOnly": true});
        let mounts_to_read = json!({"volumeMounts": [{"name": "v", "readOnly": true}]});
        for (source, mount, phase, expected) in [
            (&claim, &mount, "Running", true),
            (&claim, &mount, "Pending", true),
            (&claim, &device, "Running", true),
            (&claim, &mount, "Succeeded", false),
            (&claim, &mount, "Failed", false),
            (&reads, &mount, "Running", false),
            (&reads, &device, "Running", false),
            (&claim, &mounts_to_read, "Running", false),
            (&json!({"claimName": "other"}), &mount, "Running", false),
        ] {
            let pods = [pod(source, mount, phase)];
            assert_eq!(
                mounter(&pods, "disk", Mounts::ToWrite).is_some(),
                expected,
                "{source} {mount} {phase}"
            );
            let is_mounted = source["claimName"] == "disk" && !matches!(phase, "Succeeded" | "Failed");
            assert_eq!(mounter(&pods, "disk", Mounts::Any).is_some(), is_mounted, "{source} {mount} {phase}");
        }
        for by in [Mounts::ToWrite, Mounts::Any] {
            assert_eq!(mounter(&[json!({"spec": {}})], "disk", by), None);
            let unread = json!({"metadata": {"name": "large"}});
            assert_eq!(mounter(&[unread], "disk", by).as_deref(), Some("large"));
        }
    }
}
