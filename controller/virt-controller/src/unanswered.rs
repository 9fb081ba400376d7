//! Deletions of VMs and VMIs that were sent, and of which it is not known whether they were done.
//!
//! ```text
//!  plan with deletions ─► an answer is lost ─► the API server is asked for these objects ─► the next decision
//! ```
//!
//! Without this, the next decision would count an object that is gone, and could choose another one to delete.

use cluster_client::error::ErrorKind;
use cluster_model::objects::{Key, Kind, World};
use cluster_model::plan::{Plan, Step};
use std::collections::BTreeMap;

/// Objects by key and uid.
type Objects = Vec<(Key, String)>;

/// Deletions without an answer.
#[derive(Debug, Default)]
pub(crate) struct UnansweredDeletions {
    /// Deletions in the plan that is being carried out, by the key of its decision.
    sent: BTreeMap<Key, Objects>,
    /// Deletions that are to be asked about before the next decision on the key.
    unknown: BTreeMap<Key, Objects>,
}

impl UnansweredDeletions {
    /// Records the deletions of a plan that begins.
    pub(crate) fn begin(&mut self, key: &Key, plan: &Plan) {
        let sent = plan.steps.iter().filter_map(|step| match step {
            Step::Delete { key, uid, .. } if is_counted(key.kind) && !uid.is_empty() => {
                Some((key.clone(), uid.clone()))
            }
            _ => None,
        });
        let sent: Objects = sent.collect();
        if !sent.is_empty() {
            self.sent.insert(key.clone(), sent);
        }
    }

    /// Plan that asks the API server for the objects whose deletion is unknown, instead of a decision on the key.
    pub(crate) fn question(&mut self, key: &Key, world: &World) -> Option<Plan> {
        let unknown = self.unknown.get_mut(key)?;
        unknown.retain(|(at, uid)| may_exist(world, at, uid));
        if unknown.is_empty() {
            self.unknown.remove(key);
            return None;
        }
        let present =
            unknown.iter().map(|(key, uid)| Step::RequirePresent { key: key.clone(), uid: uid.clone() });
        Some(Plan { steps: present.collect(), again: None })
    }

    /// Records the end of a plan, after its answers are in the World. Returns true if the key is to be decided
    /// on again.
    pub(crate) fn end(&mut self, key: &Key, failed: Option<ErrorKind>, world: &World) -> bool {
        if self.unknown.contains_key(key) {
            if failed != Some(ErrorKind::Unreachable) {
                self.unknown.remove(key);
            }
            return failed.is_none();
        }
        let mut sent = self.sent.remove(key).unwrap_or_default();
        sent.retain(|(at, uid)| may_exist(world, at, uid));
        // Another error is of a step that was not done, and the steps before it were answered.
        if sent.is_empty() || failed.is_some_and(|failed| failed != ErrorKind::Unreachable) {
            return false;
        }
        self.unknown.insert(key.clone(), sent);
        failed.is_none()
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.unknown.remove(key);
    }
}

/// True for the objects that pools and replica sets count.
fn is_counted(kind: Kind) -> bool {
    matches!(kind, Kind::VirtualMachine | Kind::VirtualMachineInstance)
}

/// True if the World does not know that the object is gone or being deleted.
fn may_exist(world: &World, key: &Key, uid: &str) -> bool {
    let meta = world.meta(key).filter(|meta| meta.uid.as_deref() == Some(uid));
    meta.is_some_and(|meta| meta.deletion_timestamp.is_none())
}
