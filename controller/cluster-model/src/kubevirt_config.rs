//! Settings in the KubeVirt object, with their defaults. [`World::config`](crate::objects::World::config) has those of the
//! installation: they are parsed when the object changes, not when something is decided.

use api::architecture::Arch;
use api::defaults::{Binding, DefaultsContext};
use api::kubevirt::{AnnotationPolicy, ReferencePolicy};
use api::machine::Gates;
use api::machine::machine_type_map::MachineTypeMap;
use api::quantity::Quantity;
use api::vmi::{EvictionStrategy, MigrationConfiguration};
use api::wire;
use serde_json::Value;
use std::collections::BTreeMap;

/// The annotation of a VMI, or of the KubeVirt object for all VMIs, that stops backup programs from freezing
/// guests.
pub const NO_BACKUP_HOOKS: &str = "kubevirt.io/skip-backup-hooks";

/// The settings of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub use_emulation: bool,
    /// Number of guest CPUs that share one CPU of the node.
    pub cpu_allocation_ratio: u64,
    /// Guest memory per requested memory, in percent: 200 requests half of it.
    pub memory_overcommit: u64,
    /// Factor by which the memory overhead of a VMI is multiplied.
    pub overhead_ratio: f64,
    pub image_pull_policy: Option<String>,
    pub image_pull_secrets: Vec<Value>,
    pub cpu_model: Option<String>,
    pub cpu_request: Option<String>,
    pub machine_type: Option<String>,
    pub binding: Binding,
    pub eviction_strategy: Option<EvictionStrategy>,
    /// Changes of VMs wait for the next start (`vmRolloutStrategy: Stage`).
    pub is_staged: bool,
    pub node_selectors: BTreeMap<String, String>,
    pub image_volumes: bool,
    pub launcher_verbosity: Option<i64>,
    pub runtime_class: Option<String>,
    pub selinux_type: Option<String>,
    /// The `seccompProfile` of launcher pods.
    pub seccomp: Option<Value>,
    pub serial_log: bool,
    /// StorageClass for the persistent state of VMs (EFI variables, TPM).
    pub state_storage_class: Option<String>,
    /// Backup programs do not freeze guests.
    pub no_backup_hooks: bool,
    /// Selects the namespaces in which VMIs get a CPU limit automatically.
    pub auto_cpu_limit: Option<Value>,
    /// TSC frequency, in Hz, of guests that rely on it. Unset: the frequency of most nodes.
    pub tsc_frequency: Option<u64>,
    /// Replacements for machine types of distributions.
    pub machine_type_map: MachineTypeMap,
    /// Policy for copying annotations of VMIs to their launcher pods.
    pub annotations: AnnotationPolicy,
    /// Policy for references to instance types and preferences in VMs.
    pub reference_policy: ReferencePolicy,
    /// Resources of the support containers of a launcher pod, by container type. Types without an entry keep
    /// their defaults.
    pub support: BTreeMap<String, Value>,
    /// Effective settings of live migrations.
    pub migrations: MigrationConfiguration,
}

impl Default for Config {
    fn default() -> Self {
        Config::from_kubevirt(None)
    }
}

impl Config {
    /// The settings in a KubeVirt object.
    pub fn from_kubevirt(object: Option<&Value>) -> Config {
        #[cfg(test)]
        PARSED.with(|count| count.set(count.get() + 1));
        let whole = object.unwrap_or(&Value::Null);
        let spec = &whole["spec"];
        let said = &spec["configuration"];
        let developer = &said["developerConfiguration"];
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let number =
            |value: &Value, default: u64| value.as_u64().filter(|&number| number > 0).unwrap_or(default);
        let profile = &said["seccompConfiguration"]["virtualMachineInstanceProfile"]["customProfile"];
        let seccomp = match (text(&profile["localhostProfile"]), profile["runtimeDefaultProfile"].as_bool()) {
            (Some(name), _) => Some(serde_json::json!({"type": "Localhost", "localhostProfile": name})),
            // Default: the runtime's own filter, without which a namespace with the policy `restricted`
            // admits no VMI. An explicit `false` turns it off.
            (None, Some(true) | None) => Some(serde_json::json!({"type": "RuntimeDefault"})),
            (None, Some(false)) => None,
        };
        Config {
            use_emulation: developer["useEmulation"].as_bool().unwrap_or(false),
            cpu_allocation_ratio: number(&developer["cpuAllocationRatio"], 10),
            memory_overcommit: number(&developer["memoryOvercommit"], 100),
            overhead_ratio: text(&said["additionalGuestMemoryOverheadRatio"])
                .and_then(|ratio| ratio.parse().ok())
                .filter(|ratio: &f64| ratio.is_finite() && (0.0..=100.0).contains(ratio))
                .unwrap_or(1.0),
            image_pull_policy: text(&said["imagePullPolicy"]).or_else(|| text(&spec["imagePullPolicy"])),
            image_pull_secrets: spec["imagePullSecrets"].as_array().cloned().unwrap_or_default(),
            cpu_model: text(&said["cpuModel"]),
            cpu_request: text(&said["cpuRequest"]),
            machine_type: text(&said["architectureConfiguration"][Arch::DEFAULT.facts().name]["machineType"])
                .or_else(|| text(&said["machineType"])),
            binding: match said["network"]["defaultNetworkInterface"].as_str() {
                Some("masquerade") => Binding::Masquerade,
                _ => Binding::Bridge,
            },
            // An unknown strategy is not filled in, or every VMI would be refused. The KubeVirt object's
            // status reports it.
            eviction_strategy: text(&said["evictionStrategy"])
                .map(|text| EvictionStrategy::from(text.as_str()))
                .filter(|strategy| !matches!(strategy, EvictionStrategy::Other(_))),
            is_staged: said["vmRolloutStrategy"] == "Stage",
            node_selectors: (developer["nodeSelectors"].as_object().into_iter().flatten())
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            image_volumes: object.is_none_or(|object| Gates::of_cluster(object).open("ImageVolume")),
            launcher_verbosity: developer["logVerbosity"]["virtLauncher"].as_i64(),
            runtime_class: text(&said["defaultRuntimeClass"]),
            selinux_type: text(&said["selinuxLauncherType"]),
            seccomp,
            state_storage_class: text(&said["vmStateStorageClass"]),
            serial_log: said["virtualMachineOptions"]["disableSerialConsoleLog"].is_null(),
            no_backup_hooks: whole["metadata"]["annotations"][NO_BACKUP_HOOKS] == "true",
            auto_cpu_limit: Some(&said["autoCPULimitNamespaceLabelSelector"])
                .filter(|selector| selector.is_object())
                .cloned(),
            machine_type_map: MachineTypeMap::of_cluster(whole),
            annotations: AnnotationPolicy::of_cluster(whole),
            tsc_frequency: developer["minimumClusterTSCFrequency"].as_u64().filter(|hertz| *hertz > 0),
            // An unknown policy is reported in the status of the KubeVirt object.
            reference_policy: text(&said["instancetype"]["referencePolicy"])
                .map(|text| ReferencePolicy::from(text.as_str()))
                .filter(|policy| !matches!(policy, ReferencePolicy::Other(_)))
                .unwrap_or(ReferencePolicy::Reference),
            support: (said["supportContainerResources"].as_array().into_iter().flatten())
                .filter(|entry| entry["resources"].is_object())
                .filter_map(|entry| Some((entry["type"].as_str()?.to_owned(), entry["resources"].clone())))
                .collect(),
            migrations: migrations(&said["migrations"]),
        }
    }

    /// Defaults that virt-api fills into VMIs. `uuid`: the UUID of the firmware, if the VMI has none.
    pub fn defaults_context(&self, uuid: String) -> DefaultsContext {
        DefaultsContext {
            machine_type: self.machine_type.clone(),
            machine_type_map: self.machine_type_map.clone(),
            cpu_model: self.cpu_model.clone(),
            binding: self.binding,
            eviction_strategy: self.eviction_strategy.clone(),
            ..DefaultsContext::new(uuid)
        }
    }
}

/// Settings of live migrations, with upstream's defaults. A field of another form counts as unset.
fn migrations(said: &Value) -> MigrationConfiguration {
    let said: MigrationConfiguration = wire::read_in_part(said.clone(), &mut Vec::new()).unwrap_or_default();
    let post_copy = said.allow_post_copy.unwrap_or(false);
    MigrationConfiguration {
        node_drain_taint_key: said.node_drain_taint_key.or_else(|| Some("kubevirt.io/drain".to_owned())),
        parallel_outbound_migrations_per_node: said.parallel_outbound_migrations_per_node.or(Some(2)),
        parallel_migrations_per_cluster: said.parallel_migrations_per_cluster.or(Some(5)),
        allow_auto_converge: said.allow_auto_converge.or(Some(false)),
        bandwidth_per_migration: said.bandwidth_per_migration.or_else(|| Some(Quantity::of_bytes(0))),
        completion_timeout_per_gib: said.completion_timeout_per_gib.or(Some(150)),
        max_downtime_ms: said.max_downtime_ms.or(Some(900)),
        progress_timeout: said.progress_timeout.or(Some(150)),
        utility_volumes_timeout: said.utility_volumes_timeout.or(Some(150)),
        unsafe_migration_override: said.unsafe_migration_override.or(Some(false)),
        allow_post_copy: Some(post_copy),
        allow_workload_disruption: said.allow_workload_disruption.or(Some(post_copy)),
        ..said
    }
}

#[cfg(test)]
thread_local! {
    /// Number of times that settings were parsed.
    pub(crate) static PARSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_eviction_strategy_that_is_not_known_is_not_filled_in() {
        let filled = |word: &str| {
            let object = json!({"spec": {"configuration": {"evictionStrategy": word}}});
            Config::from_kubevirt(Some(&object)).eviction_strategy
        };
        assert_eq!((filled("Run"), filled("")), (None, None));
        assert_eq!(filled("LiveMigrate"), Some(EvictionStrategy::LiveMigrate));
        assert_eq!(filled("External"), Some(EvictionStrategy::External));
        assert_eq!(filled("LiveMigrateIfPossible"), Some(EvictionStrategy::LiveMigrateIfPossible));
        assert_eq!(filled("None"), Some(EvictionStrategy::None));
    }

    #[test]
    fn settings_of_migrations_have_the_defaults_of_upstream() {
        let migrations = |said: Value| {
            let object = json!({"spec": {"configuration": {"migrations": said}}});
            Config::from_kubevirt(Some(&object)).migrations
        };
        let defaults = migrations(Value::Null);
        assert_eq!(defaults, Config::default().migrations);
        assert_eq!(
            (defaults.parallel_migrations_per_cluster, defaults.parallel_outbound_migrations_per_node),
            (Some(5), Some(2))
        );
        assert_eq!(
            (defaults.allow_post_copy, defaults.allow_workload_disruption),
            (Some(false), Some(false))
        );
        let said = migrations(json!({
            "allowPostCopy": true, "parallelMigrationsPerCluster": 9, "progressTimeout": "long", "network": "lan",
        }));
        assert_eq!(said.allow_workload_disruption, Some(true), "as allowPostCopy");
        assert_eq!((said.parallel_migrations_per_cluster, said.progress_timeout), (Some(9), Some(150)));
        assert_eq!(said.network.as_deref(), Some("lan"));
    }

    #[test]
    fn what_is_said_holds_and_what_is_nonsense_does_not() {
        let object = json!({
            "metadata": {"name": "kubevirt"},
            "spec": {"imagePullPolicy": "Always", "configuration": {
                "additionalGuestMemoryOverheadRatio": "much",
                "network": {"defaultNetworkInterface": "masquerade"},
                "developerConfiguration": {
                    "useEmulation": true, "cpuAllocationRatio": 0, "memoryOvercommit": 150,
                    "disabledFeatureGates": ["ImageVolume"], "nodeSelectors": {"a": "b", "c": 1}
                }
            }}
        });
        let config = Config::from_kubevirt(Some(&object));
        let expected = Config {
            use_emulation: true,
            memory_overcommit: 150,
            image_pull_policy: Some("Always".into()),
            binding: Binding::Masquerade,
            image_volumes: false,
            node_selectors: [("a".to_owned(), "b".to_owned())].into(),
            ..Config::default()
        };
        assert_eq!(config, expected);
        assert_eq!((Config::default().cpu_allocation_ratio, Config::default().overhead_ratio), (10, 1.0));
    }
}
