//! Effect of each field of the KubeVirt object: the only list of them.
//!
//! ```text
//! FIELDS ─┬─ unserved(object) ─┬─► virt-api: a warning for each field that is set and has no effect
//!         │                    └─► virt-controller: the condition `SettingsServed` on the object
//!         └─ docs/reference/kubevirt.md, written by a test
//! ```
//!
//! A KubeVirt object of upstream must be accepted here, so no field is refused for its presence. Fields
//! without effect are reported. A test walks the schema and fails on a field that is not in the list.

use super::gates::{self, NO_LIVE_UPDATE, NO_TYPES};
pub(crate) use super::gates::{NO_DOWNTIME_TUNING, NO_STALL_DETECTOR};
use super::{AnnotationPolicy, CIPHERS, ComponentPatch, POD_ANNOTATIONS};
use crate::machine::host_folders::{HOST_DISK_FOLDERS, HostFolders};
use crate::machine::machine_type_map::{MACHINE_TYPES, MachineTypeMap};
use crate::machine::mediated::MediatedTypes;
use crate::machine::permitted::{IneffectiveEntry, Permitted};
use crate::wire;
use serde_json::Value;
use std::fmt;

/// Condition on the KubeVirt object: true if every field that is set has an effect.
pub const CONDITION: &str = "SettingsServed";

/// Effect of a field, and of all fields below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// Read by a program.
    Yes,
    /// Read by a program; only these values (or entries, of a list) have an effect.
    Values(&'static [&'static str]),
    /// Read by a program; only entries of the list whose field of this name has one of these values have an
    /// effect.
    Entries(&'static str, &'static [&'static str]),
    /// Not read by any program, for this reason (a sentence).
    No(&'static str),
}

use Served::{Entries, No, Values, Yes};

const NO_IMAGES: &str = "the manifests name the images";
const NO_MONITORING: &str =
    "`coracle manifests --monitoring` prints the ServiceMonitor and the rights of Prometheus";
const NO_TARGET: &str = "a patch changes Deployment virt-controller, virt-api or cdi-uploadproxy, or DaemonSet virt-handler; other objects are \
     those of the manifests";
const ONLY_AMD64: &str = "only VMIs of amd64 run yet";
pub(crate) const NO_POST_COPY: &str =
    "there is no post-copy yet; where it is allowed, the guest is paused when the time is over";
pub(super) const DEPRECATED: &str = "deprecated, and without effect in KubeVirt too";
/// Feature gates with an effect when they are disabled. The first one has no effect when it is enabled:
/// hotplug is not supported yet, and an empty CD-ROM drive is allowed by default.
const SHUT_GATES: &[&str] = &[
    "DeclarativeHotplugVolumes",
    "DownwardMetrics",
    "GPUsWithDRA",
    "HostDevices",
    "HostDevicesWithDRA",
    "HostDisk",
    "ImageVolume",
    "PasstBinding",
    "RebootPolicy",
    "Sidecar",
    "VSOCK",
];
/// The field of the feature gates to enable.
const OPENED: &str = "configuration.developerConfiguration.featureGates";
/// Feature gates with an effect when they are enabled.
const GATES: &[&str] = SHUT_GATES.split_at(1).1;

/// The fields below `spec`, in the order of the schema. An entry covers all fields below it; no entry is
/// below another.
pub const FIELDS: &[(&str, Served)] = &[
    ("imageTag", No(NO_IMAGES)),
    ("imageRegistry", No(NO_IMAGES)),
    ("imagePullPolicy", Yes),
    ("imagePullSecrets", Yes),
    ("monitorNamespace", No(NO_MONITORING)),
    ("serviceMonitorNamespace", No(NO_MONITORING)),
    ("monitorAccount", No(NO_MONITORING)),
    ("workloadUpdateStrategy.workloadUpdateMethods", Values(&["LiveMigrate", "Evict"])),
    ("workloadUpdateStrategy.batchEvictionSize", Yes),
    ("workloadUpdateStrategy.batchEvictionInterval", Yes),
    ("uninstallStrategy", Yes),
    ("certificateRotateStrategy", Yes),
    ("productVersion", Yes),
    ("productName", Yes),
    ("productComponent", Yes),
    ("synchronizationPort", No("VMIs do not migrate between clusters")),
    ("configuration.cpuModel", Yes),
    ("configuration.cpuRequest", Yes),
    (OPENED, Values(GATES)),
    ("configuration.developerConfiguration.disabledFeatureGates", Values(SHUT_GATES)),
    ("configuration.developerConfiguration.pvcTolerateLessSpaceUpToPercent", Yes),
    ("configuration.developerConfiguration.minimumReservePVCBytes", Yes),
    ("configuration.developerConfiguration.memoryOvercommit", Yes),
    ("configuration.developerConfiguration.nodeSelectors", Yes),
    ("configuration.developerConfiguration.useEmulation", Yes),
    ("configuration.developerConfiguration.cpuAllocationRatio", Yes),
    ("configuration.developerConfiguration.minimumClusterTSCFrequency", Yes),
    (
        "configuration.developerConfiguration.diskVerification",
        No("images are checked by readers whose memory is bounded: none has a limit to set"),
    ),
    ("configuration.developerConfiguration.logVerbosity.virtAPI", Yes),
    ("configuration.developerConfiguration.logVerbosity.virtController", Yes),
    ("configuration.developerConfiguration.logVerbosity.virtHandler", Yes),
    ("configuration.developerConfiguration.logVerbosity.virtLauncher", Yes),
    (
        "configuration.developerConfiguration.logVerbosity.virtOperator",
        No("this program does not exist here: virt-controller manages the installation"),
    ),
    (
        "configuration.developerConfiguration.logVerbosity.virtSynchronizationController",
        No("this program does not exist here: VMIs do not migrate between clusters"),
    ),
    ("configuration.developerConfiguration.logVerbosity.nodeVerbosity", Yes),
    (
        "configuration.developerConfiguration.clusterProfiler",
        No("the programs have no profiler; their /metrics tell what they use"),
    ),
    ("configuration.emulatedMachines", Yes),
    ("configuration.imagePullPolicy", Yes),
    ("configuration.migrations.nodeDrainTaintKey", No("a node is drained by evictions, not by a taint")),
    ("configuration.migrations.parallelOutboundMigrationsPerNode", Yes),
    ("configuration.migrations.parallelMigrationsPerCluster", Yes),
    ("configuration.migrations.allowAutoConverge", Yes),
    ("configuration.migrations.bandwidthPerMigration", Yes),
    ("configuration.migrations.completionTimeoutPerGiB", Yes),
    ("configuration.migrations.maxDowntimeMs", Yes),
    ("configuration.migrations.progressTimeout", Yes),
    ("configuration.migrations.utilityVolumesTimeout", No("there are no utility volumes yet")),
    (
        "configuration.migrations.unsafeMigrationOverride",
        No("a disk that is not shared is copied, or the VMI does not migrate"),
    ),
    ("configuration.migrations.allowPostCopy", No(NO_POST_COPY)),
    ("configuration.migrations.allowWorkloadDisruption", Yes),
    ("configuration.migrations.disableTLS", No("migrations are always encrypted")),
    ("configuration.migrations.network", No("migrations go through the network of the pods")),
    (
        "configuration.migrations.matchSELinuxLevelOnMigration",
        No("the target's launcher pod has the SELinux level that its node gives it"),
    ),
    ("configuration.machineType", Yes),
    ("configuration.network.defaultNetworkInterface", Yes),
    ("configuration.network.permitSlirpInterface", No(DEPRECATED)),
    ("configuration.network.permitBridgeInterfaceOnPodNetwork", Yes),
    // Fields of each plugin: `PLUGIN`.
    ("configuration.network.binding", Yes),
    ("configuration.ovmfPath", Yes),
    ("configuration.selinuxLauncherType", Yes),
    ("configuration.defaultRuntimeClass", Yes),
    ("configuration.smbios", Yes),
    ("configuration.architectureConfiguration.amd64.emulatedMachines", Yes),
    ("configuration.architectureConfiguration.amd64.machineType", Yes),
    ("configuration.architectureConfiguration.amd64.ovmfPath", Yes),
    ("configuration.architectureConfiguration.arm64", No(ONLY_AMD64)),
    ("configuration.architectureConfiguration.ppc64le", No(ONLY_AMD64)),
    ("configuration.architectureConfiguration.s390x", No(ONLY_AMD64)),
    ("configuration.architectureConfiguration.defaultArchitecture", Values(&["amd64"])),
    ("configuration.evictionStrategy", Values(&["None", "LiveMigrate", "LiveMigrateIfPossible", "External"])),
    ("configuration.additionalGuestMemoryOverheadRatio", Yes),
    (
        "configuration.supportContainerResources",
        Entries("type", &["container-disk", "guest-console-log", "sidecar", "virtiofs"]),
    ),
    ("configuration.supportedGuestAgentVersions", No(DEPRECATED)),
    ("configuration.memBalloonStatsPeriod", Yes),
    // Entries: `Permitted`.
    ("configuration.permittedHostDevices", Yes),
    // Entries: `MediatedTypes`.
    ("configuration.mediatedDevicesConfiguration", Yes),
    ("configuration.minCPUModel", No(DEPRECATED)),
    ("configuration.obsoleteCPUModels", Yes),
    ("configuration.virtualMachineInstancesPerNode", Yes),
    ("configuration.apiConfiguration", Yes),
    ("configuration.webhookConfiguration", Yes),
    ("configuration.controllerConfiguration", Yes),
    ("configuration.handlerConfiguration", Yes),
    ("configuration.tlsConfiguration.minTLSVersion", Yes),
    ("configuration.tlsConfiguration.ciphers", Values(&CIPHERS)),
    ("configuration.seccompConfiguration", Yes),
    ("configuration.vmStateStorageClass", Yes),
    ("configuration.virtualMachineOptions.disableFreePageReporting", Yes),
    ("configuration.virtualMachineOptions.disableSerialConsoleLog", Yes),
    ("configuration.ksmConfiguration", No("the KSM of nodes stays as it is")),
    ("configuration.autoCPULimitNamespaceLabelSelector", Yes),
    ("configuration.liveUpdateConfiguration", No(NO_LIVE_UPDATE)),
    ("configuration.vmRolloutStrategy", Values(&["Stage"])),
    ("configuration.commonInstancetypesDeployment", No(NO_TYPES)),
    ("configuration.virtTemplateDeployment", No("there are no templates of VMs yet")),
    ("configuration.instancetype.referencePolicy", Values(&["reference", "expand", "expandAll"])),
    ("configuration.hypervisors", Entries("name", &["kvm"])),
    ("configuration.changedBlockTrackingLabelSelectors", No("changes of disks are not tracked yet")),
    ("configuration.persistentReservationConfiguration", No("persistent reservations are not passed on yet")),
    ("configuration.confidentialCompute", No("there are no confidential VMs yet")),
    ("configuration.roleAggregationStrategy", No("the manifests define all permissions")),
    ("infra.nodePlacement", Yes),
    ("infra.replicas", Yes),
    ("workloads.nodePlacement", Yes),
    ("workloads.replicas", No("virt-handler runs once on each node")),
    // Patches: `has_target`.
    ("customizeComponents", Yes),
];

/// Path of network binding plugins below `spec`, and fields of each that have no effect.
const PLUGINS: &str = "configuration.network.binding";
const PLUGIN: [(&str, Served); 2] = [
    ("migration", No("a VMI with a network binding plugin does not migrate yet")),
    ("computeResourceOverhead.limits", No("only the request for memory is added to the launcher pod")),
];

/// A field that is set and has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// Path of the field: `spec.configuration.migrations`.
    pub field: String,
    /// Reason, and the behaviour instead.
    pub why: String,
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: no effect, {}", self.field, self.why)
    }
}

/// The entry of the list that covers the field at `path` below `spec`.
pub fn entry(path: &str) -> Option<&'static (&'static str, Served)> {
    entry_of(FIELDS, path)
}

/// The entry of another list that covers the field at `path`.
pub fn entry_of(
    fields: &'static [(&'static str, Served)],
    path: &str,
) -> Option<&'static (&'static str, Served)> {
    fields.iter().find(|(field, _)| {
        path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

/// The fields of a KubeVirt object that are set and have no effect, in the order of the list.
pub fn unserved(object: &Value) -> Vec<Unserved> {
    let spec = &object["spec"];
    let mut found = unserved_of(FIELDS, spec, "spec");
    let plugins = PLUGINS.split('.').fold(spec, |value, step| &value[step]);
    for (name, plugin) in plugins.as_object().into_iter().flatten() {
        found.extend(unserved_of(&PLUGIN, plugin, &format!("spec.{PLUGINS}.{name}")));
    }
    let odd =
        Permitted::ineffective_entries(object).into_iter().chain(MediatedTypes::ineffective_entries(object));
    found.extend(odd.map(|IneffectiveEntry { field, why }| Unserved { field: format!("spec.{field}"), why }));
    let field = format!("metadata.annotations[{MACHINE_TYPES}]");
    found.extend(
        MachineTypeMap::ineffective_entries(object)
            .into_iter()
            .map(|why| Unserved { field: field.clone(), why }),
    );
    let field = format!("metadata.annotations[{HOST_DISK_FOLDERS}]");
    found.extend(
        HostFolders::ineffective_entries(object)
            .into_iter()
            .map(|why| Unserved { field: field.clone(), why }),
    );
    let field = format!("metadata.annotations[{POD_ANNOTATIONS}]");
    found.extend(AnnotationPolicy::unknown_value(object).map(|why| Unserved { field, why }));
    let patches = spec["customizeComponents"]["patches"].as_array().into_iter().flatten();
    for (at, patch) in patches.enumerate() {
        let read = wire::read_in_part::<ComponentPatch>(patch.clone(), &mut Vec::new());
        if read.is_none_or(|patch| !patch.has_target()) {
            let field = format!("spec.customizeComponents.patches[{at}]");
            found.push(Unserved { field, why: NO_TARGET.to_owned() });
        }
    }
    found
}

/// The fields of a list that are set in `said`, at the path `at`, and have no effect.
pub fn unserved_of(fields: &[(&str, Served)], said: &Value, at: &str) -> Vec<Unserved> {
    let mut found = Vec::new();
    for (field, served) in fields {
        let Some(value) = field.split('.').try_fold(said, |value, step| value.get(step)) else {
            continue;
        };
        let note = |why: &str| Unserved { field: format!("{at}.{field}"), why: why.to_owned() };
        match served {
            Yes => {}
            No(why) if says(value) => found.push(note(why)),
            No(_) => {}
            Values(known) | Entries(_, known) => {
                let said = if let Entries(key, _) = served { of_entries(value, key) } else { texts(value) };
                let opens = *field == OPENED;
                let others = said.into_iter().filter(|text| !text.is_empty() && !known.contains(text));
                let others = others.filter(|text| !(opens && gates::is_always_enabled(text)));
                // The message repeats a bounded part of the value.
                let others = others.map(|text| text.chars().take(64).collect::<String>());
                let supported = known.join(", ");
                found.extend(others.map(|other| match gates::absence(&other).filter(|_| opens) {
                    Some(why) => note(&format!("{other:?}: {why}")),
                    None => note(&format!("{other:?} is not supported; supported are {supported}")),
                }));
            }
        }
    }
    found
}

/// The value if it is a text, or the texts of a list.
fn texts(value: &Value) -> Vec<&str> {
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    list.iter().filter_map(Value::as_str).collect()
}

/// The texts of a field in the entries of a list.
fn of_entries<'v>(value: &'v Value, key: &str) -> Vec<&'v str> {
    value.as_array().into_iter().flatten().filter_map(|entry| entry.get(key)?.as_str()).collect()
}

/// True if a value asks for something: `null`, `false`, an empty text and an empty list equal an unset field.
fn says(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) | Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => fields.is_empty() || fields.values().any(says),
    }
}
