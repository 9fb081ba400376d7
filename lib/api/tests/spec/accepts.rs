//! An API server takes what we write and refuses what we cannot read: the schemas, held against `inventory.txt`.

use crate::inventory::Inventory;
use api::crd::KINDS;
use serde_json::{Value, json};

/// A kind, and the structs that the inventory has for its spec and its status; some have no status.
const OBJECTS: &[(&str, &str, &str)] = &[
    ("VirtualMachine", "VirtualMachineSpec", "VirtualMachineStatus"),
    ("VirtualMachineInstance", "VirtualMachineInstanceSpec", "VirtualMachineInstanceStatus"),
    (
        "VirtualMachineInstanceReplicaSet",
        "VirtualMachineInstanceReplicaSetSpec",
        "VirtualMachineInstanceReplicaSetStatus",
    ),
    (
        "VirtualMachineInstanceMigration",
        "VirtualMachineInstanceMigrationSpec",
        "VirtualMachineInstanceMigrationStatus",
    ),
    ("MigrationPolicy", "MigrationPolicySpec", ""),
    ("VirtualMachineInstancePreset", "VirtualMachineInstancePresetSpec", ""),
    ("VirtualMachinePool", "VirtualMachinePoolSpec", "VirtualMachinePoolStatus"),
    ("KubeVirt", "KubeVirtSpec", "KubeVirtStatus"),
    ("DataVolume", "cdi.DataVolumeSpec", "cdi.DataVolumeStatus"),
    ("DataSource", "cdi.DataSourceSpec", "cdi.DataSourceStatus"),
    ("DataImportCron", "cdi.DataImportCronSpec", "cdi.DataImportCronStatus"),
    ("VolumeImportSource", "cdi.VolumeImportSourceSpec", "cdi.VolumeImportSourceStatus"),
    ("VolumeUploadSource", "cdi.VolumeUploadSourceSpec", "cdi.VolumeUploadSourceStatus"),
    ("VolumeCloneSource", "cdi.VolumeCloneSourceSpec", ""),
    ("StorageProfile", "cdi.StorageProfileSpec", "cdi.StorageProfileStatus"),
    ("CDIConfig", "cdi.CDIConfigSpec", "cdi.CDIConfigStatus"),
    ("CDI", "cdi.CDISpec", "cdi.CDIStatus"),
    ("ObjectTransfer", "cdi.ObjectTransferSpec", "cdi.ObjectTransferStatus"),
    ("VirtualMachineInstancetype", "VirtualMachineInstancetypeSpec", ""),
    ("VirtualMachineClusterInstancetype", "VirtualMachineInstancetypeSpec", ""),
    ("VirtualMachinePreference", "VirtualMachinePreferenceSpec", ""),
    ("VirtualMachineClusterPreference", "VirtualMachinePreferenceSpec", ""),
];

#[test]
fn an_object_with_every_field_is_taken_and_one_of_another_form_is_not() {
    let inventory = Inventory::read();
    assert_eq!(OBJECTS.len(), KINDS.len());
    for (kind, spec, status) in OBJECTS {
        let definition = KINDS.iter().find(|known| known.kind == *kind).unwrap().definition();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut object = json!({"spec": inventory.sample(spec)});
        if !status.is_empty() {
            object["status"] = inventory.sample(status);
        }
        assert_eq!(faults(schema, &object), Vec::<String>::new(), "{kind}");

        let mut places = Vec::new();
        leaves(&object, String::new(), &mut places);
        let mut refused = 0;
        for place in places {
            let mut other = object.clone();
            let value = other.pointer_mut(&place).unwrap();
            *value = if value.is_array() { json!({"a": "list"}) } else { json!(["another"]) };
            match faults(schema, &other).as_slice() {
                [one] => refused += usize::from(one.contains("must be")),
                // Only what is kept as it stands may be anything.
                [] => assert!(place.contains("/free/kept"), "{kind}: {place} may be anything"),
                many => panic!("{kind}: {place}: {many:?}"),
            }
        }
        // Each place was looked at above; the smallest kind has two.
        assert!(refused >= 2, "{kind}: only {refused}");
    }
}

#[test]
fn a_name_that_tells_entries_apart_is_required() {
    let definition = KINDS[0].definition();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let faults = faults(schema, &json!({"status": {"conditions": [{"status": "True"}]}}));
    assert_eq!(faults, ["/status/conditions/0 must have type"]);
}

#[test]
fn what_the_webhook_fills_in_may_be_left_out() {
    let domain = json!({"machine": {}, "devices": {}});
    for (kind, spec) in [
        ("VirtualMachine", json!({"template": {"spec": {"domain": domain}}})),
        ("VirtualMachineInstance", json!({"domain": domain})),
    ] {
        let definition = KINDS.iter().find(|known| known.kind == kind).unwrap().definition();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let object = json!({"spec": spec, "status": {"phase": "Pending"}});
        assert_eq!(faults(schema, &object), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn a_time_that_was_never_set_is_null_and_taken() {
    let condition = json!({"type": "Ready", "status": "True", "lastProbeTime": null});
    let mut looked_at = 0;
    for kind in KINDS {
        let definition = kind.definition();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        if schema.pointer("/properties/status/properties/conditions").is_none() {
            continue;
        }
        looked_at += 1;
        let object = json!({"status": {"conditions": [condition]}});
        assert_eq!(faults(schema, &object), Vec::<String>::new(), "{}", kind.kind);
        let object = json!({"status": {"conditions": [{"type": null, "status": "True"}]}});
        assert_eq!(faults(schema, &object), ["/status/conditions/0/type must be string"], "{}", kind.kind);
    }
    // All but VolumeImportSource, VolumeUploadSource, VolumeCloneSource, CDIConfig, MigrationPolicy, presets, instance
    // types and preferences.
    assert_eq!(looked_at, KINDS.len() - 10);
}

/// The JSON pointers of everything in `value` that is no object.
fn leaves(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                leaves(value, format!("{at}/{key}"), places);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                leaves(item, format!("{at}/{i}"), places);
            }
            places.push(at);
        }
        _ => places.push(at),
    }
}

/// What a schema has against a value; patterns are not looked at.
fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    judge(schema, value, "", &mut found);
    found
}

fn judge(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    let form = schema["type"].as_str().unwrap_or("int-or-string");
    let fits = match form {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => value.is_string() || value.is_i64(),
    };
    if !fits {
        found.push(format!("{at} must be {form}"));
        return;
    }
    if let (Some(number), Some(least)) = (value.as_i64(), schema["minimum"].as_i64())
        && number < least
    {
        found.push(format!("{at} must be at least {least}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        if value.get(name).is_none() {
            found.push(format!("{at} must have {name}"));
        }
    }
    if let Some(fields) = value.as_object() {
        for (key, value) in fields {
            let inside = schema["properties"].get(key).or_else(|| schema.get("additionalProperties"));
            if let Some(inside) = inside {
                judge(inside, value, &format!("{at}/{key}"), found);
            }
        }
    }
    if let (Some(items), Some(inside)) = (value.as_array(), schema.get("items")) {
        for (i, item) in items.iter().enumerate() {
            judge(inside, item, &format!("{at}/{i}"), found);
        }
    }
}
