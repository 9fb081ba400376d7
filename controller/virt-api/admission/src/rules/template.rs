//! Validation of a template: its VMI is completed, then validated, with the template's paths.

use super::vmi::ReservedLabels;
use super::{RequestContext, omitted_metadata};
use api::defaults;
use api::fault::Fault;
use api::machine::Machine;
use api::vm::{Template, VirtualMachine};

/// Path of the template.
const AT: &str = "spec.template";
const LABELS: &str = "spec.template.metadata.labels";

/// All faults of a template whose VMIs would have this name.
pub(super) fn faults(
    template: &Template,
    name: &str,
    namespace: Option<&str>,
    context: &RequestContext,
) -> Vec<Fault> {
    let mut vm = VirtualMachine::default();
    vm.metadata.name = Some(name.to_owned());
    vm.metadata.namespace = namespace.map(str::to_owned);
    vm.spec.template = Some(template.clone());
    let Some(mut vmi) = defaults::vmi_of(&vm) else { return Vec::new() };
    defaults::apply(&mut vmi, &context.given());
    let mut faults: Vec<Fault> = labels(template).into_iter().collect();
    if let Err(found) = Machine::check(&vmi, &context.permitted_at(&format!("{AT}.spec"))) {
        faults.extend(found);
    }
    faults
}

/// The fault of reserved labels in a template, whatever else its VMIs get.
pub(super) fn labels(template: &Template) -> Option<Fault> {
    reserved(template).map(|labels| labels.fault(LABELS))
}

/// Warnings for the author of a template.
pub(super) fn warnings(template: Option<&Template>, context: &RequestContext) -> Vec<String> {
    let Some(template) = template else { return Vec::new() };
    let metadata = template.metadata.as_ref();
    let policy = context.config.annotations;
    let of = |metadata| omitted_metadata::warnings(metadata, policy, &format!("{AT}.metadata"));
    let mut warnings = metadata.map(of).unwrap_or_default();
    warnings.extend(omitted_metadata::of_spec(
        &template.spec,
        &format!("{AT}.spec"),
        &context.config.machine_type_map,
    ));
    warnings.extend(reserved(template).map(|labels| labels.warning(LABELS)));
    warnings
}

fn reserved(template: &Template) -> Option<ReservedLabels> {
    ReservedLabels::of(&template.metadata.as_ref()?.labels)
}
