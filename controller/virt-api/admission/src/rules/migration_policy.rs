//! MigrationPolicies: validation and warnings.
//!
//! The faults are upstream's, with one exception. Upstream refuses `maxDowntimeMs` without a feature gate, since it has no effect
//! there; here it has one, in the KubeVirt object too.

use super::{AdmissionResponse, Operation, Request, RequestContext, unknown};
use api::migration_policy::{self, MigrationPolicy};
use api::wire;

/// Validates a policy. virt-controller ignores the values that are refused here, since a policy may be older than the webhook.
pub(super) fn judge(request: &Request, context: &RequestContext) -> AdmissionResponse {
    let is_same = request.operation == Operation::Update && request.old["spec"] == request.object["spec"];
    if request.is_leaving() || is_same {
        return AdmissionResponse::yes();
    }
    let mut faults = Vec::new();
    let read = wire::read_in_part::<MigrationPolicy>(request.object.clone(), &mut faults);
    let Some(policy) = read.filter(|_| faults.is_empty()) else { return AdmissionResponse::no(faults) };
    let faults = migration_policy::faults(&policy.spec, |gate| context.permitted.gates.open(gate));
    let unserved = migration_policy::served::unserved(&request.object);
    let mut warnings: Vec<String> = unserved.iter().map(ToString::to_string).collect();
    warnings.extend(unknown::warnings(&policy));
    AdmissionResponse { faults, warnings, ..AdmissionResponse::yes() }
}
