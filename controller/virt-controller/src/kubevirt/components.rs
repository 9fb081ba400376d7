//! Settings of the KubeVirt object for the programs of the installation: placement, replicas, image pull
//! Secrets, labels, and patches.
//!
//! | of the KubeVirt object | reaches |
//! |---|---|
//! | `spec.infra.replicas`, `.nodePlacement` | virt-controller and virt-api |
//! | `spec.workloads.nodePlacement` | virt-handler |
//! | `spec.imagePullSecrets`, `spec.productVersion`, `.productName`, `.productComponent` | all, and cdi-uploadproxy |
//! | `spec.customizeComponents.flags` | the arguments of the program with that field |
//! | `spec.customizeComponents.patches`, in their order | the object of that kind and name |
//!
//! ```text
//!  the object in the cluster, its open fields as in the manifests (annotation PRISTINE)
//!    ─► placement ─► labels ─► flags ─► each patch, which may change open fields alone ─► the fields that differ are written
//! ```
//!
//! So the last result is never the base of the next one. The settings are added to the manifests: a label of
//! theirs in a `nodeSelector` stays (virt-handler is a program of amd64), and terms, tolerations and Secrets
//! are appended. A field that the KubeVirt object does not set any more gets the value of the manifests
//! again; a field that it never set is left alone.
//!
//! **Guarantees.** Only the fields in [`cluster_model::components`] are written, and a policy of the API
//! server enforces that. So neither an author of the KubeVirt object nor a holder of virt-controller's token
//! can choose the program of a privileged pod. A patch of other fields is left out as a whole, and named by
//! the condition `Synchronized`. Each component is decided on separately: a component that the API server
//! refuses does not block the others. A field that the API server stores differently than requested is
//! requested twice, and then left alone: the annotation WRITTEN records the request and its generation. One
//! pod of virt-controller stays, so that all this can be undone.
//! **Caveats.** The components are changed at once, each pod by pod (or as a patch of its `strategy` says).
//! Pods that find no node, or do not get ready, stay beside those of before.

use crate::installation::{self, ConditionRow};
use api::kubevirt::flags::{self, FLAGS};
use api::kubevirt::{ComponentFlags, ComponentPatch, PATCHED};
use api::wire;
use cluster_model::components::patch::{MOST, Patch};
use cluster_model::components::{
    KEPT, NOTES, PLACED, PRISTINE, REPLICAS, WRITTEN, customizable_fields, differs, is_shared, keeps_a_pod,
    pruned, set, without_customizable_fields,
};
use cluster_model::objects::{Component, Key, Kind, World, names};
use cluster_model::plan::Plan;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The programs of `infra` and of `workloads`; the CDI object is about the others.
const PARTS: [(&str, &str); 3] =
    [("virt-controller", "infra"), ("virt-api", "infra"), ("virt-handler", "workloads")];
/// The fields that become labels, and the labels.
const LABELS: [(&str, &str); 3] = [
    ("productVersion", "app.kubernetes.io/version"),
    ("productName", "app.kubernetes.io/part-of"),
    ("productComponent", "app.kubernetes.io/component"),
];
/// Longest message about problems with components.
const LONGEST: usize = 1000;

/// Plan for the component of this kind and name.
pub(crate) fn decide(world: &World, kind: Kind, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let home = &world.facts.namespace;
    let (Some(settings), Some(component)) = (settings(world), find(world, kind, name)) else { return plan };
    // A change that the API server has refused is tried again after its pause.
    let failure = world.failures.get(&Key::new(kind, home, name));
    if failure.is_none_or(|failure| failure.retry <= now)
        && let Ok(Some((is, should))) = Customizer::new(kind, component, settings).change()
    {
        plan.update(kind, &component.meta, &is, &should, false);
    }
    plan
}

/// Reason and message if the components are not as the KubeVirt object says.
pub(super) fn problem(world: &World, settings: &Value) -> Option<(&'static str, String)> {
    let mut found: Vec<(&'static str, String)> = Vec::new();
    for (kind, name) in PATCHED.map(|(kind, name)| (kind_of(kind), name)) {
        let Some(component) = find(world, kind, name) else { continue };
        if let Some(failure) = world.failures.get(&Key::new(kind, &world.facts.namespace, name)) {
            found.push(("ComponentsNotPlaced", failure.message.clone()));
        }
        let customizer = Customizer::new(kind, component, settings);
        match customizer.change() {
            Ok(_) => {
                let left = customizer.wished().map(|wished| wished.problems).unwrap_or_default();
                found.extend(
                    left.into_iter().map(|why| ("ComponentsNotCustomized", format!("{name}: {why}"))),
                );
            }
            Err(why) => found.push(("ComponentsNotPlaced", format!("{name}: {why}"))),
        }
    }
    let patches = settings["spec"]["customizeComponents"]["patches"].as_array().map_or(0, Vec::len);
    if patches > MOST {
        let why = format!(
            "spec.customizeComponents.patches has {patches} entries, of which the first {MOST} count"
        );
        found.push(("ComponentsNotCustomized", why));
    }
    let reason = found.first()?.0;
    let all: Vec<String> = found.into_iter().map(|(_, why)| why).collect();
    Some((reason, all.join("; ").chars().take(LONGEST).collect()))
}

/// Condition that reports the problem.
pub(super) fn condition<'a>(problem: Option<&'a (&'static str, String)>) -> ConditionRow<'a> {
    match problem {
        None => ("Synchronized", "True", "AllResourcesSynchronized", "All resources are as they should be."),
        Some((reason, why)) => ("Synchronized", "False", *reason, why.as_str()),
    }
}

/// The KubeVirt object of this installation, unless it is being deleted.
fn settings(world: &World) -> Option<&Value> {
    installation::settings(world).map(|object| &object.object)
}

fn find<'w>(world: &'w World, kind: Kind, name: &str) -> Option<&'w Component> {
    let home = &world.facts.namespace;
    PATCHED.contains(&(kind.name(), name)).then_some(())?;
    match kind {
        Kind::DaemonSet => world.daemon_sets.get(home, name),
        _ => world.deployments.get(home, name),
    }
}

fn kind_of(name: &str) -> Kind {
    if name == Kind::DaemonSet.name() { Kind::DaemonSet } else { Kind::Deployment }
}

/// A component, and the settings for it.
struct Customizer<'a> {
    kind: Kind,
    component: &'a Component,
    name: &'a str,
    spec: &'a Value,
}

/// Desired state of a component.
struct RequestedFields {
    /// Fields that differ from the manifests, by name; a field without a value is removed.
    fields: Vec<(String, Option<Value>)>,
    /// Settings of the KubeVirt object without an effect on the component, each with the reason.
    problems: Vec<String>,
}

impl<'a> Customizer<'a> {
    fn new(kind: Kind, component: &'a Component, settings: &'a Value) -> Customizer<'a> {
        let name = component.meta.name.as_deref().unwrap_or_default();
        Customizer { kind, component, name, spec: &settings["spec"] }
    }

    fn part(&self) -> Option<&'static str> {
        PARTS.iter().find(|(name, _)| *name == self.name).map(|(_, part)| *part)
    }

    /// The names of the fields that we have written.
    fn customized_fields(&self) -> BTreeSet<&'a str> {
        let names = self.component.meta.annotations.get(PLACED).map_or("", String::as_str);
        names.split(',').filter(|name| !name.is_empty()).collect()
    }

    fn pristine(&self) -> Option<Map<String, Value>> {
        serde_json::from_str(self.component.meta.annotations.get(PRISTINE)?).ok()
    }

    /// The component as it is and as it should be; `None` if both are the same.
    fn change(&self) -> Result<Option<(Value, Value)>, String> {
        let (placed, object) = (self.customized_fields(), &self.component.object);
        let Some(pristine) = self.pristine() else {
            // The manifest of the component is not recorded yet, and there are no settings, so nothing is
            // changed.
            if placed.is_empty() && self.says_nothing() {
                return Ok(None);
            }
            return Err(format!(
                "its annotation {PRISTINE} is missing, or is not JSON: apply the manifests of this version again"
            ));
        };
        let RequestedFields { fields, .. } = self.wished()?;
        let mut should = object.clone();
        fields.iter().for_each(|(name, value)| set(&mut should, name, value.as_ref()));
        let ours: BTreeSet<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        for name in placed.difference(&ours) {
            set(&mut should, name, pristine.get(*name));
        }
        let open = |object: &Value| pruned(&Value::Object(customizable_fields(object)));
        let is_same = open(object) == open(&should);
        let has_its_names = of_metadata(object) == of_metadata(&should);
        let generation = self.component.meta.generation.unwrap_or_default();
        let sum =
            names::fnv(&fields.iter().map(|(name, value)| format!("{name}={value:?};")).collect::<String>());
        let written = format!("{sum:016x}.{generation}");
        // The API server may write a field in another form. Labels and annotations it writes as they are, and counts no generation.
        let is_written = self.component.meta.annotations.get(WRITTEN) == Some(&written) && has_its_names;
        if ours == placed && (is_same || is_written) {
            return Ok(None);
        }
        let notes = &mut should["metadata"]["annotations"];
        if ours.is_empty() {
            if let Some(notes) = notes.as_object_mut() {
                NOTES.iter().for_each(|name| drop(notes.remove(*name)));
            }
        } else {
            notes[PLACED] = json!(ours.into_iter().collect::<Vec<_>>().join(","));
            notes[WRITTEN] = json!(written);
        }
        Ok(Some((object.clone(), should)))
    }

    /// The component as its manifest has it, with the settings of the KubeVirt object applied.
    fn wished(&self) -> Result<RequestedFields, String> {
        let pristine = self.pristine().unwrap_or_default();
        let (base, mut problems) = (self.base(&pristine), Vec::new());
        let mut made = base.clone();
        let mut said = self.placement(&pristine)?;
        said.extend(self.labels(&mut problems));
        said.extend(self.arguments(&pristine, &mut problems));
        said.iter().for_each(|(name, value)| set(&mut made, name, Some(value)));
        for (at, patch) in self.patches() {
            match self.patched(&made, &patch) {
                Ok(next) => made = next,
                Err(why) => problems.push(format!("spec.customizeComponents.patches[{at}]: the patch {why}")),
            }
        }
        let (before, after) = (customizable_fields(&base), customizable_fields(&made));
        let all: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let is_ours = |name: &&String| said.contains_key(*name) || before.get(*name) != after.get(*name);
        let ours = all.into_iter().filter(is_ours);
        Ok(RequestedFields {
            fields: ours.map(|name| (name.clone(), after.get(name).cloned())).collect(),
            problems,
        })
    }

    /// The component with its open fields as the manifests have them. Labels and annotations of others stay.
    fn base(&self, pristine: &Map<String, Value>) -> Value {
        let (placed, mut base) = (self.customized_fields(), self.component.object.clone());
        let stays = |name: &str| is_shared(name) && !placed.contains(name);
        for name in customizable_fields(&base).keys().filter(|name| !stays(name)) {
            set(&mut base, name, None);
        }
        for (name, value) in pristine.iter().filter(|(name, _)| !stays(name)) {
            set(&mut base, name, Some(value));
        }
        base
    }

    fn says_nothing(&self) -> bool {
        let mut problems = Vec::new();
        let none = Map::new();
        self.placement(&none).is_ok_and(|said| said.is_empty())
            && self.labels(&mut problems).is_empty()
            && self.arguments(&none, &mut problems).is_empty()
            && self.patches().is_empty()
            && problems.is_empty()
    }

    /// Fields that `infra`, `workloads` and `imagePullSecrets` set, merged with the manifests.
    fn placement(&self, pristine: &Map<String, Value>) -> Result<Map<String, Value>, String> {
        let part = self.part();
        let config = part.map_or(&Value::Null, |part| &self.spec[part]);
        let placement = &config["nodePlacement"];
        let mut said = Map::new();
        let mut add = |name: &str, value: &Value| {
            let says = value.as_array().is_some_and(|list| !list.is_empty())
                || value.as_object().is_some_and(|fields| !fields.is_empty());
            if says {
                let mut whole = pristine.get(name).cloned().unwrap_or_default();
                merge(&mut whole, value);
                said.insert(name.to_owned(), whole);
            }
        };
        add("affinity", &placement["affinity"]);
        add("nodeSelector", &placement["nodeSelector"]);
        add("tolerations", &placement["tolerations"]);
        add("imagePullSecrets", &self.spec["imagePullSecrets"]);
        // A DaemonSet has a pod for each node.
        if part == Some("infra")
            && let Some(count) = config["replicas"].as_u64()
        {
            if !api::kubevirt::REPLICAS.contains(&count) {
                let (least, most) = api::kubevirt::REPLICAS.into_inner();
                return Err(format!("spec.infra.replicas is {count}, and must be from {least} to {most}"));
            }
            said.insert(REPLICAS.to_owned(), json!(count));
        }
        Ok(said)
    }

    /// The labels of the object and of its pods.
    fn labels(&self, problems: &mut Vec<String>) -> Map<String, Value> {
        let mut said = Map::new();
        for (field, label) in LABELS {
            let Some(value) = self.spec[field].as_str().filter(|value| !value.is_empty()) else { continue };
            if !api::meta::is_label_value(value) {
                problems.push(format!("spec.{field} is not the value of a label"));
                continue;
            }
            for at in ["labels", "pods/labels"] {
                said.insert(format!("{at}/{label}"), json!(value));
            }
        }
        said
    }

    /// Arguments of the program, after those of its manifest.
    fn arguments(&self, pristine: &Map<String, Value>, problems: &mut Vec<String>) -> Map<String, Value> {
        let mut said = Map::new();
        let Some((field, program, _)) = FLAGS.iter().find(|(_, program, _)| *program == self.name) else {
            return said;
        };
        let all = wire::read_in_part::<ComponentFlags>(
            self.spec["customizeComponents"]["flags"].clone(),
            &mut Vec::new(),
        );
        let name = format!("containers/{program}/args");
        let mut args = pristine.get(&name).and_then(Value::as_array).cloned().unwrap_or_default();
        let before = args.len();
        for (flag, value) in all.as_ref().and_then(|all| all.of(field)).into_iter().flatten() {
            match flags::argument(field, flag, value) {
                Ok(argument) => args.push(json!(argument)),
                Err(why) => problems.push(format!("spec.customizeComponents.flags.{field}: {why}")),
            }
        }
        if args.len() > before {
            said.insert(name, Value::Array(args));
        }
        said
    }

    /// The patches for this component, and their places in the list.
    fn patches(&self) -> Vec<(usize, ComponentPatch)> {
        let list = self.spec["customizeComponents"]["patches"].as_array();
        let read = |patch: &Value| wire::read_in_part::<ComponentPatch>(patch.clone(), &mut Vec::new());
        let all = list.into_iter().flatten().take(MOST).enumerate();
        let all = all.filter_map(|(at, patch)| Some((at, read(patch)?)));
        all.filter(|(_, patch)| patch.is_for(self.kind.name(), self.name)).collect()
    }

    /// The component with one more patch; why not, as the end of a sentence.
    fn patched(&self, is: &Value, patch: &ComponentPatch) -> Result<Value, String> {
        let made = Patch::read(&patch.r#type, &patch.patch)?.apply(is)?;
        if let Some(at) = differs(&without_customizable_fields(is), &without_customizable_fields(&made)) {
            return Err(format!(
                "changes {at}: a patch may change the placement, the resources and the labels of pods, but not the \
                 programs in them (docs/reference/kubevirt.md names the fields)"
            ));
        }
        let (before, after) = (customizable_fields(is), customizable_fields(&made));
        if let Some(count) = after.get(REPLICAS)
            && !count.as_u64().is_some_and(|count| api::kubevirt::REPLICAS.contains(&count))
        {
            let (least, most) = api::kubevirt::REPLICAS.into_inner();
            return Err(format!("makes spec.replicas {count}, which must be from {least} to {most}"));
        }
        if self.name == KEPT && keeps_a_pod(is) && !keeps_a_pod(&made) {
            return Err(format!(
                "keeps no pod of {KEPT} while others are created, so that it could not be undone: spec.strategy must \
                 be a RollingUpdate, and its maxUnavailable less than spec.replicas"
            ));
        }
        let arguments = |name: &&String| name.ends_with("/args");
        let all: BTreeSet<&String> = before.keys().chain(after.keys()).filter(arguments).collect();
        for name in all {
            let list = |fields: &Map<String, Value>| {
                fields.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
            };
            let (old, new) = (list(&before), list(&after));
            let given = flags::accepted().find(|(program, _)| *name == format!("containers/{program}/args"));
            let given = given.map_or_else(Vec::new, |(_, flags)| flags);
            let is_given =
                |argument: &Value| argument.as_str().is_some_and(|text| given.iter().any(|one| one == text));
            if !new.starts_with(&old) || !new.iter().skip(old.len()).all(is_given) {
                return Err(format!("changes {name}: set arguments with spec.customizeComponents.flags"));
            }
        }
        Ok(made)
    }
}

/// The open labels and annotations of the object itself.
fn of_metadata(object: &Value) -> Map<String, Value> {
    let is_its_own = |name: &String| name.starts_with("labels/") || name.starts_with("annotations/");
    customizable_fields(object).into_iter().filter(|(name, _)| is_its_own(name)).collect()
}

/// Adds to a value: fields that are not there, and entries of lists that are not there.
fn merge(whole: &mut Value, more: &Value) {
    match (whole, more) {
        (Value::Object(whole), Value::Object(more)) => {
            for (name, value) in more {
                merge(whole.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(whole), Value::Array(more)) => {
            for value in more {
                if !whole.contains(value) {
                    whole.push(value.clone());
                }
            }
        }
        (whole @ Value::Null, more) => *whole = more.clone(),
        // The values of the manifests stay.
        _ => {}
    }
}
