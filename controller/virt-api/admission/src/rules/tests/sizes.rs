//! Instance types and preferences: their own validation, and that of VMs that reference them.

use super::base::*;
use crate::rules::{RequestContext, Sizes};
use api::instancetype::{MatcherKind, Role, Scope};
use cluster_model::instancetypes::LiveObject;
use serde_json::{Value, json};

const PATHS: [[&str; 2]; 2] = [
    ["/virtualmachineinstancetypes-validate", "/virtualmachineclusterinstancetypes-validate"],
    ["/virtualmachinepreferences-validate", "/virtualmachineclusterpreferences-validate"],
];

#[test]
fn what_is_wrong_with_one_is_told_in_the_words_of_upstream() {
    let size =
        |memory: Value| json!({"metadata": {"name": "a"}, "spec": {"cpu": {"guest": 1}, "memory": memory}});
    let system = |cpu: Value| json!({"metadata": {"name": "a"}, "spec": {"cpu": cpu}});
    for path in PATHS[0] {
        assert!(ask(path, &create(size(json!({"guest": "1Gi"}))), &context()).is_yes(), "{path}");
        let answer = ask(path, &create(size(json!({"guest": "1Gi", "overcommitPercent": 101}))), &context());
        let message = "spec.memory.overcommitPercent '101': must be in range between 0 and 100.";
        assert_eq!(told(&answer), [("spec.memory.overcommitPercent".into(), message.into())], "{path}");
        let answer = ask(path, &create(size(json!({"guest": "much"}))), &context());
        assert_eq!(told(&answer)[0].0, "spec.memory.guest", "{path}");
        let answer = ask(path, &create(json!({"metadata": {"name": "a"}})), &context());
        assert_eq!(told(&answer).len(), 2, "{path}: no size");
        let odd = json!({"metadata": {"name": "a"}, "spec": {
            "cpu": {"guest": 1}, "memory": {"guest": "1Gi"}, "launchSecurity": {}, "colour": "red",
        }});
        let warnings = ask(path, &create(odd), &context()).warnings;
        assert!(
            warnings[0].contains("spec.colour") && warnings[1].contains("launchSecurity"),
            "{warnings:?}"
        );
    }
    for path in PATHS[1] {
        assert!(ask(path, &create(system(json!({}))), &context()).is_yes(), "{path}");
        let answer = ask(path, &create(system(json!({"preferredCPUTopology": "round"}))), &context());
        let message = "unknown preferredCPUTopology round";
        assert_eq!(told(&answer), [("spec.cpu.preferredCPUTopology".into(), message.into())], "{path}");
        let old = ask(path, &create(system(json!({"preferredCPUTopology": "preferAny"}))), &context());
        assert!(old.is_yes() && old.warnings[0].contains("please use any instead"), "{:?}", old.warnings);
    }
}

#[test]
fn what_is_no_longer_right_may_be_labelled_and_let_go() {
    let wrong = json!({"metadata": {"name": "a"}, "spec": {"cpu": {"guest": 0}}});
    let mut labelled = wrong.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let path = PATHS[0][0];
    assert!(ask(path, &update(wrong.clone(), labelled), &context()).is_yes());
    let mut worse = wrong.clone();
    worse["spec"]["cpu"]["model"] = json!("a");
    assert!(!ask(path, &update(wrong.clone(), worse.clone()), &context()).is_yes());
    let leaving = |mut object: Value| {
        object["metadata"]["deletionTimestamp"] = json!("now");
        object
    };
    assert!(ask(path, &update(wrong.clone(), leaving(wrong.clone())), &context()).is_yes());
    assert!(!ask(path, &update(leaving(wrong), leaving(worse)), &context()).is_yes());
}

const MUTATE: &str = "/virtualmachines-mutate";
const VALIDATE: &str = "/virtualmachines-validate";

/// Context of a cluster with these.
fn with_sizes(instancetype: Value, preference: Value) -> RequestContext {
    let live = |role, name: &str, spec: Value| LiveObject {
        kind: MatcherKind { role, scope: Scope::Cluster },
        meta: api::wire::read(json!({"name": name, "uid": "9f1c", "generation": 2})).unwrap(),
        spec,
    };
    let live =
        vec![live(Role::Instancetype, "small", instancetype), live(Role::Preference, "linux", preference)];
    RequestContext { sizes: Sizes { live, is_complete: true }, ..context() }
}

fn small() -> Value {
    json!({"cpu": {"guest": 2}, "memory": {"guest": "1Gi"}})
}

/// A VM without a size.
fn sized(matchers: &Value) -> Value {
    let mut vm = vm();
    vm["spec"]["template"]["spec"]["domain"].as_object_mut().unwrap().remove("memory");
    cluster_model::plan::merge(&mut vm["spec"], matchers);
    vm
}

#[test]
fn a_vm_is_judged_with_the_values_of_both() {
    let named = json!({"instancetype": {"name": "small"}, "preference": {"name": "linux"}});
    let judged =
        |preference: Value| told(&ask(VALIDATE, &create(sized(&named)), &with_sizes(small(), preference)));
    assert_eq!(judged(json!({})), []);
    // The machine type is only in the preference.
    let field = "spec.template.spec.domain.machine.type";
    let message = format!("{field} is not supported: pc (allowed values: [q35* pc-q35*])");
    assert_eq!(judged(json!({"machine": {"preferredMachineType": "pc"}})), [(field.to_owned(), message)]);
    let message = "failure checking preference requirements: insufficient CPU resources of 2 vCPU provided by instance type, \
         preference requires 4 vCPU";
    assert_eq!(
        judged(json!({"requirements": {"cpu": {"guest": 4}}})),
        [("spec.instancetype".to_owned(), message.to_owned())]
    );
}

#[test]
fn each_field_that_both_set_is_a_cause() {
    let mut both = sized(&json!({"instancetype": {"name": "small"}}));
    both["spec"]["template"]["spec"]["domain"]["cpu"] = json!({"cores": 2});
    both["spec"]["template"]["spec"]["domain"]["memory"] = json!({"guest": "1Gi"});
    let causes = told(&ask(VALIDATE, &create(both), &with_sizes(small(), json!({}))));
    let wanted =
        ["spec.template.spec.domain.cpu.cores", "spec.template.spec.domain.memory.guest"].map(|field| {
            (field.to_owned(), format!("VM field(s) {field} conflicts with selected instance type"))
        });
    assert_eq!(causes, wanted);
}

#[test]
fn what_is_not_there_is_not_found() {
    let at =
        |matchers: Value| told(&ask(VALIDATE, &create(sized(&matchers)), &with_sizes(small(), json!({}))));
    let one = |field: &str, message: &str| vec![(field.to_owned(), message.to_owned())];
    assert_eq!(
        at(json!({"instancetype": {"name": "large"}})),
        one(
            "spec.instancetype",
            "Failure to find instancetype: virtualmachineclusterinstancetypes.instancetype.kubevirt.io \"large\" not found"
        )
    );
    assert_eq!(
        at(
            json!({"instancetype": {"name": "small"}, "preference": {"name": "linux", "kind": "virtualmachinepreference"}})
        ),
        one(
            "spec.preference",
            "Failure to find preference: virtualmachinepreferences.instancetype.kubevirt.io \"linux\" not found"
        )
    );
    assert_eq!(
        at(json!({"instancetype": {"name": "small", "kind": "Pod"}})),
        one(
            "spec.instancetype",
            "Failure to find instancetype: got unexpected kind in InstancetypeMatcher: Pod"
        )
    );
    let neither = "Either Name or InferFromVolume should be provided within the instancetype matcher";
    assert_eq!(at(json!({"instancetype": {}})), one("spec.instancetype", neither));
    // Before they were listed, a missing one is not reported.
    let early = RequestContext { sizes: Sizes::default(), ..context() };
    assert!(ask(VALIDATE, &create(sized(&json!({"instancetype": {"name": "a"}}))), &early).is_yes());
    let wrong = told(&ask(
        VALIDATE,
        &create(sized(&json!({"instancetype": {"name": "small"}}))),
        &with_sizes(json!({"cpu": {"guest": 0}, "memory": {"guest": "1Gi"}}), json!({})),
    ));
    assert!(wrong[0].1.starts_with("small cannot be used: spec.cpu.guest"), "{wrong:?}");
}

/// The object may have changed or gone since: the VM keeps its revision.
#[test]
fn a_vm_that_keeps_another_revision_is_judged_when_it_starts() {
    let with_revision = |name: &str, revision: &str| {
        let mut vm = sized(&json!({"instancetype": {"name": name}}));
        let kind = "VirtualMachineClusterInstancetype";
        let kept = json!({"name": name, "kind": kind, "controllerRevisionRef": {"name": revision}});
        vm["status"] = json!({"instancetypeRef": kept});
        vm
    };
    let changed = |vm: Value| {
        let mut old = vm.clone();
        old["spec"]["runStrategy"] = json!("Halted");
        let answer = ask(VALIDATE, &update(old, vm), &with_sizes(small(), json!({})));
        assert!(answer.is_yes(), "{:?}", answer.faults);
        answer.warnings
    };
    assert_eq!(changed(with_revision("small", "web-small-v1beta1-9f1c-2")), [""; 0], "it is this one");
    for (name, revision) in [("small", "web-small-v1beta1-9f1c-1"), ("gone", "web-gone-v1beta1-1-1")] {
        let warnings = changed(with_revision(name, revision));
        assert!(warnings[0].contains(revision), "{warnings:?}");
    }
    let inferred = sized(&json!({"instancetype": {"inferFromVolume": "root"}}));
    assert!(ask(VALIDATE, &create(inferred), &context()).is_yes());
}

/// virt-controller creates the VMI, and may set reserved labels.
#[test]
fn labels_that_are_reserved_are_refused_whether_the_size_is_known_or_not() {
    for matcher in [
        json!({"name": "small"}),
        json!({"name": "small", "revisionName": "another-vms"}),
        json!({"inferFromVolume": "root"}),
    ] {
        let mut vm = sized(&json!({"instancetype": matcher}));
        vm["spec"]["template"]["metadata"]["labels"] = json!({"kubevirt.io/nodeName": "node7"});
        let answer = ask(VALIDATE, &create(vm), &with_sizes(small(), json!({})));
        let field = "spec.template.metadata.labels";
        assert_eq!(told(&answer).iter().filter(|(at, _)| at == field).count(), 1, "{:?}", answer.faults);
    }
}

#[test]
fn a_name_is_not_changed_without_its_revision() {
    let named = |name: &str| sized(&json!({"instancetype": {"name": name, "revisionName": "kept"}}));
    let answer = ask(VALIDATE, &update(named("small"), named("large")), &with_sizes(small(), json!({})));
    let message = "the Matcher Name has been updated without updating the RevisionName";
    assert_eq!(told(&answer), [("spec.instancetype.revisionName".to_owned(), message.to_owned())]);
}

#[test]
fn a_preference_comes_before_the_defaults() {
    let preference = json!({
        "machine": {"preferredMachineType": "pc-q35-7.2"}, "volumes": {"preferredStorageClassName": "fast"},
    });
    let mut object = sized(&json!({"instancetype": {"name": "small"}, "preference": {"name": "linux"}}));
    object["spec"]["dataVolumeTemplates"] = json!([{"metadata": {"name": "d"}, "spec": {"storage": {}}}]);
    let filled = changed(MUTATE, &create(object.clone()), &with_sizes(small(), preference));
    assert_eq!(filled["spec"]["template"]["spec"]["domain"]["machine"]["type"], "pc-q35-7.2");
    assert_eq!(filled["spec"]["dataVolumeTemplates"][0]["spec"]["storage"]["storageClassName"], "fast");
    assert_eq!(filled["spec"]["instancetype"]["kind"], "VirtualMachineClusterInstancetype");
    assert!(
        filled["spec"]["template"]["spec"]["domain"]["memory"].is_null(),
        "sizes are not written into it"
    );
    let inferred = json!({"instancetype": {"inferFromVolume": "root"}});
    let filled = changed(MUTATE, &create(sized(&inferred)), &context());
    assert_eq!(
        filled["spec"]["instancetype"],
        json!({"inferFromVolume": "root"}),
        "its volume names the kind"
    );
}
