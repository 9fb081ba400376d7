//! Who writes to a PVC, as the pods of its namespace say.

use serde_json::Value;

/// The name of a pod that may run and mounts the PVC of this name, and not for reading alone.
pub fn writer<'a>(pods: impl IntoIterator<Item = &'a Value>, claim: &str) -> Option<String> {
    let pod = pods.into_iter().find(|pod| writes(pod, claim))?;
    Some(pod["metadata"]["name"].as_str().unwrap_or_default().to_owned())
}

fn writes(pod: &Value, claim: &str) -> bool {
    let has_ended = ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase);
    let spec = &pod["spec"];
    let of_claim = list(&spec["volumes"]).filter(|volume| {
        let source = &volume["persistentVolumeClaim"];
        source["claimName"] == claim && source["readOnly"] != true
    });
    let is_written = |volume: &Value| {
        let named = |one: &&Value| one["name"] == volume["name"];
        let containers = ["containers", "initContainers", "ephemeralContainers"];
        containers.iter().flat_map(|field| list(&spec[field])).any(|container| {
            let mut mounts = list(&container["volumeMounts"]).filter(named);
            mounts.any(|mount| mount["readOnly"] != true)
                || list(&container["volumeDevices"]).any(|one| named(&one))
        })
    };
    !has_ended && of_claim.into_iter().any(is_written)
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
            assert_eq!(writer(&pods, "disk").is_some(), expected, "{source} {mount} {phase}");
        }
        assert_eq!(writer(&[json!({})], "disk"), None);
    }
}
