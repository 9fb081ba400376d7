//! The CDI object: it goes when it may.

use crate::rules::{AdmissionResponse, Around, Request};
use api::fault::{Fault, Reason};
use api::kubevirt::UninstallStrategy;

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
