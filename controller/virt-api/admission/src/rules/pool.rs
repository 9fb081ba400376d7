//! Pools: their template is validated as the VM that it creates, and their selector must match those VMs.

use super::{AdmissionResponse, Operation, Request, RequestContext, replica_set, unknown, vm};
use api::fault::{Fault, Reason, prefixed};
use api::pool::{self, VirtualMachinePool};
use api::vm::VirtualMachine;
use api::wire;
use cluster_model::metadata::FENCING;

/// Path of the VM template in a pool.
const AT: &str = "spec.virtualMachineTemplate";

/// Validates a new or changed pool.
pub(super) fn judge(request: &Request, context: &RequestContext) -> AdmissionResponse {
    let update = request.operation == Operation::Update;
    if request.is_leaving() || update && replica_set::rest(&request.old) == replica_set::rest(&request.object)
    {
        return AdmissionResponse::yes();
    }
    let mut faults = Vec::new();
    let read = wire::read_in_part::<VirtualMachinePool>(request.object.clone(), &mut faults);
    let Some(pool) = read.filter(|_| faults.is_empty()) else { return AdmissionResponse::no(faults) };
    let mut warnings = unknown::warnings(&pool);
    let Some(made) = &pool.spec.virtual_machine_template else {
        let fault = Fault::new(AT, Reason::Required, "missing virtual machine template.");
        return AdmissionResponse { faults: vec![fault], warnings, ..AdmissionResponse::yes() };
    };
    let metadata = made.metadata.clone().unwrap_or_default();
    if metadata.annotations.contains_key(FENCING) {
        warnings.push(format!("{AT}.metadata.annotations: the VMs do not get {FENCING}"));
    }
    if made.spec.running.is_some() {
        let what = format!("{AT}.spec.running is deprecated, please use {AT}.spec.runStrategy instead.");
        warnings.insert(0, what);
    }
    faults.extend(replica_set::selector(request, &pool.spec.selector, &metadata.labels));
    faults.extend(pool::faults(&pool.spec));
    let mut vm = VirtualMachine { metadata, spec: made.spec.clone(), ..VirtualMachine::default() };
    // The VMs are named after the pool, with a number.
    vm.metadata.name = Some(format!("{}-0", pool.metadata.name.as_deref().unwrap_or("pool")));
    vm.metadata.namespace.clone_from(&pool.metadata.namespace);
    let (of_vm, others) = vm::look(&vm, None, context);
    let prefix = format!("{AT}.");
    faults.extend(prefixed(of_vm, &prefix));
    let others = others.into_iter().map(|warning| Fault::new("", Reason::Invalid, warning)).collect();
    warnings.extend(prefixed(others, &prefix).into_iter().map(|warning| warning.message));
    AdmissionResponse { faults, warnings, ..AdmissionResponse::yes() }
}
