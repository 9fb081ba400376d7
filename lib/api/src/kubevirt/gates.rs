//! Feature gates that older guides and other versions of KubeVirt enable, and that no program here reads.
//!
//! | feature gate | becomes |
//! |---|---|
//! | of a feature that is always enabled here ([`is_always_enabled`]) | accepted silently |
//! | of a feature that does not exist here ([`absence`]) | a warning that names the reason |
//! | any other | a warning that lists the supported ones (`served.rs`) |

/// Feature gates whose feature is enabled without one.
const ALWAYS: &[&str] = &[
    "AutoResourceLimitsGate",
    "CPUManager",
    "CPUNodeDiscovery",
    "DataVolumes",
    "EnableVirtioFsConfigVolumes",
    "EnableVirtioFsStorageVolumes",
    "ExperimentalVirtiofsSupport",
    "GPU",
    "InstancetypeReferencePolicy",
    "LiveMigration",
    "MigrationPriorityQueue",
    "NUMA",
    "NetworkBindingPlugins",
    "NonRoot",
    "PSA",
    "PanicDevices",
    "SRIOV",
    "VMPersistentState",
    "VideoConfig",
];

pub(super) const NO_LIVE_UPDATE: &str = "a change reaches a VM with its next start";
pub(super) const NO_TYPES: &str =
    "`coracle manifests --instancetypes` prints the instance types and preferences";
pub(crate) const NO_DOWNTIME_TUNING: &str =
    "the permitted downtime of a migration stays the same while it runs";
pub(crate) const NO_STALL_DETECTOR: &str = "progressTimeout alone ends a migration without progress";
const NO_HOTPLUG: &str = "a running VMI takes no volumes and no interfaces yet";
const BY_PLUGIN: &str =
    "discontinued in KubeVirt too: register a network binding plugin in spec.configuration.network.binding";

/// Feature gates whose feature does not exist here, with the reason.
const ABSENT: &[(&str, &str)] = &[
    ("CommonInstancetypesDeploymentGate", NO_TYPES),
    ("HotplugNICs", NO_HOTPLUG),
    ("HotplugVolumes", NO_HOTPLUG),
    ("Macvtap", BY_PLUGIN),
    ("MigrationDowntimeTuning", NO_DOWNTIME_TUNING),
    ("MigrationStallDetection", NO_STALL_DETECTOR),
    ("Passt", BY_PLUGIN),
    ("SRIOVLiveMigration", "a VMI with a virtual function of its node does not migrate yet"),
    ("Snapshot", "VMs have no snapshots yet"),
    ("VMExport", "there is no VirtualMachineExport yet"),
    ("VMLiveUpdateFeatures", NO_LIVE_UPDATE),
    ("VolumeMigration", "the volumes of a running VMI stay where they are"),
    ("VolumesUpdateStrategy", NO_LIVE_UPDATE),
];

/// True if the feature of this gate is enabled without the gate.
pub(super) fn is_always_enabled(gate: &str) -> bool {
    ALWAYS.contains(&gate)
}

/// Reason why enabling this feature gate has no effect; `None` for an unknown one.
pub(super) fn absence(gate: &str) -> Option<&'static str> {
    ABSENT.iter().find(|(name, _)| *name == gate).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubevirt::served::unserved;
    use crate::machine::OPEN_BY_DEFAULT;
    use serde_json::json;

    fn warnings(list: &str, gates: &[&str]) -> Vec<String> {
        let object = json!({"spec": {"configuration": {"developerConfiguration": {list: gates}}}});
        unserved(&object).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn gates_of_older_guides_are_accepted_or_named_with_the_reason() {
        assert_eq!(warnings("featureGates", ALWAYS), [""; 0], "these features are enabled");
        let named = warnings("featureGates", &["DataVolumes", "SRIOVLiveMigration", "HostDisk", "Typo"]);
        let [migration, typo] = &named[..] else { panic!("{named:?}") };
        assert!(
            migration
                .ends_with(r#"featureGates: no effect, "SRIOVLiveMigration": a VMI with a virtual function of its node does not migrate yet"#)
        );
        assert!(typo.contains(r#""Typo" is not supported; supported are DownwardMetrics, "#), "{typo}");
        for (gate, why) in ABSENT {
            let [warning] = &warnings("featureGates", &[gate])[..] else { panic!("{gate}") };
            assert!(warning.ends_with(&format!("{gate:?}: {why}")), "{warning}");
        }
    }

    /// Nothing disables these features.
    #[test]
    fn a_gate_that_is_always_enabled_cannot_be_disabled() {
        let [warning] = &warnings("disabledFeatureGates", &["NUMA"])[..] else { panic!("no warning") };
        assert!(warning.contains(r#""NUMA" is not supported"#), "{warning}");
    }

    #[test]
    fn a_gate_is_in_one_list() {
        for (gate, _) in ABSENT {
            assert!(!is_always_enabled(gate) && !OPEN_BY_DEFAULT.contains(gate), "{gate}");
        }
        assert!(ALWAYS.iter().all(|gate| !OPEN_BY_DEFAULT.contains(gate)));
        assert!(ALWAYS.is_sorted() && ABSENT.is_sorted());
    }
}
