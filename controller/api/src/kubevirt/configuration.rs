//! How machines are made: the settings of the cluster, read live.

use crate::kubevirt::{
    Architectures, ComponentSettings, ContainerResources, Developer, LiveUpdate, MediatedDevices, Migrations,
    NetworkSettings, PermittedHostDevices, SmBios, Tls,
};
use crate::meta::{Empty, LabelSelector};
use crate::quantity::Quantity;
use crate::vmi::EvictionStrategy;
use crate::{object, words};
use std::collections::BTreeMap;

object! {
    /// How machines are made.
    pub struct Configuration {
        /// The processor of a machine that asks for none; not said is `host-model`.
        pub cpu_model: Option<String> = "cpuModel",
        /// What the pod of a machine asks for where the machine says nothing; not said is 100m for each processor.
        pub cpu_request: Option<Quantity> = "cpuRequest",
        /// Gates, ratios and how much is written to logs.
        pub developer_configuration: Option<Developer> = "developerConfiguration",
        /// Deprecated: `architectureConfiguration`.
        pub emulated_machines: Vec<String> = "emulatedMachines",
        /// When the images of our own components are pulled: `Always`, `IfNotPresent` or `Never`.
        pub image_pull_policy: Option<String> = "imagePullPolicy",
        /// How machines are moved.
        pub migrations: Option<Migrations> = "migrations",
        /// Deprecated: `architectureConfiguration`.
        pub machine_type: Option<String> = "machineType",
        /// How machines are connected.
        pub network: Option<NetworkSettings> = "network",
        /// Deprecated: `architectureConfiguration`.
        pub ovmf_path: Option<String> = "ovmfPath",
        /// The SELinux type of the pods of machines.
        pub selinux_launcher_type: Option<String> = "selinuxLauncherType",
        /// The runtime class of the pods of machines.
        pub default_runtime_class: Option<String> = "defaultRuntimeClass",
        /// What the guest reads of its maker.
        pub smbios: Option<SmBios> = "smbios",
        /// What machines of each architecture look like.
        pub architecture_configuration: Option<Architectures> = "architectureConfiguration",
        /// What happens to a machine that says nothing when its node is to be emptied; not said is `None`.
        pub eviction_strategy: Option<EvictionStrategy> = "evictionStrategy",
        /// By how much the memory that runs beside a guest is multiplied: a number as text; not said is 1.
        pub additional_guest_memory_overhead_ratio: Option<String> = "additionalGuestMemoryOverheadRatio",
        /// What the containers beside a machine ask for, by what they are.
        pub support_container_resources: Vec<SupportContainer> = "supportContainerResources",
        /// Deprecated: it has no effect.
        pub supported_guest_agent_versions: Vec<String> = "supportedGuestAgentVersions",
        /// Every how many seconds the guest tells how it uses its memory; 0 is never; not said is 10.
        pub mem_balloon_stats_period: Option<u32> = "memBalloonStatsPeriod",
        /// Devices of the nodes that machines may have.
        pub permitted_host_devices: Option<PermittedHostDevices> = "permittedHostDevices",
        /// Into what devices are divided.
        pub mediated_devices_configuration: Option<MediatedDevices> = "mediatedDevicesConfiguration",
        /// Deprecated: it has no effect.
        pub min_cpu_model: Option<String> = "minCPUModel",
        /// Models of processors that nodes do not offer.
        pub obsolete_cpu_models: BTreeMap<String, bool> = "obsoleteCPUModels",
        /// How many machines a node can run; not said is 110.
        pub virtual_machine_instances_per_node: Option<i64> = "virtualMachineInstancesPerNode",
        /// What virt-api takes over without a restart.
        pub api_configuration: Option<ComponentSettings> = "apiConfiguration",
        /// What the webhooks take over without a restart.
        pub webhook_configuration: Option<ComponentSettings> = "webhookConfiguration",
        /// What virt-controller takes over without a restart.
        pub controller_configuration: Option<ComponentSettings> = "controllerConfiguration",
        /// What virt-handler takes over without a restart.
        pub handler_configuration: Option<ComponentSettings> = "handlerConfiguration",
        /// What TLS must be at least.
        pub tls_configuration: Option<Tls> = "tlsConfiguration",
        /// Which system calls the pods of machines may make.
        pub seccomp_configuration: Option<Seccomp> = "seccompConfiguration",
        /// The storage class of what outlives a machine beside its disks: the TPM's and the firmware's memory.
        pub vm_state_storage_class: Option<String> = "vmStateStorageClass",
        /// Switches for all machines.
        pub virtual_machine_options: Option<MachineOptions> = "virtualMachineOptions",
        /// Nodes that share equal pages of memory.
        pub ksm_configuration: Option<Ksm> = "ksmConfiguration",
        /// Namespaces whose machines get a limit on processors by themselves.
        pub auto_cpu_limit_namespace_label_selector: Option<LabelSelector> =
            "autoCPULimitNamespaceLabelSelector",
        /// How far machines can grow while they run.
        pub live_update_configuration: Option<LiveUpdate> = "liveUpdateConfiguration",
        /// Whether a change of a machine reaches the one that runs; not said is `LiveUpdate`.
        pub vm_rollout_strategy: Option<RolloutStrategy> = "vmRolloutStrategy",
        /// Whether the common instance types and preferences are installed.
        pub common_instancetypes_deployment: Option<Deployment> = "commonInstancetypesDeployment",
        /// Whether templates of machines are installed.
        pub virt_template_deployment: Option<Deployment> = "virtTemplateDeployment",
        /// How machines refer to instance types.
        pub instancetype: Option<Instancetypes> = "instancetype",
        /// The hypervisor; not said is `kvm`.
        pub hypervisors: Vec<Hypervisor> = "hypervisors",
        /// Machines whose changes are tracked for backups.
        pub changed_block_tracking_label_selectors: Option<ChangedBlockTrackingSelectors> =
            "changedBlockTrackingLabelSelectors",
        /// Whether SCSI persistent reservations can be used.
        pub persistent_reservation_configuration: Option<Deployment> = "persistentReservationConfiguration",
        /// How machines prove what they run.
        pub confidential_compute: Option<ConfidentialCompute> = "confidentialCompute",
        /// Whether the cluster's roles `admin`, `edit` and `view` get rights on machines; not said, they do.
        pub role_aggregation_strategy: Option<RoleAggregation> = "roleAggregationStrategy",
    }
}

object! {
    /// What a container beside a machine asks for.
    pub struct SupportContainer by "type" {
        /// What it is.
        pub r#type: SupportContainerType = "type",
        /// What it asks for.
        pub resources: ContainerResources = "resources",
    }
}

object! {
    /// Which system calls the pods of machines may make.
    pub struct Seccomp {
        /// The profile.
        pub virtual_machine_instance_profile: Option<SeccompProfile> = "virtualMachineInstanceProfile",
    }
}

object! {
    /// The profile of system calls.
    pub struct SeccompProfile {
        /// One of the nodes' or the runtime's.
        pub custom_profile: Option<CustomProfile> = "customProfile",
    }
}

object! {
    /// A profile of the nodes' or the runtime's; one of the two.
    pub struct CustomProfile {
        /// The path of a profile on the nodes.
        pub localhost_profile: Option<String> = "localhostProfile",
        /// The runtime's own.
        pub runtime_default_profile: Option<bool> = "runtimeDefaultProfile",
    }
}

object! {
    /// Switches for all machines; one that is there is on.
    pub struct MachineOptions {
        /// Guests do not say which of their pages are free.
        pub disable_free_page_reporting: Option<Empty> = "disableFreePageReporting",
        /// Serial consoles are not kept in a log, unless a machine asks for it.
        pub disable_serial_console_log: Option<Empty> = "disableSerialConsoleLog",
    }
}

object! {
    /// Nodes that share equal pages of memory.
    pub struct Ksm {
        /// Labels of the nodes; empty is all of them.
        pub node_label_selector: Option<LabelSelector> = "nodeLabelSelector",
    }
}

object! {
    /// Whether something is there.
    pub struct Deployment {
        /// Whether it is on.
        pub enabled: Option<bool> = "enabled",
    }
}

object! {
    /// How machines refer to instance types.
    pub struct Instancetypes {
        /// Whether the reference stays or what it stands for takes its place; not said is `reference`.
        pub reference_policy: Option<ReferencePolicy> = "referencePolicy",
    }
}

object! {
    /// A hypervisor.
    pub struct Hypervisor {
        /// `kvm` or `hyperv-direct`.
        pub name: Option<String> = "name",
    }
}

object! {
    /// Machines whose changes are tracked for backups.
    pub struct ChangedBlockTrackingSelectors {
        /// Labels of their namespaces.
        pub namespace_label_selector: Option<LabelSelector> = "namespaceLabelSelector",
        /// Labels of their own.
        pub virtual_machine_label_selector: Option<LabelSelector> = "virtualMachineLabelSelector",
    }
}

object! {
    /// How machines prove what they run.
    pub struct ConfidentialCompute {
        /// Intel's way.
        pub tdx: Option<TdxSettings> = "tdx",
    }
}

object! {
    /// Intel's way.
    pub struct TdxSettings {
        /// How a machine proves what it runs.
        pub attestation: Option<TdxAttestation> = "attestation",
    }
}

object! {
    /// How a machine proves what it runs.
    pub struct TdxAttestation {
        /// Every machine can.
        pub enforced: Option<bool> = "enforced",
        /// The socket of the service that signs.
        pub qgs_socket_path: Option<String> = "qgsSocketPath",
    }
}

words! {
    /// What a container beside a machine is.
    #[allow(missing_docs)]
    pub enum SupportContainerType {
        HotplugDisk = "hotplug-disk",
        ContainerDisk = "container-disk",
        Virtiofs = "virtiofs",
        Sidecar = "sidecar",
        VmExport = "vmexport",
        GuestConsoleLog = "guest-console-log",
    }
}

words! {
    /// Whether a change of a machine reaches the one that runs.
    pub enum RolloutStrategy {
        /// With the next start.
        Stage = "Stage",
        /// At once, where that can be.
        LiveUpdate = "LiveUpdate",
    }
}

words! {
    /// What becomes of a reference to an instance type.
    pub enum ReferencePolicy {
        /// It stays.
        Reference = "reference",
        /// What it stands for takes its place, unless it names a revision.
        Expand = "expand",
        /// What it stands for takes its place.
        ExpandAll = "expandAll",
    }
}

words! {
    /// Whether the cluster's own roles get rights on machines.
    pub enum RoleAggregation {
        /// They do.
        AggregateToDefault = "AggregateToDefault",
        /// Somebody gives them.
        Manual = "Manual",
    }
}
