//! The CDI object and the CDIConfig: warnings about settings without effect, and the check before the
//! deletion of a CDI object.

use crate::rules::{AdmissionResponse, Operation, Request, RequestContext, unknown};
use api::cdi::served::{unserved, unserved_config};
use api::cdi::{CDI, CDIConfig};
use api::fault::{Fault, Reason};
use api::kubevirt::UninstallStrategy;
use api::wire;

/// Warnings about settings without effect and unknown fields. Nothing is refused, since the objects are
/// upstream's as well.
pub(crate) fn settings(request: &Request) -> AdmissionResponse {
    let object = &request.object;
    if request.is_leaving() || request.operation == Operation::Update && request.old["spec"] == object["spec"]
    {
        return AdmissionResponse::yes();
    }
    let mut wrong = Vec::new();
    let is_config = object["kind"] == "CDIConfig";
    let (found, unknown) = match is_config {
        true => {
            let read = wire::read_in_part::<CDIConfig>(object.clone(), &mut wrong);
            (unserved_config(object), read.as_ref().map(unknown::warnings))
        }
        false => {
            let read = wire::read_in_part::<CDI>(object.clone(), &mut wrong);
            (unserved(object), read.as_ref().map(unknown::warnings))
        }
    };
    let mut warnings: Vec<String> = found.iter().map(ToString::to_string).collect();
    warnings.extend(unknown.unwrap_or_default());
    AdmissionResponse { warnings, ..AdmissionResponse::yes() }
}

/// Validates the deletion of the installation.
pub(crate) fn deletion(request: &Request, context: &RequestContext) -> AdmissionResponse {
    let Some(kind) = context.left.filter(|_| blocks(request)) else { return AdmissionResponse::yes() };
    let message = format!(
        "rejecting the uninstall request, since there are still {kind} present. Either delete all {kind} or change the \
         uninstall strategy before uninstalling CDI"
    );
    AdmissionResponse::no(vec![Fault::new("spec.uninstallStrategy", Reason::Invalid, message)])
}

/// True if the installation must stay while there are DataVolumes. A failed or unstarted installation has
/// none of its own.
pub(crate) fn blocks(request: &Request) -> bool {
    let phase = request.old["status"]["phase"].as_str().unwrap_or_default();
    let stays = UninstallStrategy::BlockUninstallIfWorkloadsExist;
    !["", "Error"].contains(&phase) && request.old["spec"]["uninstallStrategy"] == stays.as_str()
}
