//! Events that end the wait for an upload pod: they say that the volume cannot be provisioned.

use super::{UploadContext, doing};
use crate::error::{Error, Result};
use crate::virt::client::Cluster;
use crate::virt::failure::Failure;
use cluster_model::objects::Kind;
use serde_json::Value;

/// Message of a conflict on the API server, after which the provisioner tries again.
const OUTRUN: &str =
    "the object has been modified; please apply your changes to the latest version and try again";
const PVC: Kind = Kind::PersistentVolumeClaim;

/// Fails if an Event says that the volume cannot be provisioned. False if the user may not read Events.
pub(super) async fn check_events(context: UploadContext<'_>, object: &Value) -> Result<bool> {
    let UploadContext { cluster, params, observer } = context;
    let claim = match params.kind {
        Kind::DataVolume => object["status"]["claimName"].as_str().filter(|name| !name.is_empty()),
        _ => Some(params.name.as_str()),
    };
    match failure(cluster, &params.name, claim).await {
        Ok(Some(failure)) => Err(Error::failed(failure)),
        Ok(None) => Ok(true),
        Err(e) if e.code() == 401 || e.code() == 403 => {
            observer.say(&format!("Events are not read: {}", e.message()));
            Ok(false)
        }
        Err(e) if e.is_temporary() => Ok(true),
        Err(e) => Err(e.into_error(&doing(params, cluster))),
    }
}

async fn failure(cluster: &Cluster, name: &str, claim: Option<&str>) -> Result<Option<String>, Failure> {
    let namespace = cluster.namespace();
    let events = cluster.list(&Kind::Event.collection(namespace)).await?;
    let pvc = match claim {
        Some(claim) => cluster.find(&PVC.object(namespace, claim)).await?,
        None => None,
    };
    let data_volume = cluster.find(&Kind::DataVolume.object(namespace, name)).await?;
    Ok(first_failure(&events, uid(pvc.as_ref()), uid(data_volume.as_ref())))
}

fn uid(object: Option<&Value>) -> Option<&str> {
    object?["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty())
}

/// Message of the first Event that says why the volume cannot be provisioned.
fn first_failure(events: &[Value], pvc: Option<&str>, data_volume: Option<&str>) -> Option<String> {
    events.iter().find_map(|event| {
        let about = &event["involvedObject"];
        let is_about = |kind: Kind, uid: Option<&str>| {
            uid.is_some() && about["kind"] == kind.name() && about["uid"].as_str() == uid
        };
        let message = event["message"].as_str().unwrap_or_default();
        let reason = event["reason"].as_str().unwrap_or_default();
        let says = if is_about(PVC, pvc) && reason == "ProvisioningFailed" && !message.contains(OUTRUN) {
            "Provisioning failed"
        } else if is_about(Kind::DataVolume, data_volume) && reason == "ErrClaimNotValid" {
            "Claim not valid"
        } else {
            return None;
        };
        Some(printable::line(&format!("{says}: {message}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_event_about_this_volume_is_to_blame() {
        let event = |kind: &str, uid: &str, reason: &str, message: &str| json!({"involvedObject": {"kind": kind, "uid": uid}, "reason": reason, "message": message});
        let told = |event: Value| first_failure(&[event], Some("p"), Some("v"));
        let claim = "PersistentVolumeClaim";
        assert_eq!(
            told(event(claim, "p", "ProvisioningFailed", "no room")).as_deref(),
            Some("Provisioning failed: no room")
        );
        assert_eq!(
            told(event("DataVolume", "v", "ErrClaimNotValid", "no access mode")).as_deref(),
            Some("Claim not valid: no access mode")
        );
        for other in [
            event(claim, "q", "ProvisioningFailed", "no room"),
            event("DataVolume", "p", "ProvisioningFailed", "no room"),
            event(claim, "p", "ErrClaimNotValid", "no access mode"),
            event(claim, "p", "ProvisioningFailed", &format!("Operation cannot be fulfilled: {OUTRUN}")),
        ] {
            assert_eq!(told(other), None);
        }
        let nobody = [event(claim, "", "ProvisioningFailed", "no room")];
        assert_eq!(first_failure(&nobody, uid(Some(&json!({}))), None), None);
    }
}
