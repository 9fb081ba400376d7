//! Hook sidecars: containers of a tenant's images that change the domain before the guest starts, and behind them those of
//! network binding plugins, whose images the KubeVirt object names.
//!
//! ```text
//!  hook-sidecar-N: the image, its command or the image's own, CONTAINER_NAME=hook-sidecar-N
//!       /var/run/kubevirt-hooks     a folder of its own, in which it listens: no sidecar sees that of another
//!       hookPath                    one key of a ConfigMap, a file that may be run
//!       volumePath                  a PVC
//!       /etc/podinfo                with device-info: a file of the launcher's, only read
//!       …/downwardapi/podinfo       with pod-info: the labels and the annotations of the pod
//!  compute: all these folders below /var/run/kubevirt-hooks, and the PVC at sharedComputePath
//! ```
//!
//! A sidecar is as unprivileged as the launcher is, and less: user 107, no capability, no token. Of the pod it sees what the
//! annotation names in its own namespace, and nothing of the launcher's.

use super::volumes::Volumes;
use super::{Surroundings, insert_unless_empty, narrow};
use api::machine::Machine;
use api::machine::hook::{self, HookSidecar, SOCKETS};
use cluster_model::config::Config;
use cluster_model::objects::PersistentVolumeClaim;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Name of these containers in the settings.
const KIND: &str = "sidecar";

/// Environment variable with the plugin's name, for the sidecar of a network binding plugin.
const PLUGIN: &str = "NETWORK_BINDING_PLUGIN_NAME";

/// Adds the sidecars, and the folders that they share with the launcher.
pub(super) fn add(all: &mut Volumes, hooks: &[HookSidecar], around: &Surroundings<'_>) {
    if hooks.is_empty() {
        return;
    }
    let sockets = all.add_shared_folder("hook-sidecar-sockets");
    all.mount(&sockets, SOCKETS, false);
    let metadata = hooks.iter().any(|hook| hook.pod_info).then(|| metadata(all));
    let shared = Shared { sockets, metadata };
    for (n, hook) in hooks.iter().enumerate() {
        let container = sidecar(all, n, hook, &shared, around);
        all.hooks.push(container);
    }
}

/// Volumes of more than one sidecar.
struct Shared {
    sockets: String,
    /// The labels and annotations of the pod.
    metadata: Option<String>,
}

fn metadata(all: &mut Volumes) -> String {
    let name = all.free("hook-sidecar-podinfo");
    let file = |field: &str| json!({"path": field, "fieldRef": {"fieldPath": format!("metadata.{field}")}});
    all.add(&name, json!({"downwardAPI": {"items": [file("labels"), file("annotations")]}}));
    name
}

fn sidecar(
    all: &mut Volumes,
    n: usize,
    hook: &HookSidecar,
    Shared { sockets, metadata }: &Shared,
    around: &Surroundings<'_>,
) -> Value {
    let name = hook::container(n);
    let mut mounts = vec![json!({"name": sockets, "mountPath": SOCKETS, "subPath": name})];
    if let Some(script) = &hook.script {
        let volume = all.free(&format!("{name}-script"));
        all.add(&volume, json!({"configMap": {"name": script.config_map, "defaultMode": 0o755}}));
        mounts
            .push(json!({"name": volume, "mountPath": script.path, "subPath": script.key, "readOnly": true}));
    }
    if let Some(claim) = &hook.claim {
        let volume = all.free(&format!("{name}-pvc"));
        all.add(&volume, json!({"persistentVolumeClaim": {"claimName": claim.name}}));
        mounts.push(json!({"name": volume, "mountPath": claim.path}));
        if let Some(shared) = &claim.shared {
            all.mount(&volume, shared, false);
        }
    }
    if hook.device_info {
        let folder = hook::NETWORK_INFO;
        mounts
            .push(json!({"name": sockets, "mountPath": hook::POD_INFO, "subPath": folder, "readOnly": true}));
    }
    if let Some(metadata) = metadata.as_ref().filter(|_| hook.pod_info) {
        mounts.push(json!({"name": metadata, "mountPath": hook::POD_METADATA, "readOnly": true}));
    }
    let mut container = Map::new();
    insert_unless_empty(&mut container, "name", json!(name));
    insert_unless_empty(&mut container, "image", json!(hook.image));
    let policy = match &hook.plugin {
        Some(_) => around.config.image_pull_policy.as_ref(),
        None => hook.pull_policy.as_ref(),
    };
    insert_unless_empty(&mut container, "imagePullPolicy", json!(policy));
    insert_unless_empty(&mut container, "command", json!(hook.command));
    insert_unless_empty(&mut container, "args", json!(hook.args));
    let mut environment = vec![json!({"name": "CONTAINER_NAME", "value": name})];
    environment.extend(hook.plugin.iter().map(|plugin| json!({"name": PLUGIN, "value": plugin})));
    insert_unless_empty(&mut container, "env", Value::Array(environment));
    insert_unless_empty(&mut container, "resources", resources(around.config, all.guaranteed));
    insert_unless_empty(&mut container, "securityContext", narrow(&[]));
    insert_unless_empty(&mut container, "terminationMessagePolicy", json!("FallbackToLogsOnError"));
    insert_unless_empty(&mut container, "volumeMounts", Value::Array(mounts));
    Value::Object(container)
}

/// Message about a hook sidecar whose PVC has no files.
pub(super) fn without_files(
    machine: &Machine,
    claims: &BTreeMap<String, PersistentVolumeClaim>,
) -> Option<String> {
    machine.hooks.iter().enumerate().find_map(|(n, hook)| {
        let name = &hook.claim.as_ref()?.name;
        claims.get(name).filter(|claim| claim.is_block())?;
        Some(format!(
            "metadata.annotations.{}[{n}].pvc: PVC {}/{name} is a block device (volumeMode: Block), which has no files for a \
             hook sidecar; name a PVC with volumeMode Filesystem",
            hook::ANNOTATION,
            machine.namespace
        ))
    })
}

/// Resources of a sidecar, unless the settings have others. In a Guaranteed pod the requests equal the
/// limits, so the limits are low.
fn resources(config: &Config, guaranteed: bool) -> Value {
    let mut resources = json!({
        "requests": {"cpu": "10m", "memory": "32M", "ephemeral-storage": "1M"},
        "limits": {"cpu": "200m", "memory": if guaranteed { "64M" } else { "128M" }},
    });
    if let Some(said) = config.support.get(KIND) {
        cluster_model::plan::merge(&mut resources, said);
    }
    resources
}

#[cfg(test)]
mod tests {
    use crate::pod::tests::render;
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::Kind;
    use serde_json::{Value, json};

    fn pod(hooks: &Value, change: &Value, settings: Value) -> Value {
        let mut vmi =
            json!({"metadata": {"annotations": {"hooks.kubevirt.io/hookSidecars": hooks.to_string()}}});
        cluster_model::plan::merge(&mut vmi, change);
        render(vmi, settings, true)
    }

    fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
        let containers = pod["spec"]["containers"].as_array().unwrap();
        containers.iter().find(|container| container["name"] == name).unwrap()
    }

    #[test]
    fn a_sidecar_has_a_folder_of_its_own_its_script_and_its_pvc() {
        let hooks = json!([
            {"image": "example/smbios", "args": ["--version", "v1alpha2"], "downwardAPI": "device-info"},
            {"image": "example/shim", "imagePullPolicy": "Always", "command": ["/shim"],
             "configMap": {"name": "script", "key": "hook.sh", "hookPath": "/usr/bin/onDefineDomain"},
             "pvc": {"name": "tools", "volumePath": "/debug", "sharedComputePath": "/var/run/debug"}},
        ]);
        let pod = pod(&hooks, &json!({}), json!({}));
        let (first, second) = (container(&pod, "hook-sidecar-0"), container(&pod, "hook-sidecar-1"));
        assert_eq!(
            first["volumeMounts"],
            json!([
                {"name": "hook-sidecar-sockets", "mountPath": "/var/run/kubevirt-hooks", "subPath": "hook-sidecar-0"},
                {"name": "hook-sidecar-sockets", "mountPath": "/etc/podinfo", "subPath": "network-info", "readOnly": true},
            ])
        );
        assert_eq!((&first["args"][1], &first["command"]), (&json!("v1alpha2"), &Value::Null));
        assert_eq!(first["env"], json!([{"name": "CONTAINER_NAME", "value": "hook-sidecar-0"}]));
        assert_eq!(
            second["volumeMounts"],
            json!([
                {"name": "hook-sidecar-sockets", "mountPath": "/var/run/kubevirt-hooks", "subPath": "hook-sidecar-1"},
                {"name": "hook-sidecar-1-script", "mountPath": "/usr/bin/onDefineDomain", "subPath": "hook.sh", "readOnly": true},
                {"name": "hook-sidecar-1-pvc", "mountPath": "/debug"},
            ])
        );
        assert_eq!(
            (&second["image"], &second["imagePullPolicy"]),
            (&json!("example/shim"), &json!("Always"))
        );
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let script = volumes.iter().find(|volume| volume["name"] == "hook-sidecar-1-script").unwrap();
        assert_eq!(script["configMap"], json!({"name": "script", "defaultMode": 0o755}));
        let seen = container(&pod, "compute")["volumeMounts"].as_array().unwrap();
        for (name, path) in
            [("hook-sidecar-sockets", "/var/run/kubevirt-hooks"), ("hook-sidecar-1-pvc", "/var/run/debug")]
        {
            assert!(seen.contains(&json!({"name": name, "mountPath": path})), "{name}: {seen:?}");
        }
    }

    #[test]
    fn a_sidecar_is_told_of_its_pod_what_it_asks_for() {
        let hooks = json!([
            {"image": "a", "downwardAPI": "pod-info"},
            {"image": "b", "downwardAPI": ["device-info", "pod-info"]},
            {"image": "c"},
        ]);
        let pod = pod(&hooks, &json!({}), json!({}));
        let paths = |name: &str| -> Vec<String> {
            let mounts = container(&pod, name)["volumeMounts"].as_array().unwrap().iter().skip(1);
            mounts.map(|mount| format!("{} {}", mount["mountPath"], mount["readOnly"])).collect()
        };
        let metadata = r#""/var/run/kubevirt-private/downwardapi/podinfo" true"#;
        assert_eq!(paths("hook-sidecar-0"), [metadata]);
        assert_eq!(paths("hook-sidecar-1"), [r#""/etc/podinfo" true"#, metadata]);
        assert!(paths("hook-sidecar-2").is_empty());
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let shown: Vec<&Value> = volumes.iter().filter(|volume| volume["downwardAPI"].is_object()).collect();
        assert_eq!(
            shown,
            [&json!({"name": "hook-sidecar-podinfo", "downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}},
            ]}})]
        );
        let seen = container(&pod, "compute")["volumeMounts"].to_string();
        assert!(!seen.contains("podinfo"), "the launcher needs none of it: {seen}");
    }

    #[test]
    fn a_sidecar_has_fewer_rights_than_the_launcher_and_sees_nothing_of_it() {
        let pod = pod(&json!([{"image": "example/smbios"}]), &json!({}), json!({}));
        let context = &container(&pod, "hook-sidecar-0")["securityContext"];
        assert_eq!(
            *context,
            json!({
                "runAsUser": 107, "runAsGroup": 107, "runAsNonRoot": true, "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
            })
        );
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
        let none = render(json!({}), json!({}), true);
        assert!(
            !none.to_string().contains("hook-sidecar"),
            "a pod without sidecars has nothing of them: {none}"
        );
    }

    #[test]
    fn a_vmi_waits_for_the_pvc_of_a_sidecar_and_for_the_gate() {
        let mut sim = Sim::new();
        let mut object = vmi("web");
        let hooks = json!([{"image": "example/shim", "pvc": {"name": "tools", "volumePath": "/debug"}}]);
        object["metadata"]["annotations"] = json!({"hooks.kubevirt.io/hookSidecars": hooks.to_string()});
        let key = sim.put(Kind::VirtualMachineInstance, object);
        let claim = |mode: &str| {
            json!({
                "metadata": {"namespace": "n", "name": "tools"}, "spec": {"volumeMode": mode}, "status": {"phase": "Bound"},
            })
        };
        let told = |sim: &Sim| sim.condition(&key, "Synchronized").unwrap().2;
        sim.settle();
        assert_eq!(told(&sim), "PVC n/tools does not exist, waiting for it to appear");
        let block = sim.put(Kind::PersistentVolumeClaim, claim("Block"));
        sim.settle();
        assert!(told(&sim).contains("sidecar feature gate is not enabled"), "{}", told(&sim));
        let open = json!({"configuration": {"developerConfiguration": {"featureGates": ["Sidecar"]}}});
        let settings = json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": open});
        sim.world.put(Kind::KubeVirt, settings, sim.now);
        sim.settle();
        assert!(told(&sim).contains("hookSidecars[0].pvc: PVC n/tools is a block device"), "{}", told(&sim));
        sim.vanish(&block);
        sim.put(Kind::PersistentVolumeClaim, claim("Filesystem"));
        sim.settle();
        let pod = sim.pod_of(&key).expect("it is made now");
        assert_eq!(container(sim.get(&pod), "hook-sidecar-0")["volumeMounts"][1]["mountPath"], "/debug");
    }

    #[test]
    fn the_sidecar_of_a_binding_plugin_is_the_administrators_and_needs_no_gate() {
        let hooks = json!([{"image": "example/smbios"}]);
        let interfaces = json!({"interfaces": [{"name": "default", "binding": {"name": "vdpa"}}]});
        let networks = json!([{"name": "default", "pod": {}}]);
        let change = json!({"spec": {"domain": {"devices": interfaces}, "networks": networks}});
        let plugin = json!({"sidecarImage": "registry.example/vdpa:1", "downwardAPI": "device-info"});
        let settings = json!({"imagePullPolicy": "Always", "configuration": {
            "network": {"binding": {"vdpa": plugin}}, "developerConfiguration": {"featureGates": ["Sidecar"]},
        }});
        let pod = pod(&hooks, &change, settings);
        let own = container(&pod, "hook-sidecar-1");
        assert_eq!(
            (&own["image"], &own["securityContext"]["runAsUser"]),
            (&json!("registry.example/vdpa:1"), &json!(107))
        );
        let plugin = json!({"name": "NETWORK_BINDING_PLUGIN_NAME", "value": "vdpa"});
        assert_eq!(own["env"], json!([{"name": "CONTAINER_NAME", "value": "hook-sidecar-1"}, plugin]));
        let info = json!({"name": "hook-sidecar-sockets", "mountPath": "/etc/podinfo", "subPath": "network-info", "readOnly": true});
        assert_eq!(own["volumeMounts"][1], info);
        assert_eq!(container(&pod, "hook-sidecar-0")["volumeMounts"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_guaranteed_pod_stays_one_and_the_settings_say_other_amounts() {
        let hooks = json!([{"image": "example/smbios"}]);
        let own = json!({"spec": {"domain": {"cpu": {"cores": 1, "dedicatedCpuPlacement": true}}}});
        let sidecar = container(&pod(&hooks, &own, json!({})), "hook-sidecar-0")["resources"].clone();
        for name in ["cpu", "memory"] {
            assert_eq!(sidecar["requests"][name], sidecar["limits"][name], "{sidecar}");
        }
        let of = json!({"type": "sidecar", "resources": {"limits": {"memory": "1G"}}});
        let settings = json!({"configuration": {"supportContainerResources": [of]}});
        let large = pod(&hooks, &json!({}), settings);
        assert_eq!(container(&large, "hook-sidecar-0")["resources"]["limits"]["memory"], "1G");
    }
}
