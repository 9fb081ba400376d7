//! Every field that the API has is known here, and none that it has not: held against `inventory.txt`.

use crate::inventory::{FREE, Inventory};
use api::cdi::{
    CDI, CDIConfig, DataImportCron, DataSource, ObjectTransfer, StorageProfile, UploadTokenRequest,
    VolumeCloneSource, VolumeImportSource, VolumeUploadSource,
};
use api::data_volume::DataVolume;
use api::instancetype::{
    VirtualMachineClusterInstancetype, VirtualMachineClusterPreference, VirtualMachineInstancetype,
    VirtualMachinePreference,
};
use api::kubevirt::KubeVirt;
use api::migration::VirtualMachineInstanceMigration;
use api::migration_policy::MigrationPolicy;
use api::pool::VirtualMachinePool;
use api::preset::VirtualMachineInstancePreset;
use api::replica_set::VirtualMachineInstanceReplicaSet;
use api::vm::VirtualMachine;
use api::vmi::VirtualMachineInstance;
use api::wire::{self, Wire};
use serde_json::{Value, json};

#[test]
fn every_field_of_a_vm_is_known() {
    let inventory = Inventory::read();
    holds::<VirtualMachine>(&json!({
        "spec": inventory.sample("VirtualMachineSpec"),
        "status": inventory.sample("VirtualMachineStatus"),
    }));
}

#[test]
fn every_field_of_a_vmi_is_known() {
    let inventory = Inventory::read();
    holds::<VirtualMachineInstance>(&json!({
        "spec": inventory.sample("VirtualMachineInstanceSpec"),
        "status": inventory.sample("VirtualMachineInstanceStatus"),
    }));
}

#[test]
fn every_field_of_a_data_volume_is_known() {
    let inventory = Inventory::read();
    holds::<DataVolume>(&json!({
        "spec": inventory.sample("cdi.DataVolumeSpec"),
        "status": inventory.sample("cdi.DataVolumeStatus"),
    }));
}

#[test]
fn every_field_of_a_replica_set_is_known() {
    let inventory = Inventory::read();
    holds::<VirtualMachineInstanceReplicaSet>(&json!({
        "spec": inventory.sample("VirtualMachineInstanceReplicaSetSpec"),
        "status": inventory.sample("VirtualMachineInstanceReplicaSetStatus"),
    }));
}

#[test]
fn every_field_of_a_migration_is_known() {
    let inventory = Inventory::read();
    holds::<VirtualMachineInstanceMigration>(&json!({
        "spec": inventory.sample("VirtualMachineInstanceMigrationSpec"),
        "status": inventory.sample("VirtualMachineInstanceMigrationStatus"),
    }));
}

#[test]
fn every_field_of_a_migration_policy_is_known() {
    let inventory = Inventory::read();
    holds::<MigrationPolicy>(&json!({"spec": inventory.sample("MigrationPolicySpec"), "status": {}}));
}

#[test]
fn every_field_of_a_preset_is_known() {
    let inventory = Inventory::read();
    holds::<VirtualMachineInstancePreset>(&json!({
        "spec": inventory.sample("VirtualMachineInstancePresetSpec"),
    }));
}

#[test]
fn every_field_of_a_pool_is_known() {
    let inventory = Inventory::read();
    holds::<VirtualMachinePool>(&json!({
        "spec": inventory.sample("VirtualMachinePoolSpec"),
        "status": inventory.sample("VirtualMachinePoolStatus"),
    }));
}

#[test]
fn every_field_of_an_installation_is_known() {
    let inventory = Inventory::read();
    holds::<KubeVirt>(&json!({
        "spec": inventory.sample("KubeVirtSpec"),
        "status": inventory.sample("KubeVirtStatus"),
    }));
}

#[test]
fn every_field_of_instance_types_and_preferences_is_known() {
    let inventory = Inventory::read();
    let size = json!({"spec": inventory.sample("VirtualMachineInstancetypeSpec")});
    holds::<VirtualMachineInstancetype>(&size);
    holds::<VirtualMachineClusterInstancetype>(&size);
    let system = json!({"spec": inventory.sample("VirtualMachinePreferenceSpec")});
    holds::<VirtualMachinePreference>(&system);
    holds::<VirtualMachineClusterPreference>(&system);
}

#[test]
fn every_field_of_the_other_kinds_of_cdi_is_known() {
    let inventory = Inventory::read();
    let sample = |kind: &str| {
        let of = |part: &str| inventory.sample(&format!("cdi.{kind}{part}"));
        json!({"spec": of("Spec"), "status": of("Status")})
    };
    holds::<CDI>(&sample("CDI"));
    holds::<CDIConfig>(&sample("CDIConfig"));
    holds::<StorageProfile>(&sample("StorageProfile"));
    holds::<DataSource>(&sample("DataSource"));
    holds::<DataImportCron>(&sample("DataImportCron"));
    holds::<ObjectTransfer>(&sample("ObjectTransfer"));
    holds::<VolumeImportSource>(&sample("VolumeImportSource"));
    holds::<VolumeUploadSource>(&sample("VolumeUploadSource"));
    holds::<VolumeCloneSource>(&json!({"spec": inventory.sample("cdi.VolumeCloneSourceSpec")}));
    holds::<UploadTokenRequest>(&sample("UploadTokenRequest"));
}

/// The object is read without a fault, nothing in it is unknown, it is written as it was read, and whatever is added
/// anywhere in it is kept and named.
fn holds<T: Wire>(object: &Value) {
    let mut object = object.clone();
    object["apiVersion"] = json!("example/v1");
    object["kind"] = json!("Example");
    object["metadata"] = json!({"name": "one"});
    let read: T = wire::read(object.clone()).unwrap_or_else(|faults| panic!("{faults:#?}"));
    assert_eq!(wire::unknown(&read), [], "unknown fields");
    assert_eq!(read.write(), object);

    let mut places = Vec::new();
    known_places(&object, &mut String::new(), &mut places);
    // The smallest object has itself, its metadata, a spec and something in it or a status.
    assert!(places.len() >= 4);
    for place in places {
        let mut strange = object.clone();
        strange.pointer_mut(&place).unwrap()["strange"] = json!({"kept": [1]});
        let read: T = wire::read(strange.clone()).unwrap_or_else(|faults| panic!("{faults:#?}"));
        assert_eq!(read.write(), strange, "kept at {place}");
        let unknown: Vec<String> = wire::unknown(&read).iter().map(|field| field.path.to_string()).collect();
        assert_eq!(unknown, [named(&place)], "named at {place}");
    }
}

/// JSON pointers of every object in `value` that is a struct here, not a map or a part that is kept as it stands.
fn known_places(value: &Value, at: &mut String, places: &mut Vec<String>) {
    let length = at.len();
    match value {
        Value::Object(map) if !map.contains_key(FREE) => {
            places.push(at.clone());
            for (key, item) in map {
                at.push('/');
                at.push_str(key);
                known_places(item, at, places);
                at.truncate(length);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                at.push_str(&format!("/{i}"));
                known_places(item, at, places);
                at.truncate(length);
            }
        }
        _ => {}
    }
}

/// The pointer `/spec/volumes/0` as the path `spec.volumes[0].strange`.
fn named(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1).chain(["strange"]) {
        match part.parse::<usize>() {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(_) if path.is_empty() => path.push_str(part),
            Err(_) => path.push_str(&format!(".{part}")),
        }
    }
    path
}
