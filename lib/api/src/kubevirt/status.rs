//! Observed state of the installation.
//!
//! ```text
//! (none) ─► Deploying ◄─► Deployed
//!                └────────────┴───► Deleting ─► Deleted
//! ```

use crate::condition::ConditionKind;
use crate::{object, string_enum};

object! {
    /// Observed state of the installation.
    pub struct Status {
        /// Phase of the installation; empty at first.
        pub phase: Option<Phase> = "phase",
        /// Conditions of the installation, one per type.
        pub conditions: Vec<Condition> = "conditions",
        /// Version of the component that manages the installation.
        pub operator_version: Option<String> = "operatorVersion",
        /// Target registry of the installation's images.
        pub target_kube_virt_registry: Option<String> = "targetKubeVirtRegistry",
        /// Target version of the installation.
        pub target_kube_virt_version: Option<String> = "targetKubeVirtVersion",
        /// Target deployment settings, serialised.
        pub target_deployment_config: Option<String> = "targetDeploymentConfig",
        /// Checksum of the target deployment settings.
        pub target_deployment_id: Option<String> = "targetDeploymentID",
        /// Registry of the images in use.
        pub observed_kube_virt_registry: Option<String> = "observedKubeVirtRegistry",
        /// Version of the installation in use.
        pub observed_kube_virt_version: Option<String> = "observedKubeVirtVersion",
        /// Deployment settings in use, serialised.
        pub observed_deployment_config: Option<String> = "observedDeploymentConfig",
        /// Checksum of the deployment settings in use.
        pub observed_deployment_id: Option<String> = "observedDeploymentID",
        /// Number of VMIs in launcher pods of an older version.
        pub outdated_virtual_machine_instance_workloads: Option<i64> =
            "outdatedVirtualMachineInstanceWorkloads",
        /// Generation of the object that the status describes.
        pub observed_generation: Option<i64> = "observedGeneration",
        /// CPU architecture of VMs that set none.
        pub default_architecture: Option<String> = "defaultArchitecture",
        /// Generations of the installed objects at the latest write.
        pub generations: Vec<Generation> = "generations",
        /// Addresses of this cluster for live migrations between clusters.
        pub synchronization_addresses: Vec<String> = "synchronizationAddresses",
    }
}

/// Condition of the installation, for example Available.
pub type Condition = crate::condition::Condition<ConditionType>;

impl ConditionKind for ConditionType {
    const DESCRIPTION: &'static str = "Condition of the installation, for example Available.";
}

object! {
    /// Installed object and its generation at the latest write.
    pub struct Generation {
        /// API group of the installed object.
        pub group: String = "group",
        /// Resource name of the object's kind, in the plural.
        pub resource: String = "resource",
        /// Namespace of the installed object. Unset: cluster-wide.
        pub namespace: Option<String> = "namespace",
        /// Name of the installed object.
        pub name: String = "name",
        /// Generation of the object at the latest write.
        pub last_generation: i64 = "lastGeneration",
        /// Checksum of an object without generations.
        pub hash: Option<String> = "hash",
    }
}

string_enum! {
    /// Phase of the installation; empty at first.
    pub enum Phase {
        /// Installation or update in progress.
        Deploying = "Deploying",
        /// Installation complete: every object is present.
        Deployed = "Deployed",
        /// Removal of the installation in progress.
        Deleting = "Deleting",
        /// Removal of the installation complete.
        Deleted = "Deleted",
    }
}

string_enum! {
    /// Type of a condition of the installation.
    pub enum ConditionType {
        /// Spec of the object valid and carried out.
        Synchronized = "Synchronized",
        /// All objects of the installation created.
        Created = "Created",
        /// All components of the installation available.
        Available = "Available",
        /// Installation, update or removal in progress.
        Progressing = "Progressing",
        /// Component of the installation missing or failing.
        Degraded = "Degraded",
    }
}

impl Phase {
    /// True if the installation may go from this phase to another. A deletion is never stopped, and it is
    /// final.
    pub fn may_become(&self, next: &Phase) -> bool {
        use Phase::{Deleted, Deleting, Deployed, Deploying, Other};
        match (self, next) {
            (_, Other(_)) | (Deleted, _) => false,
            (Other(_), Deploying | Deleting) => true,
            (Other(_), Deployed | Deleted) => false,
            (Deploying, Deployed | Deleting) => true,
            (Deploying, Deploying | Deleted) => false,
            (Deployed, Deploying | Deleting) => true,
            (Deployed, Deployed | Deleted) => false,
            (Deleting, Deleted) => true,
            (Deleting, Deploying | Deployed | Deleting) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_comes_and_goes() {
        let way = ["", "Deploying", "Deployed", "Deploying", "Deleting", "Deleted"].map(Phase::from);
        for pair in way.windows(2) {
            assert!(pair[0].may_become(&pair[1]), "{pair:?}");
        }
        for phase in Phase::KNOWN.iter().map(|&name| Phase::from(name)) {
            assert!(!phase.may_become(&phase), "{phase}");
            assert!(!Phase::Deleted.may_become(&phase), "{phase}");
            assert_eq!(Phase::Deleting.may_become(&phase), phase == Phase::Deleted, "{phase}");
        }
    }
}
