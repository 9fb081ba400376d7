//! What is to be done, as a value.
//!
//! ```text
//! the object as it is ─┐
//!                      ├─ difference ─► one merge patch, guarded by the version that was looked at
//! as it should be ─────┘                (nothing differs: no step)
//! ```
//!
//! A reconciler changes a copy of an object and hands both in; so it can neither forget a field nor write one that is
//! as it should be. Steps are done in order, and the first that fails ends the plan: what was decided on the rest is
//! decided again on the next picture.

use crate::claimed::TellDevices;
use crate::issue::{ForPod, Issue, IssueKey};
use crate::objects::{Attempt, Key, Kind, LauncherPods, key};
use api::meta::ObjectMeta;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// Decide again at this time, even if nothing changes.
    pub again: Option<Timestamp>,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make an object. That it is there already is as good.
    Create {
        /// Which.
        key: Key,
        /// The whole object.
        object: Value,
    },
    /// Make a launcher pod that has devices of networks: their definitions say of which resource, and are read first.
    CreateOnNetworks {
        /// Which.
        key: Key,
        /// The whole object, without these resources.
        object: Value,
        /// The networks.
        networks: Vec<OnNetwork>,
    },
    /// Read which devices a launcher pod has of ResourceClaims, and say so in the status of its VMI, if that still is what was
    /// looked at.
    TellDevices(TellDevices),
    /// Change an object, if it still is what was looked at.
    Patch {
        /// Which.
        key: Key,
        /// The version that was looked at; empty where what is written is nobody else's.
        version: String,
        /// A merge patch (RFC 7386); of a pod one that merges its conditions by their types.
        change: Value,
        /// `status` for what stands behind that.
        part: Option<&'static str>,
    },
    /// Delete an object, if it still is the one that was looked at. That it is gone is as good.
    Delete {
        /// Which.
        key: Key,
        /// The uid that was looked at.
        uid: String,
    },
    /// Delete an object of this name, if it is one of this owner. The picture does not have it: whose it is, is asked first.
    DeleteOf {
        /// Which.
        key: Key,
        /// The uid of its first owner.
        owner: String,
    },
    /// Ask for the eviction of a pod, if it still is the one that was looked at. Where it may not be evicted now, it stays: that is
    /// no failure.
    Evict {
        /// Which.
        key: Key,
        /// The uid that was looked at.
        uid: String,
    },
    /// Go on only if there is no such object: the picture of what is not there may lag behind.
    Absent {
        /// Which.
        key: Key,
        /// The launcher pods that it would be of: a stranger's of that name does not count.
        of: Option<LauncherPods>,
    },
    /// Go on only if this object is there, and nobody deletes it: the picture of what is being deleted may lag behind.
    Present {
        /// Which.
        key: Key,
        /// The uid that was looked at.
        uid: String,
    },
    /// Go on only if no pod that may run mounts this PVC: of the pods of others there is no picture.
    Unused {
        /// The PVC.
        claim: Key,
        /// The mounts that count.
        by: Mounts,
    },
    /// Make a certificate with a new key, and put both into a secret.
    Issue(Issue),
    /// Make the certificate of a worker pod with a new key, and put both into a Secret that is not read.
    IssueForPod(ForPod),
    /// Make or promote a key that signs upload tokens.
    IssueKey(IssueKey),
    /// Tell what happened.
    Tell(Note),
}

/// A network of Multus that a launcher pod is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnNetwork {
    /// Its name in the VMI.
    pub name: String,
    /// Its NetworkAttachmentDefinition.
    pub definition: Key,
    /// The pod is nothing without a device of it.
    pub needs_device: bool,
}

/// Mounts of a PVC by pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounts {
    /// Those for writing.
    ToWrite,
    /// All, those for reading alone too.
    Any,
}

/// An event for people, about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// What it is about.
    pub key: Key,
    /// Its uid.
    pub uid: String,
    /// Something is wrong.
    pub warning: bool,
    /// A word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl Step {
    /// What it tries for the object that is decided on: that it cannot be is said there.
    pub fn attempt(&self) -> Option<Attempt> {
        let made = match self {
            // A guest ends with it, for which people wait.
            Step::Delete { key, .. } if matches!(key.kind, Kind::VirtualMachineInstance | Kind::Pod) => {
                return Some(Attempt::Delete(key.kind));
            }
            // It becomes larger, or is placed elsewhere.
            Step::Patch { key, change, .. } if !change["spec"]["resources"].is_null() => key.kind,
            // What the KubeVirt object says of a program of the installation.
            Step::Patch { key, .. } if matches!(key.kind, Kind::Deployment | Kind::DaemonSet) => key.kind,
            Step::Create { key, .. }
            | Step::CreateOnNetworks { key, .. }
            | Step::IssueForPod(ForPod { key, .. }) => key.kind,
            Step::Unused { claim, .. } => claim.kind,
            Step::TellDevices(_) => Kind::ResourceClaim,
            _ => return None,
        };
        Some(Attempt::Make(made))
    }
}

impl Plan {
    /// Nothing is to be done now (something may be later).
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Makes an object.
    pub fn create(&mut self, key: Key, object: Value) {
        self.steps.push(Step::Create { key, object });
    }

    /// Makes a certificate.
    pub fn issue(&mut self, issue: Issue) {
        self.steps.push(Step::Issue(issue));
    }

    /// Makes the certificate of a worker pod.
    pub fn issue_for_pod(&mut self, issue: ForPod) {
        self.steps.push(Step::IssueForPod(issue));
    }

    /// Goes on only if an object is still there, and nobody deletes it.
    pub fn present(&mut self, kind: Kind, meta: &ObjectMeta) {
        self.steps.push(Step::Present { key: key(kind, meta), uid: meta.uid.clone().unwrap_or_default() });
    }

    /// Goes on only if nobody writes to a PVC.
    pub fn unused(&mut self, claim: &ObjectMeta) {
        let claim = key(Kind::PersistentVolumeClaim, claim);
        self.steps.push(Step::Unused { claim, by: Mounts::ToWrite });
    }

    /// Goes on only if no pod mounts a PVC, for reading either.
    pub fn unmounted(&mut self, claim: &ObjectMeta) {
        let claim = key(Kind::PersistentVolumeClaim, claim);
        self.steps.push(Step::Unused { claim, by: Mounts::Any });
    }

    /// Makes or promotes a key that signs upload tokens.
    pub fn issue_key(&mut self, issue: IssueKey) {
        self.steps.push(Step::IssueKey(issue));
    }

    /// Deletes an object.
    pub fn delete(&mut self, key: Key, meta: &ObjectMeta) {
        self.steps.push(Step::Delete { key, uid: meta.uid.clone().unwrap_or_default() });
    }

    /// Asks for the eviction of a pod.
    pub fn evict(&mut self, meta: &ObjectMeta) {
        let uid = meta.uid.clone().unwrap_or_default();
        self.steps.push(Step::Evict { key: key(Kind::Pod, meta), uid });
    }

    /// Deletes what this owner has under a name, and nobody else's.
    pub fn delete_of(&mut self, key: Key, owner: &ObjectMeta) {
        self.steps.push(Step::DeleteOf { key, owner: owner.uid.clone().unwrap_or_default() });
    }

    /// Tells something.
    pub fn tell(
        &mut self,
        kind: Kind,
        meta: &ObjectMeta,
        warning: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let uid = meta.uid.clone().unwrap_or_default();
        self.steps.push(Step::Tell(Note {
            key: key(kind, meta),
            uid,
            warning,
            reason,
            message: message.into(),
        }));
    }

    /// Makes an object what it should be. `split`: its status stands behind a path of its own.
    pub fn update(&mut self, kind: Kind, meta: &ObjectMeta, is: &Value, should: &Value, split: bool) {
        let Some(mut change) = difference(is, should) else { return };
        let version = meta.resource_version.clone().unwrap_or_default();
        let mut patch = |change: Value, part| {
            self.steps.push(Step::Patch { key: key(kind, meta), version: version.clone(), change, part });
        };
        let status =
            if split { change.as_object_mut().and_then(|fields| fields.remove("status")) } else { None };
        if change.as_object().is_some_and(|fields| !fields.is_empty()) {
            patch(change, None);
        }
        if let Some(status) = status {
            patch(json!({"status": status}), Some("status"));
        }
    }

    /// This, and then another plan.
    #[must_use]
    pub fn and(mut self, other: Plan) -> Plan {
        self.steps.extend(other.steps);
        other.again.into_iter().for_each(|time| self.look_again(time));
        self
    }

    /// Decide again at `time`, or earlier if that was wanted.
    pub fn look_again(&mut self, time: Timestamp) {
        self.again = Some(self.again.map_or(time, |other| other.min(time)));
    }
}

/// The merge patch that makes `should` of `is`; nothing, where they are the same.
pub fn difference(is: &Value, should: &Value) -> Option<Value> {
    match (is, should) {
        (Value::Object(is), Value::Object(should)) => {
            let mut change = Map::new();
            for (name, value) in should {
                match is.get(name) {
                    Some(old) => change.extend(difference(old, value).map(|value| (name.clone(), value))),
                    None => {
                        change.insert(name.clone(), value.clone());
                    }
                }
            }
            let lost = is.keys().filter(|name| !should.contains_key(*name));
            change.extend(lost.map(|name| (name.clone(), Value::Null)));
            (!change.is_empty()).then_some(Value::Object(change))
        }
        _ => (is != should).then(|| should.clone()),
    }
}

/// What a merge patch makes of a value.
pub fn merge(target: &mut Value, change: &Value) {
    let Value::Object(fields) = change else {
        *target = change.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(target) = target else { return };
    for (name, value) in fields {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(json!(1)), Just(json!("a")), Just(json!(true)), Just(json!([1, {"a": 2}]))];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn a_difference_makes_the_one_of_the_other(is in value(), should in value()) {
            let mut made = is.clone();
            match difference(&is, &should) {
                Some(change) => merge(&mut made, &change),
                None => prop_assert_eq!(&is, &should),
            }
            prop_assert_eq!(made, should);
        }
    }

    #[test]
    fn a_status_of_its_own_is_a_step_of_its_own() {
        let meta =
            ObjectMeta { name: Some("a".into()), resource_version: Some("7".into()), ..Default::default() };
        let mut plan = Plan::default();
        let should = json!({"metadata": {"finalizers": ["f"]}, "status": {"ready": true}});
        plan.update(Kind::VirtualMachine, &meta, &json!({"metadata": {}}), &should, true);
        let parts: Vec<_> =
            plan.steps.iter().map(|step| matches!(step, Step::Patch { part: Some(_), .. })).collect();
        assert_eq!(parts, [false, true]);
        plan = Plan::default();
        plan.update(Kind::VirtualMachine, &meta, &should, &should, true);
        assert!(plan.is_empty());
    }
}
