//! VMs: defaults and faults.

use super::base::*;
use serde_json::{Value, json};

const MUTATE: &str = "/virtualmachines-mutate";
const VALIDATE: &str = "/virtualmachines-validate";

/// Changes of a VM, and the resulting faults.
const WRONG: &[(&str, &str, &str, &str)] = &[
    ("/spec/template", "null", "spec.template", "missing virtual machine template."),
    ("/spec/runStrategy", "null", "spec.running", "RunStrategy must be specified"),
    (
        "/spec/running",
        "true",
        "spec.running",
        "Running and RunStrategy are mutually exclusive. Note that Running is deprecated, please use RunStrategy instead",
    ),
    ("/spec/runStrategy", r#""Often""#, "spec.runStrategy", "Invalid RunStrategy (Often)"),
    (
        "/spec/runStrategy",
        r#""WaitAsReceiver""#,
        "spec.runStrategy",
        "Invalid RunStrategy (WaitAsReceiver), migration between clusters is not supported yet",
    ),
    (
        "/spec/template/spec/evictionStrategy",
        r#""Run""#,
        "spec.template.spec.evictionStrategy",
        "spec.template.spec.evictionStrategy is set with an unrecognized option: Run",
    ),
    (
        "/spec/template/spec/volumes/0",
        r#"{"name": "root", "dataVolume": {"name": "a", "hotpluggable": true}}"#,
        "spec.template.spec.volumes[0].dataVolume.hotpluggable",
        "spec.template.spec.volumes[0].dataVolume.hotpluggable is not supported yet (leave it out: a volume stays until \
         the VMI stops)",
    ),
    (
        "/spec/preference",
        r#"{"name": "a"}"#,
        "spec.preference",
        "Failure to find preference: virtualmachineclusterpreferences.instancetype.kubevirt.io \"a\" not found",
    ),
    (
        "/spec/instancetype",
        r#"{"name": "a"}"#,
        "spec.instancetype",
        "Failure to find instancetype: virtualmachineclusterinstancetypes.instancetype.kubevirt.io \"a\" not found",
    ),
    (
        "/spec/updateVolumesStrategy",
        r#""Migrate""#,
        "spec.updateVolumesStrategy",
        "updateVolumes strategy not recognized: Migrate",
    ),
    (
        "/spec/template/spec/domain/memory",
        "null",
        "spec.template.spec.domain.memory",
        "no memory requested, at least one of 'spec.template.spec.domain.memory.guest', \
         'spec.template.spec.domain.memory.hugepages.pageSize' or 'spec.template.spec.domain.resources.requests.memory' \
         must be set",
    ),
    (
        "/spec/template/spec/domain/devices/disks/0/disk/bus",
        r#""ide""#,
        "spec.template.spec.domain.devices.disks[0].disk.bus",
        "IDE bus is not supported",
    ),
    (
        "/spec/template/spec/domain/devices/disks/1",
        r#"{"name": "lost"}"#,
        "spec.template.spec.domain.devices.disks[1].name",
        "spec.template.spec.domain.devices.disks[1].Name 'lost' not found.",
    ),
    (
        "/spec/template/spec/domain/machine",
        r#"{"type": "pc"}"#,
        "spec.template.spec.domain.machine.type",
        "spec.template.spec.domain.machine.type is not supported: pc (allowed values: [q35* pc-q35*])",
    ),
    (
        "/spec/template/spec/volumes/0/containerDisk/path",
        r#""/""#,
        "spec.template.spec.volumes[0].containerDisk.path",
        "spec.template.spec.volumes[0].containerDisk must not point to root",
    ),
    (
        "/spec/template/spec/volumes/1",
        r#"{"name": "host", "hostDisk": {"path": "/a", "type": "Disk"}}"#,
        "spec.template.spec.volumes[1]",
        "HostDisk feature gate is not enabled",
    ),
    (
        "/spec/template/spec/domain/launchSecurity",
        r#"{"sev": {}}"#,
        "spec.template.spec.domain.launchSecurity",
        "spec.template.spec.domain.launchSecurity is not supported yet (encrypted guests need processors with SEV, SEV-SNP or \
         TDX, and are not tested on any yet)",
    ),
    (
        "/spec/template/spec/domain/devices/disks",
        r#""two""#,
        "spec.template.spec.domain.devices.disks",
        r#"spec.template.spec.domain.devices.disks must be a list, not the text "two""#,
    ),
    (
        "/spec/template/metadata/labels/kubevirt.io~1nodeName",
        r#""node1""#,
        "spec.template.metadata.labels",
        "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited",
    ),
    (
        "/spec/template/metadata/annotations/hooks.kubevirt.io~1hookSidecars",
        r#""[]""#,
        "spec.template.metadata.annotations",
        "sidecar feature gate is not enabled in kubevirt-config, invalid entry \
         spec.template.metadata.annotations.hooks.kubevirt.io/hookSidecars",
    ),
    (
        "/spec/dataVolumeTemplates",
        r#"[{"metadata": {"name": "d"}, "spec": {"source": {"blank": {}}, "storage": {}}}]"#,
        "spec.dataVolumeTemplate[0]",
        "DataVolumeTemplate entry spec.dataVolumeTemplate[0] must be referenced in the VMI template's 'volumes' list",
    ),
    (
        "/spec/dataVolumeTemplates",
        r#"[{"metadata": {}, "spec": {"source": {"blank": {}}, "storage": {}}}]"#,
        "spec.dataVolumeTemplate[0].name",
        "'name' field must not be empty for DataVolumeTemplate entry spec.dataVolumeTemplate[0].name.",
    ),
];

#[test]
fn everything_that_is_wrong_has_its_field_and_its_sentence() {
    for (pointer, value, field, message) in WRONG {
        let mut object = vm();
        set(&mut object, pointer, serde_json::from_str(value).unwrap());
        let answer = ask(VALIDATE, &create(object), &context());
        assert_eq!(told(&answer), [((*field).to_owned(), (*message).to_owned())], "{pointer} {value}");
    }
    assert_eq!(told(&ask(VALIDATE, &create(vm()), &context())), []);
}

#[test]
fn volumes_that_are_made_with_it_have_a_place_and_one_source() {
    for (spec, field, message) in [
        (json!({"source": {"blank": {}}}), "PVC.Storage", "Missing Data volume PVC or Storage"),
        (
            json!({"source": {"blank": {}}, "pvc": {}, "storage": {}}),
            "PVC.Storage",
            "Duplicate storage definition, both target storage and target pvc defined",
        ),
        (
            json!({"storage": {}}),
            "source.sourceRef",
            "Data volume should have either Source, SourceRef, or be externally populated",
        ),
        (json!({"storage": {}, "source": {}}), "source", "Missing dataVolume valid source"),
        (
            json!({"storage": {}, "source": {"blank": {}, "upload": {}}}),
            "source",
            "Multiple dataVolume sources",
        ),
        (
            json!({"storage": {"dataSourceRef": {"kind": "a", "name": "b"}}, "source": {"blank": {}}}),
            "source",
            "External population is incompatible with Source and SourceRef",
        ),
    ] {
        let mut object = vm();
        set(&mut object, "/spec/template/spec/volumes/1", json!({"name": "d", "dataVolume": {"name": "d"}}));
        set(&mut object, "/spec/dataVolumeTemplates", json!([{"metadata": {"name": "d"}, "spec": spec}]));
        let answer = ask(VALIDATE, &create(object), &context());
        let field = format!("spec.dataVolumeTemplate[0].{field}");
        assert_eq!(told(&answer), [(field, message.to_owned())], "{spec}");
    }
}

/// virt-controller creates the DataVolumes, and has rights in every namespace. So they must not reference
/// PVCs that only other tenants may read.
#[test]
fn a_volume_is_not_filled_from_a_claim_of_somebody_else() {
    let asked = |spec: Value| {
        let mut object = vm();
        set(&mut object, "/spec/template/spec/volumes/1", json!({"name": "d", "dataVolume": {"name": "d"}}));
        set(&mut object, "/spec/dataVolumeTemplates", json!([{"metadata": {"name": "d"}, "spec": spec}]));
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        (told(&ask(VALIDATE, &create(object), &context())), namespace)
    };
    let (_, ours) = asked(json!({}));
    for own in [
        json!({"storage": {}, "source": {"pvc": {"namespace": ours, "name": "a"}}}),
        json!({"storage": {}, "source": {"snapshot": {"namespace": ours, "name": "a"}}}),
        json!({"storage": {"dataSourceRef": {"kind": "VolumeImportSource", "name": "a"}}}),
        // `clones` checks the right of the VM's service account.
        json!({"storage": {}, "source": {"pvc": {"namespace": "victim", "name": "a"}}}),
        json!({"storage": {}, "sourceRef": {"kind": "DataSource", "name": "mine"}}),
    ] {
        assert_eq!(asked(own.clone()).0, [], "{own}");
    }
    for (spec, field) in [
        (
            json!({"pvc": {}, "source": {"snapshot": {"namespace": "victim", "name": "a"}}}),
            "source.snapshot.namespace",
        ),
        (
            json!({"storage": {"dataSourceRef": {"kind": "a", "name": "b", "namespace": "victim"}}}),
            "storage.dataSourceRef.namespace",
        ),
    ] {
        let (faults, _) = asked(spec.clone());
        assert_eq!(faults.len(), 1, "{spec}: {faults:?}");
        assert_eq!(faults[0].0, format!("spec.dataVolumeTemplate[0].{field}"), "{spec}");
        assert!(
            faults[0].1.contains("namespace victim, and no access review is made for that"),
            "{}",
            faults[0].1
        );
    }
}

#[test]
fn the_settings_decide_what_is_permitted() {
    let mut object = vm();
    let host = |path: &str| json!({"name": "host", "hostDisk": {"path": path, "type": "Disk"}});
    set(&mut object, "/spec/template/spec/volumes/1", host("/var/lib/disks/n/a.img"));
    set(&mut object, "/spec/template/spec/domain/machine", json!({"type": "pc-i440fx-7.2"}));
    let request = create(object);
    assert_eq!(told(&ask(VALIDATE, &request, &context())).len(), 2);
    let open = with(&json!({
        "emulatedMachines": ["pc-*"], "developerConfiguration": {"featureGates": ["HostDisk"]},
    }));
    assert_eq!(told(&ask(VALIDATE, &request, &open)), []);
    let others = ["/var/lib/disks/a.img", "/var/lib/disks/victim/a.img", "/var/lib/disks/n/../victim/a.img"];
    for path in ["/etc/kubernetes/manifests/a.yaml", "/var/lib/a.img", "/srv/a.img"].into_iter().chain(others)
    {
        let mut object = request.object.clone();
        set(&mut object, "/spec/template/spec/volumes/1", host(path));
        let [(field, message)] = &told(&ask(VALIDATE, &create(object), &open))[..] else { panic!("{path}") };
        assert_eq!(field, "spec.template.spec.volumes[1].hostDisk.path");
        assert!(
            path.contains("..") || message.contains("permits to the namespace n (/var/lib/disks/n)"),
            "{message}"
        );
    }
}

/// The settings may have become stricter since the VM was written, also by an upgrade.
#[test]
fn a_vm_whose_template_stays_is_stopped_and_started_whatever_is_permitted_by_now() {
    let mut old = vm();
    let host = json!({"name": "host", "hostDisk": {"path": "/var/lib/disks/a.img", "type": "Disk"}});
    set(&mut old, "/spec/template/spec/volumes/1", host);
    set(&mut old, "/spec/template/spec/domain/machine", json!({"type": "pc-i440fx-7.2"}));
    set(
        &mut old,
        "/spec/template/spec/domain/devices/hostDevices",
        json!([{"name": "d", "deviceName": "v.io/d"}]),
    );
    let open = with(&json!({"developerConfiguration": {"featureGates": ["HostDisk"]}}));
    for context in [context(), open] {
        let said = |new: &Value| told(&ask(VALIDATE, &update(old.clone(), new.clone()), &context));
        for strategy in ["Halted", "Manual"] {
            let mut new = old.clone();
            set(&mut new, "/spec/runStrategy", json!(strategy));
            assert_eq!(said(&new), [], "{strategy}");
            // Defaults of this version are not a change of the template.
            let completed = changed(MUTATE, &update(old.clone(), new.clone()), &context);
            assert_ne!(completed["spec"]["template"], old["spec"]["template"]);
            assert_eq!(said(&completed), [], "{strategy}");
            assert!(!told(&ask(VALIDATE, &create(new), &context)).is_empty(), "{strategy}");
        }
        let mut new = old.clone();
        set(&mut new, "/spec/runStrategy", json!("Often"));
        assert_eq!(said(&new).len(), 1);
        set(&mut new, "/spec/template/spec/domain/memory/guest", json!("256Mi"));
        assert!(said(&new).len() >= 4, "{:?}", said(&new));
    }
}

#[test]
fn volumes_that_are_migrated_go_on_or_back_together() {
    let volume =
        |name: &str, claim: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
    let with = |a: &str, b: &str| {
        let mut vm = vm();
        set(&mut vm, "/spec/updateVolumesStrategy", json!("Migration"));
        set(&mut vm, "/spec/template/spec/volumes", json!([volume("disk0", a), volume("disk1", b)]));
        let disks = json!([{"name": "disk0", "disk": {}}, {"name": "disk1", "disk": {}}]);
        set(&mut vm, "/spec/template/spec/domain/devices/disks", disks);
        vm
    };
    let migrated = |name: &str, from: &str, to: &str| json!({"volumeName": name, "sourcePVCInfo": {"claimName": from}, "destinationPVCInfo": {"claimName": to}});
    let mut old = with("new0", "new1");
    old["status"] = json!({"volumeUpdateState": {"volumeMigrationState": {"migratedVolumes":
        [migrated("disk0", "old0", "new0"), migrated("disk1", "old1", "new1")]}}});
    for (a, b, is_allowed) in [
        ("new0", "new1", true),
        ("old0", "old1", true),
        ("old0", "new1", false),
        ("other", "new1", false),
        ("other", "another", false),
    ] {
        let mut new = with(a, b);
        new["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(7);
        let expected = match is_allowed {
            true => vec![],
            false => vec![("spec.template.spec.volumes".to_owned(), api::vm::ONLY_REVERTED.to_owned())],
        };
        assert_eq!(told(&ask(VALIDATE, &update(old.clone(), new.clone()), &context())), expected, "{a} {b}");
        new["spec"]["updateVolumesStrategy"] = json!("Replacement");
        assert_eq!(told(&ask(VALIDATE, &update(old.clone(), new), &context())), [], "{a} {b}");
    }
}

/// The migration that goes on would not copy it.
#[test]
fn no_other_pvc_is_changed_beside_volumes_that_are_migrated() {
    let with = |root: &str, more: Value| {
        let mut vm = vm();
        set(&mut vm, "/spec/updateVolumesStrategy", json!("Migration"));
        let root = json!({"name": "disk0", "persistentVolumeClaim": {"claimName": root}});
        let mut more = more;
        more["name"] = json!("disk1");
        set(&mut vm, "/spec/template/spec/volumes", json!([root, more]));
        let disks = json!([{"name": "disk0", "disk": {}}, {"name": "disk1", "disk": {}}]);
        set(&mut vm, "/spec/template/spec/domain/devices/disks", disks);
        vm
    };
    let claim = |name: &str| json!({"persistentVolumeClaim": {"claimName": name}});
    let mut old = with("new", claim("more"));
    old["status"] = json!({"volumeUpdateState": {"volumeMigrationState": {"migratedVolumes": [
        {"volumeName": "disk0", "sourcePVCInfo": {"claimName": "old"}, "destinationPVCInfo": {"claimName": "new"}}]}}});
    for (root, more, is_allowed) in [
        ("new", claim("more"), true),
        ("new", json!({"dataVolume": {"name": "more"}}), true),
        ("new", json!({"containerDisk": {"image": "registry.example/os"}}), true),
        ("new", claim("other"), false),
        ("new", json!({"dataVolume": {"name": "other"}}), false),
        ("old", claim("other"), false),
    ] {
        let new = with(root, more.clone());
        let expected = match is_allowed {
            true => vec![],
            false => vec![("spec.template.spec.volumes".to_owned(), api::vm::ONLY_REVERTED.to_owned())],
        };
        assert_eq!(told(&ask(VALIDATE, &update(old.clone(), new), &context())), expected, "{root} {more}");
    }
}

#[test]
fn a_field_that_is_not_known_is_kept_and_told() {
    let mut object = vm();
    set(&mut object, "/spec/template/spec/domain/memroy", json!({"guest": null}));
    set(&mut object, "/spec/colour", json!("red"));
    let answer = ask(VALIDATE, &create(object.clone()), &context());
    assert_eq!(answer.faults, []);
    assert_eq!(
        answer.warnings,
        [
            "unknown field \"spec.template.spec.domain.memroy\": it is kept, and has no effect; did you mean \"memory\"?",
            "unknown field \"spec.colour\": it is kept, and has no effect",
        ]
    );
    let after = changed(MUTATE, &create(object.clone()), &context());
    assert_eq!(after["spec"]["template"]["spec"]["domain"]["memroy"], json!({"guest": null}));
    assert_eq!(after["spec"]["colour"], "red");
}

#[test]
fn an_old_word_is_taken_and_told() {
    let mut object = vm();
    set(&mut object, "/spec/runStrategy", Value::Null);
    set(&mut object, "/spec/running", json!(true));
    let answer = ask(VALIDATE, &create(object), &context());
    assert_eq!(answer.faults, []);
    assert_eq!(answer.warnings, ["spec.running is deprecated, please use spec.runStrategy instead."]);
}

#[test]
fn what_the_disks_of_a_vm_do_not_get_is_told() {
    let mut object = vm();
    object["spec"]["dataVolumeTemplates"] = json!([{
        "metadata": {"name": "data", "annotations": {"k8s.v1.cni.cncf.io/networks": "b", "cdi.kubevirt.io/a": "b"}},
        "spec": {"storage": {}, "source": {"blank": {}}},
    }]);
    let volumes = object.pointer_mut("/spec/template/spec/volumes").unwrap().as_array_mut().unwrap();
    volumes.push(json!({"name": "data", "dataVolume": {"name": "data"}}));
    let answer = ask(VALIDATE, &create(object), &context());
    assert_eq!(
        answer.warnings,
        [
            "spec.dataVolumeTemplates[0].metadata.annotations: the DataVolume does not get k8s.v1.cni.cncf.io/networks"
        ]
    );
}

#[test]
fn a_vm_is_given_what_it_keeps() {
    let after = changed(MUTATE, &create(vm()), &with(&json!({"machineType": "pc-q35-7.2"})));
    let template = &after["spec"]["template"];
    assert_eq!(template["spec"]["architecture"], "amd64");
    assert_eq!(template["spec"]["domain"]["machine"]["type"], "pc-q35-7.2");
    let firmware = json!({"uuid": "11111111-1111-4111-8111-111111111111", "serial": "serial"});
    assert_eq!(template["spec"]["domain"]["firmware"], firmware);
    assert_eq!(template["metadata"]["annotations"]["kubevirt.io/pci-topology-version"], "v3");
    // A second call changes nothing, whatever the random values are.
    let mut other = context();
    other.random = ("2".into(), "2".into());
    assert_eq!(ask(MUTATE, &update(after.clone(), after.clone()), &other).patch, Vec::<Value>::new());
    // A VM that is written again without its UUID keeps its identity.
    assert_eq!(
        changed(MUTATE, &update(after.clone(), vm()), &other)["spec"]["template"]["spec"]["domain"]["firmware"],
        firmware
    );
    // A VM from before the webhook has the UUID derived from its name.
    let old = changed(MUTATE, &update(vm(), vm()), &other);
    let uuid = api::uuid::of_vm("web");
    assert_eq!(old["spec"]["template"]["spec"]["domain"]["firmware"], json!({"uuid": uuid}));
}

#[test]
fn what_is_no_longer_right_may_be_labelled_and_let_go() {
    let mut bad = vm();
    set(&mut bad, "/spec/runStrategy", json!("Often"));
    let mut labelled = bad.clone();
    set(&mut labelled, "/metadata/labels/a", json!("b"));
    assert_eq!(told(&ask(VALIDATE, &update(bad.clone(), labelled), &context())), []);
    let mut changed = bad.clone();
    set(&mut changed, "/spec/template/metadata/labels/a", json!("b"));
    assert_eq!(told(&ask(VALIDATE, &update(bad.clone(), changed.clone()), &context())).len(), 1);
    let leaving = |mut object: Value| {
        set(&mut object, "/metadata/deletionTimestamp", json!("2026-11-22T00:00:00Z"));
        object
    };
    let going = leaving(bad.clone());
    assert_eq!(told(&ask(VALIDATE, &update(bad.clone(), going.clone()), &context())), []);
    assert_eq!(ask(MUTATE, &update(bad.clone(), going), &context()).patch, Vec::<Value>::new());
    // A user who holds the object by a finalizer cannot write invalid content into it.
    assert_eq!(told(&ask(VALIDATE, &update(leaving(bad), leaving(changed)), &context())).len(), 1);
}

#[test]
fn all_is_said_at_once() {
    let mut object = vm();
    for (pointer, value, ..) in WRONG.iter().filter(|(_, _, field, _)| {
        field.contains("runStrategy") || field.contains("domain.m") || field.contains("bus")
    }) {
        set(&mut object, pointer, serde_json::from_str(value).unwrap());
    }
    let told = told(&ask(VALIDATE, &create(object), &context()));
    assert_eq!(told.len(), 4, "{told:?}");
}
