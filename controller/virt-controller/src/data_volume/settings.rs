//! Settings of the cluster (the CDIConfig `config`) for worker pods.
//!
//! | setting | used for | if the DataVolume sets it too |
//! |---|---|---|
//! | `preallocation` | imports and uploads | the DataVolume |
//! | `podResourceRequirements` | the container of every worker, per resource; otherwise the worker's defaults | – |
//! | `imagePullSecrets` | the image of every worker, beside those of the KubeVirt object | – |
//! | `importProxy` | imports and polls: `http_proxy`, `https_proxy`, `no_proxy` | – |
//! | `logVerbosity` | the log of every worker: `CORACLE_LOG` | – |
//! | `workload` of the CDI object | the nodes of every worker; a VMI that waits for the disk adds to it | – |
//!
//! `filesystemOverhead` is about the PVC ([`super::size`]), `importProxy.trustedCAProxy` is part of the
//! settings of registries ([`super::registries`]). **Absent:** `scratchSpaceStorageClass` (there is no
//! scratch space).

use api::cdi::CDIConfigSpec;
use api::data_volume::DataVolume;
use api::wire::Wire;
use cluster_model::config::Workers;
use serde_json::{Value, json};

/// True if all blocks of the disk are to be allocated.
pub(super) fn preallocates(volume: &DataVolume, settings: &CDIConfigSpec) -> bool {
    volume.spec.preallocation.or(settings.preallocation).unwrap_or(false)
}

/// Places a pod by the settings of the CDI object.
pub(super) fn apply_placement(spec: &mut Value, workers: &Workers) {
    spec["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    for (label, value) in &workers.node_selector {
        spec["nodeSelector"][label] = value.clone();
    }
    if let Some(affinity) = &workers.affinity {
        spec["affinity"] = affinity.clone();
    }
    if !workers.tolerations.is_empty() {
        spec["tolerations"] = json!(workers.tolerations);
    }
}

/// Writes them into the spec of a pod with one container. `fetches`: from servers, through the proxy.
pub(super) fn apply(spec: &mut Value, fetches: bool, settings: &CDIConfigSpec) {
    let secrets: Vec<Value> = settings.image_pull_secrets.iter().map(Wire::write).collect();
    if !secrets.is_empty() {
        let said = spec["imagePullSecrets"].as_array().cloned().unwrap_or_default();
        let more = secrets.into_iter().filter(|secret| !said.contains(secret)).collect();
        spec["imagePullSecrets"] = json!([said, more].concat());
    }
    let container = &mut spec["containers"][0];
    if let Some(said) = &settings.pod_resource_requirements {
        let said = said.write();
        for part in ["requests", "limits"] {
            for (name, quantity) in said[part].as_object().into_iter().flatten() {
                container["resources"][part][name] = quantity.clone();
            }
        }
    }
    let Some(env) = container["env"].as_array_mut() else { return };
    if let Some(verbosity) = settings.log_verbosity {
        env.push(
            json!({"name": "CORACLE_LOG", "value": cluster_model::config::program::log_level(verbosity)}),
        );
    }
    let Some(proxy) = settings.import_proxy.as_ref().filter(|_| fetches) else { return };
    for (name, value) in [
        ("http_proxy", &proxy.http_proxy),
        ("https_proxy", &proxy.https_proxy),
        ("no_proxy", &proxy.no_proxy),
    ] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            env.push(json!({"name": name, "value": value}));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(spec: Value) -> CDIConfigSpec {
        api::wire::read(spec).unwrap()
    }

    #[test]
    fn what_is_said_comes_beside_what_the_worker_takes_or_in_its_place() {
        let settings = settings(json!({
            "imagePullSecrets": [{"name": "a"}, {"name": "b"}],
            "logVerbosity": 3,
            "podResourceRequirements": {"limits": {"memory": "1Gi", "cpu": "2"}, "requests": {"cpu": "1"}},
            "importProxy": {"HTTPProxy": "http://proxy:3128", "HTTPSProxy": "", "noProxy": "10.0.0.0/8"},
        }));
        let before = json!({
            "imagePullSecrets": [{"name": "a"}],
            "containers": [{
                "env": [],
                "resources": {"requests": {"cpu": "100m", "memory": "60M"}, "limits": {"memory": "128Mi"}},
            }],
        });
        for fetches in [true, false] {
            let mut spec = before.clone();
            apply(&mut spec, fetches, &settings);
            assert_eq!(spec["imagePullSecrets"], json!([{"name": "a"}, {"name": "b"}]));
            let container = &spec["containers"][0];
            assert_eq!(container["resources"]["requests"], json!({"cpu": "1", "memory": "60M"}));
            assert_eq!(container["resources"]["limits"], json!({"cpu": "2", "memory": "1Gi"}));
            let mut env = json!([
                {"name": "CORACLE_LOG", "value": "debug"},
                {"name": "http_proxy", "value": "http://proxy:3128"}, {"name": "no_proxy", "value": "10.0.0.0/8"},
            ]);
            if !fetches {
                env.as_array_mut().unwrap().truncate(1);
            }
            assert_eq!(container["env"], env);
        }
        let mut spec = before.clone();
        apply(&mut spec, true, &CDIConfigSpec::default());
        assert_eq!(spec, before);
    }

    #[test]
    fn a_worker_runs_where_the_cdi_object_says() {
        let mut spec = json!({});
        apply_placement(&mut spec, &Workers::default());
        assert_eq!(spec, json!({"nodeSelector": {"kubernetes.io/os": "linux"}}));
        let workers = Workers {
            node_selector: [("disks".to_owned(), json!("yes"))].into_iter().collect(),
            affinity: Some(json!({"nodeAffinity": {}})),
            tolerations: vec![json!({"key": "disks"})],
            ..Workers::default()
        };
        apply_placement(&mut spec, &workers);
        let expected = json!({
            "nodeSelector": {"kubernetes.io/os": "linux", "disks": "yes"},
            "affinity": {"nodeAffinity": {}},
            "tolerations": [{"key": "disks"}],
        });
        assert_eq!(spec, expected);
    }

    #[test]
    fn a_datavolume_says_itself_whether_blocks_are_allocated() {
        let of_cluster = settings(json!({"preallocation": true}));
        let mut volume = DataVolume::default();
        assert!(preallocates(&volume, &of_cluster) && !preallocates(&volume, &CDIConfigSpec::default()));
        volume.spec.preallocation = Some(false);
        assert!(!preallocates(&volume, &of_cluster));
    }
}
