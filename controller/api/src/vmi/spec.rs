//! What is wanted of an instance.

use crate::vmi::{AccessCredential, Domain, Network, Probe, Volume};
use crate::{object, words};
use serde_json::Value;
use std::collections::BTreeMap;

object! {
    /// What is wanted of an instance.
    pub struct Spec {
        /// For the scheduler.
        pub priority_class_name: Option<String> = "priorityClassName",
        /// The machine as hardware.
        pub domain: Domain = "domain",
        /// Labels a node must have.
        pub node_selector: BTreeMap<String, String> = "nodeSelector",
        /// For the pod, kept as it stands: `Affinity`.
        pub affinity: Option<Value> = "affinity",
        /// For the pod.
        pub scheduler_name: Option<String> = "schedulerName",
        /// For the pod.
        pub service_account_name: Option<String> = "serviceAccountName",
        /// For the pod, kept as they stand: `Toleration`.
        pub tolerations: Vec<Value> = "tolerations",
        /// For the pod, kept as they stand: `TopologySpreadConstraint`.
        pub topology_spread_constraints: Vec<Value> = "topologySpreadConstraints",
        /// What happens when the node is to be emptied.
        pub eviction_strategy: Option<EvictionStrategy> = "evictionStrategy",
        /// How it starts.
        pub start_strategy: Option<StartStrategy> = "startStrategy",
        /// How long a shutdown may take; not said is 30.
        pub termination_grace_period_seconds: Option<i64> = "terminationGracePeriodSeconds",
        /// Where the bytes of its disks are.
        pub volumes: Vec<Volume> = "volumes",
        /// Restarted when this fails.
        pub liveness_probe: Option<Probe> = "livenessProbe",
        /// Out of service while this fails.
        pub readiness_probe: Option<Probe> = "readinessProbe",
        /// The guest's name; not said is the object's.
        pub hostname: Option<String> = "hostname",
        /// The guest's domain in the cluster.
        pub subdomain: Option<String> = "subdomain",
        /// What its interfaces are attached to.
        pub networks: Vec<Network> = "networks",
        /// For the pod.
        pub dns_policy: Option<String> = "dnsPolicy",
        /// For the pod, kept as it stands: `PodDNSConfig`.
        pub dns_config: Option<Value> = "dnsConfig",
        /// Keys and passwords that are handed to the guest.
        pub access_credentials: Vec<AccessCredential> = "accessCredentials",
        /// `amd64`, `arm64` or `s390x`.
        pub architecture: Option<String> = "architecture",
        /// Devices that the cluster allocates.
        pub resource_claims: Vec<ResourceClaim> = "resourceClaims",
        /// Claims that are used beside the guest.
        pub utility_volumes: Vec<UtilityVolume> = "utilityVolumes",
    }
}

object! {
    /// A device that the cluster allocates.
    #[allow(missing_docs)]
    pub struct ResourceClaim {
        pub name: String = "name",
        pub resource_claim_name: Option<String> = "resourceClaimName",
        pub resource_claim_template_name: Option<String> = "resourceClaimTemplateName",
    }
}

object! {
    /// A claim that is used beside the guest, not by it.
    #[allow(missing_docs)]
    pub struct UtilityVolume {
        pub name: String = "name",
        /// The claim's name.
        pub claim_name: String = "claimName",
        /// Nobody writes to it.
        pub read_only: Option<bool> = "readOnly",
        /// What it is used for.
        pub r#type: Option<UtilityVolumeType> = "type",
    }
}

words! {
    /// What happens when the node is to be emptied.
    #[allow(missing_docs)]
    pub enum EvictionStrategy {
        None = "None",
        LiveMigrate = "LiveMigrate",
        LiveMigrateIfPossible = "LiveMigrateIfPossible",
        External = "External",
    }
}

words! {
    /// How it starts.
    #[allow(missing_docs)]
    pub enum StartStrategy {
        Paused = "Paused",
    }
}

words! {
    /// What a claim is used for.
    #[allow(missing_docs)]
    pub enum UtilityVolumeType {
        MemoryDump = "MemoryDump",
        Backup = "Backup",
    }
}
