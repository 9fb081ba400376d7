//! How far the installation is.
//!
//! ```text
//! (none) ─► Deploying ◄─► Deployed
//!                └────────────┴───► Deleting ─► Deleted
//! ```

use crate::{object, words};

object! {
    /// How far the installation is.
    pub struct Status {
        /// Where it stands.
        pub phase: Option<Phase> = "phase",
        /// What is true or false of it, by type.
        pub conditions: Vec<Condition> = "conditions",
        /// The version of the program that installs.
        pub operator_version: Option<String> = "operatorVersion",
        /// The registry that is wanted.
        pub target_kube_virt_registry: Option<String> = "targetKubeVirtRegistry",
        /// The version that is wanted.
        pub target_kube_virt_version: Option<String> = "targetKubeVirtVersion",
        /// Everything that decides what is installed, as it is wanted.
        pub target_deployment_config: Option<String> = "targetDeploymentConfig",
        /// A sum of it.
        pub target_deployment_id: Option<String> = "targetDeploymentID",
        /// The registry that is in use.
        pub observed_kube_virt_registry: Option<String> = "observedKubeVirtRegistry",
        /// The version that is in use.
        pub observed_kube_virt_version: Option<String> = "observedKubeVirtVersion",
        /// Everything that decides what is installed, as it is.
        pub observed_deployment_config: Option<String> = "observedDeploymentConfig",
        /// A sum of it.
        pub observed_deployment_id: Option<String> = "observedDeploymentID",
        /// How many instances run in pods of an older version.
        pub outdated_virtual_machine_instance_workloads: Option<i64> =
            "outdatedVirtualMachineInstanceWorkloads",
        /// The generation of the object that this status is about.
        pub observed_generation: Option<i64> = "observedGeneration",
        /// The architecture of a machine that says none.
        pub default_architecture: Option<String> = "defaultArchitecture",
        /// What was installed, and its generation then.
        pub generations: Vec<Generation> = "generations",
        /// Where another cluster reaches this one to move machines.
        pub synchronization_addresses: Vec<String> = "synchronizationAddresses",
    }
}

object! {
    /// One thing that is true or false of the installation.
    pub struct Condition by "type" {
        /// What it is about.
        pub r#type: ConditionType = "type",
        /// `True`, `False` or `Unknown`.
        pub status: String = "status",
        /// When it was last looked at; RFC 3339.
        pub last_probe_time: Option<String> = "lastProbeTime",
        /// Since when it is so; RFC 3339.
        pub last_transition_time: Option<String> = "lastTransitionTime",
        /// A word for it.
        pub reason: Option<String> = "reason",
        /// A sentence for it.
        pub message: Option<String> = "message",
    }
}

object! {
    /// What was installed, and its generation then.
    pub struct Generation {
        /// Its group.
        pub group: String = "group",
        /// Its kind, in the plural.
        pub resource: String = "resource",
        /// Its namespace.
        pub namespace: Option<String> = "namespace",
        /// Its name.
        pub name: String = "name",
        /// Its generation when it was last written.
        pub last_generation: i64 = "lastGeneration",
        /// A sum of what has no generation.
        pub hash: Option<String> = "hash",
    }
}

words! {
    /// Where the installation stands; empty at first.
    pub enum Phase {
        /// Something is not there yet.
        Deploying = "Deploying",
        /// Everything is there.
        Deployed = "Deployed",
        /// It is being taken away.
        Deleting = "Deleting",
        /// It has been taken away.
        Deleted = "Deleted",
    }
}

words! {
    /// What a condition is about.
    pub enum ConditionType {
        /// The object could be read and carried out.
        Synchronized = "Synchronized",
        /// Everything has been made.
        Created = "Created",
        /// Everything works.
        Available = "Available",
        /// Something is being changed.
        Progressing = "Progressing",
        /// Something does not work as it should.
        Degraded = "Degraded",
    }
}

impl Phase {
    /// Whether the installation may go from this phase to another. Nothing stops a deletion, and nothing follows it.
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
