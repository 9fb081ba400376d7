//! DataVolumes, DataImportCrons, populator sources, ObjectTransfers and the CDI object: the tables in
//! `messages/`, and what a table cannot say.

use super::base::*;
use super::messages::{all_refused, cause, refuses, request, response};
use crate::rules::{Operation, Request, RequestContext, needs_workloads};
use cluster_model::webhooks::Webhook;
use serde_json::{Value, json};

const VOLUME: &str = "/datavolume-validate";
const CRON: &str = "/dataimportcron-validate";
const POPULATOR: &str = "/populator-validate";
const TRANSFER: &str = "/objecttransfer-validate";
const REMOVED: &str = "/cdi-validate";
const SETTINGS: &str = "/cdi-settings";

fn object(kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": kind, "metadata": {"namespace": "n", "name": "disk"},
        "spec": spec,
    })
}

fn volume() -> Value {
    object(
        "DataVolume",
        &json!({
            "source": {"http": {"url": "https://files.example/a.qcow2"}},
            "pvc": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }),
    )
}

fn cron() -> Value {
    let template = json!({"spec": {
        "source": {"registry": {"url": "docker://registry.example/os:1"}},
        "storage": {"resources": {"requests": {"storage": "5Gi"}}},
    }});
    object(
        "DataImportCron",
        &json!({"template": template, "schedule": "0 */12 * * *", "managedDataSource": "os"}),
    )
}

fn import() -> Value {
    object("VolumeImportSource", &json!({"source": {"http": {"url": "https://files.example/a.img"}}}))
}

fn transfer() -> Value {
    let source = json!({"kind": "DataVolume", "namespace": "n", "name": "disk"});
    object("ObjectTransfer", &json!({"source": source, "target": {"namespace": "other"}}))
}

/// The object with a change.
fn with_change(mut object: Value, pointer: &str, value: Value) -> Value {
    set(&mut object, pointer, value);
    object
}

#[track_caller]
fn accepts(path: &str, request: &Value) -> Value {
    let response = response(path, request, &context());
    assert_eq!(response["allowed"], true, "{response}");
    response
}

#[test]
fn kinds_of_cdi_are_refused_in_the_words_of_upstream() {
    for (path, object, table, least) in [
        (VOLUME, volume(), include_str!("messages/datavolume.txt"), 39),
        (CRON, cron(), include_str!("messages/dataimportcron.txt"), 7),
        (POPULATOR, import(), include_str!("messages/volumeimportsource.txt"), 4),
    ] {
        accepts(path, &request(None, &object));
        assert!(all_refused(table, path, &object, false) > least, "{table}");
    }
}

#[test]
fn every_source_of_a_data_volume_that_is_or_will_be_served_is_accepted() {
    let claim = json!({"namespace": "n", "name": "a"});
    for source in [
        json!({"http": {"url": "http://h/a", "checksum": format!("SHA256: {}", "0a".repeat(32))}}),
        json!({"s3": {"url": "https://s3.example/bucket/a"}}),
        json!({"gcs": {"url": "gs://bucket/a"}}),
        json!({"registry": {"url": "docker://registry.example/os:1", "pullMethod": "node"}}),
        json!({"registry": {"url": "docker://registry.example/os:1", "pullMethod": ""}}),
        json!({"registry": {"imageStream": "os", "pullMethod": "node"}}),
        json!({"pvc": claim}),
        json!({"snapshot": claim}),
        json!({"upload": {}}),
        json!({"blank": {}}),
    ] {
        accepts(VOLUME, &request(None, &with_change(volume(), "/spec/source", source)));
    }
    for spec in [
        json!({"source": {"pvc": claim}, "storage": {}}),
        json!({"sourceRef": {"kind": "DataSource", "name": "os"}, "storage": {}}),
        json!({
            "storage": {
                "resources": {"requests": {"storage": "1Mi"}},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "dataSource": {"kind": "PersistentVolumeClaim", "name": "a"},
                "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "a"},
            },
        }),
        json!({"storage": {
            "resources": {"requests": {"storage": "1Gi"}},
            "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "a"},
        }}),
        // Kubernetes keeps it beside the same dataSourceRef.
        json!({"storage": {
            "resources": {"requests": {"storage": "1Gi"}},
            "dataSource": {"apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource", "name": "a"},
            "dataSourceRef": {"apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource", "name": "a"},
        }}),
        json!({"source": {"upload": {}}, "contentType": "archive", "storage": {"resources": {"requests": {"storage": "1Gi"}}}}),
    ] {
        accepts(VOLUME, &request(None, &object("DataVolume", &spec)));
    }
}

#[test]
fn an_image_is_polled_at_a_registry_a_web_server_a_store_and_in_a_pvc() {
    for source in [
        json!({"registry": {"url": "docker://registry.example/os:1"}}),
        json!({"http": {"url": "https://files.example/a.qcow2"}}),
        json!({"s3": {"url": "https://s3.example/bucket/a.qcow2"}}),
        json!({"pvc": {"namespace": "n", "name": "a"}}),
    ] {
        accepts(CRON, &request(None, &with_change(cron(), "/spec/template/spec/source", source)));
    }
    for schedule in ["", "@daily", "@every 90m", "TZ=UTC 0 5 * * *"] {
        accepts(CRON, &request(None, &with_change(cron(), "/spec/schedule", json!(schedule))));
    }
}

#[test]
fn a_refusal_without_a_field_and_the_group_of_the_object() {
    let invalid = |message: &str| cause("FieldValueInvalid", "", message);
    let pvc = |name: &str| json!({"kind": "PersistentVolumeClaim", "name": name});
    let mut other = with_change(volume(), "/spec/source", Value::Null);
    set(&mut other, "/spec/pvc/dataSource", pvc("a"));
    set(&mut other, "/spec/pvc/dataSourceRef", pvc("b"));
    let causes = [invalid("DataSourceRef and DataSource must match")];
    refuses(VOLUME, &request(None, &other), &context(), &causes);
    let details = &response(VOLUME, &request(None, &other), &context())["status"]["details"];
    assert_eq!((&details["group"], &details["kind"]), (&json!("cdi.kubevirt.io"), &json!("DataVolume")));

    let upload = object("VolumeUploadSource", &json!({}));
    for (path, object, most) in
        [(VOLUME, volume(), 253), (CRON, cron(), 63), (POPULATOR, import(), 63), (POPULATOR, upload, 63)]
    {
        let named = |length: usize| with_change(object.clone(), "/metadata/name", json!("a".repeat(length)));
        accepts(path, &request(None, &named(most)));
        let message = format!("Name cannot be longer than {most} characters");
        refuses(path, &request(None, &named(most + 1)), &context(), &[invalid(&message)]);
    }
    let long = with_change(cron(), "/spec/managedDataSource", json!("a".repeat(64)));
    refuses(CRON, &request(None, &long), &context(), &[invalid("Name cannot be longer than 63 characters")]);
    let class = with_change(volume(), "/spec/pvc/storageClassName", json!("a".repeat(254)));
    refuses(
        VOLUME,
        &request(None, &class),
        &context(),
        &[invalid("Name cannot be longer than 253 characters")],
    );
}

#[test]
fn a_pvc_of_the_same_namespace_is_cloned_and_nothing_else() {
    let of = |source: Value| object("VolumeCloneSource", &json!({"source": source}));
    let claim = json!({"kind": "PersistentVolumeClaim", "name": "a"});
    accepts(POPULATOR, &request(None, &of(claim.clone())));
    let snapshot = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "a"});
    for (source, field) in [
        (snapshot, "spec.source.kind"),
        (json!({"kind": "Pod", "name": "a"}), "spec.source.kind"),
        (with_change(claim.clone(), "/apiGroup", json!("example.com")), "spec.source.apiGroup"),
        (with_change(claim.clone(), "/name", json!("../a")), "spec.source.name"),
        (with_change(claim.clone(), "/namespace", json!("other")), "spec.source.namespace"),
    ] {
        let response = response(POPULATOR, &request(None, &of(source.clone())), &context());
        assert_eq!(response["allowed"], false, "{source}");
        assert_eq!(response["status"]["details"]["causes"][0]["field"], field, "{source}: {response}");
    }
    let changed = of(with_change(claim.clone(), "/name", json!("b")));
    let causes = [cause("FieldValueDuplicate", "spec", "Cannot update VolumeCloneSource Spec")];
    refuses(POPULATOR, &request(Some(&of(claim)), &changed), &context(), &causes);
}

#[test]
fn a_spec_stays_and_everything_around_it_may_change() {
    let upload = object("VolumeUploadSource", &json!({"contentType": "kubevirt"}));
    for (path, old, pointer, value, message) in [
        (VOLUME, volume(), "/spec/preallocation", json!(true), "Cannot update DataVolume Spec"),
        (CRON, cron(), "/spec/schedule", json!("0 1 * * *"), "Cannot update DataImportCron Spec"),
        (POPULATOR, import(), "/spec/preallocation", json!(true), "Cannot update VolumeImportSource Spec"),
        (POPULATOR, upload, "/spec/contentType", json!("archive"), "Cannot update VolumeUploadSource Spec"),
        (TRANSFER, transfer(), "/spec/target/name", json!("b"), "ObjectTransfer spec is immutable"),
    ] {
        let new = with_change(old.clone(), pointer, value);
        let causes = [cause("FieldValueDuplicate", "spec", message)];
        refuses(path, &request(Some(&old), &new), &context(), &causes);
        let leaving =
            |object| with_change(object, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        accepts(path, &request(Some(&leaving(old.clone())), &leaving(old.clone())));
        refuses(path, &request(Some(&leaving(old.clone())), &leaving(new)), &context(), &causes);

        // An object that would be refused today may be labelled.
        let bad = with_change(old, "/spec/contentType", json!("zip"));
        let labelled = with_change(bad.clone(), "/metadata/labels", json!({"a": "b"}));
        accepts(path, &request(Some(&bad), &labelled));
    }
    // Absent, null and an empty list are the same.
    let mut same = with_change(volume(), "/spec/checkpoints", json!([]));
    set(&mut same, "/spec/preallocation", Value::Null);
    accepts(VOLUME, &request(Some(&volume()), &same));
}

/// A DataVolume of an older installation moves from stage to stage, and changes nothing else.
#[test]
fn checkpoints_of_a_staged_import_may_follow_one_another() {
    let vddk = json!({"vddk": {"url": "https://vcenter.example", "uuid": "1"}});
    let stage = |n: &str| json!([{"previous": "", "current": n}]);
    for (path, object, refused) in [
        (VOLUME, volume(), "Cannot update DataVolume Spec"),
        (POPULATOR, import(), "Cannot update VolumeImportSource Spec"),
    ] {
        let mut old = with_change(object, "/spec/source", vddk.clone());
        set(&mut old, "/spec/checkpoints", stage("a"));
        let mut next = with_change(old.clone(), "/spec/checkpoints", stage("b"));
        set(&mut next, "/spec/finalCheckpoint", json!(true));
        accepts(path, &request(Some(&old), &next));
        let other = with_change(next, "/spec/source/vddk/uuid", json!("2"));
        let causes = [cause("FieldValueDuplicate", "spec", refused)];
        refuses(path, &request(Some(&old), &other), &context(), &causes);
    }
}

/// No controller would ever act on it.
#[test]
fn an_object_transfer_is_refused_by_name() {
    let message = "ObjectTransfer is not supported: no object is moved to another name or namespace (clone it by a \
                   DataVolume with spec.source.pvc, and delete the source)";
    let causes = [cause("FieldValueNotSupported", "spec", message)];
    refuses(TRANSFER, &request(None, &transfer()), &context(), &causes);
    let labelled = with_change(transfer(), "/metadata/labels", json!({"a": "b"}));
    assert!(accepts(TRANSFER, &request(Some(&transfer()), &labelled))["warnings"].is_null());
}

#[test]
fn a_field_that_is_not_known_is_warned_of() {
    let other = with_change(volume(), "/spec/source/http/chekcsum", json!("a"));
    let warnings = accepts(VOLUME, &request(None, &other))["warnings"].to_string();
    assert!(warnings.contains("spec.source.http.chekcsum") && warnings.contains("checksum"), "{warnings}");
    let unread = with_change(volume(), "/spec/source/http/url", json!(7));
    let said = told(&ask(VOLUME, &create(unread), &context()));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].1.starts_with("spec.source.http.url must be a text"), "{said:?}");
}

#[test]
fn a_vm_is_refused_for_a_disk_that_no_version_will_import() {
    let mut vm = vm();
    let pointer = "/spec/template/spec/volumes/0";
    set(&mut vm, pointer, json!({"name": "root", "dataVolume": {"name": "disk"}}));
    let mut spec = volume()["spec"].clone();
    spec["source"] = json!({"vddk": {"url": "https://vcenter.example"}});
    set(&mut vm, "/spec/dataVolumeTemplates", json!([{"metadata": {"name": "disk"}, "spec": spec}]));
    let said = told(&ask("/virtualmachines-validate", &create(vm), &context()));
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].0, "spec.dataVolumeTemplate[0].source.vddk");
}

#[test]
fn a_cdi_object_goes_when_it_may() {
    let request = |strategy: &str, phase: &str| Request {
        operation: Operation::Delete,
        old: json!({"spec": {"uninstallStrategy": strategy}, "status": {"phase": phase}}),
        ..create(Value::Null)
    };
    let left = RequestContext { left: Some("DataVolumes"), ..context() };
    let blocks = "BlockUninstallIfWorkloadsExist";
    let hook = Webhook::find_by_path(REMOVED).unwrap();
    for (strategy, phase, stays) in [
        (blocks, "Deployed", true),
        (blocks, "Deploying", true),
        (blocks, "", false),
        (blocks, "Error", false),
        ("RemoveWorkloads", "Deployed", false),
    ] {
        let request = request(strategy, phase);
        assert_eq!(needs_workloads(hook, &request), stays, "{strategy} {phase}");
        let said = told(&ask(REMOVED, &request, &left));
        let expected = "rejecting the uninstall request, since there are still DataVolumes present. Either delete all \
                        DataVolumes or change the uninstall strategy before uninstalling CDI";
        let expected = stays.then(|| ("spec.uninstallStrategy".to_owned(), expected.to_owned()));
        assert_eq!(said, expected.into_iter().collect::<Vec<_>>(), "{strategy} {phase}");
        assert!(ask(REMOVED, &request, &context()).is_yes());
    }
}

#[test]
fn settings_without_an_effect_are_warned_of_and_nothing_is_refused() {
    let warned = |kind: &str, spec: &Value| {
        let answer = accepts(SETTINGS, &request(None, &object(kind, spec)));
        answer["warnings"].as_array().cloned().unwrap_or_default()
    };
    let config = json!({"scratchSpaceStorageClass": "s", "importProxy": {"trustedCAProxy": "mine"}, "preallocation": true});
    for (kind, spec, at) in [
        ("CDI", json!({"config": config, "workload": {"nodeSelector": {"a": "b"}}}), "spec.config"),
        ("CDIConfig", config.clone(), "spec"),
    ] {
        let warnings = warned(kind, &spec);
        let begins = [
            format!("{at}.importProxy.trustedCAProxy: no effect, \"mine\" is not supported"),
            format!("{at}.scratchSpaceStorageClass: no effect, "),
        ];
        assert_eq!(warnings.len(), begins.len(), "{warnings:?}");
        for (warning, begin) in warnings.iter().zip(begins) {
            assert!(warning.as_str().unwrap().starts_with(&begin), "{warning}");
        }
        // Warnings about unchanged settings are not repeated on other changes.
        let old = object(kind, &spec);
        let labelled = with_change(old.clone(), "/metadata/labels", json!({"a": "b"}));
        assert!(accepts(SETTINGS, &request(Some(&old), &labelled))["warnings"].is_null());
    }
    assert_eq!(warned("CDI", &json!({"priorityClas": "a"})).len(), 1, "a field that is not known");
}

#[test]
fn a_dataimportcron_in_the_name_of_another_is_refused() {
    let other = with_change(cron(), "/spec/serviceAccountName", json!("importer"));
    let said = told(&ask(CRON, &create(other), &context()));
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].0, "spec.serviceAccountName");
    accepts(CRON, &request(None, &with_change(cron(), "/spec/serviceAccountName", json!(""))));
}
