//! `VirtualMachineInstanceMigration` of `kubevirt.io/v1`: one live migration of a VMI.
//!
//! ```text
//! spec.vmiName ──► a target pod ──► status.migrationState of the VMI ──► the guest runs on another node
//! ```

use crate::condition::ConditionKind;
use crate::meta::ObjectMeta;
use crate::vmi::MigrationState;
use crate::{object, string_enum};
use std::collections::BTreeMap;

object! {
    /// VirtualMachineInstanceMigration: moves a running VMI to another node.
    pub struct VirtualMachineInstanceMigration {
        /// API version of this object: `kubevirt.io/v1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VirtualMachineInstanceMigration`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the migration: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// VMI to migrate, and requirements for the target node.
        pub spec: Spec = "spec",
        /// Observed state of the migration, written by the control plane.
        pub status: Option<Status> = "status",
    }
}

object! {
    /// VMI to migrate, and requirements for the target node.
    pub struct Spec {
        /// Name of the VMI in the namespace of the migration.
        pub vmi_name: String = "vmiName" (optional),
        /// Labels that the target node must have, in addition to those that the VMI asks for.
        pub added_node_selector: BTreeMap<String, String> = "addedNodeSelector",
        /// Source side of a migration to another cluster. Not supported.
        pub send_to: Option<SendTo> = "sendTo",
        /// Target side of a migration from another cluster. Not supported.
        pub receive: Option<Receive> = "receive",
        /// True moves the disks of a stopped VM: `vmiName` is the name of the VM, whose guest is not started.
        pub offline: Option<bool> = "offline",
        /// Priority among the migrations that wait. Only virt-controller may set it.
        pub priority: Option<Priority> = "priority",
    }
}

object! {
    /// Source side of a migration to another cluster.
    pub struct SendTo {
        /// Identity of the migration in both clusters.
        pub migration_id: String = "migrationID",
        /// Address of the other cluster.
        pub connect_url: String = "connectURL",
    }
}

object! {
    /// Target side of a migration from another cluster.
    pub struct Receive {
        /// Identity of the migration in both clusters.
        pub migration_id: String = "migrationID",
    }
}

string_enum! {
    /// Priority of a migration among those that wait.
    pub enum Priority {
        SystemCritical = "system-critical",
        UserTriggered = "user-triggered",
        SystemMaintenance = "system-maintenance",
    }
}

object! {
    /// Observed state of a migration.
    pub struct Status {
        /// Phase of the migration, from Pending to Succeeded or Failed.
        pub phase: Option<Phase> = "phase",
        /// Conditions of the migration, one per type.
        pub conditions: Vec<Condition> = "conditions",
        /// Start times of the phases of the migration.
        pub phase_transition_timestamps: Vec<PhaseTransition> = "phaseTransitionTimestamps",
        /// State of the migration as in the status of the VMI; complete once the migration has ended.
        pub migration_state: Option<MigrationState> = "migrationState",
        /// Addresses for migrations between clusters.
        pub synchronization_addresses: Vec<String> = "synchronizationAddresses",
    }
}

object! {
    /// Start time of a phase of the migration.
    pub struct PhaseTransition {
        /// Phase that the migration entered.
        pub phase: Option<Phase> = "phase",
        /// Time at which the phase began (RFC 3339).
        pub phase_transition_timestamp: Option<String> = "phaseTransitionTimestamp",
    }
}

string_enum! {
    /// Phase of a migration.
    pub enum Phase {
        /// Waits for its turn, or for its target pod to be created.
        Pending = "Pending",
        /// The target pod exists and does not run yet.
        Scheduling = "Scheduling",
        /// The target pod runs.
        Scheduled = "Scheduled",
        /// The VMI was handed over to the target node, which prepares it.
        PreparingTarget = "PreparingTarget",
        /// The target waits for the source to connect.
        TargetReady = "TargetReady",
        /// The guest is copied.
        Running = "Running",
        /// The guest runs on the target node.
        Succeeded = "Succeeded",
        /// The guest did not migrate.
        Failed = "Failed",
        /// Waits for the other cluster.
        WaitingForSync = "WaitingForSync",
        /// Exchanges its state with the other cluster.
        Synchronizing = "Synchronizing",
    }
}

impl Phase {
    /// True for a migration that has ended.
    pub fn is_final(&self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

/// Condition of the migration, for example migrationAbortRequested.
pub type Condition = crate::condition::Condition<ConditionType>;

impl ConditionKind for ConditionType {
    const DESCRIPTION: &'static str = "Condition of the migration, for example migrationAbortRequested.";
}

string_enum! {
    /// Type of a condition of a migration.
    pub enum ConditionType {
        /// The migration was deleted before its end, and is cancelled.
        AbortRequested = "migrationAbortRequested",
        /// A ResourceQuota of the namespace has no room for the target pod.
        RejectedByResourceQuota = "migrationRejectedByResourceQuota",
        /// Utility volumes of the VMI are waited for.
        BlockedByUtilityVolumes = "migrationBlockedByUtilityVolumes",
        /// The other cluster does not take part.
        DecentralizedBlocked = "decentralizedMigrationBlocked",
        /// A backup of the VMI is waited for.
        BlockedByBackup = "migrationBlockedByBackup",
    }
}
