//! Instance types and preferences of VMs that run without a cluster: objects of the manifest, and the common
//! cluster-wide ones that the program has built in.
//!
//! ```text
//!  documents ─► Objects.matched_specs, Objects.unexpanded (VMs that name one) ─ all are read ─ finish ─► VMIs with the values of both
//! ```
//!
//! Messages are those of admission. There are no ControllerRevisions: each run uses the objects as they are
//! in the manifest now.

use super::object::{Located, Objects};
use api::cdi::DataSource;
use api::data_volume::DataVolume;
use api::defaults::{Binding, DefaultsContext};
use api::fault::{Fault, Reason};
use api::instancetype::{
    self, GROUP, InstancetypeSpec, Labels, Matcher, MatcherKind, OLD_VERSIONS, PreferenceSpec, Role, Scope,
    VERSION, VirtualMachineInstancetype, VirtualMachinePreference, at_write, common, expand, infer,
    requirements,
};
use api::meta::ObjectMeta;
use api::vm::{InferFailurePolicy, Spec, Template, VirtualMachine};

/// Spec of an instance type or a preference.
#[derive(Debug, Clone)]
pub(crate) enum MatchedSpec {
    Instancetype(Box<InstancetypeSpec>),
    Preference(Box<PreferenceSpec>),
}

/// The kind of a document, if it is an instance type or a preference.
pub(super) fn kind(version: &str, kind: &str) -> Option<MatcherKind> {
    let (group, version) = version.split_once('/')?;
    let is_known = group == GROUP && (version == VERSION || OLD_VERSIONS.contains(&version));
    MatcherKind::ALL.into_iter().find(|known| is_known && known.kind() == kind)
}

impl Objects {
    /// Adds an instance type or a preference.
    pub(super) fn add_matched(
        &mut self,
        kind: MatcherKind,
        value: serde_json::Value,
        origin: super::finding::Origin,
    ) {
        let (name, size, faults, origin) = match kind.role {
            Role::Instancetype => {
                let read = self.read::<VirtualMachineInstancetype>(value, origin, |object| &object.metadata);
                let Some(Located { object, origin }) = read else { return };
                let faults = instancetype::of_instancetype(&object.spec);
                (object.metadata.name, MatchedSpec::Instancetype(Box::new(object.spec)), faults, origin)
            }
            Role::Preference => {
                let read = self.read::<VirtualMachinePreference>(value, origin, |object| &object.metadata);
                let Some(Located { object, origin }) = read else { return };
                let faults = instancetype::of_preference(&object.spec);
                (object.metadata.name, MatchedSpec::Preference(Box::new(object.spec)), faults, origin)
            }
        };
        self.faults.extend(faults.iter().map(|fault| origin.fault(fault)));
        self.matched_specs.insert((kind, name.unwrap_or_default()), size);
    }

    /// Adds the VMIs of VMs with an instance type or a preference, once all documents are read.
    pub(super) fn finish(&mut self) {
        for Located { object, origin } in std::mem::take(&mut self.unexpanded) {
            match self.expanded(&object) {
                Ok(template) => self.add_template(object.metadata, template, origin),
                Err(faults) => self.faults.extend(faults.iter().map(|fault| origin.fault(fault))),
            }
        }
    }

    /// Template of a VM, with the values of its instance type and preference.
    fn expanded(&self, vm: &VirtualMachine) -> Result<Template, Vec<Fault>> {
        let mut vm = vm.clone();
        let (mut size, mut system, mut faults) = (None, None, Vec::new());
        for role in Role::ALL {
            match self.named(&mut vm, role) {
                Ok(None) => {}
                Ok(Some(MatchedSpec::Instancetype(spec))) => size = Some(*spec),
                Ok(Some(MatchedSpec::Preference(spec))) => system = Some(*spec),
                Err(mut wrong) => faults.append(&mut wrong),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        if let Some(system) = &system {
            at_write(&mut vm, system);
        }
        let mut template = vm.spec.template.unwrap_or_default();
        // The mutating webhook of a cluster sets it before requirements are checked.
        template.spec.architecture.get_or_insert_with(|| DefaultsContext::new("").architecture);
        if let Some(Err(found)) =
            system.as_ref().map(|system| requirements(size.as_ref(), system, &template.spec))
        {
            let what = format!("failure checking preference requirements: {}", found.message);
            let fault = |field: String| Fault::new(field, Reason::Invalid, what.clone());
            return Err(found.fields.into_iter().map(fault).collect());
        }
        let binding = Some(Binding::Bridge);
        expand(&template, size.as_ref(), system.as_ref(), "spec.template.spec", binding).map_err(
            |conflicts| {
                let fault =
                    |found: instancetype::Conflict| Fault::new(found.field, Reason::Invalid, found.message);
                conflicts.into_iter().map(fault).collect()
            },
        )
    }

    /// Instance type or preference of a VM; a name inferred from a volume is written into the VM.
    fn named(&self, vm: &mut VirtualMachine, role: Role) -> Result<Option<MatchedSpec>, Vec<Fault>> {
        let Some(matcher) = Matcher::from_spec(&vm.spec, role) else { return Ok(None) };
        let faults = matcher.faults(None);
        if !faults.is_empty() {
            return Err(faults);
        }
        let at = format!("spec.{}", role.field());
        if !matcher.revision_name.is_empty() {
            let what = "there are no ControllerRevisions here";
            let fault = Fault::new(format!("{at}.revisionName"), Reason::NotSupported, what);
            return Err(vec![fault.hint("leave it out: the object of this name is used")]);
        }
        let (name, kind, is_sized) = match matcher.infer_from_volume {
            "" => (matcher.name.to_owned(), matcher.matched(), false),
            volume => {
                let ignores = matcher.policy == Some(&InferFailurePolicy::Ignore);
                match infer(vm, role, volume, self) {
                    Ok((name, kind)) => {
                        let kind = kind.unwrap_or_default();
                        let unknown = || format!("the volume names the unknown kind {kind}");
                        (name, MatcherKind::parse(role, &kind).ok_or_else(unknown), ignores)
                    }
                    Err(error) if ignores && error.is_ignorable => return Ok(None),
                    Err(error) => {
                        let at = format!("{at}.inferFromVolume");
                        return Err(vec![Fault::new(at, Reason::NotFound, error.message)]);
                    }
                }
            }
        };
        let missing = |why: String| {
            let what = format!("Failure to find {}: {why}", role.field());
            vec![Fault::new(&at, Reason::NotFound, what)]
        };
        let kind = kind.map_err(missing)?;
        if is_sized && role == Role::Instancetype {
            forget_memory(&mut vm.spec);
        }
        let own = self.matched_specs.get(&(kind, name.clone())).cloned();
        let common = || match (role, kind.scope) {
            (Role::Instancetype, Scope::Cluster) => {
                common::instancetype(&name).map(|spec| MatchedSpec::Instancetype(Box::new(spec)))
            }
            (Role::Preference, Scope::Cluster) => {
                common::preference(&name).map(|spec| MatchedSpec::Preference(Box::new(spec)))
            }
            _ => None,
        };
        let found = own.or_else(common).ok_or_else(|| {
            let hint = "write the object into the manifest, or name one of those that \
                        `coracle manifests --instancetypes` prints";
            missing(kind.not_found(&name)).into_iter().map(|fault| fault.hint(hint)).collect::<Vec<_>>()
        })?;
        Ok(Some(found))
    }
}

/// Removes the guest memory, which applies only if no instance type is inferred.
fn forget_memory(spec: &mut Spec) {
    if let Some(template) = &mut spec.template {
        template.spec.domain.memory = None;
    }
}

/// Lookups ignore the namespace: all objects of a manifest share one.
impl Labels for Objects {
    fn pvc(&self, _: &str, name: &str) -> Option<&ObjectMeta> {
        self.pvcs.get(name).map(|written| &written.object.metadata)
    }

    fn data_volume(&self, _: &str, name: &str) -> Option<&DataVolume> {
        self.data_volumes.get(name).map(|written| &written.object)
    }

    fn data_source(&self, _: &str, _: &str) -> Option<&DataSource> {
        None
    }
}
