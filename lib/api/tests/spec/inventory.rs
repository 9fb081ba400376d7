//! `inventory.txt` as data, and samples of the objects that it describes.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The key of a map whose keys are free, and of parts that are kept as they stand.
pub(crate) const FREE: &str = "free";

/// The structs by name; those of CDI begin with `cdi.`.
pub(crate) struct Inventory(BTreeMap<String, Vec<Field>>);

/// A field.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Struct(String),
    List(Box<Kind>),
    Map(Box<Kind>),
    Word(Vec<String>),
    Plain(String),
}

impl Inventory {
    pub(crate) fn read() -> Inventory {
        let mut structs = BTreeMap::new();
        let mut prefix = "";
        for line in include_str!("inventory.txt").lines() {
            if let Some(section) = line.strip_prefix("## ") {
                prefix = if section.starts_with("cdi") { "cdi." } else { "" };
            } else if let Some((name, fields)) = line.split_once(": ").filter(|_| !line.starts_with('#')) {
                structs.insert(format!("{prefix}{name}"), read_fields(fields, prefix));
            }
        }
        Inventory(structs)
    }

    pub(crate) fn fields(&self, name: &str) -> &[Field] {
        self.0.get(name).unwrap_or_else(|| panic!("{name} is not in the inventory"))
    }

    /// An object with every field.
    pub(crate) fn sample(&self, name: &str) -> Value {
        let fields = self.fields(name).iter();
        Value::Object(
            fields.map(|field| (field.name.clone(), self.value(&field.kind))).collect::<Map<_, _>>(),
        )
    }

    /// A value of a kind.
    pub(crate) fn value(&self, kind: &Kind) -> Value {
        match kind {
            Kind::Struct(name) => self.sample(name),
            Kind::List(item) => json!([self.value(item)]),
            Kind::Map(item) => json!({FREE: self.value(item)}),
            Kind::Word(words) => json!(words[words.len() - 1]),
            Kind::Plain(name) => match name.as_str() {
                "bool" => json!(true),
                "int" => json!(1),
                "number" => json!(1.5),
                "duration" => json!("5m0s"),
                "quantity" => json!("1Gi"),
                "percent" => json!("0.06"),
                "intOrString" => json!("25%"),
                "objectMeta" => json!({"name": "one", "labels": {FREE: "one"}}),
                "labelSelector" => json!({"matchLabels": {FREE: "one"}}),
                "k8s.ResourceList" => json!({FREE: "1Gi"}),
                "k8s.LocalObjectReference" => json!({"name": "one"}),
                "k8s.PersistentVolumeClaimSpec" => {
                    json!({"accessModes": ["ReadWriteOnce"], "volumeName": "one"})
                }
                "k8s.VolumeResourceRequirements" | "k8s.ResourceRequirements" => {
                    json!({"requests": {FREE: "1Gi"}})
                }
                "k8s.TypedLocalObjectReference" | "k8s.TypedObjectReference" => {
                    json!({"apiGroup": "one", "kind": "One", "name": "one"})
                }
                "string"
                | "time"
                | "k8s.PullPolicy"
                | "k8s.DNSPolicy"
                | "k8s.PodQOSClass"
                | "k8s.ConditionStatus"
                | "k8s.PersistentVolumeMode"
                | "k8s.PersistentVolumeAccessMode" => {
                    json!("one")
                }
                // What an API server would miss in them stands beside what is free.
                "k8s.TopologySpreadConstraint" => {
                    json!({FREE: {"kept": 1}, "maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "b"})
                }
                "k8s.NodeSelectorRequirement" => json!({FREE: {"kept": 1}, "key": "a", "operator": "In"}),
                "k8s.HTTPGetAction" => json!({FREE: {"kept": 1}, "port": "web"}),
                "k8s.TCPSocketAction" => json!({FREE: {"kept": 1}, "port": 80}),
                "k8s.DownwardAPIVolumeFile" => json!({FREE: {"kept": 1}, "path": "labels"}),
                free if free.starts_with("k8s.") => json!({FREE: {"kept": 1}}),
                other => panic!("what is {other}?"),
            },
        }
    }
}

fn read_fields(text: &str, prefix: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    for part in text.split("; ") {
        if let Some(inline) = part.strip_prefix("(inline k8s.") {
            let inline: &[(&str, &str)] = match inline.trim_end_matches(')') {
                "PersistentVolumeClaimVolumeSource" => &[("claimName", "string"), ("readOnly", "bool")],
                "LocalObjectReference" => &[("name", "string")],
                other => panic!("what is {other}?"),
            };
            fields.extend(inline.iter().map(|(name, kind)| field(name, kind, prefix)));
        } else if part != "(empty object)" {
            let (name, kind) = part.split_once(' ').unwrap_or_else(|| panic!("{part:?} has no type"));
            fields.push(field(name.trim_end_matches('!'), kind, prefix));
        }
    }
    fields
}

fn field(name: &str, kind: &str, prefix: &str) -> Field {
    Field { name: name.to_owned(), kind: read_kind(kind, prefix) }
}

fn read_kind(text: &str, prefix: &str) -> Kind {
    if let Some(item) = text.strip_prefix('[') {
        Kind::List(Box::new(read_kind(item.trim_end_matches(']'), prefix)))
    } else if let Some(item) = text.strip_prefix("{string:") {
        Kind::Map(Box::new(read_kind(item.trim_end_matches('}'), prefix)))
    } else if let Some(words) = text.strip_prefix("enum(") {
        Kind::Word(words.trim_end_matches(')').split('|').map(str::to_owned).collect())
    } else if let Some(name) = text.strip_prefix("cdiv1.") {
        Kind::Struct(format!("cdi.{name}"))
    } else if text.starts_with(|c: char| c.is_ascii_uppercase()) {
        Kind::Struct(format!("{prefix}{text}"))
    } else {
        Kind::Plain(text.to_owned())
    }
}
