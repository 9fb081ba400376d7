//! Pods, each compared with a file that is written by hand or by `UPDATE_GOLDEN=1` and read by people.

// A `json!` reads better where it is handed over than behind a `&`.
#![allow(clippy::needless_pass_by_value)]

mod class;
mod placement;

use super::{AutomaticLimits, Surroundings, pod};
use crate::sim;
use api::machine::{Machine, Settings};
use api::vmi::VirtualMachineInstance;
use cluster_model::config::Config;
use cluster_model::launcher::{CAPABILITIES, USER, VOLUMES};
use cluster_model::objects::{ClusterFacts, PersistentVolumeClaim};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn render(change: Value, settings: Value, image_volumes: bool) -> Value {
    limited(change, settings, image_volumes, AutomaticLimits::default())
}

fn limited(change: Value, settings: Value, image_volumes: bool, limits: AutomaticLimits) -> Value {
    let mut object = sim::vmi("web");
    object["metadata"]["uid"] = json!("5d307ca9-b3ef-428c-8861-06e72d69f223");
    cluster_model::plan::merge(&mut object, &change);
    let mut vmi: VirtualMachineInstance = api::wire::read(object).unwrap();
    let config = Config::from_kubevirt(Some(&json!({"spec": settings.clone()})));
    api::defaults::apply(&mut vmi, &config.defaults_context(api::uuid::of_vm("web")));
    // Plugins are registered there.
    let registers = settings["configuration"]["network"]["binding"].is_object();
    let settings = Settings::of_cluster(&json!({"spec": settings}));
    let machine = if registers {
        Machine::check(&vmi, &settings).unwrap()
    } else {
        Machine::check_again(&vmi).unwrap()
    };
    let facts =
        ClusterFacts { launcher_image: "registry.example/virt-launcher:1".into(), ..ClusterFacts::default() };
    let mut block = PersistentVolumeClaim::default();
    block.spec.volume_mode = Some("Block".into());
    let mut files = PersistentVolumeClaim::default();
    files.status.capacity = [("storage".to_owned(), api::quantity::Quantity::parse("4Gi").unwrap())].into();
    let claims = BTreeMap::from([("files".to_owned(), files), ("device".to_owned(), block)]);
    let state = machine.keeps_state().then_some("persistent-state-for-web-x7k2p");
    let receives = None;
    let around = Surroundings {
        config: &config,
        facts: &facts,
        image_volumes,
        claims: &claims,
        state,
        limits,
        receives,
    };
    pod(&vmi, &machine, &around)
}

fn golden(name: &str, pod: &Value) {
    let path = format!("{}/src/pod/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = format!("{}\n", serde_json::to_string_pretty(pod).unwrap());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, kept, "{path} differs; UPDATE_GOLDEN=1 writes it anew");
}

#[test]
fn a_small_vmi() {
    golden("small", &render(json!({}), json!({}), true));
}

#[test]
fn memory_above_its_limit_is_a_pod_that_kubernetes_takes() {
    let limits = |guest: &str| {
        let resources = json!({"limits": {"memory": "64Mi"}});
        let change = json!({"spec": {"domain": {"memory": {"guest": guest}, "resources": resources}}});
        let pod = render(change, json!({}), true);
        let compute = &pod["spec"]["containers"][0]["resources"];
        let bytes = |list: &str| compute[list]["memory"].as_str().unwrap().parse::<u64>().unwrap();
        (bytes("requests"), bytes("limits"))
    };
    let (request, limit) = limits("512Mi");
    assert_eq!(request, limit, "no request is above its limit");
    let (_, smaller) = limits("64Mi");
    // What runs beside a larger guest is more; the guest itself is held to what the spec says.
    assert!(smaller < limit && limit < 512 << 20, "{smaller} {limit}");
}

#[test]
fn a_drive_without_a_disc_needs_no_volume() {
    let disks = json!([{"name": "drive", "cdrom": {"bus": "sata"}}]);
    let pod =
        render(json!({"spec": {"domain": {"devices": {"disks": disks}}, "volumes": []}}), json!({}), true);
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    assert!(volumes.iter().all(|volume| volume["name"] != "drive"), "{volumes:?}");
}

#[test]
fn nobody_leads_a_vmi_to_a_node_without_an_agent() {
    let asked = json!({"kubevirt.io/schedulable": "false", "kubernetes.io/arch": "other", "disk": "fast"});
    let pod = render(json!({"spec": {"nodeSelector": asked}}), json!({}), true);
    let found = &pod["spec"]["nodeSelector"];
    assert_eq!(found["kubevirt.io/schedulable"], "true");
    assert_eq!(found["kubernetes.io/arch"], "amd64");
    assert_eq!(found["disk"], "fast");
}

#[test]
fn a_vmi_with_everything() {
    let change = json!({
        "metadata": {"labels": {"batch.kubernetes.io/job-name": "left out", "kubevirt.io/migrationJobUID": "left out"}, "annotations": {"note": "passed on", "io.kubernetes.cri-o.Devices": "left out", "prometheus.io/port": "9100", "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
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
    golden("everything", &render(change, json!({"imagePullSecrets": [{"name": "all"}]}), true));
}

fn filesystems() -> Value {
    let volume = |name: &str, kind: &str, source: Value| json!({"name": name, kind: source});
    let labels = json!({"fields": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]});
    let account = json!({"serviceAccountName": "builder"});
    json!({
        "spec": {
            "domain": {"devices": {
                "disks": [
                    {"name": "facts", "disk": {"bus": "virtio"}}, {"name": "account", "disk": {"bus": "virtio"}},
                ],
                "filesystems": [
                    {"name": "files", "virtiofs": {}}, {"name": "kept", "virtiofs": {}},
                    {"name": "conf", "virtiofs": {}}, {"name": "keys", "virtiofs": {}},
                    {"name": "injected", "virtiofs": {}},
                ],
            }},
            "volumes": [
                volume("files", "persistentVolumeClaim", json!({"claimName": "files"})),
                volume("kept", "persistentVolumeClaim", json!({"claimName": "files", "readOnly": true})),
                volume("conf", "configMap", json!({"name": "conf"})),
                volume("keys", "secret", json!({"secretName": "keys", "optional": true})),
                volume("injected", "containerPath", json!({"path": "/var/run/secrets/mesh"})),
                volume("facts", "downwardAPI", labels),
                volume("account", "serviceAccount", account),
            ],
        },
    })
}

#[test]
fn a_vmi_with_file_systems_and_a_service_account() {
    let pod = render(filesystems(), json!({}), true);
    golden("filesystems", &pod);
    assert_eq!(pod["spec"]["serviceAccountName"], "builder");
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let mounts = |name: &str| {
        let found = containers.iter().find(|container| container["name"] == name).unwrap();
        found["volumeMounts"].as_array().unwrap().clone()
    };
    // What is shared is seen by the container that serves it alone, and a token by the launcher alone.
    let compute = mounts("compute");
    for name in ["files", "kept", "conf", "keys"] {
        assert!(compute.iter().all(|mount| mount["name"] != name), "{name}");
        let own = mounts(&format!("virtiofs-{name}"));
        assert_eq!(own.len(), 2, "{own:?}");
        let command = containers.iter().find(|one| one["name"] == format!("virtiofs-{name}")).unwrap();
        let command = command["command"].to_string();
        assert_eq!(command.contains("--readonly"), name != "files", "{name}: {command}");
        assert_eq!(own[1]["readOnly"] == true, name != "files", "{name}");
    }
    assert_eq!(mounts("virtiofs-injected").len(), 1, "it sees what was put into it");
    let with_token = containers.iter().filter(|one| one["volumeMounts"].to_string().contains("\"account\""));
    assert_eq!(with_token.count(), 1);
    // virt-handler finds the sockets by the pod alone.
    let mut pod = pod;
    pod["metadata"]["uid"] = json!("7d307ca9-b3ef-428c-8861-06e72d69f223");
    let layout = ::virt_handler::pod::Layout::parse(&::virt_handler::pod::Pod::read(&pod).unwrap()).unwrap();
    assert_eq!(layout.filesystems.keys().collect::<Vec<_>>(), ["conf", "files", "injected", "kept", "keys"]);
    assert_eq!(layout.filesystems["conf"], "/var/run/kubevirt/virtiofs-containers/conf.sock");
}

#[test]
fn what_a_file_system_asks_for_is_said_by_the_settings() {
    let of = json!({"type": "virtiofs", "resources": {"limits": {"memory": "200M"}}});
    let settings = json!({"configuration": {"supportContainerResources": [of]}});
    let pod = render(filesystems(), settings, true);
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let files = containers.iter().find(|container| container["name"] == "virtiofs-files").unwrap();
    assert_eq!(files["resources"]["limits"], json!({"cpu": "1", "memory": "200M"}));
    assert_eq!(files["resources"]["requests"]["memory"], "40M");
}

#[test]
fn a_windows_guest() {
    let hyperv = json!({
        "relaxed": {}, "vapic": {}, "spinlocks": {"spinlocks": 8191}, "vpindex": {}, "runtime": {}, "synic": {},
        "synictimer": {"direct": {}}, "reset": {}, "frequencies": {}, "reenlightenment": {}, "tlbflush": {},
        "ipi": {}, "evmcs": {},
    });
    let domain = json!({
        "features": {"hyperv": hyperv, "smm": {}},
        "firmware": {"bootloader": {"efi": {"secureBoot": true, "persistent": true}}},
        "devices": {"tpm": {"persistent": true}},
    });
    golden("windows", &render(json!({"spec": {"domain": domain}}), json!({}), true));
}

/// Enlightenments are KVM's: where there is none, a VMI runs without them.
#[test]
fn an_emulated_guest_asks_no_node_for_enlightenments() {
    let features = json!({"hyperv": {"vpindex": {}, "evmcs": {}}});
    let settings = json!({"configuration": {"developerConfiguration": {"useEmulation": true}}});
    let pod = render(json!({"spec": {"domain": {"features": features}}}), settings, true);
    let selector = pod["spec"]["nodeSelector"].to_string();
    assert!(!selector.contains("hyperv") && !selector.contains("Intel"), "{selector}");
}

#[test]
fn a_vmi_of_huge_pages_under_emulation() {
    let change = json!({"spec": {"domain": {"memory": {"hugepages": {"pageSize": "2Mi"}}}}});
    let settings = json!({"configuration": {
        "additionalGuestMemoryOverheadRatio": "1.5",
        "developerConfiguration": {"useEmulation": true, "cpuAllocationRatio": 1},
        "seccompConfiguration": {"virtualMachineInstanceProfile": {"customProfile": {"runtimeDefaultProfile": true}}},
    }});
    golden("emulated", &render(change, settings, true));
}

#[test]
fn a_vmi_on_networks_of_multus() {
    let interfaces = json!([
        {"name": "red", "bridge": {}}, {"name": "default", "masquerade": {}},
        {"name": "blue", "bridge": {}, "macAddress": "02-00-00-00-00-2A"},
    ]);
    let networks = json!([
        {"name": "default", "pod": {}}, {"name": "blue", "multus": {"networkName": "lan"}},
        {"name": "red", "multus": {"networkName": "shared/wan"}},
    ]);
    let devices = json!({"autoattachPodInterface": null, "interfaces": interfaces});
    let pod =
        render(json!({"spec": {"domain": {"devices": devices}, "networks": networks}}), json!({}), true);
    let wanted: Value =
        serde_json::from_str(pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].as_str().unwrap())
            .unwrap();
    let cards = json!([
        {"name": "wan", "namespace": "shared", "interface": "podb1f51a511f1"},
        {"name": "lan", "namespace": "n", "interface": "pod16477688c0e", "mac": "02:00:00:00:00:2a"},
    ]);
    assert_eq!(wanted, cards, "in the order of the interfaces");
    assert!(pod["metadata"]["annotations"]["v1.multus-cni.io/default-network"].is_null());
    golden("networks", &pod);
}

#[test]
fn a_network_in_place_of_the_clusters_is_named_with_its_namespace() {
    let notes = |written: &str| {
        let devices = json!({"autoattachPodInterface": null, "interfaces": [{"name": "blue", "bridge": {}}]});
        let networks = json!([{"name": "blue", "multus": {"networkName": written, "default": true}}]);
        let spec = json!({"domain": {"devices": devices}, "networks": networks});
        // What somebody writes on the VMI itself does not go on.
        let meta = json!({"annotations": {"v1.multus-cni.io/default-network": "kube-system/any", "k8s.v1.cni.cncf.io/networks": "any"}});
        render(json!({"metadata": meta, "spec": spec}), json!({}), true)["metadata"]["annotations"].clone()
    };
    for (written, wanted) in [("lan", "n/lan"), ("shared/lan", "shared/lan")] {
        let notes = notes(written);
        assert_eq!(notes["v1.multus-cni.io/default-network"], wanted);
        assert!(notes["k8s.v1.cni.cncf.io/networks"].is_null());
    }
}

#[test]
fn the_same_vmi_has_the_same_pod() {
    let pods = [render(json!({}), json!({}), true), render(json!({}), json!({}), true)];
    assert_eq!(pods[0], pods[1]);
}

/// Two images and a kernel, whose names are as long as they may be.
fn images() -> Value {
    let long = "d".repeat(63);
    json!({
        "spec": {
            "domain": {
                "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}, {"name": long, "disk": {"bus": "sata"}}]},
                "firmware": {"kernelBoot": {
                    "kernelArgs": "quiet",
                    "container": {"image": "registry.example/kernel:1", "kernelPath": "/boot/vmlinuz", "initrdPath": "/boot/initrd"},
                }},
            },
            "volumes": [
                {"name": "keys", "emptyDisk": {"capacity": "1Gi"}},
                {"name": "root", "containerDisk": {"image": "registry.example/os:1", "imagePullPolicy": "Always", "imagePullSecret": "login"}},
                {"name": long, "containerDisk": {"image": "registry.example/data:1", "path": "/disk/a.img"}},
            ],
        },
    })
}

#[test]
fn images_that_are_mounted() {
    golden("images-mounted", &render(images(), json!({}), true));
}

#[test]
fn images_that_containers_hold_out() {
    let pod = render(images(), json!({"imagePullPolicy": "IfNotPresent"}), false);
    golden("images-beside", &pod);
    for container in pod["spec"]["containers"].as_array().unwrap() {
        assert!(container["name"].as_str().unwrap().len() <= 63);
    }
    // virt-handler finds them there by the pod alone.
    let layout = |mut pod: Value| {
        pod["metadata"]["uid"] = json!("7d307ca9-b3ef-428c-8861-06e72d69f223");
        ::virt_handler::pod::Layout::parse(&::virt_handler::pod::Pod::read(&pod).unwrap()).unwrap()
    };
    let beside = layout(pod.clone()).beside;
    assert_eq!(beside.keys().collect::<Vec<_>>(), ["disk_1", "disk_2", "kernel-boot"]);
    assert!(beside.values().all(|beside| beside.socket.volume == "container-disks"));
    // Whoever gets into the container of an image has no folder in common with the launcher.
    assert!(!pod["spec"]["containers"][0]["volumeMounts"].to_string().contains("container-disks"));
    let mounted = layout(render(images(), json!({}), true));
    assert!(mounted.beside.is_empty() && mounted.kernel.is_some());
}

#[test]
fn what_the_guest_says_is_shown_unless_somebody_does_not_want_it() {
    let shows = |devices: Value, settings: Value| {
        let pod = render(json!({"spec": {"domain": {"devices": devices}}}), settings, true);
        let containers = pod["spec"]["containers"].as_array().unwrap();
        let found = containers.iter().find(|container| container["name"] == "guest-console-log");
        let compute = &containers[0];
        found.inspect(|log| {
            assert_eq!(log["image"], compute["image"]);
            assert_eq!(log["imagePullPolicy"], compute["imagePullPolicy"]);
            assert!(log["volumeMounts"].as_array().unwrap().iter().all(|mount| mount["readOnly"] == true));
        });
        assert_eq!(compute["name"], "compute", "it comes after who runs the VMI");
        found.is_some()
    };
    let off = || json!({"configuration": {"virtualMachineOptions": {"disableSerialConsoleLog": {}}}});
    let always = || json!({"configuration": {"imagePullPolicy": "Always"}});
    assert!(shows(json!({}), json!({})) && shows(json!({}), always()));
    assert!(!shows(json!({}), off()));
    // The VMI's own word holds, whatever the settings say.
    assert!(shows(json!({"logSerialConsole": true}), off()));
    assert!(!shows(json!({"logSerialConsole": false}), json!({})));
    assert!(!shows(json!({"autoattachSerialConsole": false}), json!({})));
}

#[test]
fn the_settings_say_what_small_containers_ask_for() {
    let of = |kind: &str| json!({"type": kind, "resources": {"requests": {"memory": "5M"}, "limits": {"cpu": "1"}}});
    let settings = json!({"configuration": {"supportContainerResources": [of("guest-console-log"), of("container-disk"), {}]}});
    let pod = render(json!({}), settings, false);
    let containers = pod["spec"]["containers"].as_array().unwrap().iter().skip(1);
    let others: Vec<&Value> = containers.chain(pod["spec"]["initContainers"].as_array().unwrap()).collect();
    assert_eq!(others.len(), 3);
    for other in others {
        let expected = json!({
            "requests": {"cpu": "1m", "memory": "5M", "ephemeral-storage": "50M"},
            "limits": {"cpu": "1", "memory": "40M"},
        });
        assert_eq!(other["resources"], expected, "{}", other["name"]);
    }
}

#[test]
fn what_asks_the_guest_itself_is_carried_there() {
    let probes = json!({"spec": {
        "readinessProbe": {"guestAgentPing": {}, "periodSeconds": 3},
        "livenessProbe": {"exec": {"command": ["cat", "--ping"]}, "timeoutSeconds": 5},
    }});
    let pod = render(probes, json!({}), true);
    let compute = &pod["spec"]["containers"][0];
    let words = |probe: &str| {
        let words = compute[probe]["exec"]["command"].as_array().unwrap();
        words.iter().map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    let ask = "/usr/bin/virt-launcher probe --socket /var/run/kubevirt/sockets/launcher-sock --timeout";
    assert_eq!(words("readinessProbe"), format!("{ask} 1 --ping"));
    assert_eq!(words("livenessProbe"), format!("{ask} 5 -- cat --ping"));
    assert_eq!(compute["readinessProbe"]["timeoutSeconds"], 2);
    assert_eq!(compute["livenessProbe"]["timeoutSeconds"], 6);
    let memory = |pod: &Value| -> u64 {
        pod["spec"]["containers"][0]["resources"]["requests"]["memory"].as_str().unwrap().parse().unwrap()
    };
    assert_eq!(memory(&pod) - memory(&render(json!({}), json!({}), true)), 2 * (16 << 20));
}

/// The API server holds virt-controller to the form of its pods (`install/admission/controller.rs`), by these constants.
#[test]
fn every_pod_has_the_form_that_the_policy_asks_for() {
    let folder = format!("{}/src/pod/golden", env!("CARGO_MANIFEST_DIR"));
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let pod: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let (file, spec) = (file.display(), &pod["spec"]);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let context = &spec["securityContext"];
        for field in ["runAsUser", "runAsGroup", "fsGroup"] {
            assert_eq!(context[field], USER, "{file}: {field}");
        }
        assert_eq!(context["runAsNonRoot"], true, "{file}");
        assert!(context["supplementalGroups"].is_null(), "{file}");
        assert_eq!(spec["automountServiceAccountToken"], false, "{file}");
        for field in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(spec[field].is_null(), "{file}: {field}");
        }
        for volume in list(&spec["volumes"]) {
            let keys = volume.as_object().unwrap().keys().map(String::as_str);
            let strange: Vec<_> = keys.filter(|key| *key != "name" && !VOLUMES.contains(key)).collect();
            assert!(strange.is_empty(), "{file}: {strange:?}");
        }
        for container in [list(&spec["containers"]), list(&spec["initContainers"])].concat() {
            let (name, context) = (&container["name"], &container["securityContext"]);
            assert!(context["privileged"].is_null(), "{file}: {name}");
            assert_eq!(context["allowPrivilegeEscalation"], false, "{file}: {name}");
            assert_eq!(context["runAsUser"], USER, "{file}: {name}");
            assert_eq!(context["runAsGroup"], USER, "{file}: {name}");
            assert_eq!(context["runAsNonRoot"], true, "{file}: {name}");
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{file}: {name}");
            for added in list(&context["capabilities"]["add"]) {
                assert!(CAPABILITIES.iter().any(|one| added == **one), "{file}: {name}: {added}");
            }
        }
    }
}

#[test]
fn ports_of_interfaces_are_the_containers() {
    let ports = json!([{"name": "web", "port": 80}, {"port": 53, "protocol": "UDP"}, {"port": 80}]);
    let devices = json!({"interfaces": [{"name": "default", "masquerade": {}, "ports": ports}]});
    let networks = json!([{"name": "default", "pod": {}}]);
    let pod =
        render(json!({"spec": {"domain": {"devices": devices}, "networks": networks}}), json!({}), true);
    assert_eq!(
        pod["spec"]["containers"][0]["ports"],
        json!([
            {"name": "web", "containerPort": 80, "protocol": "TCP"},
            {"containerPort": 53, "protocol": "UDP"},
        ])
    );
}

#[test]
fn a_backup_program_freezes_the_guest_unless_somebody_does_not_want_it() {
    let hooks = |vmi: Value, kubevirt: Value| {
        let mut object = sim::vmi("web");
        cluster_model::plan::merge(&mut object, &json!({"metadata": {"annotations": vmi}}));
        let mut vmi: VirtualMachineInstance = api::wire::read(object).unwrap();
        let object = json!({"metadata": {"annotations": kubevirt}});
        let config = Config::from_kubevirt(Some(&object));
        api::defaults::apply(&mut vmi, &config.defaults_context(api::uuid::of_vm("web")));
        let notes = super::labels::annotations(&vmi, &Machine::check_again(&vmi).unwrap(), &config);
        notes.into_iter().filter(|(key, _)| key.contains("velero")).collect::<BTreeMap<_, _>>()
    };
    let all = hooks(json!({}), json!({}));
    assert_eq!(all["pre.hook.backup.velero.io/container"], "compute");
    assert!(all["pre.hook.backup.velero.io/command"].contains(r#""freeze","--socket""#), "{all:?}");
    assert!(all["post.hook.backup.velero.io/command"].contains(r#""thaw","--socket""#), "{all:?}");
    let skip = || json!({"kubevirt.io/skip-backup-hooks": "true"});
    assert!(hooks(skip(), json!({})).is_empty() && hooks(json!({}), skip()).is_empty());
    // Nobody has a command of their own run by it.
    let own = json!({"pre.hook.backup.velero.io/command": "[\"/bin/evil\"]"});
    assert_eq!(hooks(own, json!({})), all);
}
