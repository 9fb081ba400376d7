//! The definitions of our kinds: what is committed is what the types say, an API server takes them, and they are small
//! enough for `kubectl apply`.

use crate::yaml::yaml;
use api::crd::{self, KINDS};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// `kubectl apply` notes the whole object in an annotation, and all annotations together end at 256 KiB.
const LARGEST: usize = 240 * 1024;

#[test]
fn what_is_committed_is_what_the_types_say() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../controller/manifests/crds"));
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut names = BTreeSet::new();
    for kind in KINDS {
        let file = folder.join(format!("{}.yaml", kind.name()));
        let wanted = yaml(&kind.definition());
        if update {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, &wanted).unwrap();
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(found == wanted, "{} is another; UPDATE_GOLDEN=1 writes it anew", file.display());
        names.insert(file);
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().path();
        assert!(names.contains(&file), "{} belongs to no kind", file.display());
    }
}

#[test]
fn each_is_small_enough_to_be_applied() {
    for definition in crd::all() {
        let bytes = serde_json::to_vec(&definition).unwrap().len();
        assert!(bytes <= LARGEST, "{} has {bytes} bytes", definition["metadata"]["name"]);
    }
}

#[test]
fn one_version_is_stored_and_the_old_one_keeps_all_it_is_given() {
    for definition in crd::all() {
        let versions = definition["spec"]["versions"].as_array().unwrap();
        assert_eq!(versions.iter().filter(|version| version["storage"] == true).count(), 1);
        assert!(versions.iter().all(|version| version["served"] == true));
        for old in versions.iter().filter(|version| version["storage"] == false) {
            let keeps = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            assert_eq!(old["schema"]["openAPIV3Schema"], keeps);
        }
    }
}

/// Programs and people use these of upstream: what an object is in, what it is called for short, which columns are
/// shown, and whether its status is written beside it.
#[test]
fn the_kinds_of_cdi_are_called_as_upstream_and_show_whether_they_are_ready() {
    let mut told = String::new();
    for definition in crd::all().iter().filter(|one| one["spec"]["group"] == "cdi.kubevirt.io") {
        let names = &definition["spec"]["names"];
        let list = |list: &Value| {
            let words = list.as_array().into_iter().flatten().filter_map(Value::as_str);
            words.collect::<Vec<_>>().join(",")
        };
        let version = &definition["spec"]["versions"][0];
        let columns = version["additionalPrinterColumns"].as_array().unwrap().iter();
        let columns: Vec<&str> = columns.map(|column| column["name"].as_str().unwrap()).collect();
        let status = if version["subresources"]["status"].is_object() { "status" } else { "-" };
        let (plural, scope) =
            (names["plural"].as_str().unwrap(), definition["spec"]["scope"].as_str().unwrap());
        let (short, all) = (list(&names["shortNames"]), list(&names["categories"]));
        told += &format!("{plural} {scope} [{short}] [{all}] {status} {}\n", columns.join(","));
        assert_eq!(version["name"], "v1beta1");
    }
    assert_eq!(
        told,
        "datavolumes Namespaced [dv,dvs] [all] status Phase,Progress,Restarts,Age\n\
         datasources Namespaced [das] [all] - Age,Ready,PVC\n\
         dataimportcrons Namespaced [dic,dics] [all] - Format,UpToDate,DataSource,Age,Progressing\n\
         volumeimportsources Namespaced [] [] - Age\n\
         volumeuploadsources Namespaced [] [] - Age\n\
         volumeclonesources Namespaced [] [] - Age\n\
         storageprofiles Cluster [] [] status Age\n\
         cdiconfigs Cluster [] [] - Age\n\
         cdis Cluster [cdi,cdis] [] - Age,Phase\n\
         objecttransfers Cluster [ot,ots] [] status Age,Phase\n"
    );
}

/// `kubectl get vmim` and clients of upstream's API.
#[test]
fn a_migration_is_called_as_upstream_and_shows_its_phase_and_its_vmi() {
    let kind = KINDS.iter().find(|kind| kind.kind == "VirtualMachineInstanceMigration").unwrap();
    let definition = kind.definition();
    let names = json!({
        "kind": "VirtualMachineInstanceMigration", "listKind": "VirtualMachineInstanceMigrationList",
        "plural": "virtualmachineinstancemigrations", "singular": "virtualmachineinstancemigration",
        "shortNames": ["vmim", "vmims"], "categories": ["all"],
    });
    assert_eq!(definition["spec"]["names"], names);
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let served: Vec<&Value> = versions.iter().map(|version| &version["name"]).collect();
    assert_eq!(served, ["v1", "v1alpha3"]);
    for version in versions {
        let columns = version["additionalPrinterColumns"].as_array().unwrap().iter();
        let columns: Vec<[&Value; 2]> =
            columns.map(|column| [&column["name"], &column["jsonPath"]]).collect();
        assert_eq!(
            columns,
            [[&json!("Phase"), &json!(".status.phase")], [&json!("VMI"), &json!(".spec.vmiName")]]
        );
        assert_eq!(version["subresources"], json!({"status": {}}));
    }
}

#[test]
fn every_schema_is_structural_and_tells_what_each_field_is_for() {
    let mut faults = Vec::new();
    for definition in crd::all() {
        let name = definition["spec"]["names"]["singular"].as_str().unwrap().to_owned();
        let root = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_eq!(root["properties"]["metadata"], json!({"type": "object"}), "{name}");
        assert_eq!(root["type"], "object", "{name}");
        let mut root = root.clone();
        root["properties"].as_object_mut().unwrap().remove("metadata");
        look(&root, &name, &mut faults);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The rules for structural schemas, as far as our nodes use what they are about, and our own.
fn look(node: &Value, at: &str, faults: &mut Vec<String>) {
    const KNOWN: &[&str] = &[
        "type",
        "format",
        "description",
        "properties",
        "additionalProperties",
        "items",
        "required",
        "nullable",
        "minimum",
        "maximum",
        "pattern",
        "anyOf",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
    ];
    let mut fault = |what: &str| faults.push(format!("{at}: {what}"));
    let none = Map::new();
    let node = node.as_object().unwrap();
    for key in node.keys().filter(|key| !KNOWN.contains(&key.as_str())) {
        fault(&format!("{key} is not looked at here"));
    }
    let int_or_string = node.contains_key("x-kubernetes-int-or-string");
    let form = node.get("type").and_then(Value::as_str).unwrap_or_default();
    let properties = node.get("properties").and_then(Value::as_object).unwrap_or(&none);
    match (int_or_string, form) {
        (true, "") => {
            if node.get("anyOf") != Some(&json!([{"type": "integer"}, {"type": "string"}])) {
                fault("a whole number or a text is said in one way only");
            }
        }
        (false, "object" | "array" | "string" | "integer" | "number" | "boolean") => {
            if node.contains_key("anyOf") {
                fault("a choice where the type is known");
            }
        }
        _ => fault("no type, or one that is not known"),
    }
    if form == "array" && !node.contains_key("items") {
        fault("a list of what?");
    }
    if form == "object" {
        let map = node.contains_key("additionalProperties");
        let keeps = node.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
        if map && node.contains_key("properties") {
            fault("fields that are known beside fields that are free");
        }
        if map == keeps {
            fault("what is not known is lost");
        }
    } else if node.contains_key("x-kubernetes-preserve-unknown-fields") {
        fault("only an object has fields to keep");
    }
    for name in node.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !properties.contains_key(name.as_str().unwrap()) {
            fault(&format!("{name} is required and not there"));
        }
    }
    if node.get("x-kubernetes-list-type") == Some(&json!("map")) {
        let item = &node["items"];
        for key in node["x-kubernetes-list-map-keys"].as_array().unwrap() {
            let required = item["required"].as_array().unwrap();
            if !required.contains(key) || item["properties"][key.as_str().unwrap()]["type"] != "string" {
                fault(&format!("{key} cannot be a key"));
            }
        }
    }
    for (name, field) in properties {
        let text = field.get("description").and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() {
            faults.push(format!("{at}: {name} has no description"));
        }
        look(field, &format!("{at}.{name}"), faults);
    }
    for (key, path) in [("items", format!("{at}[]")), ("additionalProperties", format!("{at}{{}}"))] {
        if let Some(inside) = node.get(key) {
            look(inside, &path, faults);
        }
    }
}
