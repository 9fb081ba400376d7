//! The CDI object and the CDIConfig: what of them has no effect is warned of. A CDI object goes when it may.

use crate::rules::{AdmissionResponse, Around, Operation, Request, unknown};
use api::cdi::served::{unserved, unserved_config};
use api::cdi::{CDI, CDIConfig};
use api::fault::{Fault, Reason};
use api::kubevirt::UninstallStrategy;
use api::wire;

/// A warning for each setting that has no effect, and for each field that is not known. Nothing is refused: what is written is
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

/// Whether the installation may be deleted.
pub(crate) fn deletion(request: &Request, around: &Around) -> AdmissionResponse {
    let Some(kind) = around.left.filter(|_| blocks(request)) else { return AdmissionResponse::yes() };
    let message = format!(
        "rejecting the uninstall request, since there are still {kind} present. Either delete all {kind} or change the \
         uninstall strategy before uninstalling CDI"
    );
    AdmissionResponse::no(vec![Fault::new("spec.uninstallStrategy", Reason::Invalid, message)])
}

/// The installation is not to go while there are DataVolumes. One that failed, or was never begun, has none of its own.
pub(crate) fn blocks(request: &Request) -> bool {
    let phase = request.old["status"]["phase"].as_str().unwrap_or_default();
    let stays = UninstallStrategy::BlockUninstallIfWorkloadsExist;
    !["", "Error"].contains(&phase) && request.old["spec"]["uninstallStrategy"] == stays.as_str()
}
