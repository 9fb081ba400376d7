//! Check of the list of settings against the programs: a field listed as served changes the settings that the
//! programs read, and a field listed as without effect does not.

use super::Config;
use super::node::NodeSettings;
use super::program::ProgramSettings;
use crate::objects::Program;
use api::crd::KINDS;
use api::kubevirt::served::{Served, entry};
use api::machine::Settings;
use serde_json::{Map, Value, json};

/// Fields that are read by the controllers of the installation. `virt_controller::kubevirt` and
/// `virt_controller::certificates` have their own tests for them.
const ELSEWHERE: [&str; 12] = [
    "productVersion",
    "productName",
    "productComponent",
    "customizeComponents",
    "infra.replicas",
    "infra.nodePlacement",
    "workloads.nodePlacement",
    "uninstallStrategy",
    "certificateRotateStrategy",
    "workloadUpdateStrategy.workloadUpdateMethods",
    "workloadUpdateStrategy.batchEvictionSize",
    "workloadUpdateStrategy.batchEvictionInterval",
];
/// Fields whose only value equals the default, and fields that are copied into `status.migrationState` and have no effect there.
const ANYWAY: [&str; 9] = [
    "configuration.architectureConfiguration.defaultArchitecture",
    "configuration.hypervisors",
    "configuration.migrations.allowPostCopy",
    "configuration.migrations.disableTLS",
    "configuration.migrations.matchSELinuxLevelOnMigration",
    "configuration.migrations.network",
    "configuration.migrations.nodeDrainTaintKey",
    "configuration.migrations.unsafeMigrationOverride",
    "configuration.migrations.utilityVolumesTimeout",
];

/// Values that differ from the default, where a sample of the schema does not.
const VALUES: [(&str, &str); 16] = [
    ("configuration.network.defaultNetworkInterface", r#""masquerade""#),
    ("configuration.network.permitBridgeInterfaceOnPodNetwork", "false"),
    ("configuration.additionalGuestMemoryOverheadRatio", r#""2""#),
    ("configuration.developerConfiguration.featureGates", r#"["HostDisk"]"#),
    ("configuration.developerConfiguration.disabledFeatureGates", r#"["RebootPolicy"]"#),
    (
        "configuration.seccompConfiguration.virtualMachineInstanceProfile.customProfile.runtimeDefaultProfile",
        "false",
    ),
    (
        "configuration.permittedHostDevices.pciHostDevices",
        r#"[{"pciVendorSelector": "10de:1eb8", "resourceName": "a.b/c"}]"#,
    ),
    (
        "configuration.permittedHostDevices.mediatedDevices",
        r#"[{"mdevNameSelector": "type", "resourceName": "a.b/c"}]"#,
    ),
    (
        "configuration.permittedHostDevices.usb",
        r#"[{"resourceName": "a.b/c", "selectors": [{"vendor": "1", "product": "2"}]}]"#,
    ),
    ("configuration.evictionStrategy", r#""None""#),
    ("configuration.vmRolloutStrategy", r#""Stage""#),
    ("configuration.tlsConfiguration.minTLSVersion", r#""VersionTLS13""#),
    ("configuration.ovmfPath", r#""/usr/share/OVMF""#),
    ("configuration.architectureConfiguration.amd64.ovmfPath", r#""/usr/share/OVMF""#),
    ("configuration.instancetype.referencePolicy", r#""expand""#),
    ("configuration.mediatedDevicesConfiguration.enabled", "false"),
];

/// Every leaf field of the schema, with a sample value.
fn collect_leaves(schema: &Value, at: &str, found: &mut Vec<(String, Value)>) {
    match schema["properties"].as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (name, field) in fields {
                collect_leaves(field, &format!("{at}.{name}"), found);
            }
        }
        None => found.push((at.trim_start_matches('.').to_owned(), sample(schema))),
    }
}

fn sample(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(7),
        Some("array") => json!([sample(&schema["items"])]),
        Some("object") => {
            let mut object = Map::new();
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                object.insert(name.clone(), sample(field));
            }
            if schema["additionalProperties"].is_object() {
                object.insert("one".to_owned(), sample(&schema["additionalProperties"]));
            }
            Value::Object(object)
        }
        _ => json!("7"),
    }
}

/// The settings that the programs read from a KubeVirt object whose spec has `value` at `path`.
fn read(path: &str, value: Value) -> (Config, Settings, NodeSettings, Vec<ProgramSettings>) {
    let spec = path.rsplit('.').fold(value, |inner, name| json!({name: inner}));
    let object = json!({"metadata": {"name": "kubevirt"}, "spec": spec});
    // A rate needs both fields.
    let object = match path.rsplit_once("tokenBucketRateLimiter.") {
        Some((before, _)) => {
            let bucket = format!("{before}tokenBucketRateLimiter");
            let both = json!({"qps": 7, "burst": 7});
            json!({"spec": bucket.rsplit('.').fold(both, |inner, name| json!({name: inner}))})
        }
        None => object,
    };
    // A sample of the schema has one key, `one`: here, the name of a node.
    let programs = Program::ALL.map(|program| ProgramSettings::from_kubevirt(&object, program, "one"));
    (
        Config::from_kubevirt(Some(&object)),
        Settings::of_cluster(&object),
        NodeSettings::from_kubevirt(&object),
        programs.to_vec(),
    )
}

#[test]
fn the_list_of_the_settings_says_what_the_programs_read() {
    let kind = KINDS.iter().find(|kind| kind.kind == "KubeVirt").unwrap();
    let definition = kind.definition();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut all = Vec::new();
    collect_leaves(schema, "", &mut all);
    assert!(all.len() > 120, "{}", all.len());
    let nothing = read("configuration", json!({}));
    let mut problems = Vec::new();
    for (leaf, sample) in all {
        let Some((field, served)) = entry(&leaf) else {
            problems.push(format!("{leaf} is not in the list"));
            continue;
        };
        if ELSEWHERE.contains(field) || ANYWAY.contains(field) {
            continue;
        }
        let own = VALUES.iter().find(|(field, _)| *field == leaf);
        let value = own.map_or(sample, |(_, value)| serde_json::from_str(value).unwrap());
        let changes = read(&leaf, value) != nothing;
        if changes == matches!(served, Served::No(_)) {
            problems.push(format!(
                "{leaf}: the list has {served:?}, but it changes the settings that programs read: {changes}"
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
