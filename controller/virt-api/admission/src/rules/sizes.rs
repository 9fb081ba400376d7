//! Instance type and preference of a VM: their validation, their fit, and the VM with the values of both.
//!
//! ```text
//!  matcher ─ invalid itself ─► faults
//!          ─ inferFromVolume, or a revision of another version of the object ─► validated when the VM is started
//!          ─ the object in virt-api's cache ─► requirements, conflicts ─► faults
//!                                                └► the VM with the values of both, validated like any other
//! ```
//!
//! virt-controller checks all of it again, and the VMI that it creates has its own webhook, so nothing
//! deferred here is skipped. That webhook accepts labels reserved for our programs, since one of them creates
//! the VMI. So their check is never deferred, and no VMI gets them from a template.

use super::{Operation, Request, RequestContext};
use api::fault::{Fault, Reason};
use api::instancetype::{Matcher, Role, at_write, expand, requirements};
use api::vm::{Template, VirtualMachine};
use cluster_model::instancetypes::{LiveObject, SizeSpecs, revision_in_use};

/// Result of the validation.
#[derive(Debug, Default)]
pub(super) struct SizeCheck {
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
    /// The template with the values of both; `None` if they are not known now.
    pub(super) template: Option<Template>,
}

/// Validates both. `old`: the VM before the update.
pub(super) fn look(vm: &VirtualMachine, old: Option<&VirtualMachine>, context: &RequestContext) -> SizeCheck {
    let mut looked = SizeCheck::default();
    let (mut given, mut is_known) = (SizeSpecs::default(), true);
    for matcher in Role::ALL.into_iter().filter_map(|role| Matcher::from_spec(&vm.spec, role)) {
        let before = old.and_then(|old| Matcher::from_spec(&old.spec, matcher.role));
        let faults = matcher.faults(before.as_ref());
        let field = format!("spec.{}", matcher.role.field());
        let found = match faults.is_empty() {
            true => found(vm, &matcher, context),
            false => SizeLookup::Later(None),
        };
        looked.faults.extend(faults);
        match found {
            SizeLookup::Live(live) => {
                if let Err(why) = given.set(matcher.role, live.spec.clone()) {
                    let what = format!("{} cannot be used: {why}", matcher.name);
                    looked.faults.push(Fault::new(&field, Reason::Invalid, what));
                    is_known = false;
                }
            }
            SizeLookup::Missing(why) => {
                let what = format!("Failure to find {}: {why}", matcher.role.field());
                looked.faults.push(Fault::new(&field, Reason::NotFound, what));
                is_known = false;
            }
            SizeLookup::Later(warning) => {
                looked.warnings.extend(warning.map(|warning| format!("{field}: {warning}")));
                is_known = false;
            }
        }
    }
    if let Some(template) = vm.spec.template.as_ref().filter(|_| is_known) {
        expanded(template, &given, context, &mut looked);
    }
    looked
}

/// Fills in the values of a preference that are fixed when a VM is written.
pub(super) fn complete(vm: &mut VirtualMachine, context: &RequestContext) {
    let Some(matcher) = Matcher::from_spec(&vm.spec, Role::Preference) else { return };
    if !matcher.infer_from_volume.is_empty() || !matcher.revision_name.is_empty() {
        return;
    }
    let SizeLookup::Live(live) = found(vm, &matcher, context) else { return };
    let mut given = SizeSpecs::default();
    if given.set(Role::Preference, live.spec.clone()).is_ok()
        && let Some(preference) = &given.preference
    {
        at_write(vm, preference);
    }
}

/// The VM before an update.
pub(super) fn old(request: &Request) -> Option<VirtualMachine> {
    let is_update = request.operation == Operation::Update;
    is_update.then(|| api::wire::read_in_part(request.old.clone(), &mut Vec::new()))?
}

enum SizeLookup<'a> {
    Live(&'a LiveObject),
    Missing(String),
    /// The check is deferred to the start of the VM, with a warning for the author.
    Later(Option<String>),
}

fn found<'a>(vm: &VirtualMachine, matcher: &Matcher<'_>, context: &'a RequestContext) -> SizeLookup<'a> {
    if !matcher.infer_from_volume.is_empty() {
        return SizeLookup::Later(None);
    }
    let kind = match matcher.matched() {
        Ok(kind) => kind,
        Err(why) => return SizeLookup::Missing(why),
    };
    let is_meant = |live: &&LiveObject| live.kind == kind && live.meta.name.as_deref() == Some(matcher.name);
    let live = context.sizes.live.iter().find(is_meant);
    let name = vm.metadata.name.as_deref().unwrap_or_default();
    match (revision_in_use(vm, matcher), live) {
        (None, Some(live)) => SizeLookup::Live(live),
        (Some(used), Some(live)) if live.revision_name(name) == used => SizeLookup::Live(live),
        (None, None) if context.sizes.is_complete => SizeLookup::Missing(kind.not_found(matcher.name)),
        (None, None) => SizeLookup::Later(None),
        (Some(used), _) => SizeLookup::Later(Some(format!(
            "ControllerRevision {used} is validated when the VM is started, with the rest of spec.template"
        ))),
    }
}

fn expanded(template: &Template, given: &SizeSpecs, context: &RequestContext, looked: &mut SizeCheck) {
    let (instancetype, preference) = (given.instancetype.as_ref(), given.preference.as_ref());
    if let Some(preference) = preference
        && let Err(found) = requirements(instancetype, preference, &template.spec)
    {
        let what = format!("failure checking preference requirements: {}", found.message);
        let fault = |field: String| Fault::new(field, Reason::Invalid, what.clone());
        looked.faults.extend(found.fields.into_iter().map(fault));
    }
    match expand(template, instancetype, preference, "spec.template.spec", Some(context.config.binding)) {
        Ok(template) => looked.template = Some(template),
        Err(conflicts) => {
            let fault = |conflict: api::instancetype::Conflict| {
                Fault::new(conflict.field, Reason::Invalid, conflict.message)
            };
            looked.faults.extend(conflicts.into_iter().map(fault));
        }
    }
}
