//! Desired state of a VMI.

use crate::pod::{Affinity, DnsConfig, Toleration, TopologySpread};
use crate::vmi::{AccessCredential, Domain, Network, Probe, Volume};
use crate::{object, string_enum};
use serde_json::Value;
use std::collections::BTreeMap;

object! {
    /// Desired state of a VirtualMachineInstance: virtual hardware, volumes, networks and placement.
    pub struct Spec {
        /// Name of the PriorityClass of the launcher pod. Unset: the default priority class of the cluster.
        pub priority_class_name: Option<String> = "priorityClassName",
        /// Virtual hardware of the VMI: CPU, memory, firmware and devices.
        pub domain: Domain = "domain",
        /// Labels that a node must have to run the VMI. Unset: every node qualifies.
        pub node_selector: BTreeMap<String, String> = "nodeSelector",
        /// Affinity rules of the launcher pod for nodes and other pods, in the form of a pod's `affinity`.
        pub affinity: Option<Value> = "affinity" as Option<Affinity>,
        /// Name of the scheduler that assigns the launcher pod to a node. Unset: the default scheduler.
        pub scheduler_name: Option<String> = "schedulerName",
        /// Name of the ServiceAccount of the launcher pod. Unset: the default ServiceAccount. The pod has no
        /// API token mounted.
        pub service_account_name: Option<String> = "serviceAccountName",
        /// Node taints that the launcher pod tolerates, in the form of a pod's `tolerations`.
        pub tolerations: Vec<Value> = "tolerations" as Vec<Toleration>,
        /// Rules that spread launcher pods over zones or nodes, in the form of a pod's
        /// `topologySpreadConstraints`.
        pub topology_spread_constraints: Vec<Value> = "topologySpreadConstraints" as Vec<TopologySpread>,
        /// Reaction to the eviction of the launcher pod, for example by a node drain. Unset:
        /// `evictionStrategy` of the KubeVirt object.
        pub eviction_strategy: Option<EvictionStrategy> = "evictionStrategy",
        /// Start mode of the guest. `Paused` keeps the vCPUs stopped until the VMI is unpaused. Unset: the
        /// guest runs at once.
        pub start_strategy: Option<StartStrategy> = "startStrategy",
        /// Seconds that the guest has to shut down after an ACPI power button event before it is powered off.
        /// Default: 30.
        pub termination_grace_period_seconds: Option<i64> = "terminationGracePeriodSeconds",
        /// Volumes of the VMI. A disk or filesystem of the same name attaches a volume to the guest.
        pub volumes: Vec<Volume> = "volumes",
        /// Probe that detects a failed guest. Failure stops the VMI; the run strategy of its VM decides about
        /// a restart.
        pub liveness_probe: Option<Probe> = "livenessProbe",
        /// Probe that sets the Ready condition. A VMI that is not ready receives no traffic from Services.
        pub readiness_probe: Option<Probe> = "readinessProbe",
        /// Hostname of the guest, a DNS label. Unset: the name of the VMI up to its first dot.
        pub hostname: Option<String> = "hostname",
        /// Subdomain of the guest. The FQDN is `HOSTNAME.SUBDOMAIN.NAMESPACE.svc.CLUSTER-DOMAIN`. Unset: no
        /// FQDN.
        pub subdomain: Option<String> = "subdomain",
        /// Networks of the VMI. An interface of the same name connects the guest to a network.
        pub networks: Vec<Network> = "networks",
        /// DNS policy of the launcher pod and the guest: `ClusterFirst`, `ClusterFirstWithHostNet`, `Default`
        /// or `None`. Default: `ClusterFirst`.
        pub dns_policy: Option<String> = "dnsPolicy",
        /// DNS servers, search domains and resolver options of the guest in addition to `dnsPolicy`. Required
        /// with policy `None`.
        pub dns_config: Option<Value> = "dnsConfig" as Option<DnsConfig>,
        /// SSH public keys and user passwords that are injected into the guest.
        pub access_credentials: Vec<AccessCredential> = "accessCredentials",
        /// CPU architecture of the guest: `amd64`, `arm64` or `s390x`. Default: the default architecture of
        /// the cluster.
        pub architecture: Option<String> = "architecture",
        /// ResourceClaims (dynamic resource allocation) with devices for the VMI.
        pub resource_claims: Vec<ResourceClaim> = "resourceClaims",
        /// PersistentVolumeClaims for operations on the VMI, for example memory dumps, that are not attached
        /// to the guest.
        pub utility_volumes: Vec<UtilityVolume> = "utilityVolumes",
    }
}

object! {
    /// ResourceClaim, or template of a ResourceClaim, with devices for the VMI.
    pub struct ResourceClaim by "name" {
        /// Name of the entry, referenced by devices and networks of the VMI.
        pub name: String = "name",
        /// Name of an existing ResourceClaim in the namespace of the VMI.
        pub resource_claim_name: Option<String> = "resourceClaimName",
        /// Name of a ResourceClaimTemplate, from which a ResourceClaim is created for the VMI.
        pub resource_claim_template_name: Option<String> = "resourceClaimTemplateName",
    }
}

object! {
    /// PersistentVolumeClaim for an operation on the VMI, not attached to the guest.
    pub struct UtilityVolume by "name" {
        /// Name of the utility volume, unique within the VMI.
        pub name: String = "name",
        /// Name of the PersistentVolumeClaim in the namespace of the VMI.
        pub claim_name: String = "claimName",
        /// Mounts the PersistentVolumeClaim read-only. Default: false.
        pub read_only: Option<bool> = "readOnly",
        /// Operation that uses the volume.
        pub r#type: Option<UtilityVolumeType> = "type",
    }
}

string_enum! {
    /// Reaction of a VMI to the eviction of its launcher pod.
    pub enum EvictionStrategy {
        None = "None",
        LiveMigrate = "LiveMigrate",
        LiveMigrateIfPossible = "LiveMigrateIfPossible",
        External = "External",
    }
}

string_enum! {
    /// Start mode of the guest.
    pub enum StartStrategy {
        Paused = "Paused",
    }
}

string_enum! {
    /// Operation that uses a utility volume.
    pub enum UtilityVolumeType {
        MemoryDump = "MemoryDump",
        Backup = "Backup",
    }
}
