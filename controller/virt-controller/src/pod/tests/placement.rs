//! Where a pod may run.

use super::render;
use serde_json::{Value, json};

#[test]
fn a_guest_with_the_model_of_its_node_avoids_obsolete_ones() {
    let settings = json!({"configuration": {}});
    let terms = |cpu: Value, affinity: Value, settings: &Value| {
        let change = json!({"spec": {"domain": {"cpu": cpu}, "affinity": affinity}});
        let pod = render(change, settings.clone(), true);
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            .clone()
    };
    let avoids = json!({"key": "node-labeller.kubevirt.io/obsolete-host-model", "operator": "DoesNotExist"});
    let own = json!({"key": "disk", "operator": "Exists"});
    let host = || json!({"model": "host-model"});
    assert_eq!(terms(host(), Value::Null, &settings), json!([{"matchExpressions": [avoids]}]));
    assert_eq!(
        terms(Value::Null, Value::Null, &settings),
        json!([{"matchExpressions": [avoids]}]),
        "by default"
    );
    let two = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [own]}, {"matchFields": []}],
    }}});
    let expected =
        json!([{"matchExpressions": [own, avoids]}, {"matchFields": [], "matchExpressions": [avoids]}]);
    assert_eq!(terms(host(), two, &settings), expected, "each of them alone would do");
    assert_eq!(terms(json!({"model": "Nehalem"}), Value::Null, &settings), Value::Null);
    let mut emulated = settings.clone();
    emulated["configuration"]["developerConfiguration"] = json!({"useEmulation": true});
    assert_eq!(terms(host(), Value::Null, &emulated), Value::Null);
}
