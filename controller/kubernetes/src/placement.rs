//! What the KubeVirt object may change of a program of the installation: how many pods it has, where they run, and by which
//! Secrets their images are pulled. Nothing of what runs in them.
//!
//! ```text
//!  manifests ── annotation PRISTINE: the fields as they were applied ─┐
//!                                                                    ├─ virt-controller ─► the fields; annotation PLACED: which of them
//!  KubeVirt ── infra, workloads, imagePullSecrets ───────────────────┘                     are not those of the manifests
//! ```

use serde_json::{Map, Value, json};

/// The annotation of a Deployment or a DaemonSet with these fields as its manifest has them, as JSON.
pub const PRISTINE: &str = "kubevirt.io/pristine-placement";
/// The annotation with the names of the fields that virt-controller has written, separated by commas.
pub const PLACED: &str = "kubevirt.io/placed";
/// The one field beside those of the pods, which a Deployment has.
pub const REPLICAS: &str = "replicas";
/// The fields of the pods.
pub const OF_PODS: [&str; 4] = ["affinity", "imagePullSecrets", "nodeSelector", "tolerations"];

/// The fields of a Deployment or of a DaemonSet as it stands, by their names.
pub fn of(object: &Value) -> Map<String, Value> {
    let spec = &object["spec"];
    let of_pods = OF_PODS.iter().map(|name| (*name, &spec["template"]["spec"][name]));
    let all = of_pods.chain([(REPLICAS, &spec[REPLICAS])]);
    all.filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

/// These fields at their places in such an object. What holds them is there even where it is empty: of two such objects no more
/// than the fields differ.
pub fn object(fields: &Map<String, Value>) -> Value {
    let mut object = json!({"spec": {"template": {"spec": {}}}});
    for (name, value) in fields {
        match name == REPLICAS {
            true => object["spec"][REPLICAS] = value.clone(),
            false => object["spec"]["template"]["spec"][name] = value.clone(),
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_object_these_fields_are_taken_and_nothing_else() {
        let pods =
            json!({"tolerations": [{"operator": "Exists"}], "containers": [{"name": "a"}], "hostPID": true});
        let whole = json!({"metadata": {"name": "a"}, "spec": {"replicas": 2, "template": {"spec": pods}}});
        let fields = of(&whole);
        assert_eq!(
            Value::Object(fields.clone()),
            json!({"replicas": 2, "tolerations": [{"operator": "Exists"}]})
        );
        let placed =
            json!({"spec": {"replicas": 2, "template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}});
        assert_eq!(object(&fields), placed);
        assert_eq!(of(&placed), fields);
        // A patch that takes the last field away takes nothing else.
        let none = object(&Map::new());
        let pods = json!({"tolerations": null});
        let change = crate::plan::difference(&placed, &none).unwrap();
        assert_eq!(change, json!({"spec": {"replicas": null, "template": {"spec": pods}}}));
    }
}
