//! What is wanted of an instance.

use crate::pod::{Affinity, DnsConfig, Toleration, TopologySpread};
use crate::vmi::{AccessCredential, Domain, Network, Probe, Volume};
use crate::{object, words};
use serde_json::Value;
use std::collections::BTreeMap;

object! {
    /// What is wanted of an instance.
    pub struct Spec {
        /// How important it is to the scheduler: the name of a PriorityClass.
        pub priority_class_name: Option<String> = "priorityClassName",
        /// The machine as hardware.
        pub domain: Domain = "domain",
        /// Labels a node must have.
        pub node_selector: BTreeMap<String, String> = "nodeSelector",
        /// Nodes and pods it is drawn to or kept away from, as in a pod: `Affinity`.
        pub affinity: Option<Value> = "affinity" as Option<Affinity>,
        /// The scheduler that finds its node; not said is the default.
        pub scheduler_name: Option<String> = "schedulerName",
        /// The service account of its pod.
        pub service_account_name: Option<String> = "serviceAccountName",
        /// Taints of nodes that are no hindrance, as in a pod: `Toleration`.
        pub tolerations: Vec<Value> = "tolerations" as Vec<Toleration>,
        /// How it and its like are spread over the cluster, as in a pod: `TopologySpreadConstraint`.
        pub topology_spread_constraints: Vec<Value> = "topologySpreadConstraints" as Vec<TopologySpread>,
        /// What happens when the node is to be emptied.
        pub eviction_strategy: Option<EvictionStrategy> = "evictionStrategy",
        /// How it starts.
        pub start_strategy: Option<StartStrategy> = "startStrategy",
        /// How many seconds a shutdown may take; not said is 30.
        pub termination_grace_period_seconds: Option<i64> = "terminationGracePeriodSeconds",
        /// Where the bytes of its disks are, by the disks' names.
        pub volumes: Vec<Volume> = "volumes",
        /// Restarted when this fails.
        pub liveness_probe: Option<Probe> = "livenessProbe",
        /// Out of service while this fails.
        pub readiness_probe: Option<Probe> = "readinessProbe",
        /// The guest's name; not said is the object's.
        pub hostname: Option<String> = "hostname",
        /// The guest's domain in the cluster.
        pub subdomain: Option<String> = "subdomain",
        /// What its interfaces are attached to, by the interfaces' names.
        pub networks: Vec<Network> = "networks",
        /// Which name servers the guest asks: `ClusterFirst`, `Default`, `None`, …, as in a pod.
        pub dns_policy: Option<String> = "dnsPolicy",
        /// Further name servers and search domains, as in a pod: `PodDNSConfig`.
        pub dns_config: Option<Value> = "dnsConfig" as Option<DnsConfig>,
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
    pub struct ResourceClaim by "name" {
        /// The name by which devices and networks refer to it.
        pub name: String = "name",
        /// A claim that is there.
        pub resource_claim_name: Option<String> = "resourceClaimName",
        /// What a claim of its own is made from.
        pub resource_claim_template_name: Option<String> = "resourceClaimTemplateName",
    }
}

object! {
    /// A claim that is used beside the guest, not by it.
    pub struct UtilityVolume by "name" {
        /// Its name.
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
