//! The instance type and the preference of a VM: looked up, kept in their first revision, and applied to the
//! spec of its VMI.
//!
//! ```text
//!  spec.instancetype ─ inferFromVolume? ─► the name from the volume's labels, written into the spec before anything else
//!        │ revision in use ─► ControllerRevision          (a changed instance type changes no VM that has one)
//!        │ none yet ────────► the object ─► a revision is made, and its name is written into the status
//!        ▼
//!  requirements, conflicts ─► Problem: the VM is not started, and its condition Failure says why
//!        ▼
//!  expanded: the VM with the values of both, from which its VMI is made
//!        └─ referencePolicy expand, expandAll ─► written into the spec of the VM instead, before it is started
//! ```
//!
//! **Guarantees.** In another namespace only the labels of the source of the VM's disk are read, with a
//! verified right ([`ReadableObjects`]). The spec of the VM stays as its author wrote it, except for inferred names,
//! and if the policy says otherwise. The webhook of VMs makes the same checks earlier. They are repeated
//! here, because the object may have changed, or was created after the VM.

use crate::data_volume::{FarClone, far_clone};
use api::cdi::DataSource;
use api::data_volume::DataVolume;
use api::instancetype::{Conflict, Labels, Matcher, MatcherKind, Role, expand, infer, requirements};
use api::kubevirt::ReferencePolicy;
use api::meta::ObjectMeta;
use api::vm::{
    ControllerRevisionRef, InferFailurePolicy, InstancetypeMatcher, InstancetypeStatusRef, PreferenceMatcher,
    Template, VirtualMachine,
};
use api::vmi::VirtualMachineInstance;
use cluster_model::config::Config;
use cluster_model::instancetypes::{SizeSpecs, find, of_revision, revision_in_use};
use cluster_model::objects::owner::controller as owner;
use cluster_model::objects::{Attempt, Failure, Key, Kind, World};
use cluster_model::plan::Plan;
use jiff::Timestamp;
use serde_json::Value;

/// Path of the VM's template spec, for messages.
const AT: &str = "spec.template.spec";

/// Reason and message of a VM that is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Result of the lookup.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    /// The VM with the values of both; `None` if it names neither.
    pub(super) expanded: Option<VirtualMachine>,
    /// True if names were inferred, or replaced by their values. That is written before the VM is started.
    pub(super) is_inferred: bool,
    /// Revisions that do not exist yet.
    make: Vec<(Key, Value)>,
    instancetype: Option<InstancetypeStatusRef>,
    preference: Option<InstancetypeStatusRef>,
}

impl Sizes {
    /// Creates the revisions, and records them in the status.
    pub(super) fn record(
        &self,
        next: &mut VirtualMachine,
        failed: Option<&Failure>,
        now: Timestamp,
        plan: &mut Plan,
    ) {
        let later = failed
            .filter(|failed| failed.about == Attempt::Make(Kind::ControllerRevision) && failed.retry > now);
        if let Some(failed) = later.filter(|_| !self.make.is_empty()) {
            return plan.look_again(failed.retry);
        }
        for (key, object) in &self.make {
            plan.create(key.clone(), object.clone());
        }
        let is_said = next
            .status
            .as_ref()
            .is_some_and(|status| status.instancetype_ref.is_some() || status.preference_ref.is_some());
        if is_said || self.instancetype.is_some() || self.preference.is_some() {
            let status = next.status.get_or_insert_default();
            status.instancetype_ref.clone_from(&self.instancetype);
            status.preference_ref.clone_from(&self.preference);
        }
    }
}

/// Finds both for `next`, which is the VM as it should be.
/// `runs`: it has a VMI.
pub(super) fn resolve(
    world: &World,
    next: &mut VirtualMachine,
    runs: bool,
    now: Timestamp,
) -> Result<Sizes, Problem> {
    let mut sizes = Sizes::default();
    for role in Role::ALL {
        sizes.is_inferred |= infer_name(world, next, role, now)?;
    }
    let mut given = SizeSpecs::default();
    for role in Role::ALL {
        let Some(matcher) = Matcher::from_spec(&next.spec, role) else { continue };
        let problem = |message: String| Problem { reason: not_found(role), message };
        let found = find_spec(world, next, &matcher, &mut given).map_err(problem)?;
        sizes.make.extend(found.make);
        match role {
            Role::Instancetype => sizes.instancetype = Some(found.reference),
            Role::Preference => sizes.preference = Some(found.reference),
        }
    }
    if given != SizeSpecs::default() {
        let config = world.config();
        let expanded = expanded(next, &given, config);
        let expanded = expanded.map_err(|message| Problem { reason: "FailedCreate", message })?;
        if !runs && is_written(next, &config.reference_policy) {
            next.spec.template = expanded.spec.template;
            (next.spec.instancetype, next.spec.preference) = (None, None);
            return Ok(Sizes { is_inferred: true, ..Sizes::default() });
        }
        sizes.expanded = Some(expanded);
    }
    Ok(sizes)
}

/// True if the spec of the VM gets the values themselves instead of the names. A running VM is rewritten when
/// it has stopped, so that no required restart is reported for it.
fn is_written(vm: &VirtualMachine, policy: &ReferencePolicy) -> bool {
    let uses = |said: &Option<InstancetypeStatusRef>| {
        said.as_ref().is_some_and(|said| said.controller_revision_ref.is_some())
    };
    let status = vm.status.as_ref();
    match policy {
        ReferencePolicy::ExpandAll => true,
        ReferencePolicy::Expand => {
            !status.is_some_and(|status| uses(&status.instancetype_ref) || uses(&status.preference_ref))
        }
        ReferencePolicy::Reference | ReferencePolicy::Other(_) => false,
    }
}

/// Annotations of a VMI with its instance type and preference.
pub(super) fn annotate(vm: &VirtualMachine, vmi: &mut VirtualMachineInstance) {
    for matcher in Role::ALL.into_iter().filter_map(|role| Matcher::from_spec(&vm.spec, role)) {
        if let Ok(kind) = matcher.matched() {
            vmi.metadata.annotations.insert(kind.annotation().to_owned(), matcher.name.to_owned());
        }
    }
}

const fn not_found(role: Role) -> &'static str {
    match role {
        Role::Instancetype => "FailedFindInstancetype",
        Role::Preference => "FailedFindPreference",
    }
}

/// Puts the name in that a volume says. Whether it did.
fn infer_name(world: &World, vm: &mut VirtualMachine, role: Role, now: Timestamp) -> Result<bool, Problem> {
    let Some(matcher) = Matcher::from_spec(&vm.spec, role) else { return Ok(false) };
    if matcher.infer_from_volume.is_empty() || !matcher.name.is_empty() {
        return Ok(false);
    }
    let ignores = matcher.policy == Some(&InferFailurePolicy::Ignore);
    let known = ReadableObjects::for_vm(world, vm, matcher.infer_from_volume, now);
    let named = match infer(vm, role, matcher.infer_from_volume, &known) {
        Ok(named) => Some(named),
        Err(error) if ignores && error.is_ignorable => None,
        Err(error) => return Err(Problem { reason: not_found(role), message: error.message }),
    };
    let is_sized = named.is_some() && ignores && role == Role::Instancetype;
    match role {
        Role::Instancetype => {
            vm.spec.instancetype = named.map(|(name, kind)| InstancetypeMatcher {
                kind: Some(kind_of(role, kind)),
                name: Some(name),
                ..InstancetypeMatcher::default()
            });
        }
        Role::Preference => {
            vm.spec.preference = named.map(|(name, kind)| PreferenceMatcher {
                kind: Some(kind_of(role, kind)),
                name: Some(name),
                ..PreferenceMatcher::default()
            });
        }
    }
    // The memory of the template was only for the case that nothing is inferred.
    if is_sized && let Some(template) = &mut vm.spec.template {
        template.spec.domain.memory = None;
    }
    Ok(true)
}

/// Kind from a label, in the spelling of the API.
fn kind_of(role: Role, said: Option<String>) -> String {
    let said = said.unwrap_or_default();
    MatcherKind::parse(role, &said).map_or(said, |kind| kind.kind().to_owned())
}

/// Result of one of the two lookups.
struct Lookup {
    reference: InstancetypeStatusRef,
    make: Option<(Key, Value)>,
}

fn find_spec(
    world: &World,
    vm: &VirtualMachine,
    matcher: &Matcher<'_>,
    given: &mut SizeSpecs,
) -> Result<Lookup, String> {
    let kind = matcher.matched()?;
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    let of = |revision: &str| InstancetypeStatusRef {
        name: Some(matcher.name.to_owned()),
        kind: Some(kind.kind().to_owned()),
        controller_revision_ref: Some(ControllerRevisionRef {
            name: Some(revision.to_owned()),
            ..ControllerRevisionRef::default()
        }),
        ..InstancetypeStatusRef::default()
    };
    if let Some(name) = revision_in_use(vm, matcher) {
        let Some(revision) = world.revisions.get(namespace, name) else {
            let field = matcher.role.field();
            let other = match matcher.revision_name {
                "" => format!("name another {field}"),
                _ => format!("take out spec.{field}.revisionName"),
            };
            return Err(format!(
                "controllerrevisions.apps \"{name}\" not found: it has the {field} that this VM uses; restore it, or {other}"
            ));
        };
        given.set(matcher.role, of_revision(revision, matcher.role)?).map_err(|why| unusable(name, &why))?;
        return Ok(Lookup { reference: of(name), make: None });
    }
    let live = find(world, kind, namespace, matcher.name).ok_or_else(|| kind.not_found(matcher.name))?;
    given.set(matcher.role, live.spec.clone()).map_err(|why| unusable(matcher.name, &why))?;
    let name = live.revision_name(vm.metadata.name.as_deref().unwrap_or_default());
    let make = match world.revisions.get(namespace, &name) {
        None => {
            let key = Key::new(Kind::ControllerRevision, namespace, &*name);
            Some((key, live.revision(&vm.metadata)))
        }
        // The revision will be deleted with its VM, and the new VM does not have its own yet.
        Some(there) if owner(&there.meta).map(|owner| &owner.uid) != vm.metadata.uid.as_ref() => {
            return Err(format!("ControllerRevision {name} still exists from a VM that is gone"));
        }
        Some(there) if of_revision(there, matcher.role).as_ref() == Ok(&live.spec) => None,
        Some(_) => return Err(format!("found existing ControllerRevision with unexpected data: {name}")),
    };
    Ok(Lookup { reference: of(&name), make })
}

fn unusable(name: &str, why: &str) -> String {
    format!("{name} cannot be used: {why}")
}

/// The template with the values of both; `None` if the VM names neither, or they cannot be used.
pub(crate) fn measured(world: &World, vm: &VirtualMachine) -> Option<Template> {
    let mut given = SizeSpecs::default();
    for matcher in Role::ALL.into_iter().filter_map(|role| Matcher::from_spec(&vm.spec, role)) {
        find_spec(world, vm, &matcher, &mut given).ok()?;
    }
    if given == SizeSpecs::default() {
        return None;
    }
    expand(vm.spec.template.as_ref()?, given.instancetype.as_ref(), given.preference.as_ref(), AT, None).ok()
}

/// The VM with the values of both as they are now; the VM as it is if it names neither, or they cannot be used.
pub(crate) fn expanded_now(world: &World, vm: &VirtualMachine) -> VirtualMachine {
    let mut whole = vm.clone();
    if let Some(template) = measured(world, vm) {
        whole.spec.template = Some(template);
    }
    whole
}

/// The VM with the values of both, or why they do not fit.
fn expanded(vm: &VirtualMachine, given: &SizeSpecs, config: &Config) -> Result<VirtualMachine, String> {
    let Some(template) = &vm.spec.template else { return Ok(vm.clone()) };
    let (instancetype, preference) = (given.instancetype.as_ref(), given.preference.as_ref());
    if let Some(preference) = preference {
        requirements(instancetype, preference, &template.spec)
            .map_err(|found| format!("failure checking preference requirements: {}", found.message))?;
    }
    let made = expand(template, instancetype, preference, AT, Some(config.binding))
        .map_err(|conflicts| Conflict::sentence(&conflicts))?;
    let mut expanded = vm.clone();
    expanded.spec.template = Some(made);
    Ok(expanded)
}

/// The labels that virt-controller may read for a VM: those of its own namespace. virt-controller sees all
/// labels, but the author of the VM may not. The right to clone is not checked for a VM, but for the
/// DataVolume of its volume. So the source of that DataVolume is read too, once the clone has begun and if
/// the right was shown.
struct ReadableObjects<'a> {
    world: &'a World,
    namespace: String,
    far: Option<FarClone<'a>>,
}

impl<'a> ReadableObjects<'a> {
    /// `volume`: the VM's volume whose labels are needed.
    fn for_vm(world: &'a World, vm: &VirtualMachine, volume: &str, now: Timestamp) -> ReadableObjects<'a> {
        let namespace = vm.metadata.namespace.clone().unwrap_or_default();
        let mut volumes = vm.spec.template.iter().flat_map(|template| &template.spec.volumes);
        let named = volumes.find(|one| one.name == volume).and_then(|volume| volume.data_volume.as_ref());
        let made = named.and_then(|named| world.data_volumes.get(&namespace, &named.name));
        let far = made.and_then(|made| far_clone(world, made, now));
        ReadableObjects { world, namespace, far }
    }

    fn may_see(&self, namespace: &str, is_its: impl FnOnce(&FarClone<'_>) -> bool) -> bool {
        namespace == self.namespace || self.far.as_ref().is_some_and(is_its)
    }
}

impl Labels for ReadableObjects<'_> {
    fn pvc(&self, namespace: &str, name: &str) -> Option<&ObjectMeta> {
        let may_see = self.may_see(namespace, |far| far.is_of(namespace, name));
        self.world.pvcs.get(namespace, name).filter(|_| may_see).map(|claim| &claim.meta)
    }

    /// Only DataVolumes of its own namespace.
    fn data_volume(&self, namespace: &str, name: &str) -> Option<&DataVolume> {
        self.world.data_volumes.get(namespace, name).filter(|_| namespace == self.namespace)
    }

    fn data_source(&self, namespace: &str, name: &str) -> Option<&DataSource> {
        let may_see = self.may_see(namespace, |far| far.is_by(namespace, name));
        self.world.data_sources.get(namespace, name).filter(|_| may_see)
    }
}
