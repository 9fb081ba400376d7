//! Presets: validation and warnings. Their application to a VMI is in `vmi`.

use super::{AdmissionResponse, Operation, Request, unknown};
use api::preset::{self, VirtualMachineInstancePreset};
use api::wire;

pub(super) fn judge(request: &Request) -> AdmissionResponse {
    let is_same = request.operation == Operation::Update && request.old["spec"] == request.object["spec"];
    if request.is_leaving() || is_same {
        return AdmissionResponse::yes();
    }
    let mut faults = Vec::new();
    let read = wire::read_in_part::<VirtualMachineInstancePreset>(request.object.clone(), &mut faults);
    let Some(preset) = read.filter(|_| faults.is_empty()) else { return AdmissionResponse::no(faults) };
    let mut warnings = unknown::warnings(&preset);
    warnings.extend(preset::warnings(&preset));
    AdmissionResponse { faults: preset::faults(&preset), warnings, ..AdmissionResponse::yes() }
}
