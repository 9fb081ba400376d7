//! Replica sets, pools, the installation, and hostile objects.

use super::base::*;
use crate::rules::{AdmissionResponse, Operation, Request, RequestContext, judge};
use api::preset::VirtualMachineInstancePreset;
use cluster_model::webhooks::WEBHOOKS;
use proptest::prelude::*;
use serde_json::{Value, json};

const SETS: &str = "/virtualmachinereplicaset-validate";
const PRESETS: &str = "/vmipreset-validate";
const FILLED: &str = "/virtualmachineinstances-mutate";
const POOLS: &str = "/virtualmachinepool-validate";
const MADE: &str = "/kubevirt-validate-create";
const CHANGED: &str = "/kubevirt-validate-update";
const DELETED: &str = "/kubevirt-validate-delete";

fn set_of() -> Value {
    json!({
        "metadata": {"namespace": "n", "name": "many"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec()},
        },
    })
}

fn messages(answer: &AdmissionResponse) -> Vec<String> {
    told(answer).into_iter().map(|(_, message)| message).collect()
}

#[test]
fn a_replica_set_finds_what_it_makes() {
    assert_eq!(messages(&ask(SETS, &create(set_of()), &context())), Vec::<String>::new());
    for (pointer, value, message) in [
        ("/spec/template", json!(null), "missing virtual machine template."),
        ("/spec/template/metadata/labels", json!({"app": "db"}), "selector does not match labels."),
        ("/spec/selector", json!({}), "selector does not match labels."),
        ("/spec/template/spec/domain/devices/disks/0/disk/bus", json!("ide"), "IDE bus is not supported"),
    ] {
        let mut object = set_of();
        set(&mut object, pointer, value);
        assert_eq!(messages(&ask(SETS, &create(object), &context())), [message], "{pointer}");
    }
    let mut other = set_of();
    set(&mut other, "/spec/selector/matchLabels/tier", json!("a"));
    set(&mut other, "/spec/template/metadata/labels/tier", json!("a"));
    assert_eq!(
        messages(&ask(SETS, &update(set_of(), other), &context())),
        ["selector is immutable after creation."]
    );
    let mut bad = set_of();
    set(&mut bad, "/spec/selector", json!({}));
    let mut scaled = bad.clone();
    set(&mut scaled, "/spec/replicas", json!(5));
    assert_eq!(messages(&ask(SETS, &update(bad, scaled), &context())), Vec::<String>::new());
}

fn pool() -> Value {
    let vm = json!({"metadata": {"labels": {"app": "web"}}, "spec": vm()["spec"]});
    json!({
        "metadata": {"namespace": "n", "name": "many"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "virtualMachineTemplate": vm},
    })
}

#[test]
fn a_pool_is_judged_as_the_vm_that_it_makes() {
    assert_eq!(ask(POOLS, &create(pool()), &context()), AdmissionResponse::yes());
    let at = "/spec/virtualMachineTemplate";
    for (pointer, value, field, message) in [
        (at.to_owned(), json!(null), "spec.virtualMachineTemplate", "missing virtual machine template."),
        (
            format!("{at}/metadata/labels"),
            json!({"app": "db"}),
            "spec.selector",
            "selector does not match labels.",
        ),
        (
            format!("{at}/spec/template/spec/domain/devices/disks/0/disk/bus"),
            json!("ide"),
            "spec.virtualMachineTemplate.spec.template.spec.domain.devices.disks[0].disk.bus",
            "IDE bus is not supported",
        ),
        (
            format!("{at}/spec/runStrategy"),
            json!("Never"),
            "spec.virtualMachineTemplate.spec.runStrategy",
            "Invalid RunStrategy (Never)",
        ),
        (
            "/spec/scaleInStrategy/proactive/statePreservation".to_owned(),
            json!("Offline"),
            "spec.scaleInStrategy.proactive.statePreservation",
            "not supported yet",
        ),
    ] {
        let mut object = pool();
        set(&mut object, &pointer, value);
        let told = told(&ask(POOLS, &create(object), &context()));
        let [(where_, what)] = &told[..] else { panic!("{pointer}: {told:?}") };
        assert_eq!(where_, field);
        assert!(what.contains(message), "{what}");
    }
    let mut other = pool();
    set(&mut other, "/spec/selector/matchLabels/tier", json!("a"));
    set(&mut other, "/spec/virtualMachineTemplate/metadata/labels/tier", json!("a"));
    assert_eq!(
        messages(&ask(POOLS, &update(pool(), other), &context())),
        ["selector is immutable after creation."]
    );
    // An invalid pool may still be scaled.
    let mut bad = pool();
    set(&mut bad, "/spec/selector", json!({}));
    let mut scaled = bad.clone();
    set(&mut scaled, "/spec/replicas", json!(5));
    assert_eq!(messages(&ask(POOLS, &update(bad, scaled), &context())), Vec::<String>::new());
}

#[test]
fn the_vm_of_a_pool_names_what_it_does_not_get() {
    let mut object = pool();
    set(
        &mut object,
        "/spec/virtualMachineTemplate/metadata/annotations",
        json!({"kubevirt.io/fencing": "off"}),
    );
    let notes = json!({"k8s.v1.cni.cncf.io/networks": "a"});
    set(&mut object, "/spec/virtualMachineTemplate/spec/template/metadata/annotations", notes);
    let answer = ask(POOLS, &create(object), &context());
    assert_eq!(answer.faults, []);
    assert_eq!(
        answer.warnings,
        [
            "spec.virtualMachineTemplate.metadata.annotations: the VMs do not get kubevirt.io/fencing",
            "spec.virtualMachineTemplate.spec.template.metadata.annotations: the launcher pod of the VMI does not get \
             k8s.v1.cni.cncf.io/networks",
        ]
    );
}

fn preset(name: &str, domain: &Value) -> Value {
    let selector = json!({"matchLabels": {"app": "web"}});
    json!({"metadata": {"namespace": "n", "name": name}, "spec": {"selector": selector, "domain": domain}})
}

#[test]
fn a_preset_names_what_no_vmi_gets_of_it() {
    let memory = preset("a", &json!({"cpu": {"cores": 2}, "memory": {"guest": "1Gi"}}));
    let answer = ask(PRESETS, &create(memory), &context());
    assert_eq!(answer.faults, []);
    assert_eq!(answer.warnings, ["spec.domain.memory: no effect in a preset, set it in the VMI"]);
    let none = preset("a", &Value::Null);
    assert_eq!(messages(&ask(PRESETS, &create(none), &context())), ["missing domain."]);
}

#[test]
fn a_new_vmi_gets_its_presets_and_one_with_two_that_differ_is_refused() {
    let read = |name, cores| {
        api::wire::read::<VirtualMachineInstancePreset>(preset(name, &json!({"cpu": {"cores": cores}})))
            .unwrap()
    };
    let mut object = vmi();
    set(&mut object, "/metadata/labels", json!({"app": "web"}));
    let one = RequestContext { presets: vec![read("two", 2)], ..context() };
    let answer = ask(FILLED, &create(object.clone()), &one);
    assert_eq!(answer.warnings, [api::preset::DEPRECATED]);
    let made = changed(FILLED, &create(object.clone()), &one);
    assert_eq!(made["spec"]["domain"]["cpu"]["cores"], 2);
    assert_eq!(made["metadata"]["annotations"]["virtualmachinepreset.kubevirt.io/two"], "kubevirt.io/v1");
    // A completed VMI is unchanged by a second call, without warnings.
    assert_eq!(ask(FILLED, &create(made), &one), AdmissionResponse::yes());
    let both = RequestContext { presets: vec![read("two", 2), read("four", 4)], ..context() };
    let told = messages(&ask(FILLED, &create(object), &both));
    assert!(told[0].starts_with("VirtualMachinePresets cannot be applied due to conflicts"), "{told:?}");
}

#[test]
fn settings_say_something() {
    let object =
        |spec: Value| json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": spec});
    for (spec, expected) in [
        (json!({}), ""),
        (json!({"configuration": {"network": {"defaultNetworkInterface": "masquerade"}}}), ""),
        (
            json!({"configuration": {"network": {"defaultNetworkInterface": "slirp"}}}),
            "spec.configuration.network.defaultNetworkInterface is set with an unrecognized option: slirp (bridge or masquerade)",
        ),
        (
            json!({"configuration": {"additionalGuestMemoryOverheadRatio": "much"}}),
            "spec.configuration.additionalGuestMemoryOverheadRatio must be a number from 0 to 100, not \"much\"",
        ),
        (
            json!({"configuration": {"developerConfiguration": {"memoryOvercommit": -1}}}),
            "spec.configuration.developerConfiguration.memoryOvercommit must be greater than 0, not -1",
        ),
        (
            json!({"configuration": {"developerConfiguration": {"cpuAllocationRatio": 0}}}),
            "spec.configuration.developerConfiguration.cpuAllocationRatio must be greater than 0, not 0",
        ),
        (
            json!({"configuration": {"developerConfiguration": {"pvcTolerateLessSpaceUpToPercent": 101}}}),
            "spec.configuration.developerConfiguration.pvcTolerateLessSpaceUpToPercent must be from 0 to 100, not 101",
        ),
        (json!({"configuration": {"smbios": {"family": "a"}, "memBalloonStatsPeriod": 0}}), ""),
        (
            json!({"configuration": {"smbios": {"family": "a\u{0}"}}}),
            "spec.configuration.smbios.family must not contain control characters",
        ),
        (
            json!({"configuration": {"architectureConfiguration": {"amd64": {"ovmfPath": "usr/share/OVMF"}}}}),
            "spec.configuration.architectureConfiguration.amd64.ovmfPath must be the path of a directory from the root, \
             without `.` and `..`",
        ),
        (
            json!({"configuration": {"memBalloonStatsPeriod": 4_294_967_295_u32}}),
            "spec.configuration.memBalloonStatsPeriod must be no more than 2147483647",
        ),
        (
            json!({"configuration": {"virtualMachineInstancesPerNode": 0}}),
            "spec.configuration.virtualMachineInstancesPerNode must be greater than 0, not 0",
        ),
        (json!({"configuration": {"tlsConfiguration": {"minTLSVersion": "VersionTLS13"}}}), ""),
        (
            json!({"configuration": {"tlsConfiguration": {"minTLSVersion": "VersionTLS14"}}}),
            "spec.configuration.tlsConfiguration.minTLSVersion is set with an unrecognized option: VersionTLS14 \
             (VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13)",
        ),
        (
            json!({"configuration": {"tlsConfiguration": {
                "minTLSVersion": "VersionTLS12", "ciphers": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
            }}}),
            "",
        ),
        (
            json!({"configuration": {"tlsConfiguration": {
                "minTLSVersion": "VersionTLS13", "ciphers": ["ECDHE-RSA-AES128-GCM-SHA256"],
            }}}),
            "You cannot specify ciphers when spec.configuration.tlsConfiguration.minTLSVersion is empty or VersionTLS13",
        ),
        (
            json!({"configuration": {"tlsConfiguration": {
                "minTLSVersion": "VersionTLS12", "ciphers": ["ECDHE-RSA-AES128-GCM-SHA256", "strong!"],
            }}}),
            "strong! is not a valid cipher",
        ),
        (
            json!({"configuration": {"tlsConfiguration": {
                "minTLSVersion": "VersionTLS12", "ciphers": ["TLS_RSA_WITH_AES_128_CBC_SHA"],
            }}}),
            "none of the ciphers is supported by the servers, which support those with ECDHE and AES-GCM or \
             ChaCha20-Poly1305",
        ),
        (
            json!({"configuration": {"webhookConfiguration": {"restClient": {"rateLimiter": {
                "tokenBucketRateLimiter": {"qps": 0, "burst": 1},
            }}}}}),
            "spec.configuration.webhookConfiguration.restClient.rateLimiter.tokenBucketRateLimiter.qps must be at least 1",
        ),
        (
            json!({"configuration": {"controllerConfiguration": {"restClient": {"rateLimiter": {
                "tokenBucketRateLimiter": {"qps": 1e-9, "burst": 1},
            }}}}}),
            "spec.configuration.controllerConfiguration.restClient.rateLimiter.tokenBucketRateLimiter.qps must be at least 1",
        ),
        (
            json!({"configuration": {"handlerConfiguration": {"restClient": {"rateLimiter": {
                "tokenBucketRateLimiter": {"qps": 1.5, "burst": 0},
            }}}}}),
            "spec.configuration.handlerConfiguration.restClient.rateLimiter.tokenBucketRateLimiter.burst must be at least 1",
        ),
        (
            json!({"certificateRotateStrategy": {"selfSigned": {"ca": {"duration": "48h"}, "server": {"duration": "72h"}}}}),
            "spec.certificateRotateStrategy.selfSigned.server.duration must be no longer than \
             spec.certificateRotateStrategy.selfSigned.ca.duration",
        ),
        (
            json!({"certificateRotateStrategy": {"selfSigned": {"ca": {"duration": "48h", "renewBefore": "48h"}}}}),
            "spec.certificateRotateStrategy.selfSigned.ca.renewBefore must be shorter than \
             spec.certificateRotateStrategy.selfSigned.ca.duration",
        ),
        (json!({"infra": {"replicas": 0}}), "spec.infra.replicas must be from 1 to 100, not 0"),
        (json!({"infra": {"replicas": 101}}), "spec.infra.replicas must be from 1 to 100, not 101"),
        (
            json!({"workloadUpdateStrategy": {"batchEvictionSize": -1}}),
            "spec.workloadUpdateStrategy.batchEvictionSize must be 0, which evicts none, or greater, not -1",
        ),
        (
            json!({"uninstallStrategy": "Never"}),
            "spec.uninstallStrategy is set with an unrecognized option: Never (RemoveWorkloads or \
             BlockUninstallIfWorkloadsExist)",
        ),
    ] {
        for request in [
            (MADE, create(object(spec.clone()))),
            (CHANGED, update(object(json!({"a": 1})), object(spec.clone()))),
        ] {
            let answer = ask(request.0, &request.1, &context());
            assert_eq!(messages(&answer).join("|"), expected, "{spec}");
        }
    }
}

#[test]
fn a_setting_without_effect_is_warned_of() {
    let object =
        |spec: Value| json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": spec});
    let set = json!({"configuration": {
        "vmRolloutStrategy": "LiveUpdate", "cpuModel": "host-model",
        "migrations": {"parallelMigrationsPerCluster": 5, "allowPostCopy": true},
    }});
    for (path, request) in
        [(MADE, create(object(set.clone()))), (CHANGED, update(object(json!({})), object(set.clone())))]
    {
        let answer = ask(path, &request, &context());
        assert_eq!(answer.faults, []);
        assert_eq!(
            answer.warnings,
            [
                "spec.configuration.migrations.allowPostCopy: no effect, there is no post-copy yet; where it is allowed, the guest is paused when the time is over",
                "spec.configuration.vmRolloutStrategy: no effect, \"LiveUpdate\" is not supported; supported are Stage",
            ]
        );
    }
    for strategy in ["None", "LiveMigrate", "LiveMigrateIfPossible", "External"] {
        let served =
            object(json!({"configuration": {"evictionStrategy": strategy, "cpuModel": "host-model"}}));
        assert_eq!(ask(MADE, &create(served), &context()), AdmissionResponse::yes(), "{strategy}");
    }
}

#[test]
fn ciphers_that_are_not_spoken_are_told() {
    let tls = json!({"minTLSVersion": "VersionTLS11", "ciphers": [
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_AES_128_GCM_SHA256",
    ]});
    let object = json!({
        "metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": {"configuration": {"tlsConfiguration": tls}},
    });
    let answer = ask(MADE, &create(object), &context());
    assert_eq!(answer.faults, []);
    let at = "spec.configuration.tlsConfiguration";
    let (others, notes) = answer.warnings.split_at(2);
    let begins =
        |name: &str| format!("{at}.ciphers: no effect, {name:?} is not supported; supported are TLS_ECDHE_");
    assert!(others[0].starts_with(&begins("TLS_RSA_WITH_AES_128_CBC_SHA")), "{}", others[0]);
    assert!(others[1].starts_with(&begins("TLS_AES_128_GCM_SHA256")), "{}", others[1]);
    assert_eq!(
        notes,
        [
            format!(
                "{at}.ciphers: the certificates of the servers have ECDSA keys, and no cipher for them is here: only TLS \
                 1.3 is spoken"
            ),
            format!("{at}.minTLSVersion: the servers still require TLS 1.2 or newer"),
        ]
    );
}

#[test]
fn what_would_break_a_component_is_refused_when_it_is_written() {
    let object =
        |spec: Value| json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": spec});
    let patch = |kind: &str, text: &str| json!({"resourceName": "virt-api", "resourceType": "Deployment", "type": kind, "patch": text});
    let answer = |spec: Value| ask(MADE, &create(object(spec)), &context());
    let fine = json!({
        "productVersion": "1.2.3", "productName": "shop",
        "customizeComponents": {
            "patches": [
                patch("merge", r#"{"spec": {"replicas": 3}}"#),
                patch("strategic", r#"{"spec": {}}"#),
                patch("json", r#"[{"op": "replace", "path": "/spec/replicas", "value": 3}]"#),
            ],
            "flags": {"controller": {"poll-any-address": ""}},
        },
    });
    assert_eq!(answer(fine), AdmissionResponse::yes());
    let at = "spec.customizeComponents";
    for (said, field, why) in [
        (json!({"patches": [patch("merge", "{")]}), format!("{at}.patches[0].patch"), "is not JSON"),
        (
            json!({"patches": [patch("json", "{}")]}),
            format!("{at}.patches[0].patch"),
            "is not a list of operations",
        ),
        (
            json!({"patches": [patch("yaml", "{}")]}),
            format!("{at}.patches[0].patch"),
            "is of the type \"yaml\"",
        ),
        (
            json!({"flags": {"api": {"v": "5"}}}),
            format!("{at}.flags.api"),
            "does not know the argument \"v\"",
        ),
        (
            json!({"flags": {"handler": {"node-name": "other"}}}),
            format!("{at}.flags.handler"),
            "is set by its manifest",
        ),
    ] {
        let answer = answer(json!({"customizeComponents": said}));
        assert_eq!(answer.faults.len(), 1, "{answer:?}");
        assert_eq!(answer.faults[0].field, field);
        assert!(answer.faults[0].message.contains(why), "{:?}", answer.faults);
    }
    assert_eq!(answer(json!({"productVersion": "1.2.3+4"})).faults[0].field, "spec.productVersion");
    // Other kinds come from the manifests only: a warning, not a refusal.
    let service =
        json!({"resourceName": "virt-api", "resourceType": "Service", "type": "merge", "patch": "{}"});
    let answer = answer(json!({"customizeComponents": {"patches": [service]}}));
    assert_eq!(answer.faults, []);
    assert!(
        answer.warnings[0].starts_with("spec.customizeComponents.patches[0]: no effect, "),
        "{:?}",
        answer.warnings
    );
}

#[test]
fn there_is_one_installation() {
    let object = json!({"metadata": {"namespace": "kubevirt", "name": "second"}, "spec": {}});
    let one = RequestContext { installations: vec![("kubevirt".into(), "kubevirt".into())], ..context() };
    let told = messages(&ask(MADE, &create(object.clone()), &one));
    assert_eq!(told, ["KubeVirt is already created: kubevirt/kubevirt; a cluster has one"]);
    assert_eq!(messages(&ask(MADE, &create(object), &context())), Vec::<String>::new());
}

/// virt-controller would say of it that it has no effect. It is no reason against the object of the installation.
#[test]
fn a_kubevirt_object_outside_of_the_namespace_of_the_installation_is_refused() {
    let object =
        |namespace: &str| json!({"metadata": {"namespace": namespace, "name": "kubevirt"}, "spec": {}});
    let known = |namespace: &str| RequestContext {
        installations: vec![(namespace.into(), "kubevirt".into())],
        ..context()
    };
    for context in [context(), known("kubevirt"), known("other")] {
        let answer = ask(MADE, &create(object("other")), &context);
        let why = "virt-controller reads the KubeVirt object of the namespace kubevirt alone";
        assert_eq!(messages(&answer), [format!("{why} (create it in the namespace kubevirt)")]);
    }
    assert_eq!(ask(MADE, &create(object("kubevirt")), &known("other")), AdmissionResponse::yes());
    // One that exists may be changed, and is warned of.
    let mut changed = object("other");
    changed["spec"] = json!({"uninstallStrategy": "RemoveWorkloads"});
    let answer = ask(CHANGED, &update(object("other"), changed), &known("other"));
    assert_eq!(answer.faults, []);
    assert!(answer.warnings[0].starts_with("this object has no effect"), "{:?}", answer.warnings);
}

/// It holds no VM.
#[test]
fn a_kubevirt_object_outside_of_the_namespace_of_the_installation_goes_at_once() {
    let left = RequestContext { left: Some("Virtual Machines"), ..context() };
    let old = json!({"spec": {"uninstallStrategy": "BlockUninstallIfWorkloadsExist"}});
    let request = |namespace: &str| Request {
        operation: Operation::Delete,
        namespace: namespace.into(),
        old: old.clone(),
        ..create(Value::Null)
    };
    assert!(ask(DELETED, &request("other"), &left).faults.is_empty());
    assert!(!ask(DELETED, &request("kubevirt"), &left).faults.is_empty());
}

#[test]
fn an_installation_goes_when_it_may() {
    let request = |strategy: &str| Request {
        operation: Operation::Delete,
        namespace: "kubevirt".into(),
        old: json!({"spec": {"uninstallStrategy": strategy}}),
        ..create(Value::Null)
    };
    let left = RequestContext { left: Some("Virtual Machines"), ..context() };
    let told = messages(&ask(DELETED, &request("BlockUninstallIfWorkloadsExist"), &left));
    assert_eq!(
        told,
        [
            "Rejecting the uninstall request, since there are still Virtual Machines present. Either delete all KubeVirt \
          related workloads or change the uninstall strategy before uninstalling KubeVirt."
        ]
    );
    assert_eq!(told.len(), 1);
    assert!(ask(DELETED, &request("RemoveWorkloads"), &left).faults.is_empty());
    assert!(ask(DELETED, &request("BlockUninstallIfWorkloadsExist"), &context()).faults.is_empty());
}

/// Odd values for a part of an object.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        Just(json!([null, {}, 7])),
        Just(json!(-1)),
        Just(json!(1e300)),
        Just(json!(u64::MAX)),
        Just(json!("")),
        Just(json!("\u{0}é🦀")),
        Just(json!("9".repeat(5000))),
        Just(json!({"": {"": {"~/": []}}})),
    ]
}

fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                pointers(value, &format!("{at}/{}", name.replace('/', "~1")), found);
            }
        }
        Value::Array(list) => {
            for (i, value) in list.iter().enumerate() {
                pointers(value, &format!("{at}/{i}"), found);
            }
        }
        _ => {}
    }
}

proptest! {
    /// Every webhook answers every object, and its patch applies to the object.
    #[test]
    fn every_object_has_an_answer(
        hook in 0..WEBHOOKS.len(),
        which in 0..3_usize,
        spoilt in prop::collection::vec((any::<prop::sample::Index>(), odd()), 0..4),
        operation in prop::sample::select(vec![Operation::Create, Operation::Update]),
    ) {
        let sound = [vm(), vmi(), set_of()][which].clone();
        let mut object = sound.clone();
        for (index, value) in spoilt {
            let mut all = Vec::new();
            pointers(&object, "", &mut all);
            *object.pointer_mut(&all[index.index(all.len())]).unwrap() = value;
        }
        for (old, new) in [(sound.clone(), object.clone()), (object, sound)] {
            let request = Request { operation, ..update(old, new) };
            let answer = judge(&WEBHOOKS[hook], &request, &context());
            if answer.faults.is_empty() {
                kit::json_patch(request.object.clone(), &answer.patch).unwrap();
            }
            answer.write(&request);
        }
    }
}
