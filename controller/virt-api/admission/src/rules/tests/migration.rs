//! Migrations: label and finalizer, and the checks in upstream's order and words.

use super::base::{CONTROLLER, ask, by, changed, context, create, set, told, update};
use crate::rules::migration::{ActiveMigration, MigrationFacts, vmi_of};
use crate::rules::{AdmissionResponse, Request, RequestContext};
use serde_json::{Value, json};

const FILL: &str = "/migration-mutate-create";
const CREATE: &str = "/migration-validate-create";
const UPDATE: &str = "/migration-validate-update";
const LABEL: &str = "kubevirt.io/vmi-name";
const FINALIZER: &str = "kubevirt.io/migrationJobFinalize";

fn migration() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
        "metadata": {"namespace": "n", "generateName": "move-"},
        "spec": {"vmiName": "web"},
    })
}

/// The same, stored: with its label, its finalizer and this phase.
fn stored(phase: &str) -> Value {
    let mut object = migration();
    object["metadata"] =
        json!({"namespace": "n", "name": "move-1", "labels": {LABEL: "web"}, "finalizers": [FINALIZER]});
    object["status"] = json!({"phase": phase});
    object
}

fn new(object: Value) -> Request {
    Request { namespace: "n".into(), ..create(object) }
}

/// The context with a running VMI, changed at a pointer, and with another migration of it.
fn facts(pointer: &str, value: Value, active: Option<&str>) -> RequestContext {
    let mut vmi = json!({
        "metadata": {"namespace": "n", "name": "web"}, "spec": {"domain": {"devices": {}}},
        "status": {"phase": "Running"},
    });
    if !pointer.is_empty() {
        set(&mut vmi, pointer, value);
    }
    let vmi = api::wire::read(vmi).ok().map(Box::new);
    let active = active.map(|uid| ActiveMigration { uid: uid.to_owned(), name: "move-1".to_owned() });
    let migration = Some(MigrationFacts { vmi, vm: None, active });
    RequestContext { migration, ..context() }
}

fn runs() -> RequestContext {
    facts("", Value::Null, None)
}

fn fault(field: &str, message: &str) -> Vec<(String, String)> {
    vec![(field.to_owned(), message.to_owned())]
}

#[test]
fn a_new_migration_gets_the_label_of_its_vmi_and_the_finalizer() {
    let made = changed(FILL, &new(migration()), &context());
    assert_eq!(
        made["metadata"],
        json!({"namespace": "n", "generateName": "move-", "labels": {LABEL: "web"}, "finalizers": [FINALIZER]})
    );
    // A second call changes nothing.
    assert_eq!(ask(FILL, &new(made), &context()), AdmissionResponse::yes());
    let mut other = migration();
    other["metadata"]["labels"] = json!({"a": "b", LABEL: "db"});
    other["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let made = changed(FILL, &new(other), &context());
    assert_eq!(made["metadata"]["labels"], json!({"a": "b", LABEL: "web"}), "another label would hide it");
    assert_eq!(made["metadata"]["finalizers"], json!(["example.com/hold", FINALIZER]));
    // The value of a label has 63 letters at most.
    let mut long = migration();
    set(&mut long, "/spec/vmiName", json!("w".repeat(70)));
    let label = changed(FILL, &new(long), &context())["metadata"]["labels"][LABEL].clone();
    assert!(label.as_str().is_some_and(|label| label.len() <= 63 && label.starts_with("www")), "{label}");
    for odd in [json!({"spec": {}}), json!({"spec": {"vmiName": 7}}), json!([]), Value::Null] {
        assert_eq!(ask(FILL, &new(odd), &context()), AdmissionResponse::yes());
    }
}

/// Changes of the migration, and the refusal.
#[test]
fn a_migration_is_refused_for_what_it_says_itself_in_the_words_of_upstream() {
    let priority = "Migration priority queue, only virt-controller is allowed to set priority field";
    let other_cluster =
        |field: &str| format!("{field} must be absent: migration between clusters is not supported");
    let send = json!({"migrationID": "a", "connectURL": "https://example.org"});
    let label = "spec.addedNodeSelector: no node can have the label";
    for (pointer, value, field, message) in [
        ("/spec/vmiName", Value::Null, "spec.vmiName", "vmiName is missing".to_owned()),
        ("/spec/vmiName", json!(""), "spec.vmiName", "vmiName is missing".to_owned()),
        (
            "/spec/vmiName",
            json!(7),
            "spec.vmiName",
            "spec.vmiName must be a text, not the number 7".to_owned(),
        ),
        ("/spec/priority", json!("system-critical"), "spec.priority", priority.to_owned()),
        ("/spec/sendTo", send.clone(), "spec.sendTo", other_cluster("spec.sendTo")),
        ("/spec/receive", json!({"migrationID": "a"}), "spec.receive", other_cluster("spec.receive")),
        (
            "/spec/addedNodeSelector",
            json!({"disk": "very fast"}),
            "spec.addedNodeSelector",
            format!("{label} \"disk\" with the value \"very fast\""),
        ),
        (
            "/spec/addedNodeSelector",
            json!({"a/b/c": "d"}),
            "spec.addedNodeSelector",
            format!("{label} \"a/b/c\" with the value \"d\""),
        ),
    ] {
        let mut object = migration();
        set(&mut object, pointer, value);
        let request = new(object);
        assert_eq!(told(&ask(CREATE, &request, &runs())), fault(field, &message), "{pointer}");
        assert_eq!(vmi_of(&request, &context()), None, "{pointer}: nothing has to be read");
    }
    let mut selected = migration();
    set(&mut selected, "/spec/addedNodeSelector", json!({"topology.kubernetes.io/zone": "a", "ssd": ""}));
    assert_eq!(ask(CREATE, &new(selected), &runs()), AdmissionResponse::yes());
    let mut urgent = migration();
    set(&mut urgent, "/spec/priority", json!("system-critical"));
    assert_eq!(ask(CREATE, &by(CONTROLLER, None, new(urgent)), &runs()), AdmissionResponse::yes());
    let mut odd = migration();
    set(&mut odd, "/spec/vmName", json!("web"));
    let answer = ask(CREATE, &new(odd), &runs());
    assert!(answer.is_yes() && answer.warnings[0].contains("spec.vmName"), "{answer:?}");
}

/// The state of the VMI and of its other migrations, and the refusal.
#[test]
fn a_migration_is_refused_for_its_vmi_in_the_words_of_upstream() {
    let condition = |status: &str| json!([{"type": "LiveMigratable", "status": status, "reason": "DisksNotLiveMigratable", "message": "not shared"}]);
    let active = "in-flight migration detected. Active migration job (u1) is currently already in progress for VMI web. Its name is move-1.";
    let cannot = "Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: not shared";
    let ended = "Cannot migrate VMI in finalized state.";
    for (context, expected) in [
        (runs(), None),
        (facts("/status/conditions", condition("True"), None), None),
        (facts("/status/phase", json!("Scheduling"), None), None),
        (facts("/status", Value::Null, None), None),
        (facts("/status/conditions", condition("False"), None), Some(cannot)),
        (facts("/status/phase", json!("Succeeded"), None), Some(ended)),
        (facts("/status/phase", json!("Failed"), Some("u1")), Some(ended)),
        (facts("", Value::Null, Some("u1")), Some(active)),
        (facts("/status/conditions", condition("False"), Some("u1")), Some(cannot)),
        (
            RequestContext { migration: Some(MigrationFacts::default()), ..context() },
            Some("the VMI \"n/web\" does not exist"),
        ),
    ] {
        let answer = told(&ask(CREATE, &new(migration()), &context));
        let expected = expected.map(|message| fault("spec.vmiName", message)).unwrap_or_default();
        assert_eq!(answer, expected, "{:?}", context.migration);
    }
}

/// virt-api reads the VMI first. Without that nothing is admitted.
#[test]
fn a_migration_whose_vmi_was_not_read_is_deferred() {
    let request = new(migration());
    let path = vmi_of(&request, &context()).unwrap().path();
    assert_eq!(path, "/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstances/web");
    let unread = ask(CREATE, &request, &context());
    let message = unread.later.unwrap().message;
    assert!(message.contains("whether VMI n/web can migrate: its VMI was not read"), "{message}");
    // A name that leads elsewhere is read from nowhere, and no VMI can have it.
    for odd in ["../../secrets/a", "web?watch=true", "Web"] {
        let mut object = migration();
        set(&mut object, "/spec/vmiName", json!(odd));
        let request = new(object);
        assert_eq!(vmi_of(&request, &context()), None, "{odd}");
        let missing = format!("the VMI \"n/{odd}\" does not exist");
        assert_eq!(told(&ask(CREATE, &request, &runs())), fault("spec.vmiName", &missing));
    }
}

#[test]
fn the_spec_of_a_migration_stays_and_so_does_its_label_until_it_has_ended() {
    let restricted = fault("spec", "update of Migration object's spec is restricted");
    let label = |done: &str| {
        fault("metadata.labels", &format!("selector label can't be {done} an in-flight migration"))
    };
    let at = format!("/metadata/labels/{}", LABEL.replace('/', "~1"));
    for (phase, pointer, value, expected) in [
        ("Running", "/spec/vmiName", json!("db"), restricted.clone()),
        ("Succeeded", "/spec/vmiName", json!("db"), restricted.clone()),
        ("Running", "/spec/priority", json!("user-triggered"), restricted),
        ("Running", "/spec/addedNodeSelector", json!({}), vec![]),
        ("Running", &at, json!("db"), label("modified on")),
        ("", &at, json!("db"), label("modified on")),
        ("Running", "/metadata/labels", json!({"a": "b"}), label("removed from")),
        ("Running", "/metadata/labels", Value::Null, label("removed from")),
        ("Succeeded", "/metadata/labels", Value::Null, vec![]),
        ("Failed", &at, json!("db"), vec![]),
        ("Running", "/metadata/labels/a", json!("b"), vec![]),
        ("Running", "/metadata/finalizers", json!([]), vec![]),
    ] {
        let mut changed = stored(phase);
        set(&mut changed, pointer, value);
        assert_eq!(
            told(&ask(UPDATE, &update(stored(phase), changed), &context())),
            expected,
            "{phase} {pointer}"
        );
    }
    // A label that is missing may be added, and an object that goes is let go.
    let mut bare = stored("Running");
    bare["metadata"]["labels"] = json!({});
    assert_eq!(ask(UPDATE, &update(bare.clone(), stored("Running")), &context()), AdmissionResponse::yes());
    bare["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(ask(UPDATE, &update(stored("Running"), bare), &context()), AdmissionResponse::yes());
}

fn vm(volumes: &Value, disks: &Value) -> Box<api::vm::VirtualMachine> {
    let spec = json!({"domain": {"devices": {"disks": disks}}, "volumes": volumes});
    let vm = json!({"metadata": {"namespace": "n", "name": "web"}, "spec": {"template": {"spec": spec}}});
    Box::new(api::wire::read(vm).unwrap())
}

/// What the template of a VM says is refused before the migration exists.
#[test]
fn a_stopped_vm_without_a_disk_that_moves_is_refused() {
    let mut object = migration();
    object["spec"]["offline"] = json!(true);
    let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let local = json!({"name": "local", "hostDisk": {"path": "/d", "type": "Disk"}});
    let image = json!({"name": "image", "containerDisk": {"image": "i"}});
    let cdrom = json!([{"name": "cd", "cdrom": {}}, {"name": "root", "disk": {}}]);
    for (volumes, disks, why) in [
        (json!([claim("root"), image]), json!([]), ""),
        (json!([claim("root"), claim("cd")]), cdrom.clone(), ""),
        (
            json!([{"name": "root", "ephemeral": {"persistentVolumeClaim": {"claimName": "a"}}}]),
            json!([]),
            "",
        ),
        (json!([image]), json!([]), "it has no PVC, and can start on any node as it is"),
        (json!([]), json!([]), "it has no PVC, and can start on any node as it is"),
        (
            json!([claim("cd"), image]),
            cdrom,
            "of its disks only CD-ROMs are on PVCs (cd), and only disks that the guest may write to are moved",
        ),
        (json!([claim("root"), local]), json!([]), "the volume local is a hostDisk that is not shared"),
    ] {
        let facts = MigrationFacts { vm: Some(vm(&volumes, &disks)), ..MigrationFacts::default() };
        let answer =
            told(&ask(CREATE, &new(object.clone()), &RequestContext { migration: Some(facts), ..context() }));
        let message = format!("the disks of VM \"n/web\" do not move without its guest: {why}");
        assert_eq!(answer, if why.is_empty() { vec![] } else { fault("spec.offline", &message) });
    }
}

#[test]
fn the_disks_of_a_vm_are_moved_where_it_is_stopped() {
    let mut object = migration();
    object["spec"]["offline"] = json!(true);
    let with = |vmi: Option<&str>, has_vm: bool, active: Option<&str>| {
        let running = facts("/status/phase", json!(vmi), active).migration.unwrap_or_default();
        let vmi = running.vmi.filter(|_| vmi.is_some());
        let vm = has_vm.then(|| vm(&json!([{"name": "root", "dataVolume": {"name": "data"}}]), &json!([])));
        RequestContext { migration: Some(MigrationFacts { vmi, vm, ..running }), ..context() }
    };
    let missing = "the VM \"n/web\" does not exist";
    let runs = "spec.offline moves the disks of a stopped VM, and VM \"n/web\" runs: remove the field to migrate it with its guest, or \
                stop it";
    let active = "in-flight migration detected. Active migration job (u) is currently already in progress for VMI web. Its name is move-1.";
    for (context, expected) in [
        (with(None, true, None), None),
        (with(Some("Succeeded"), true, None), None),
        (with(None, false, None), Some(("spec.vmiName", missing))),
        (with(Some("Failed"), false, None), Some(("spec.vmiName", missing))),
        (with(Some("Running"), false, None), Some(("spec.offline", runs))),
        (with(None, true, Some("u")), Some(("spec.vmiName", active))),
        (with(Some("Running"), false, Some("u")), Some(("spec.vmiName", active))),
    ] {
        let expected = expected.map(|(field, message)| fault(field, message)).unwrap_or_default();
        assert_eq!(told(&ask(CREATE, &new(object.clone()), &context)), expected);
    }
}
