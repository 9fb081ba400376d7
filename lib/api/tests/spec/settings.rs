//! The KubeVirt object, the CDI object, the CDIConfig and MigrationPolicy: every field of a schema stands in the list of what becomes of each, once,
//! and `docs/reference/kubevirt.md` and `cdi.md` are made from the lists; `UPDATE_GOLDEN=1` writes them anew.

use crate::base::{base, check, set};
use crate::inventory::{Inventory, Kind};
use api::cdi::served as cdi;
use api::kubevirt::served::{FIELDS, Served, Unserved, entry, entry_of, unserved};
use api::machine::{Binding, Settings};
use api::migration_policy::served as policy;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Every field that holds no other, with a sample of what it holds.
fn leaves(name: &str, at: &str, leaves: &mut Vec<(String, Value)>) {
    let inventory = Inventory::read();
    for field in inventory.fields(name) {
        let here = format!("{at}{}", field.name);
        match &field.kind {
            Kind::Struct(inner) if !inventory.fields(inner).is_empty() => {
                self::leaves(inner, &format!("{here}."), leaves);
            }
            kind => leaves.push((here, inventory.value(kind))),
        }
    }
}

fn all() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    leaves("KubeVirtSpec", "", &mut all);
    assert!(all.len() > 120, "{}", all.len());
    all
}

type List = &'static [(&'static str, Served)];
/// An object, its list, the fields that it is about, and how an object is asked for those without an effect.
type About = (&'static str, List, Vec<(String, Value)>, fn(&Value) -> Vec<Unserved>);

pub(crate) fn lists() -> Vec<About> {
    let of = |name: &str| {
        let mut all = Vec::new();
        leaves(name, "", &mut all);
        all
    };
    let mut installation = of("cdi.CDISpec");
    installation.retain(|(leaf, _)| !leaf.starts_with("config."));
    vec![
        ("KubeVirtSpec", FIELDS, all(), unserved),
        ("CDISpec", cdi::FIELDS, installation, cdi::unserved),
        ("CDIConfigSpec", cdi::CONFIG_FIELDS, of("cdi.CDIConfigSpec"), cdi::unserved_config),
        ("MigrationPolicySpec", policy::FIELDS, of("MigrationPolicySpec"), policy::unserved),
    ]
}

#[test]
fn every_field_of_the_settings_is_in_its_list_once() {
    let mut problems = Vec::new();
    for (_, list, all, _) in lists() {
        let mut used = BTreeSet::new();
        for (leaf, _) in all {
            match entry_of(list, &leaf) {
                Some((field, _)) => drop(used.insert(*field)),
                None => problems.push(format!("{leaf}: nothing is said of it")),
            }
        }
        for (field, _) in list {
            if !used.contains(field) {
                problems.push(format!("{field} is in the list for nothing"));
            }
            let others =
                list.iter().filter(|(other, _)| other == field || other.starts_with(&format!("{field}.")));
            if others.count() != 1 {
                problems.push(format!("{field} is spoken of twice"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(entry("imageTag").is_some());
}

#[test]
fn a_field_that_is_set_is_named_where_it_has_no_effect() {
    for (_, list, all, unserved) in lists() {
        for (leaf, sample) in all {
            let (field, served) = entry_of(list, &leaf).unwrap();
            let mut object = json!({});
            set(&mut object, &format!("spec.{leaf}"), sample);
            let named: Vec<String> = unserved(&object).into_iter().map(|found| found.field).collect();
            match served {
                // A sample of the schema selects nothing: see below.
                Served::Yes if leaf.starts_with("configuration.permittedHostDevices.") => {}
                // Some fields of a plugin have none, and some patches: see below.
                Served::Yes
                    if ["configuration.network.binding", "customizeComponents.patches"].contains(&&*leaf) => {
                }
                Served::Yes => assert_eq!(named, [""; 0], "{leaf}"),
                Served::No(_) => assert_eq!(named, [format!("spec.{field}")], "{leaf}"),
                Served::Entries(key, known) => {
                    for (value, count) in [(known[0], 0), ("other", 1)] {
                        set(&mut object, &format!("spec.{field}"), json!([{*key: value}]));
                        assert_eq!(unserved(&object).len(), count, "{object}");
                    }
                }
                Served::Values(known) => {
                    for (value, count) in [(known[0], 0), ("Other", 1)] {
                        let list = leaf.ends_with("Gates");
                        let value = if list { json!([value]) } else { json!(value) };
                        set(&mut object, &format!("spec.{leaf}"), value);
                        assert_eq!(unserved(&object).len(), count, "{object}");
                    }
                }
            }
        }
    }
}

#[test]
fn entries_that_permit_no_device_are_named() {
    let permitted = json!({
        "pciHostDevices": [
            {"pciVendorSelector": "10de:1eb8", "resourceName": "vendor.example/gpu"},
            {"pciVendorSelector": "10de:1eb8", "resourceName": "memory"},
        ],
        "mediatedDevices": [{"resourceName": "vendor.example/vgpu"}],
        "usb": [{"resourceName": "vendor.example/desk", "selectors": []}],
    });
    let object = json!({"spec": {"configuration": {"permittedHostDevices": permitted}}});
    let named: Vec<String> = unserved(&object).into_iter().map(|found| found.field).collect();
    let wanted = ["pciHostDevices[1]", "mediatedDevices[0]", "usb[0]"];
    assert_eq!(named, wanted.map(|entry| format!("spec.configuration.permittedHostDevices.{entry}")));
}

#[test]
fn fields_of_a_network_binding_plugin_without_an_effect_are_named_with_the_plugin() {
    let plugins = json!({
        "macvtap": {
            "domainAttachmentType": "tap", "networkAttachmentDefinition": "macvtap",
            "computeResourceOverhead": {"requests": {"memory": "50Mi"}, "limits": {"memory": "50Mi"}},
        },
        "passt": {"sidecarImage": "registry.example/passt", "migration": {}, "downwardAPI": "device-info"},
    });
    let object = json!({"spec": {"configuration": {"network": {"binding": plugins}}}});
    let named: Vec<String> = unserved(&object).into_iter().map(|found| found.field).collect();
    let wanted = ["macvtap.computeResourceOverhead.limits", "passt.migration"];
    assert_eq!(named, wanted.map(|field| format!("spec.configuration.network.binding.{field}")));
}

#[test]
fn a_patch_for_an_object_that_stays_as_it_is_is_named() {
    let patch = |kind: &str, name: &str| json!({"resourceType": kind, "resourceName": name, "type": "merge", "patch": "{}"});
    let patches = [
        patch("Deployment", "virt-api"),
        patch("daemonset", "*"),
        patch("Service", "virt-api"),
        patch("Deployment", "virt-operator"),
        json!({"resourceName": 7}),
    ];
    let object = json!({"spec": {"customizeComponents": {"patches": patches}}});
    let named: Vec<String> = unserved(&object).into_iter().map(|found| found.field).collect();
    assert_eq!(named, [2, 3, 4].map(|at| format!("spec.customizeComponents.patches[{at}]")));
}

#[test]
fn a_plugin_attaches_an_interface_or_the_reason_is_said() {
    let plugins = json!({
        "macvtap": {"domainAttachmentType": "tap", "networkAttachmentDefinition": "shared/macvtap"},
        "passt": {"sidecarImage": "registry.example/passt"},
        "both": {"domainAttachmentType": "tap", "sidecarImage": "registry.example/both", "downwardAPI": "device-info"},
        "none": {"networkAttachmentDefinition": "none"},
    });
    let cluster =
        Settings::of_cluster(&json!({"spec": {"configuration": {"network": {"binding": plugins}}}}));
    let judged = |name: &str, settings: &Settings| {
        let mut object = base();
        let interface = json!({"name": "net", "binding": {"name": name}});
        set(&mut object, "spec.domain.devices.interfaces[0]", interface);
        check(&object, settings).map(|machine| machine.interfaces[0].clone()).map_err(|faults| {
            let [fault] = faults.try_into().unwrap();
            [Some(fault.to_string()), fault.hint].into_iter().flatten().collect::<Vec<_>>().join(" ")
        })
    };
    let made = judged("macvtap", &cluster).unwrap();
    assert_eq!(made.binding, Binding::Tap);
    assert_eq!(made.plugin.unwrap().definition.as_deref(), Some("shared/macvtap"));
    // The sidecar of each plugin comes once, and writes the interface where nothing else attaches it.
    let mut object = base();
    for (n, name) in ["passt", "both", "passt"].into_iter().enumerate() {
        let network = format!("net{n}");
        let interface = json!({"name": network, "binding": {"name": name}});
        set(&mut object, &format!("spec.domain.devices.interfaces[{n}]"), interface);
        let network = json!({"name": network, "multus": {"networkName": "lan"}});
        set(&mut object, &format!("spec.networks[{n}]"), network);
    }
    let made = check(&object, &cluster).unwrap();
    let bindings: Vec<Binding> = made.interfaces.iter().map(|interface| interface.binding).collect();
    assert_eq!(bindings, [Binding::Sidecar, Binding::Tap, Binding::Sidecar]);
    let sidecars: Vec<_> = made
        .hooks
        .iter()
        .map(|hook| (hook.plugin.as_deref(), hook.image.as_str(), hook.device_info))
        .collect();
    let both = (Some("both"), "registry.example/both", true);
    assert_eq!(sidecars, [(Some("passt"), "registry.example/passt", false), both]);
    let at = "spec.domain.devices.interfaces[0].binding";
    for (name, wanted) in [
        ("none", format!("{at}: the network binding plugin 'none' would give the guest no interface: ")),
        (
            "other",
            format!("{at}.name: unable to find the network binding plugin 'other' in Kubevirt configuration"),
        ),
    ] {
        let said = judged(name, &cluster).unwrap_err();
        assert!(said.starts_with(&wanted), "{said}");
    }
    // As manifests for older versions have it.
    let said = judged("passt", &Settings::of_cluster(&json!({}))).unwrap_err();
    assert!(said.contains("plugin 'passt'") && said.contains("write passtBinding: {}"), "{said}");
    assert!(
        judged("macvtap", &Settings::of_laptop())
            .unwrap_err()
            .starts_with(&format!("{at}: not supported yet"))
    );
    // Whoever is handed one does not know the plugins, and has its link.
    assert_eq!(judged("other", &Settings::of_checked()).unwrap().plugin.unwrap().name, "other");
}

#[test]
fn the_settings_in_a_cdi_object_are_named_where_they_stand() {
    let object = json!({"spec": {"priorityClass": "p", "config": {"scratchSpaceStorageClass": "s", "preallocation": true}}});
    let named: Vec<String> = cdi::unserved(&object).into_iter().map(|found| found.field).collect();
    assert_eq!(named, ["spec.priorityClass", "spec.config.scratchSpaceStorageClass"]);
}

#[test]
fn what_holds_anyway_is_not_named() {
    let object = json!({"spec": {
        "infra": {"replicas": null}, "imageTag": "", "productName": null,
        "configuration": {
            "migrations": {"allowPostCopy": false}, "supportedGuestAgentVersions": [],
            "commonInstancetypesDeployment": {"enabled": false},
        },
    }});
    assert_eq!(unserved(&object), []);
    assert_eq!(unserved(&Value::Null), []);
    assert_eq!(unserved(&json!({"spec": {"configuration": "a"}})), []);
    let told: Vec<String> = unserved(&json!({"spec": {"configuration": {
        "developerConfiguration": {"featureGates": ["HostDisk", "x".repeat(5000), ""], "disabledFeatureGates": ["DeclarativeHotplugVolumes"]},
        "evictionStrategy": "Run",
        "network": {"permitSlirpInterface": true},
    }}}))
    .iter()
    .map(ToString::to_string)
    .collect();
    assert_eq!(
        told,
        [
            format!(
                "spec.configuration.developerConfiguration.featureGates: no effect, {:?} is not supported; supported are \
                 DownwardMetrics, GPUsWithDRA, HostDevices, HostDevicesWithDRA, HostDisk, ImageVolume, PasstBinding, \
                 RebootPolicy, Sidecar, VSOCK",
                "x".repeat(64)
            ),
            "spec.configuration.network.permitSlirpInterface: no effect, deprecated, and without effect in KubeVirt too"
                .to_owned(),
            "spec.configuration.evictionStrategy: no effect, \"Run\" is not supported; supported are None, LiveMigrate, \
             LiveMigrateIfPossible, External"
                .to_owned(),
        ]
    );
}

#[test]
fn the_documents_of_the_settings_are_the_lists() {
    let of_cdi = format!("{}{CONFIG_HEAD}{}", table(CDI_HEAD, cdi::FIELDS), table("", cdi::CONFIG_FIELDS));
    for (name, expected) in [("kubevirt", table(HEAD, FIELDS)), ("cdi", of_cdi)] {
        let path = format!("{}/../../docs/reference/{name}.md", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == expected,
            "docs/reference/{name}.md is not the list: UPDATE_GOLDEN=1 writes it anew"
        );
    }
}

fn table(head: &str, list: List) -> String {
    let mut text = String::from(head);
    for (field, served) in list {
        let says = match served {
            Served::Yes => "served".to_owned(),
            Served::Values(known) => format!("served: `{}`; a warning for others", known.join("`, `")),
            Served::Entries(key, known) => {
                format!("served of the {key}s `{}`; a warning for others", known.join("`, `"))
            }
            Served::No(why) => format!("a warning: {why}"),
        };
        writeln!(text, "| `{field}` | {says} |").unwrap();
    }
    text
}

const HEAD: &str = "# What becomes of each field of the KubeVirt object

A KubeVirt object that was written for upstream is accepted. A field of `spec` that is set and has no effect is never
passed over in silence: virt-api answers with a warning that names it, and virt-controller keeps the condition
`SettingsServed` on the object `False`, with these fields and the reasons in its message, until none is left. A value that
holds anyway (`false`, an empty text, an empty list) is not named; nor is a field that the schema does not know, of which
virt-api warns as unknown.

Settings of the control plane take effect without a restart: `tlsConfiguration` for connections that begin (worker pods of CDI speak
TLS 1.3 alone, whatever is said), `logVerbosity` for the log (0 to 2: `info`; 3, 4: `debug`; from 5: `trace`, of our own words;
unset: `CORACLE_LOG` of the container, or `info`), the `tokenBucketRateLimiter`s for every request but the renewal of a Lease,
the heartbeat of a node and the watch of the KubeVirt object (at least one request a second; unset: no limit). Settings of VMIs
take effect with their next start.

Some settings are annotations of the object, since clients of upstream take fields out that they do not know:
`kubevirt.io/machine-types` ([machine types of other distributions](../how-to/settings.md#machine-types-of-rhel-and-ubuntu)) and
`kubevirt.io/pod-annotations`. The latter is `pass` (the default) or `strict`. With `pass`, all annotations of a VMI are copied
to its launcher pod except those of a closed list. With `strict`, only the annotations of an allow-list are copied: that is for clusters
whose tenants may create VMIs and no pods ([which annotations](metadata.md)). An entry of these that
does not hold as it is written is named by `SettingsServed`.

The annotation `kubevirt.io/host-disk-folders` has the folders of nodes in which the file of a `hostDisk` may lie, with commas between
several; none unless it is there. In each of them a namespace has the folder of its name: `FOLDER/NAMESPACE/web.img`
([files of nodes](../how-to/storage.md#a-file-of-a-node-as-a-disk)). These folders, those below them and those above them are never permitted:
`/bin`, `/boot`, `/dev`, `/etc`, `/home`, `/lib`, `/lib32`, `/lib64`, `/libx32`, `/opt/cni`, `/proc`, `/root`, `/run`, `/sbin`, `/sys`,
`/tmp`, `/usr`, `/var/lib/calico`, `/var/lib/cni`, `/var/lib/containerd`, `/var/lib/containers`, `/var/lib/crio`, `/var/lib/docker`,
`/var/lib/etcd`, `/var/lib/k0s`, `/var/lib/kubelet`, `/var/lib/kubevirt-node-labeller`, `/var/lib/rancher`, `/var/lib/systemd`,
`/var/log`, `/var/run`, `/var/snap`, `/var/spool`.

The annotation `kubevirt.io/eviction-hard` has the eviction thresholds of the kubelets, in the words of their flag, where virt-handler cannot
read them ([when the disk of a node fills](../how-to/nodes.md#when-the-disk-of-a-node-fills)).

Feature gates whose feature is enabled here without one (`DataVolumes`, `CPUManager`, `NUMA` and others of older guides) are accepted
silently; of one whose feature does not exist yet the warning says why. Settings of the ConfigMap `kubevirt-config`, as KubeVirt up to
0.35 had it, are [written into fields that are unset](../how-to/from-kubevirt.md#walk-an-older-guide).

`customizeComponents.patches` change the Deployments `virt-controller`, `virt-api` and `cdi-uploadproxy` and the DaemonSet
`virt-handler`: of `spec` replicas, `strategy`, `updateStrategy`, `minReadySeconds`, `progressDeadlineSeconds` and
`revisionHistoryLimit`; of the pods `affinity`, `nodeSelector`, `tolerations`, `topologySpreadConstraints`, `imagePullSecrets`,
`priorityClassName`, `terminationGracePeriodSeconds` and the `resources` of containers; of both labels and annotations without a
domain, or with `app.kubernetes.io`, `cluster-autoscaler.kubernetes.io` or `prometheus.io`. A patch that changes anything else is
left out as a whole, and the condition `Synchronized` says why: who writes this object does not say what runs in a privileged pod.
Left out, too, is a patch after which no pod of virt-controller would stay while others are made (`strategy.type: Recreate`, or a
`maxUnavailable` of all replicas): nobody would be there to undo it.
A patch is applied to what the manifests say, and goes without a trace. `customizeComponents.flags` knows one argument,
`poll-any-address` of virt-controller; any other is refused, since a program that does not know an argument does not start.

The list is code (`lib/api/src/kubevirt/served.rs`); a test walks the schema and fails on a field that is not in it,
and writes this table. An entry is about all fields below it.

| field of `spec` | what becomes of it |
|---|---|
";

const CDI_HEAD: &str = "# What becomes of each field of the CDI object and of the CDIConfig

A CDI object (`kind: CDI`, `cdi.kubevirt.io/v1beta1`) that was written for upstream is accepted. A field of `spec` that is set and
has no effect is never passed over in silence: virt-api answers with a warning that names it, and virt-controller keeps the condition `SettingsServed` of the CDI
object `False`, with these fields and the reasons in its message, until none is left.

The lists are code (`lib/api/src/cdi/served.rs`); a test walks the schemas and fails on a field that is not in them, and
writes these tables. An entry is about all fields below it. How the object behaves: [cdi.md](../how-to/cdi.md).

| field of `spec` of a CDI object | what becomes of it |
|---|---|
";

const CONFIG_HEAD: &str = "
The settings of imports, uploads and clones are the `spec` of the CDIConfig `config`. Where the CDI object has `spec.config`, or the
annotation `cdi.kubevirt.io/configAuthority`, they are what stands there, and what is written to the CDIConfig is taken back.

| field of `spec` of a CDIConfig, and of `spec.config` of a CDI object | what becomes of it |
|---|---|
";
