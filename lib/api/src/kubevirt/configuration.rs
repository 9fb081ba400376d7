//! Configuration of VMs and components, read without a restart.

use crate::kubevirt::{
    Architectures, ComponentSettings, ContainerResources, Developer, LiveUpdate, MediatedDevices, Migrations,
    NetworkSettings, PermittedHostDevices, SmBios, Tls,
};
use crate::meta::{Empty, LabelSelector};
use crate::quantity::Quantity;
use crate::vmi::EvictionStrategy;
use crate::{object, string_enum};
use std::collections::BTreeMap;

object! {
    /// Configuration of VMs, live migration and the components.
    pub struct Configuration {
        /// CPU model of VMIs that set none. Default: `host-model`.
        pub cpu_model: Option<String> = "cpuModel",
        /// CPU request of the launcher pod of a VMI that sets none. Default: `100m` per vCPU.
        pub cpu_request: Option<Quantity> = "cpuRequest",
        /// Feature gates, overcommit ratios and log verbosity.
        pub developer_configuration: Option<Developer> = "developerConfiguration",
        /// Deprecated, use `architectureConfiguration`: permitted QEMU machine types.
        pub emulated_machines: Vec<String> = "emulatedMachines",
        /// Image pull policy of the containers in launcher pods: `Always`, `IfNotPresent` or `Never`. Unset:
        /// `imagePullPolicy` of the spec.
        pub image_pull_policy: Option<String> = "imagePullPolicy",
        /// Settings of live migrations.
        pub migrations: Option<Migrations> = "migrations",
        /// Deprecated, use `architectureConfiguration`: default QEMU machine type.
        pub machine_type: Option<String> = "machineType",
        /// Defaults and plugins for network interfaces of VMIs.
        pub network: Option<NetworkSettings> = "network",
        /// Deprecated, use `architectureConfiguration`: directory of the EFI firmware.
        pub ovmf_path: Option<String> = "ovmfPath",
        /// SELinux type of launcher pods. Unset: the default of the container runtime.
        pub selinux_launcher_type: Option<String> = "selinuxLauncherType",
        /// Name of the RuntimeClass of launcher pods. Unset: the default runtime.
        pub default_runtime_class: Option<String> = "defaultRuntimeClass",
        /// System in the SMBIOS tables of guests. Default: manufacturer and family `KubeVirt`, product
        /// `None`.
        pub smbios: Option<SmBios> = "smbios",
        /// Firmware path and QEMU machine types of each CPU architecture.
        pub architecture_configuration: Option<Architectures> = "architectureConfiguration",
        /// Eviction strategy of VMIs that set none. Default: `None`.
        pub eviction_strategy: Option<EvictionStrategy> = "evictionStrategy",
        /// Factor for the computed memory overhead of launcher pods, as text. Default: `1`.
        pub additional_guest_memory_overhead_ratio: Option<String> = "additionalGuestMemoryOverheadRatio",
        /// Compute resources of the containers that support a VMI, by container type.
        pub support_container_resources: Vec<SupportContainer> = "supportContainerResources",
        /// Deprecated, without effect: supported versions of the guest agent.
        pub supported_guest_agent_versions: Vec<String> = "supportedGuestAgentVersions",
        /// Seconds between two memory statistics of a guest; 0 disables them. Default: 10.
        pub mem_balloon_stats_period: Option<u32> = "memBalloonStatsPeriod",
        /// Host devices that VMIs are permitted to use. Unset: none.
        pub permitted_host_devices: Option<PermittedHostDevices> = "permittedHostDevices",
        /// Mediated devices to create on the nodes.
        pub mediated_devices_configuration: Option<MediatedDevices> = "mediatedDevicesConfiguration",
        /// Deprecated, without effect: minimum CPU model of the nodes.
        pub min_cpu_model: Option<String> = "minCPUModel",
        /// CPU models that nodes do not offer, each with the value `true`; VMIs with `host-model` avoid nodes
        /// with such a processor. Unset: none.
        pub obsolete_cpu_models: BTreeMap<String, bool> = "obsoleteCPUModels",
        /// Maximum number of VMIs per node, up to 1000. Default: 1000; the kubelet also limits pods, mostly
        /// to 110.
        pub virtual_machine_instances_per_node: Option<i64> = "virtualMachineInstancesPerNode",
        /// Settings of virt-api that need no restart.
        pub api_configuration: Option<ComponentSettings> = "apiConfiguration",
        /// Settings of the webhooks that need no restart.
        pub webhook_configuration: Option<ComponentSettings> = "webhookConfiguration",
        /// Settings of virt-controller that need no restart.
        pub controller_configuration: Option<ComponentSettings> = "controllerConfiguration",
        /// Settings of virt-handler that need no restart.
        pub handler_configuration: Option<ComponentSettings> = "handlerConfiguration",
        /// Requirements for TLS connections to the components.
        pub tls_configuration: Option<Tls> = "tlsConfiguration",
        /// Seccomp profile of launcher pods. Unset: the default profile of the container runtime.
        pub seccomp_configuration: Option<Seccomp> = "seccompConfiguration",
        /// Name of the StorageClass of PVCs with TPM and EFI state. Unset: the default StorageClass.
        pub vm_state_storage_class: Option<String> = "vmStateStorageClass",
        /// Options that apply to every VM.
        pub virtual_machine_options: Option<VirtualMachineOptions> = "virtualMachineOptions",
        /// Kernel Samepage Merging (KSM), which shares identical memory pages on nodes.
        pub ksm_configuration: Option<Ksm> = "ksmConfiguration",
        /// Label selector of namespaces whose VMIs get a CPU limit automatically. Unset: none.
        pub auto_cpu_limit_namespace_label_selector: Option<LabelSelector> =
            "autoCPULimitNamespaceLabelSelector",
        /// Limits for CPU and memory hotplug of running VMIs.
        pub live_update_configuration: Option<LiveUpdate> = "liveUpdateConfiguration",
        /// Rollout of VM changes: `Stage` waits for the next start. `LiveUpdate` changes the running VMI,
        /// which is not supported yet: such changes wait for the next start, too. Default: `Stage`.
        pub vm_rollout_strategy: Option<RolloutStrategy> = "vmRolloutStrategy",
        /// Deployment of the common instance types and preferences.
        pub common_instancetypes_deployment: Option<Deployment> = "commonInstancetypesDeployment",
        /// Deployment of VM templates (virt-template).
        pub virt_template_deployment: Option<Deployment> = "virtTemplateDeployment",
        /// Reference policy for instance types and preferences.
        pub instancetype: Option<Instancetypes> = "instancetype",
        /// Hypervisor that runs the VMIs; at most one entry. Default: `kvm`.
        pub hypervisors: Vec<Hypervisor> = "hypervisors",
        /// Label selectors of VMs with changed block tracking for backups. Unset: none.
        pub changed_block_tracking_label_selectors: Option<ChangedBlockTrackingSelectors> =
            "changedBlockTrackingLabelSelectors",
        /// Support for SCSI persistent reservations on nodes.
        pub persistent_reservation_configuration: Option<Deployment> = "persistentReservationConfiguration",
        /// Attestation of confidential VMs.
        pub confidential_compute: Option<ConfidentialCompute> = "confidentialCompute",
        /// Aggregation of VM permissions into the cluster roles `admin`, `edit` and `view`. Default:
        /// `AggregateToDefault`.
        pub role_aggregation_strategy: Option<RoleAggregation> = "roleAggregationStrategy",
    }
}

object! {
    /// Compute resources of a container that supports a VMI.
    pub struct SupportContainer by "type" {
        /// Type of the container, unique within the list.
        pub r#type: SupportContainerType = "type",
        /// Compute resources of the container.
        pub resources: ContainerResources = "resources",
    }
}

object! {
    /// Seccomp profile of launcher pods.
    pub struct Seccomp {
        /// Seccomp profile of the launcher pods of VMIs.
        pub virtual_machine_instance_profile: Option<SeccompProfile> = "virtualMachineInstanceProfile",
    }
}

object! {
    /// Seccomp profile of the launcher pods of VMIs.
    pub struct SeccompProfile {
        /// Seccomp profile from the node or from the container runtime.
        pub custom_profile: Option<CustomProfile> = "customProfile",
    }
}

object! {
    /// Seccomp profile from the node or from the container runtime; exactly one.
    pub struct CustomProfile {
        /// Path of a seccomp profile on the nodes; stronger than `runtimeDefaultProfile`.
        pub localhost_profile: Option<String> = "localhostProfile",
        /// Uses the default seccomp profile of the container runtime. `false` without `localhostProfile`
        /// disables seccomp. Default: true.
        pub runtime_default_profile: Option<bool> = "runtimeDefaultProfile",
    }
}

object! {
    /// Options that apply to every VM; the presence of a field enables the option.
    pub struct VirtualMachineOptions {
        /// Disables the report of free memory pages by guests.
        pub disable_free_page_reporting: Option<Empty> = "disableFreePageReporting",
        /// Disables the serial console log of VMIs that do not set `logSerialConsole`.
        pub disable_serial_console_log: Option<Empty> = "disableSerialConsoleLog",
    }
}

object! {
    /// Kernel Samepage Merging (KSM), which shares identical memory pages on nodes.
    pub struct Ksm {
        /// Label selector of the nodes with KSM; an empty selector matches all nodes.
        pub node_label_selector: Option<LabelSelector> = "nodeLabelSelector",
    }
}

object! {
    /// State of an optional component.
    pub struct Deployment {
        /// Enables the optional component of the installation.
        pub enabled: Option<bool> = "enabled",
    }
}

object! {
    /// Reference policy for instance types and preferences.
    pub struct Instancetypes {
        /// Policy for references: `reference` keeps them, `expand` and `expandAll` replace them by their
        /// content. Default: `reference`.
        pub reference_policy: Option<ReferencePolicy> = "referencePolicy",
    }
}

object! {
    /// Hypervisor that runs VMIs.
    pub struct Hypervisor {
        /// Name of the hypervisor: `kvm` or `hyperv-direct`.
        pub name: Option<String> = "name",
    }
}

object! {
    /// Label selectors of VMs with changed block tracking for backups.
    pub struct ChangedBlockTrackingSelectors {
        /// Label selector of the namespaces of the VMs.
        pub namespace_label_selector: Option<LabelSelector> = "namespaceLabelSelector",
        /// Label selector of the VMs themselves.
        pub virtual_machine_label_selector: Option<LabelSelector> = "virtualMachineLabelSelector",
    }
}

object! {
    /// Attestation of confidential VMs.
    pub struct ConfidentialCompute {
        /// Intel Trust Domain Extensions (TDX).
        pub tdx: Option<TdxSettings> = "tdx",
    }
}

object! {
    /// Settings of Intel Trust Domain Extensions (TDX).
    pub struct TdxSettings {
        /// Attestation of TDX guests by the quote generation service.
        pub attestation: Option<TdxAttestation> = "attestation",
    }
}

object! {
    /// Attestation of TDX guests by the quote generation service.
    pub struct TdxAttestation {
        /// Requires attestation for every TDX guest. Default: false.
        pub enforced: Option<bool> = "enforced",
        /// Path of the socket of the quote generation service (QGS) on the nodes.
        pub qgs_socket_path: Option<String> = "qgsSocketPath",
    }
}

string_enum! {
    /// Type of a container that supports a VMI.
    pub enum SupportContainerType {
        HotplugDisk = "hotplug-disk",
        ContainerDisk = "container-disk",
        Virtiofs = "virtiofs",
        Sidecar = "sidecar",
        VmExport = "vmexport",
        GuestConsoleLog = "guest-console-log",
    }
}

string_enum! {
    /// Rollout of VM changes to the running VMI.
    pub enum RolloutStrategy {
        /// Changes take effect at the next start.
        Stage = "Stage",
        /// Changes take effect at once where possible.
        LiveUpdate = "LiveUpdate",
    }
}

string_enum! {
    /// Policy for references to instance types and preferences.
    pub enum ReferencePolicy {
        /// References are kept in the VM.
        Reference = "reference",
        /// References without a revision are replaced by their content.
        Expand = "expand",
        /// References are replaced by their content.
        ExpandAll = "expandAll",
    }
}

string_enum! {
    /// Aggregation of VM permissions into the cluster's roles.
    pub enum RoleAggregation {
        /// Cluster roles `admin`, `edit` and `view` include VM permissions.
        AggregateToDefault = "AggregateToDefault",
        /// Administrators grant VM permissions.
        Manual = "Manual",
    }
}
