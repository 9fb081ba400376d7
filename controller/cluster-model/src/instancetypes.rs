//! Instance type and preference of a VM: the live objects, or the copies made when the VM first used them.
//!
//! ```text
//!  matcher ─┬─ revisionName, or the revision of status ─► ControllerRevision ─ of_revision ─┐
//!           └─ kind and name ─► the object as it is ─ revision ─► ControllerRevision        ├─► its spec, checked
//!                                      └───────────────────────────────────────────────────┘
//! ```
//!
//! Pure. virt-controller creates the revisions, so that a change of an instance type does not change VMs that
//! use it. Their names, labels and contents are upstream's. The content of a revision is validated like a new
//! object, since any user who may write ControllerRevisions in the namespace may have written it.

use crate::objects::names::{label, revision as revision_name};
use crate::objects::{Kind, Revision, World, object_labels as labels, owner};
use api::fault::Fault;
use api::instancetype::{
    API_VERSION, GROUP, InstancetypeSpec, Matcher, MatcherKind, OLD_VERSIONS, PreferenceSpec, Role, Scope,
    VERSION, of_instancetype, of_preference,
};
use api::meta::ObjectMeta;
use api::vm::{InstancetypeStatusRef, Spec, VirtualMachine};
use api::wire::{self, Wire};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Maximum length of a message about an invalid spec.
const LONGEST: usize = 500;
/// The version whose first revisions stored bytes.
const FIRST: &str = "instancetype.kubevirt.io/v1alpha1";
/// Maximum length of the Base64 text of such bytes: far more than any instance type or preference has.
const LARGEST: usize = 256 << 10;

/// Specs of a VM's instance type and preference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SizeSpecs {
    pub instancetype: Option<InstancetypeSpec>,
    pub preference: Option<PreferenceSpec>,
}

impl SizeSpecs {
    /// Validates and stores the spec of an object or a revision. The error lists its faults.
    pub fn set(&mut self, role: Role, spec: Value) -> Result<(), String> {
        match role {
            Role::Instancetype => self.instancetype = Some(checked(spec, of_instancetype)?),
            Role::Preference => self.preference = Some(checked(spec, of_preference)?),
        }
        Ok(())
    }
}

fn checked<T: Wire>(spec: Value, check: fn(&T) -> Vec<Fault>) -> Result<T, String> {
    // The message is written to the status of each VM that references the object.
    let told = |faults: Vec<Fault>| {
        let all = faults.iter().take(3).map(ToString::to_string).collect::<Vec<_>>().join("; ");
        all.chars().take(LONGEST).collect::<String>()
    };
    let spec = wire::read::<T>(spec).map_err(told)?;
    let faults = check(&spec);
    if faults.is_empty() { Ok(spec) } else { Err(told(faults)) }
}

/// A live instance type or preference.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveObject {
    pub kind: MatcherKind,
    pub meta: ObjectMeta,
    pub spec: Value,
}

/// The object of a kind and a name, for a VM of a namespace.
pub fn find(world: &World, kind: MatcherKind, namespace: &str, name: &str) -> Option<LiveObject> {
    let (meta, spec) = match (kind.role, kind.scope) {
        (Role::Instancetype, Scope::Namespace) => {
            world.instancetypes.get(namespace, name).map(|found| (&found.metadata, found.spec.write()))
        }
        (Role::Instancetype, Scope::Cluster) => {
            world.cluster_instancetypes.get("", name).map(|found| (&found.metadata, found.spec.write()))
        }
        (Role::Preference, Scope::Namespace) => {
            world.preferences.get(namespace, name).map(|found| (&found.metadata, found.spec.write()))
        }
        (Role::Preference, Scope::Cluster) => {
            world.cluster_preferences.get("", name).map(|found| (&found.metadata, found.spec.write()))
        }
    }?;
    Some(LiveObject { kind, meta: meta.clone(), spec })
}

/// The live objects that a VM of a namespace references, as far as they exist. Inferred references are not
/// resolved here.
pub fn find_referenced(world: &World, spec: &Spec, namespace: &str) -> Vec<LiveObject> {
    let matchers = Role::ALL.into_iter().filter_map(|role| Matcher::from_spec(spec, role));
    matchers.filter_map(|matcher| find(world, matcher.matched().ok()?, namespace, matcher.name)).collect()
}

/// The kind of the object that a matcher references.
pub fn kind_of(kind: MatcherKind) -> Kind {
    match (kind.role, kind.scope) {
        (Role::Instancetype, Scope::Namespace) => Kind::VirtualMachineInstancetype,
        (Role::Instancetype, Scope::Cluster) => Kind::VirtualMachineClusterInstancetype,
        (Role::Preference, Scope::Namespace) => Kind::VirtualMachinePreference,
        (Role::Preference, Scope::Cluster) => Kind::VirtualMachineClusterPreference,
    }
}

impl LiveObject {
    /// Name of the revision that stores the object for a VM.
    pub fn revision_name(&self, vm: &str) -> String {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let generation = self.meta.generation.unwrap_or_default();
        revision_name(vm, &text(&self.meta.name), VERSION, &text(&self.meta.uid), generation)
    }

    /// The revision that stores the object for a VM.
    pub fn revision(&self, vm: &ObjectMeta) -> Value {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let name = text(&self.meta.name);
        let mut kept = json!({"name": name, "uid": self.meta.uid, "generation": self.meta.generation});
        if let Some(namespace) = self.meta.namespace.as_ref().filter(|namespace| !namespace.is_empty()) {
            kept["namespace"] = json!(namespace);
        }
        json!({
            "apiVersion": Kind::ControllerRevision.api_version(),
            "kind": Kind::ControllerRevision.name(),
            "metadata": {
                "name": self.revision_name(&text(&vm.name)),
                "namespace": vm.namespace,
                "labels": {
                    (labels::GENERATION): self.meta.generation.unwrap_or_default().to_string(),
                    (labels::KIND): self.kind.kind(),
                    (labels::NAME): label(&name),
                    (labels::UID): text(&self.meta.uid),
                    (labels::VERSION): VERSION,
                },
                "ownerReferences": [owner::reference(Kind::VirtualMachine, vm)],
            },
            "data": {"apiVersion": API_VERSION, "kind": self.kind.kind(), "metadata": kept, "spec": self.spec},
            "revision": 0,
        })
    }
}

/// The status of a VM about its instance type or preference.
pub fn status_of(vm: &VirtualMachine, role: Role) -> Option<&InstancetypeStatusRef> {
    let status = vm.status.as_ref()?;
    match role {
        Role::Instancetype => status.instancetype_ref.as_ref(),
        Role::Preference => status.preference_ref.as_ref(),
    }
}

/// The name of the revision that a VM uses: the one in its spec, or the one in its status if that is of the
/// object referenced now.
pub fn revision_in_use<'a>(vm: &'a VirtualMachine, matcher: &Matcher<'a>) -> Option<&'a str> {
    if !matcher.revision_name.is_empty() {
        return Some(matcher.revision_name);
    }
    let said = status_of(vm, matcher.role)?;
    let kind = MatcherKind::parse(matcher.role, said.kind.as_deref().unwrap_or_default())?;
    let is_same = said.name.as_deref() == Some(matcher.name) && matcher.matched() == Ok(kind);
    let named = said.controller_revision_ref.as_ref()?.name.as_deref();
    named.filter(|named| is_same && !named.is_empty())
}

/// The spec in a revision for this role, or the reason why it cannot be used.
pub fn of_revision(revision: &Revision, role: Role) -> Result<Value, String> {
    let name = revision.meta.name.as_deref().unwrap_or_default();
    let data = &revision.data;
    let text = |field: &str| data[field].as_str().unwrap_or_default();
    if let Some(spec) = of_bytes(data) {
        return spec.map_err(|why| format!("ControllerRevision {name}: spec {why}"));
    }
    let (group, version) = text("apiVersion").split_once('/').unwrap_or_default();
    let is_known = group == GROUP && (version == VERSION || OLD_VERSIONS.contains(&version));
    let mut kinds = MatcherKind::ALL.into_iter().filter(|kind| kind.role == role);
    if !is_known || !data["spec"].is_object() || !kinds.any(|kind| kind.kind() == text("kind")) {
        let field = role.field();
        return Err(format!("ControllerRevision {name} has no {field} of {API_VERSION}: choose another one"));
    }
    Ok(data["spec"].clone())
}

/// The spec in a revision of the first v1alpha1, which stored bytes without the kind (and, by a bug,
/// sometimes without the version). Callers must parse it strictly. `None` for any other revision.
fn of_bytes(data: &Value) -> Option<Result<Value, &'static str>> {
    let version = data["apiVersion"].as_str().unwrap_or_default();
    let text = data["spec"].as_str().filter(|_| data["kind"].is_null() && matches!(version, "" | FIRST))?;
    if text.len() > LARGEST {
        return Some(Err("is too long: choose another one"));
    }
    let bytes = STANDARD.decode(text).ok();
    let spec = bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()).filter(Value::is_object);
    Some(spec.ok_or("is not an object in Base64: choose another one"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn vm(spec: &Value, status: &Value) -> VirtualMachine {
        let metadata = json!({"namespace": "n", "name": "web", "uid": "7"});
        wire::read(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn world() -> World {
        let mut world = World::default();
        let spec = json!({"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}});
        let metadata = json!({"name": "small", "uid": "9f1c", "generation": 2, "labels": {"a": "b"}});
        let object = json!({"metadata": metadata, "spec": spec});
        world.put(Kind::VirtualMachineClusterInstancetype, object, Timestamp::UNIX_EPOCH);
        world
    }

    #[test]
    fn a_revision_has_the_name_the_labels_and_the_content_of_upstream() {
        let world = world();
        let kind = MatcherKind::parse(Role::Instancetype, "").unwrap();
        let found = find(&world, kind, "n", "small").unwrap();
        let made = found.revision(&vm(&json!({}), &json!({})).metadata);
        assert_eq!(made["metadata"]["name"], "web-small-v1beta1-9f1c-2");
        assert_eq!(
            made["metadata"]["labels"],
            json!({
                "instancetype.kubevirt.io/object-generation": "2",
                "instancetype.kubevirt.io/object-kind": "VirtualMachineClusterInstancetype",
                "instancetype.kubevirt.io/object-name": "small",
                "instancetype.kubevirt.io/object-uid": "9f1c",
                "instancetype.kubevirt.io/object-version": "v1beta1",
            })
        );
        assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "7");
        let data = json!({
            "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterInstancetype",
            "metadata": {"name": "small", "uid": "9f1c", "generation": 2},
            "spec": {"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}},
        });
        assert_eq!(made["data"], data);
        let kept = Revision { data, ..Revision::default() };
        assert_eq!(of_revision(&kept, Role::Instancetype), Ok(found.spec.clone()));
        assert!(of_revision(&kept, Role::Preference).unwrap_err().contains("has no preference"));
    }

    #[test]
    fn what_is_no_instance_type_is_not_read_from_a_revision() {
        let of = |data: Value| of_revision(&Revision { data, ..Revision::default() }, Role::Instancetype);
        let data = |version: &str, spec: Value| json!({"apiVersion": version, "kind": "VirtualMachineInstancetype", "spec": spec});
        assert!(of(data("instancetype.kubevirt.io/v1alpha2", json!({}))).is_ok());
        assert!(of(data("apps/v1", json!({}))).is_err() && of(json!({"spec": {}})).is_err());
        assert!(
            of(data("instancetype.kubevirt.io/v1alpha1", json!("e30="))).is_err(),
            "objects have no bytes"
        );
        let mut given = SizeSpecs::default();
        assert!(given.set(Role::Instancetype, json!({"cpu": {"guest": 0}})).is_err(), "and it is checked");
    }

    /// Revisions as KubeVirt 0.57 wrote them.
    #[test]
    fn a_revision_of_the_first_version_is_read_from_its_bytes() {
        let of = |data: Value, role| {
            let meta = ObjectMeta { name: Some("kept".into()), ..Default::default() };
            let spec = of_revision(&Revision { meta, data }, role)?;
            let mut given = SizeSpecs::default();
            given.set(role, spec).map(|()| given)
        };
        let bytes = |spec: Value| json!(STANDARD.encode(spec.to_string()));
        let size = || bytes(json!({"cpu": {"guest": 2}, "memory": {"guest": "128Mi"}}));
        for version in [json!("instancetype.kubevirt.io/v1alpha1"), json!(""), Value::Null] {
            let given = of(json!({"apiVersion": version, "spec": size()}), Role::Instancetype).unwrap();
            assert_eq!(given.instancetype.unwrap().cpu.guest, 2, "{version}");
        }
        let of_first = |spec: Value, role| {
            of(json!({"apiVersion": "instancetype.kubevirt.io/v1alpha1", "spec": spec}), role)
        };
        let prefers = bytes(json!({"cpu": {"preferredCPUTopology": "preferCores"}}));
        assert!(of_first(prefers.clone(), Role::Preference).unwrap().preference.is_some());
        assert!(of_first(prefers, Role::Instancetype).is_err(), "it is of the other kind");
        for odd in
            [json!("e30"), json!("!"), bytes(json!([])), bytes(json!("{}")), json!("A".repeat(LARGEST + 4))]
        {
            let why = of_first(odd, Role::Instancetype).unwrap_err();
            assert!(why.starts_with("ControllerRevision kept: spec "), "{why}");
        }
        let newer = json!({"apiVersion": "instancetype.kubevirt.io/v1beta1", "spec": size()});
        assert!(of(newer, Role::Instancetype).is_err(), "later versions kept objects");
    }

    #[test]
    fn what_a_revision_says_is_bounded() {
        let mut given = SizeSpecs::default();
        let features: Vec<Value> = (0..90_000).map(|number| json!({"name": format!("f{number}")})).collect();
        let why =
            given.set(Role::Preference, json!({"cpu": {"preferredCPUFeatures": features}})).unwrap_err();
        let said = "spec.cpu.preferredCPUFeatures has 90000 entries; the limit is 256";
        assert!(why.contains(said) && why.len() <= LONGEST, "{why}");
        assert_eq!(given, SizeSpecs::default());
    }

    #[test]
    fn a_vm_stays_with_the_revision_of_what_it_names() {
        let status = json!({"instancetypeRef": {
            "name": "small", "kind": "VirtualMachineClusterInstancetype", "controllerRevisionRef": {"name": "kept"},
        }});
        let used = |said: Value| {
            let vm = vm(&json!({"instancetype": said}), &status);
            let matcher = Matcher::from_spec(&vm.spec, Role::Instancetype).unwrap();
            revision_in_use(&vm, &matcher).map(str::to_owned)
        };
        assert_eq!(used(json!({"name": "small"})).as_deref(), Some("kept"));
        assert_eq!(
            used(json!({"name": "small", "kind": "virtualmachineinstancetype"})),
            None,
            "another kind"
        );
        assert_eq!(used(json!({"name": "large"})), None);
        assert_eq!(used(json!({"name": "large", "revisionName": "own"})).as_deref(), Some("own"));
    }
}
