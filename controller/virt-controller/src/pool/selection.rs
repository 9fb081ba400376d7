//! Order in which VMs of a pool are chosen.

use super::is_ready;
use super::template::Template;
use api::meta::is_met;
use api::pool::{SelectionPolicy, SortPolicy};
use api::vm::VirtualMachine;
use cluster_model::objects::names::fnv;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The VMs that a policy takes, in its order.
pub(super) fn select<'a>(
    policy: Option<&SelectionPolicy>,
    template: &Template,
    vms: &[&'a VirtualMachine],
) -> Vec<&'a VirtualMachine> {
    let mut chosen: Vec<&VirtualMachine> =
        vms.iter().copied().filter(|vm| policy.is_none_or(|policy| selects_vm(policy, vm))).collect();
    let number = |vm: &VirtualMachine| template.number(vm).unwrap_or_default();
    // Times as text sort in their order, and a VM without a time comes first.
    let age = |vm: &VirtualMachine| vm.metadata.creation_timestamp.clone();
    match policy.and_then(|policy| policy.sort_policy.clone()) {
        Some(SortPolicy::AscendingOrder) => chosen.sort_by_key(|vm| number(vm)),
        Some(SortPolicy::DescendingOrder) => chosen.sort_by_key(|vm| Reverse(number(vm))),
        Some(SortPolicy::Oldest) => chosen.sort_by_key(|vm| (age(vm), number(vm))),
        Some(SortPolicy::Newest) => chosen.sort_by_key(|vm| Reverse((age(vm), number(vm)))),
        // A uid is random and constant, so a repeated decision takes the same VMs. VMs that are not serving
        // come first.
        Some(SortPolicy::Random | SortPolicy::Other(_)) | None => {
            chosen.sort_by_key(|vm| (is_ready(vm), fnv(vm.metadata.uid.as_deref().unwrap_or_default())));
        }
    }
    chosen
}

/// True if the selectors of the policy match the VM. They look at the VMI that it would have.
fn selects_vm(policy: &SelectionPolicy, vm: &VirtualMachine) -> bool {
    let Some(selectors) = &policy.selectors else { return true };
    let none = BTreeMap::new();
    let template = vm.spec.template.as_ref();
    let labels = template.and_then(|template| template.metadata.as_ref()).map(|metadata| &metadata.labels);
    let nodes = template.map(|template| &template.spec.node_selector);
    let requirements = &selectors.node_selector_requirement_matcher;
    selectors.label_selector.as_ref().is_none_or(|selector| selector.matches(labels.unwrap_or(&none)))
        && requirements.iter().all(|rule| is_met(rule, nodes.unwrap_or(&none)))
}
