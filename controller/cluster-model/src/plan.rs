//! Plans: changes to objects, as values.
//!
//! ```text
//! the object as it is ─┐
//!                      ├─ difference ─► one merge patch, guarded by the version that was read
//! as it should be ─────┘                (no difference: no step)
//! ```
//!
//! A reconciler changes a copy of an object and passes both, so it can neither forget a field nor write one
//! that is already right. Steps are carried out in order, and the first failure ends the plan: the rest is
//! decided again on the next state of the cache.

use crate::claimed::TellDevices;
use crate::issue::{Issue, IssueKey, PodCertificateIssue};
use crate::members::Members;
use crate::metadata::SCALE_IN;
use crate::objects::{Attempt, Key, Kind, LauncherPods, Pod, key};
use api::meta::ObjectMeta;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Changes for one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Steps in this order.
    pub steps: Vec<Step>,
    /// Time of the next decision, even if nothing changes.
    pub again: Option<Timestamp>,
}

/// A step of a plan: one request, or a few that belong together.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create an object. An existing object counts as success.
    Create { key: Key, object: Value },
    /// Create a launcher pod with devices of networks. The NetworkAttachmentDefinitions, which name the
    /// resources, are read first.
    CreateOnNetworks {
        key: Key,
        /// The whole object, without these resources.
        object: Value,
        networks: Vec<NetworkAttachment>,
    },
    /// Read the devices of a launcher pod's ResourceClaims, and write them to the status of its VMI if that
    /// has not changed since the decision.
    RecordDevices(TellDevices),
    /// Change an object if it has not changed since the decision.
    Patch {
        key: Key,
        /// Resource version at the decision; empty if no other program writes these fields.
        version: String,
        /// A merge patch (RFC 7386). For a pod, conditions are merged by their type.
        change: Value,
        /// The subresource, such as `status`.
        part: Option<&'static str>,
    },
    /// Delete an object if its uid is still the same. A missing object counts as success.
    Delete {
        key: Key,
        /// UID at the decision.
        uid: String,
        /// Resource version at the decision, if the object must not have changed since then; empty otherwise.
        version: String,
    },
    /// Delete the object of this name if it has this owner. The cache does not contain it, so the API server
    /// is asked for its owner first.
    DeleteOwnedBy {
        key: Key,
        /// UID of its first owner.
        owner: String,
    },
    /// Request the eviction of a pod if its uid is still the same. If it may not be evicted now, it stays,
    /// and the step succeeds.
    Evict {
        key: Key,
        /// UID at the decision.
        uid: String,
    },
    /// Precondition: the object does not exist. Asked of the API server, since the cache may lag behind.
    RequireAbsent {
        key: Key,
        /// The launcher pods that it would belong to. A pod of the same name that is not one of them does not
        /// count.
        of: Option<LauncherPods>,
    },
    /// Precondition: none of these launcher pods exists. Asked of the API server, since the cache may lag behind.
    RequireNoLauncherPod {
        namespace: String,
        /// Launcher pods of several VMIs of the namespace.
        vmis: Vec<LauncherPods>,
    },
    /// Precondition: the object exists and is not being deleted. Asked of the API server, since the cache may
    /// lag behind.
    RequirePresent {
        key: Key,
        /// UID at the decision.
        uid: String,
    },
    /// Precondition: so many objects of a pool or a replica set stay. Asked of the API server, since the cache may
    /// lag behind.
    RequireMembers(Members),
    /// Precondition: no running pod mounts the PVC. Asked of the API server, since the cache holds our pods
    /// only.
    RequireNoMounter {
        claim: Key,
        /// The mounts that count.
        by: Mounts,
    },
    /// Issue a certificate with a new key, and put both into a Secret.
    Issue(Issue),
    /// Issue the certificate of a worker pod with a new key, and put both into a Secret whose data is not
    /// read.
    IssueForPod(PodCertificateIssue),
    /// Create or promote a key that signs upload tokens.
    IssueKey(IssueKey),
    /// Record an event about an object, for users.
    RecordEvent(EventRecord),
}

/// A network of Multus for a launcher pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkAttachment {
    /// Name of the network in the VMI.
    pub name: String,
    pub definition: Key,
    /// The pod cannot work without a device of the network.
    pub needs_device: bool,
}

/// Mounts of a PVC by pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounts {
    ToWrite,
    /// All mounts, read-only ones too.
    Any,
}

/// An event about an object, for users.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    /// The object that it is about.
    pub key: Key,
    pub uid: String,
    /// The event has the type `Warning`.
    pub warning: bool,
    /// CamelCase reason of the event.
    pub reason: &'static str,
    /// Text of the event, for users.
    pub message: String,
}

impl Step {
    /// True for a step that changes nothing, and fails where an object is not as it was at the decision.
    pub fn is_requirement(&self) -> bool {
        matches!(self, Step::Patch { change, part: None, .. } if *change == json!({}))
    }

    /// The operation that a failure of the step is recorded as, on the object of the decision.
    pub fn attempt(&self) -> Option<Attempt> {
        let made = match self {
            // The deletion ends a guest, for which users wait, or removes a PVC that a live migration has made in vain.
            Step::Delete { key, .. }
                if matches!(
                    key.kind,
                    Kind::VirtualMachineInstance | Kind::Pod | Kind::PersistentVolumeClaim
                ) =>
            {
                return Some(Attempt::Delete(key.kind));
            }
            Step::Patch { key, change, part: None, .. } if is_scale_in(key.kind, change) => {
                return Some(Attempt::ScaleIn);
            }
            // The patch writes settings of a ConfigMap into the KubeVirt object.
            Step::Patch { key, change, part: None, .. }
                if key.kind == Kind::KubeVirt && !change["spec"].is_null() =>
            {
                key.kind
            }
            // The patch changes the size of the object.
            Step::Patch { key, change, .. } if !change["spec"]["resources"].is_null() => key.kind,
            // The patch applies settings of the KubeVirt object to a component of the installation.
            Step::Patch { key, .. } if matches!(key.kind, Kind::Deployment | Kind::DaemonSet) => key.kind,
            Step::Create { key, .. }
            | Step::CreateOnNetworks { key, .. }
            | Step::IssueForPod(PodCertificateIssue { key, .. }) => key.kind,
            Step::RequireNoMounter { claim, .. } => claim.kind,
            Step::RecordDevices(_) => Kind::ResourceClaim,
            _ => return None,
        };
        Some(Attempt::Make(made))
    }
}

/// True if a patch chooses an object of a pool or a replica set for deletion, takes the choice back, or lets the object go.
fn is_scale_in(kind: Kind, change: &Value) -> bool {
    let has = |fields: &Value, name: &str| fields.as_object().is_some_and(|fields| fields.contains_key(name));
    let metadata = &change["metadata"];
    matches!(kind, Kind::VirtualMachine | Kind::VirtualMachineInstance)
        && (has(&metadata["annotations"], SCALE_IN) || has(metadata, "ownerReferences"))
}

impl Plan {
    /// True if there are no steps now. A time for the next decision may be set.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub fn create(&mut self, key: Key, object: Value) {
        self.steps.push(Step::Create { key, object });
    }

    pub fn issue(&mut self, issue: Issue) {
        self.steps.push(Step::Issue(issue));
    }

    /// Issues the certificate of a worker pod.
    pub fn issue_for_pod(&mut self, issue: PodCertificateIssue) {
        self.steps.push(Step::IssueForPod(issue));
    }

    /// Requires that an object still exists and is not being deleted.
    pub fn present(&mut self, kind: Kind, meta: &ObjectMeta) {
        self.steps
            .push(Step::RequirePresent { key: key(kind, meta), uid: meta.uid.clone().unwrap_or_default() });
    }

    /// Requires that no running pod writes to a PVC.
    pub fn unused(&mut self, claim: &ObjectMeta) {
        let claim = key(Kind::PersistentVolumeClaim, claim);
        self.steps.push(Step::RequireNoMounter { claim, by: Mounts::ToWrite });
    }

    /// Requires that no running pod mounts a PVC, read-only mounts included.
    pub fn unmounted(&mut self, claim: &ObjectMeta) {
        let claim = key(Kind::PersistentVolumeClaim, claim);
        self.steps.push(Step::RequireNoMounter { claim, by: Mounts::Any });
    }

    /// Creates or promotes a key that signs upload tokens.
    pub fn issue_key(&mut self, issue: IssueKey) {
        self.steps.push(Step::IssueKey(issue));
    }

    /// Requires that an object has not changed since the decision, by a change that changes nothing.
    pub fn require_unchanged(&mut self, kind: Kind, meta: &ObjectMeta) {
        // virt-controller may write the status of these alone.
        let (change, part) = match kind {
            Kind::Pod | Kind::VirtualMachinePool | Kind::VirtualMachineInstanceReplicaSet => {
                (json!({"status": {}}), Some("status"))
            }
            _ => (json!({}), None),
        };
        let version = meta.resource_version.clone().unwrap_or_default();
        let step = Step::Patch { key: key(kind, meta), version, change, part };
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    /// Deletes an object, if its UID is still that of `meta`.
    pub fn delete(&mut self, key: Key, meta: &ObjectMeta) {
        let uid = meta.uid.clone().unwrap_or_default();
        self.steps.push(Step::Delete { key, uid, version: String::new() });
    }

    /// Deletes an object, if no other client has changed it since the decision.
    pub fn delete_unchanged(&mut self, key: Key, meta: &ObjectMeta) {
        let uid = meta.uid.clone().unwrap_or_default();
        let version = meta.resource_version.clone().unwrap_or_default();
        self.steps.push(Step::Delete { key, uid, version });
    }

    /// A plan that deletes these pods, but for those that are being deleted already.
    pub fn deleting<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Plan {
        let mut plan = Plan::default();
        for pod in pods.into_iter().filter(|pod| !pod.is_going()) {
            plan.delete(key(Kind::Pod, &pod.meta), &pod.meta);
        }
        plan
    }

    /// Requests the eviction of a pod.
    pub fn evict(&mut self, meta: &ObjectMeta) {
        let uid = meta.uid.clone().unwrap_or_default();
        self.steps.push(Step::Evict { key: key(Kind::Pod, meta), uid });
    }

    /// Deletes the object of this name if it has this owner.
    pub fn delete_of(&mut self, key: Key, owner: &ObjectMeta) {
        self.steps.push(Step::DeleteOwnedBy { key, owner: owner.uid.clone().unwrap_or_default() });
    }

    /// Records an event about the object with this metadata.
    pub fn record_event(
        &mut self,
        kind: Kind,
        meta: &ObjectMeta,
        warning: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let uid = meta.uid.clone().unwrap_or_default();
        self.steps.push(Step::RecordEvent(EventRecord {
            key: key(kind, meta),
            uid,
            warning,
            reason,
            message: message.into(),
        }));
    }

    /// A plan that records an event.
    pub fn event(
        (kind, meta): (Kind, &ObjectMeta),
        warning: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Plan {
        let mut plan = Plan::default();
        plan.record_event(kind, meta, warning, reason, message);
        plan
    }

    /// Patches an object from `is` to `should`. `split`: its status is a subresource.
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

    /// The steps of this plan, followed by those of another.
    #[must_use]
    pub fn and(mut self, other: Plan) -> Plan {
        self.steps.extend(other.steps);
        other.again.into_iter().for_each(|time| self.look_again(time));
        self
    }

    /// Sets the time of the next decision, unless an earlier one is set.
    pub fn look_again(&mut self, time: Timestamp) {
        self.again = Some(self.again.map_or(time, |other| other.min(time)));
    }
}

/// The merge patch from `is` to `should`; `None` if they are equal.
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

/// Applies a merge patch to a value.
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
    fn refusals_of_these_patches_are_recorded() {
        let vm = Kind::VirtualMachine;
        let owners = json!({"metadata": {"ownerReferences": null}});
        let note = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});
        for (kind, change, part, expected) in [
            (vm, note(SCALE_IN, json!("1")), None, Some(Attempt::ScaleIn)),
            (vm, note(SCALE_IN, Value::Null), None, Some(Attempt::ScaleIn)),
            (vm, note("a", json!("1")), None, None),
            (vm, owners.clone(), None, Some(Attempt::ScaleIn)),
            (Kind::VirtualMachineInstance, owners.clone(), None, Some(Attempt::ScaleIn)),
            (Kind::PersistentVolumeClaim, owners, None, None),
            (vm, json!({}), None, None),
            (Kind::KubeVirt, json!({"spec": {"a": 1}}), None, Some(Attempt::Make(Kind::KubeVirt))),
            (Kind::KubeVirt, json!({"metadata": {"finalizers": ["f"]}}), None, None),
            (Kind::KubeVirt, json!({"status": {}}), Some("status"), None),
        ] {
            let step = Step::Patch { key: Key::new(kind, "n", "a"), version: String::new(), change, part };
            assert_eq!(step.attempt(), expected, "{step:?}");
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
