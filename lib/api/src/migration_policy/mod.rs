//! `MigrationPolicy` of `migrations.kubevirt.io/v1alpha1`: settings for the live migrations of some VMIs.
//!
//! ```text
//! selectors: labels of the namespace and of the VMI ──► one policy for each migration (chosen by virt-controller)
//! `configuration.migrations` of the KubeVirt object, and the fields of the policy over it ──► MigrationConfiguration
//! ```
//!
//! [`Spec::apply_to`] ignores the values that [`faults`] reports: a policy may be older than the webhook.

mod check;
pub mod served;

pub use check::{DOWNTIME_GATE, STALL_GATE, faults};

use crate::meta::{Empty, ObjectMeta};
use crate::object;
use crate::quantity::Quantity;
use crate::vmi::{Compression, ExperimentalMigrationOptions, MigrationConfiguration};
use std::collections::BTreeMap;

/// The group of the kind.
pub const GROUP: &str = "migrations.kubevirt.io";
/// The version of the kind.
pub const VERSION: &str = "v1alpha1";
/// Group and version, as in `apiVersion`.
pub const API_VERSION: &str = "migrations.kubevirt.io/v1alpha1";

object! {
    /// MigrationPolicy: settings for the live migrations of the VMIs that it selects.
    pub struct MigrationPolicy {
        /// API version of this object: `migrations.kubevirt.io/v1alpha1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `MigrationPolicy`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the policy: name, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Selectors of VMIs, and settings of their live migrations.
        pub spec: Spec = "spec",
        /// Observed state of the policy. Always empty.
        pub status: Option<Empty> = "status",
    }
}

object! {
    /// Selectors of VMIs, and settings of their live migrations. An unset field leaves the value of
    /// `configuration.migrations` in the KubeVirt object.
    pub struct Spec {
        /// Selectors of VMIs by labels. Unset: the policy selects no VMI. Empty: the policy selects all VMIs.
        pub selectors: Option<Selectors> = "selectors",
        /// Throttles the vCPUs of a guest that writes memory faster than the migration copies.
        pub allow_auto_converge: Option<bool> = "allowAutoConverge",
        /// Maximum bandwidth of a migration in bytes per second; 0 means no limit.
        pub bandwidth_per_migration: Option<Quantity> = "bandwidthPerMigration",
        /// Seconds per GiB of memory and migrated disks before a migration is cancelled.
        pub completion_timeout_per_gib: Option<i64> = "completionTimeoutPerGiB",
        /// Maximum downtime of the guest in milliseconds, from 1 to 2000000.
        pub max_downtime_ms: Option<u64> = "maxDowntimeMs",
        /// Switches to post-copy if pre-copy does not converge. Not supported: the guest is paused instead.
        pub allow_post_copy: Option<bool> = "allowPostCopy",
        /// Pauses the guest if the migration does not converge otherwise. Unset: the value of
        /// `allowPostCopy` in this policy.
        pub allow_workload_disruption: Option<bool> = "allowWorkloadDisruption",
        /// Compression of the migration traffic: `none` or `zstd`.
        pub compression: Option<Compression> = "compression",
        /// Experimental settings, subject to change.
        pub experimental: Option<ExperimentalMigrationOptions> = "experimental",
    }
}

object! {
    /// Selectors of VMIs by labels. All labels of both selectors must be present.
    pub struct Selectors {
        /// Labels that the namespace of the VMI must have, with exactly these values.
        pub namespace_selector: BTreeMap<String, String> = "namespaceSelector",
        /// Labels that the VMI must have, with exactly these values.
        pub virtual_machine_instance_selector: BTreeMap<String, String> = "virtualMachineInstanceSelector",
    }
}

impl Selectors {
    /// Number of labels that select a VMI: all of them together, and those of the VMI. `None` if a label is missing or has
    /// another value.
    pub fn score(
        &self,
        vmi: &BTreeMap<String, String>,
        namespace: &BTreeMap<String, String>,
    ) -> Option<(usize, usize)> {
        let (of_vmi, of_namespace) = (&self.virtual_machine_instance_selector, &self.namespace_selector);
        let has_all = |labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>| {
            wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
        };
        let is_match = has_all(vmi, of_vmi) && has_all(namespace, of_namespace);
        is_match.then_some((of_vmi.len() + of_namespace.len(), of_vmi.len()))
    }
}

impl Spec {
    /// The settings of a migration: those of the cluster, with the fields of the policy in their place. A policy that sets
    /// `allowPostCopy` alone sets `allowWorkloadDisruption` to the same value, as in KubeVirt.
    #[must_use]
    pub fn apply_to(&self, cluster: &MigrationConfiguration) -> MigrationConfiguration {
        let mut settings = cluster.clone();
        replace(&mut settings.allow_auto_converge, self.allow_auto_converge);
        replace(&mut settings.bandwidth_per_migration, self.valid_bandwidth().cloned());
        replace(&mut settings.completion_timeout_per_gib, self.valid_completion_timeout());
        replace(&mut settings.max_downtime_ms, self.valid_downtime());
        replace(&mut settings.allow_post_copy, self.allow_post_copy);
        let disruption = self.allow_workload_disruption.or(self.allow_post_copy);
        replace(&mut settings.allow_workload_disruption, disruption);
        if let Some(compression) = self.valid_compression() {
            settings.experimental.get_or_insert_default().compression = Some(compression.clone());
        }
        settings
    }

    fn valid_bandwidth(&self) -> Option<&Quantity> {
        self.bandwidth_per_migration.as_ref().filter(|rate| rate.nanos() >= 0)
    }

    fn valid_completion_timeout(&self) -> Option<i64> {
        self.completion_timeout_per_gib.filter(|seconds| *seconds >= 0)
    }

    fn valid_downtime(&self) -> Option<i64> {
        let downtime = self.max_downtime_ms.filter(|limit| check::DOWNTIMES.contains(limit));
        downtime.and_then(|limit| i64::try_from(limit).ok())
    }

    /// The compression of the policy. KubeVirt has had the field in both places.
    fn valid_compression(&self) -> Option<&Compression> {
        let experimental = self.experimental.as_ref().and_then(|more| more.compression.as_ref());
        let is_known = |word: &&Compression| !matches!(word, Compression::Other(_));
        self.compression.as_ref().filter(is_known).or(experimental.filter(is_known))
    }
}

/// Replaces a value where the policy has one.
fn replace<T>(value: &mut Option<T>, by: Option<T>) {
    if by.is_some() {
        *value = by;
    }
}

#[cfg(test)]
mod tests;
