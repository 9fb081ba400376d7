//! The instance type of a VM by the labels of what its disk is a clone of: of another namespace they are read by the right to clone
//! alone.

use super::*;

const LABEL: &str = "instancetype.kubevirt.io/default-instancetype";

fn vm() -> Key {
    key(Kind::VirtualMachine, T, "web")
}

/// A cluster with an instance type, which the PVC S/golden names.
fn labelled() -> Sim {
    let mut sim = cluster();
    let spec = json!({"cpu": {"guest": 2}, "memory": {"guest": "256Mi"}});
    sim.put(Kind::VirtualMachineClusterInstancetype, json!({"metadata": {"name": "small"}, "spec": spec}));
    label(&mut sim, &golden());
    sim
}

fn label(sim: &mut Sim, key: &Key) {
    sim.change(key, json!({"metadata": {"labels": {LABEL: "small"}}}));
}

/// A VM on the disk is there from now on. `templates`: of its DataVolumes.
fn begins(sim: &mut Sim, templates: &Value) {
    let mut object = crate::sim::vm("web", "Always");
    object["metadata"]["namespace"] = json!(T);
    object["spec"]["instancetype"] = json!({"inferFromVolume": "root"});
    object["spec"]["dataVolumeTemplates"] = templates.clone();
    let spec = &mut object["spec"]["template"]["spec"];
    spec["volumes"] = json!([{"name": "root", "dataVolume": {"name": "disk"}}]);
    spec["domain"].as_object_mut().unwrap().remove("memory");
    sim.put(Kind::VirtualMachine, object);
    sim.settle();
}

/// The name that was inferred, or what is said instead.
fn inferred(sim: &Sim) -> Result<String, String> {
    let name = &sim.get(&vm())["spec"]["instancetype"]["name"];
    match name.as_str() {
        Some(name) => Ok(name.to_owned()),
        None => Err(sim.condition(&vm(), "Failure").map(|(_, _, message)| message).unwrap_or_default()),
    }
}

/// A DataVolume whose maker has shown no right.
fn without(sim: &Sim, spec: Value) -> Value {
    let mut object = volume(sim, spec);
    object["metadata"]["annotations"] = json!({});
    object
}

#[test]
fn what_its_maker_may_clone_names_the_instance_type() {
    let mut sim = labelled();
    let object = volume(&sim, pvc(S));
    begins(&mut sim, &json!([]));
    assert!(inferred(&sim).unwrap_err().contains("\"disk\" not found"), "{:?}", inferred(&sim));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    assert_eq!(inferred(&sim), Ok("small".to_owned()));

    // And the DataSource by which it is cloned.
    let mut sim = labelled();
    sim.change(&golden(), json!({"metadata": {"labels": null}}));
    data_source(&mut sim, S, "os", json!({"pvc": {"namespace": S, "name": "golden"}}));
    label(&mut sim, &key(Kind::DataSource, S, "os"));
    let object = volume(&sim, referred(S));
    sim.put(Kind::DataVolume, object);
    begins(&mut sim, &json!([]));
    assert_eq!(inferred(&sim), Ok("small".to_owned()));
}

/// Whether it is there, and whether it has labels, and which: all of it is one sentence.
#[test]
fn without_the_right_nothing_of_another_namespace_is_read_from_its_labels() {
    let said_of = |spec: Value, is_there: bool, has_label: bool, forges: bool| {
        let mut sim = labelled();
        data_source(&mut sim, S, "os", json!({"pvc": {"namespace": S, "name": "golden"}}));
        let source = key(Kind::DataSource, S, "os");
        label(&mut sim, &source);
        for key in [golden(), source] {
            match (is_there, has_label) {
                (false, _) => sim.vanish(&key),
                (true, false) => sim.change(&key, json!({"metadata": {"labels": null}})),
                (true, true) => {}
            }
        }
        let object = without(&sim, spec);
        sim.put(Kind::DataVolume, object);
        sim.settle();
        if forges {
            let uid = sim.get(&disk())["metadata"]["uid"].clone();
            let owner = json!({
                "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "disk", "uid": uid, "controller": true,
            });
            let meta = json!({
                "namespace": T, "name": "disk", "ownerReferences": [owner], "annotations": {CLONE_REQUEST: "s/golden"},
            });
            sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": {}}));
        }
        begins(&mut sim, &json!([]));
        inferred(&sim).unwrap_err()
    };
    let one = said_of(pvc(S), true, true, false);
    assert!(one.starts_with("unable to infer defaults from the namespace s: "), "{one}");
    for spec in [pvc(S), referred(S)] {
        for (is_there, has_label) in [(true, true), (true, false), (false, false)] {
            for forges in [false, true] {
                let said = said_of(spec.clone(), is_there, has_label, forges);
                assert_eq!(said, one, "{spec} there: {is_there}, label: {has_label}, forged: {forges}");
            }
        }
    }
}

/// The right is one to this clone. What the VM says of its disk is another matter.
#[test]
fn a_template_that_names_another_source_than_the_clone_names_nothing() {
    let mut sim = labelled();
    sim.change(&golden(), json!({"metadata": {"labels": null}}));
    let meta = json!({"namespace": S, "name": "secret", "labels": {LABEL: "small"}});
    sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": {}, "status": {"phase": "Bound"}}));
    data_source(&mut sim, S, "os", json!({"pvc": {"namespace": S, "name": "secret"}}));
    label(&mut sim, &key(Kind::DataSource, S, "os"));
    let object = volume(&sim, pvc(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    assert!(sim.objects.contains_key(&claim()), "it is a clone of S/golden, by right");
    for spec in [json!({"source": {"pvc": {"namespace": S, "name": "secret"}}, "storage": {}}), referred(S)] {
        begins(&mut sim, &json!([{"metadata": {"name": "disk"}, "spec": spec}]));
        let said = inferred(&sim).unwrap_err();
        assert!(said.starts_with("unable to infer defaults from the namespace s: "), "{spec}: {said}");
    }
}
