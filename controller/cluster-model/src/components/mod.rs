//! Fields of the installation's own programs that the KubeVirt object may change: placement, number of pods,
//! resources, labels and annotations. Images, commands, volumes and privileges are not among them.
//!
//! ```text
//!  manifests ── annotation PRISTINE: the fields as they were applied ─┐
//!                                                                    ├─ virt-controller ─► the fields; annotation PLACED: which of them
//!  KubeVirt ── infra, workloads, imagePullSecrets, product*, ────────┘                     are not those of the manifests
//!              customizeComponents (patch: the three types)
//! ```
//!
//! Every field has a name, by which the annotations know it:
//!
//! | name | is |
//! |---|---|
//! | `replicas`, `strategy`, … ([`OF_WORKLOAD`]) | a field of `spec` |
//! | `affinity`, … ([`OF_PODS`]) | a field of the pods' `spec` |
//! | `containers/NAME/resources`, `/args`; `initContainers/…` | a field of a container ([`OF_CONTAINERS`]) |
//! | `labels/KEY`, `annotations/KEY`, `pods/labels/KEY`, `pods/annotations/KEY` | of the object, and of its pods ([`is_open`]) |
//!
//! A policy of the API server restricts virt-controller to the same fields (package `install`): its token
//! cannot be used to change an image, a command, a volume or a privilege. One pod of virt-controller itself
//! stays during every change ([`keeps_a_pod`]).

mod json;
pub mod patch;
mod rollout;
mod strategic;

pub use rollout::{KEPT, keeps_a_pod};

use serde_json::{Map, Value, json};

/// The annotation of a Deployment or a DaemonSet with these fields as its manifest has them, as JSON.
pub const PRISTINE: &str = "kubevirt.io/pristine-placement";
/// The annotation with the names of the fields that virt-controller has written, separated by commas.
pub const PLACED: &str = "kubevirt.io/placed";
/// The annotation with a hash of the last write and the generation of the object at that time. The name is
/// upstream's.
pub const WRITTEN: &str = "kubevirt.io/customizer-identifier";
/// The annotations that virt-controller writes itself.
pub const NOTES: [&str; 2] = [PLACED, WRITTEN];
/// The field of a Deployment that says how many pods it has.
pub const REPLICAS: &str = "replicas";
/// The fields of `spec`.
pub const OF_WORKLOAD: [&str; 6] = [
    "minReadySeconds",
    "progressDeadlineSeconds",
    REPLICAS,
    "revisionHistoryLimit",
    "strategy",
    "updateStrategy",
];
/// The fields of the pods.
pub const OF_PODS: [&str; 7] = [
    "affinity",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
];
/// The fields of a pod's spec that list containers.
pub const CONTAINERS: [&str; 2] = ["containers", "initContainers"];
/// The fields of a container. Of the arguments those of the manifests stay ([`api::kubevirt::flags`]).
pub const OF_CONTAINERS: [&str; 2] = ["args", "resources"];
/// Open domains of labels and annotations, beside keys without one. Any other key may ask a
/// webhook of the cluster to put a container of its choice into the pod.
pub const DOMAINS: [&str; 3] = ["app.kubernetes.io", "cluster-autoscaler.kubernetes.io", "prometheus.io"];
/// Suffix of the keys without a slash that are reserved for the installation.
pub const OWN: &str = "kubevirt.io";

/// Prefixes of the names of labels and annotations, each with the JSON pointer to its map.
const MAPS: [(&str, &str); 4] = [
    ("labels/", "/metadata/labels"),
    ("annotations/", "/metadata/annotations"),
    ("pods/labels/", "/spec/template/metadata/labels"),
    ("pods/annotations/", "/spec/template/metadata/annotations"),
];

/// True if a label or an annotation with this key may be changed.
pub fn is_open(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, name)) => DOMAINS.contains(&domain) && !name.contains('/'),
        None => !key.is_empty() && key != OWN && !key.ends_with(".kubevirt.io"),
    }
}

/// The customizable fields of a Deployment or a DaemonSet as it stands, by their names.
pub fn customizable_fields(object: &Value) -> Map<String, Value> {
    let mut found = Map::new();
    let mut take = |name: String, value: &Value| {
        if !value.is_null() {
            found.insert(name, value.clone());
        }
    };
    let (spec, pods) = (&object["spec"], &object["spec"]["template"]["spec"]);
    OF_WORKLOAD.iter().for_each(|name| take((*name).to_owned(), &spec[name]));
    OF_PODS.iter().for_each(|name| take((*name).to_owned(), &pods[name]));
    for list in CONTAINERS {
        for container in pods[list].as_array().into_iter().flatten() {
            let Some(of) = container["name"].as_str() else { continue };
            OF_CONTAINERS.iter().for_each(|name| take(format!("{list}/{of}/{name}"), &container[name]));
        }
    }
    for (begins, at) in MAPS {
        let map = object.pointer(at).and_then(Value::as_object);
        for (key, value) in map.into_iter().flatten().filter(|(key, _)| is_open(key)) {
            take(format!("{begins}{key}"), value);
        }
    }
    found
}

/// True if the name is that of a label or an annotation. Other controllers write to these maps too, and their
/// keys are left alone.
pub fn is_shared(name: &str) -> bool {
    MAPS.iter().any(|(begins, _)| name.starts_with(begins))
}

/// Sets the field of this name; `None` removes it. The name of an unknown field or of a missing container
/// changes nothing.
pub fn set(object: &mut Value, name: &str, value: Option<&Value>) {
    let Some((at, key)) = locate(object, name) else { return };
    if value.is_none() && object.pointer(&at).is_none() {
        return;
    }
    let Some(parent) = at_path(object, &at) else { return };
    if !parent.is_object() {
        *parent = json!({});
    }
    let Some(fields) = parent.as_object_mut() else { return };
    match value {
        Some(value) => drop(fields.insert(key, value.clone())),
        None => drop(fields.remove(&key)),
    }
}

/// The parent of the field of this name, as a JSON pointer, and the key in the parent.
fn locate(object: &Value, name: &str) -> Option<(String, String)> {
    if let Some((begins, at)) = MAPS.iter().find(|(begins, _)| name.starts_with(begins)) {
        let key = name.strip_prefix(begins).filter(|key| is_open(key))?;
        return Some(((*at).to_owned(), key.to_owned()));
    }
    if OF_WORKLOAD.contains(&name) {
        return Some(("/spec".to_owned(), name.to_owned()));
    }
    const PODS: &str = "/spec/template/spec";
    if OF_PODS.contains(&name) {
        return Some((PODS.to_owned(), name.to_owned()));
    }
    let (list, rest) = name.split_once('/')?;
    let (of, field) = rest.rsplit_once('/')?;
    if !CONTAINERS.contains(&list) || !OF_CONTAINERS.contains(&field) {
        return None;
    }
    let all = object.pointer(PODS)?[list].as_array()?;
    let index = all.iter().position(|container| container["name"] == of)?;
    Some((format!("{PODS}/{list}/{index}"), field.to_owned()))
}

/// The value at a pointer. Missing objects on the way are created.
fn at_path<'v>(object: &'v mut Value, pointer: &str) -> Option<&'v mut Value> {
    pointer.split('/').skip(1).try_fold(object, |value, step| match value {
        Value::Array(list) => list.get_mut(step.parse::<usize>().ok()?),
        Value::Object(fields) => Some(fields.entry(step.to_owned()).or_insert_with(|| json!({}))),
        _ => None,
    })
}

/// The object without the customizable fields, pruned of empty values: the part that must stay as the
/// manifests have it.
pub fn without_customizable_fields(object: &Value) -> Value {
    let mut rest = object.clone();
    for name in customizable_fields(object).keys() {
        set(&mut rest, name, None);
    }
    pruned(&rest).unwrap_or(Value::Null)
}

/// A value without null, empty lists and empty objects. The API server leaves some of them out.
pub fn pruned(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(list) => {
            let list: Vec<Value> =
                list.iter().map(|entry| pruned(entry).unwrap_or_else(|| json!({}))).collect();
            (!list.is_empty()).then_some(Value::Array(list))
        }
        Value::Object(fields) => {
            let fields: Map<String, Value> =
                fields.iter().filter_map(|(name, value)| Some((name.clone(), pruned(value)?))).collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        other => Some(other.clone()),
    }
}

/// Path of the first difference between two values; `None` if they are equal.
pub fn differs(one: &Value, other: &Value) -> Option<String> {
    let below = |step: String, rest: String| if rest.is_empty() { step } else { format!("{step}/{rest}") };
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let all = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
            let mut found = all.filter_map(|name| {
                let value = |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                Some(below(name.clone(), differs(&value(one), &value(other))?))
            });
            found.next()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(at, (one, other))| Some(below(at.to_string(), differs(one, other)?)))
        }
        _ => (one != other).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Value {
        json!({
            "metadata": {"name": "a", "labels": {"kubevirt.io": "a", "team": "x"}, "annotations": {"kubevirt.io/placed": "z"}},
            "spec": {"replicas": 2, "template": {
                "metadata": {"labels": {"prometheus.kubevirt.io": "true", "app.kubernetes.io/version": "1"}},
                "spec": {
                    "tolerations": [{"operator": "Exists"}], "hostPID": true,
                    "containers": [{"name": "a", "image": "i:1", "args": ["--b"], "resources": {"requests": {"cpu": "1"}}}],
                },
            }},
        })
    }

    #[test]
    fn of_an_object_these_fields_are_taken_and_nothing_else() {
        let fields = customizable_fields(&whole());
        let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "containers/a/args",
                "containers/a/resources",
                "labels/team",
                "pods/labels/app.kubernetes.io/version",
                "replicas",
                "tolerations",
            ]
        );
        let mut bare = whole();
        names.iter().for_each(|name| set(&mut bare, name, None));
        assert_eq!(customizable_fields(&bare), Map::new());
        assert_eq!(bare["spec"]["template"]["spec"]["containers"][0], json!({"name": "a", "image": "i:1"}));
        fields.iter().for_each(|(name, value)| set(&mut bare, name, Some(value)));
        assert_eq!(bare, whole());
    }

    #[test]
    fn a_name_that_is_no_fields_changes_nothing() {
        for name in [
            "hostPID",
            "template",
            "containers/a/image",
            "containers/b/args",
            "labels/kubevirt.io",
            "pods/labels/prometheus.kubevirt.io",
            "pods/annotations/sidecar.istio.io/inject",
            "annotations/kubevirt.io/placed",
            "",
        ] {
            let mut object = whole();
            set(&mut object, name, Some(&json!("x")));
            assert_eq!(object, whole(), "{name}");
            set(&mut object, name, None);
            assert_eq!(object, whole(), "{name}");
        }
        let mut object = json!({"metadata": {}});
        set(&mut object, "pods/labels/a", Some(&json!("b")));
        assert_eq!(object["spec"]["template"]["metadata"]["labels"], json!({"a": "b"}));
    }

    #[test]
    fn keys_that_others_act_upon_are_not_open() {
        for key in ["team", "app.kubernetes.io/version", "prometheus.io/scrape", "a.b"] {
            assert!(is_open(key), "{key}");
        }
        for key in [
            "",
            "kubevirt.io",
            "prometheus.kubevirt.io",
            "kubevirt.io/a",
            "sidecar.istio.io/inject",
            "app.kubernetes.io/a/b",
        ] {
            assert!(!is_open(key), "{key}");
        }
    }

    #[test]
    fn what_stays_tells_where_it_differs() {
        let mut other = whole();
        other["spec"]["replicas"] = json!(3);
        other["metadata"]["labels"]["team"] = json!("y");
        assert_eq!(
            differs(&without_customizable_fields(&whole()), &without_customizable_fields(&other)),
            None
        );
        other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("evil:1");
        let at = differs(&without_customizable_fields(&whole()), &without_customizable_fields(&other));
        assert_eq!(at.as_deref(), Some("spec/template/spec/containers/0/image"));
        assert_eq!(pruned(&json!({"a": [], "b": {"c": null}, "d": false})), Some(json!({"d": false})));
    }
}
