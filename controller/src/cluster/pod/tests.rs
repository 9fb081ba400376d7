//! Pods, each compared with a file that is written by hand or by `UPDATE_GOLDEN=1` and read by people.

// A `json!` reads better where it is handed over than behind a `&`.
#![allow(clippy::needless_pass_by_value)]

use super::{Refusal, Surroundings, pod};
use crate::cluster::config::Config;
use crate::cluster::sim;
use crate::world::{Claim, Facts, Plain};
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn render(change: Value, settings: Value, image_volumes: bool) -> Result<Value, Refusal> {
    let mut object = sim::instance("web");
    object["metadata"]["uid"] = json!("5d307ca9-b3ef-428c-8861-06e72d69f223");
    crate::plan::merge(&mut object, &change);
    let mut vmi: VirtualMachineInstance = api::wire::read(object).unwrap();
    let config = Config::of(Some(&Plain { object: json!({"spec": settings}), ..Plain::default() }));
    api::defaults::apply(&mut vmi, &config.given(api::uuid::of_machine("web")));
    let machine = Machine::try_from(&vmi).unwrap();
    let facts = Facts { launcher_image: "registry.example/virt-launcher:1".into(), ..Facts::default() };
    let mut block = Claim::default();
    block.spec.volume_mode = Some("Block".into());
    let claims = BTreeMap::from([("files".to_owned(), Claim::default()), ("device".to_owned(), block)]);
    pod(&vmi, &machine, &Surroundings { config: &config, facts: &facts, image_volumes, claims: &claims })
}

fn golden(name: &str, pod: &Value) {
    let path = format!("{}/src/cluster/pod/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = format!("{}\n", serde_json::to_string_pretty(pod).unwrap());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, kept, "{path} differs; UPDATE_GOLDEN=1 writes it anew");
}

#[test]
fn a_small_machine() {
    golden("small", &render(json!({}), json!({}), true).unwrap());
}

#[test]
fn a_machine_with_everything() {
    let change = json!({
        "metadata": {"annotations": {"note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "spec": {
            "hostname": "guest", "subdomain": "lab", "priorityClassName": "high", "schedulerName": "own",
            "terminationGracePeriodSeconds": 180, "dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.1"]},
            "nodeSelector": {"disk": "fast"}, "serviceAccountName": "web",
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
            "affinity": {"nodeAffinity": {}},
            "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5},
            "accessCredentials": [{"sshPublicKey": {"source": {"secret": {"secretName": "keys"}}, "propagationMethod": {"noCloud": {}}}}],
            "domain": {
                "cpu": {"cores": 2, "model": "Haswell", "features": [{"name": "avx2", "policy": "require"}]},
                "memory": {"guest": "2Gi"},
                "resources": {"limits": {"memory": "3Gi", "cpu": "2"}},
                "devices": {
                    "autoattachPodInterface": null,
                    "interfaces": [{"name": "default", "masquerade": {}}],
                    "disks": [
                        {"name": "root", "disk": {"bus": "virtio"}}, {"name": "private", "disk": {"bus": "virtio"}},
                        {"name": "device", "disk": {"bus": "virtio"}}, {"name": "host", "disk": {"bus": "virtio"}},
                        {"name": "seed", "disk": {"bus": "sata"}}, {"name": "conf", "disk": {"bus": "sata"}},
                    ],
                },
            },
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [
                {"name": "conf", "configMap": {"name": "conf", "optional": true}},
                {"name": "root", "containerDisk": {"image": "registry.example/os:1", "imagePullPolicy": "Always", "imagePullSecret": "login"}},
                {"name": "private", "persistentVolumeClaim": {"claimName": "files"}},
                {"name": "device", "persistentVolumeClaim": {"claimName": "device"}},
                {"name": "host", "hostDisk": {"path": "/data/disks/a.img", "type": "DiskOrCreate", "capacity": "1Gi"}},
                {"name": "seed", "cloudInitNoCloud": {"secretRef": {"name": "user-data"}}},
            ],
        },
    });
    golden("everything", &render(change, json!({"imagePullSecrets": [{"name": "all"}]}), true).unwrap());
}

#[test]
fn a_machine_of_huge_pages_under_emulation() {
    let change = json!({"spec": {"domain": {"memory": {"hugepages": {"pageSize": "2Mi"}}}}});
    let settings = json!({"configuration": {
        "additionalGuestMemoryOverheadRatio": "1.5",
        "developerConfiguration": {"useEmulation": true, "cpuAllocationRatio": 1},
        "seccompConfiguration": {"virtualMachineInstanceProfile": {"customProfile": {"runtimeDefaultProfile": true}}},
    }});
    golden("emulated", &render(change, settings, true).unwrap());
}

#[test]
fn the_same_machine_has_the_same_pod() {
    let pods = [render(json!({}), json!({}), true), render(json!({}), json!({}), true)];
    assert_eq!(pods[0], pods[1]);
}

#[test]
fn what_no_pod_can_do_yet_is_refused_by_name() {
    let refusal = |change, settings, images| render(change, settings, images).unwrap_err().0;
    let gate =
        json!({"configuration": {"developerConfiguration": {"disabledFeatureGates": ["ImageVolume"]}}});
    assert!(refusal(json!({}), gate, false).contains("the feature gate ImageVolume is switched off"));
    assert!(refusal(json!({}), json!({}), false).contains("registry.example/os:1 cannot be mounted: a node"));
    let probe = json!({"spec": {"readinessProbe": {"guestAgentPing": {}}}});
    assert_eq!(refusal(probe, json!({}), true), "spec.readinessProbe.guestAgentPing: not supported yet");
}
