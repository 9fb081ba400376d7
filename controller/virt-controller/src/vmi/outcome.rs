//! The result of the steps for one VMI, as a value: changes of the VMI, and steps before and after it is written.
//!
//! Steps return an [`Outcome`] and write nothing. [`Outcome::apply`] makes the VMI as it should be, and [`Outcome::plan`] is the only
//! place that makes a plan: steps before, the difference of the two VMIs in one request, steps and events after.

use super::{MIGRATION_TARGET, NODE, VmiReconcile};
use crate::outcome::{self, Difference};
use crate::template;
use api::quantity::Quantity;
use api::vmi::{
    ConditionType, InterfaceStatus, MigrationState, Phase, PhaseTransition, Status, VirtualMachineInstance,
    Volume, VolumeStatus,
};
use api::wire::Wire;
use cluster_model::claim_moves::NOT_COPIED;
use cluster_model::conditions::{self, stamp};
use cluster_model::launcher::USER;
use cluster_model::objects::{FINALIZER, Kind, LauncherPods, OF_VM, OUTDATED};
use cluster_model::plan::{Plan, Step};

/// Changes of a VMI, and steps around them.
pub(super) type Outcome = outcome::Outcome<Change>;

/// Change of the VMI's status.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Goes to a phase, where the phase of the VMI may become that.
    Phase(Phase),
    /// The reason of a failure. The first one stays.
    Reason(String),
    Condition {
        kind: ConditionType,
        status: String,
        reason: String,
        message: String,
    },
    NoCondition(ConditionType),
    /// The finalizer that keeps the VMI while its pod may run the guest.
    Hold,
    /// Removes that finalizer. `keeps_of_vm`: the VM has to see the end of the VMI, so its own finalizer stays.
    Release {
        keeps_of_vm: bool,
    },
    /// The node and the pod that the VMI runs in.
    Place(Box<NodeAssignment>),
    TscFrequency(Option<i64>),
    /// Removes the devices of ResourceClaims from the status. They are read again when the pod runs.
    NoDeviceStatus,
    VsockCid(Option<u32>),
    Interfaces(Vec<InterfaceStatus>),
    Volumes(Vec<VolumeStatus>),
    /// State of the live migration.
    Migration(Box<MigrationState>),
    /// The guest has arrived on this node by a live migration, so it need not leave its old one any more.
    Arrival(String),
    /// Removes the label of the node that the guest migrates to.
    NoMigrationTarget,
    /// The volumes that migrate have their new PVCs; these have them as their VM names them.
    ReplaceClaims(Vec<Volume>),
    NoMigratedVolumes,
    /// The reason why a PVC cannot be copied.
    NotCopied(Option<String>),
    /// Sum of the template of the VM.
    TemplateSum(String),
}

/// Node and pod of a VMI.
#[derive(Clone, Debug)]
pub(super) struct NodeAssignment {
    pub(super) node: String,
    /// The uid of the pod.
    pub(super) pod: String,
    /// The uids of all pods of the VMI that are not over.
    pub(super) own_pods: Vec<String>,
    pub(super) qos: Option<String>,
    pub(super) image: Option<String>,
    pub(super) is_outdated: bool,
    pub(super) memory_overhead: Option<u64>,
}

impl Outcome {
    pub(super) fn phase(self, phase: Phase) -> Outcome {
        self.change(Change::Phase(phase))
    }

    /// The VMI has failed.
    pub(super) fn fail(self, reason: &str) -> Outcome {
        self.change(Change::Reason(reason.to_owned())).phase(Phase::Failed)
    }

    pub(super) fn condition(self, kind: ConditionType, status: &str, reason: &str, message: &str) -> Outcome {
        let text = str::to_owned;
        let (status, reason, message) = (text(status), text(reason), text(message));
        self.change(Change::Condition { kind, status, reason, message })
    }

    pub(super) fn no_condition(self, kind: ConditionType) -> Outcome {
        self.change(Change::NoCondition(kind))
    }

    /// Requires that these launcher pods do not exist. The API server is asked, since the World may lag behind.
    pub(super) fn require_absent(self, pods: &LauncherPods) -> Outcome {
        self.all_before_write(pods.keys().map(|key| Step::RequireAbsent { key, of: Some(pods.clone()) }))
    }

    /// Requires the same of the launcher pods of several VMIs.
    pub(super) fn require_no_pod_of(self, namespace: &str, vmis: Vec<LauncherPods>) -> Outcome {
        match vmis.is_empty() {
            true => self,
            false => self.before_write(Step::RequireNoLauncherPod { namespace: namespace.to_owned(), vmis }),
        }
    }

    /// Requires the same of the pod that runs the guest. The target of a migration that has not arrived has no guest.
    pub(super) fn require_guest_absent(self, pods: &LauncherPods) -> Outcome {
        self.before_write(Step::RequireAbsent { key: pods.guest_key(), of: Some(pods.clone()) })
    }

    /// The VMI after these changes.
    pub(super) fn apply(&self, input: &VmiReconcile<'_>) -> VirtualMachineInstance {
        let mut next = input.vmi.clone();
        next.status.get_or_insert_with(|| Status { runtime_user: USER.into(), ..Status::default() });
        self.changes().iter().for_each(|change| change.apply(input, &mut next));
        next
    }

    /// The plan for the VMI.
    pub(super) fn plan(self, input: &VmiReconcile<'_>) -> Plan {
        let (vmi, next) = (input.vmi, self.apply(input));
        let (kind, meta) = (Kind::VirtualMachineInstance, &vmi.metadata);
        self.plan_for(&Difference { kind, meta, is: vmi.write(), should: next.write(), split: false })
    }
}

impl Change {
    fn apply(&self, input: &VmiReconcile<'_>, next: &mut VirtualMachineInstance) {
        let meta = &mut next.metadata;
        let status = next.status.get_or_insert_default();
        match self {
            Change::Phase(phase) if !input.phase.may_become(phase) => {}
            Change::Phase(phase) => {
                status.phase_transition_timestamps.push(PhaseTransition {
                    phase: Some(phase.clone()),
                    phase_transition_timestamp: Some(stamp(input.now)),
                    ..PhaseTransition::default()
                });
                status.phase = Some(phase.clone());
            }
            Change::Reason(reason) => {
                if input.vmi.status.as_ref().is_none_or(|status| status.reason.is_none()) {
                    status.reason = Some(reason.clone());
                }
            }
            Change::Condition { kind, status: is, reason, message } => {
                let said = (is.as_str(), reason.as_str(), message.as_str());
                conditions::set(&mut status.conditions, kind.clone(), said, &stamp(input.now));
            }
            Change::NoCondition(kind) => conditions::remove(&mut status.conditions, kind),
            Change::Hold => {
                let finalizers = &mut meta.finalizers;
                if !input.is_deleted() && !finalizers.iter().any(|name| name == FINALIZER) {
                    finalizers.push(FINALIZER.to_owned());
                }
            }
            Change::Release { keeps_of_vm } => {
                meta.finalizers.retain(|finalizer| match finalizer.as_str() {
                    FINALIZER => false,
                    OF_VM => *keeps_of_vm,
                    _ => true,
                });
            }
            Change::Place(place) => {
                meta.labels.insert(NODE.to_owned(), place.node.clone());
                match place.is_outdated {
                    true => drop(meta.labels.insert(OUTDATED.to_owned(), String::new())),
                    false => drop(meta.labels.remove(OUTDATED)),
                }
                status.node_name = Some(place.node.clone());
                status.migration_transport = Some(api::vmi::MigrationTransport::Unix);
                status.active_pods.retain(|uid, _| place.own_pods.contains(uid));
                status.active_pods.insert(place.pod.clone(), place.node.clone());
                status.qos_class.clone_from(&place.qos);
                status.launcher_container_image_version.clone_from(&place.image);
                if let Some(bytes) = place.memory_overhead {
                    status.memory.get_or_insert_default().memory_overhead = Some(Quantity::of_bytes(bytes));
                }
            }
            Change::TscFrequency(hertz) => {
                status.topology_hints.get_or_insert_default().tsc_frequency = *hertz;
            }
            Change::NoDeviceStatus => status.device_status = None,
            Change::VsockCid(cid) => status.vsock_cid = *cid,
            Change::Interfaces(interfaces) => status.interfaces.clone_from(interfaces),
            Change::Volumes(volumes) => status.volume_status.clone_from(volumes),
            Change::Migration(state) => status.migration_state = Some((**state).clone()),
            Change::Arrival(node) => {
                meta.labels.insert(NODE.to_owned(), node.clone());
                status.node_name = Some(node.clone());
                status.evacuation_node_name = None;
            }
            Change::NoMigrationTarget => drop(meta.labels.remove(MIGRATION_TARGET)),
            Change::ReplaceClaims(own) => {
                next.replace_migrated_claims();
                // A state of the VM has arrived with this write: its VM names it nowhere.
                let (volumes, status) = (&next.spec.volumes, next.status.get_or_insert_default());
                status.migrated_volumes.retain(|one| volumes.iter().any(|own| own.name == one.volume_name));
                for volume in &mut next.spec.volumes {
                    let own = own.iter().find(|own| own.name == volume.name);
                    own.into_iter().for_each(|own| volume.clone_from(own));
                }
            }
            Change::NoMigratedVolumes => status.migrated_volumes.clear(),
            Change::NotCopied(Some(why)) => drop(meta.annotations.insert(NOT_COPIED.to_owned(), why.clone())),
            Change::NotCopied(None) => drop(meta.annotations.remove(NOT_COPIED)),
            Change::TemplateSum(sum) => drop(meta.annotations.insert(template::SUM.to_owned(), sum.clone())),
        }
    }
}
