//! Events that end the wait for an upload pod: they say that the volume cannot be provisioned.

use super::ready::is_away;
use super::{Errand, doing};
use crate::virt::client::{Cluster, Failure};
use crate::virt::object::Kind;
use cdi::{Error, Result};
use serde_json::Value;

/// Message of a conflict on the API server, after which the provisioner tries again.
const OUTRUN: &str =
    "the object has been modified; please apply your changes to the latest version and try again";
const PVC: Kind = Kind::PersistentVolumeClaim;

/// Fails if an Event says that the volume cannot be provisioned. False if the user may not read Events.
pub(super) async fn blamed(errand: Errand<'_>, object: &Value) -> Result<bool> {
    let Errand { cluster, wish, hears } = errand;
    let claim = match wish.kind {
        Kind::DataVolume => object["status"]["claimName"].as_str().filter(|name| !name.is_empty()),
        _ => Some(wish.name.as_str()),
    };
    match complaint(cluster, &wish.name, claim).await {
        Ok(Some(complaint)) => Err(Error::failed(complaint)),
        Ok(None) => Ok(true),
        Err(e) if e.code() == 401 || e.code() == 403 => {
            hears.say(&format!("Events are not read: {}", e.words()));
            Ok(false)
        }
        Err(e) if is_away(&e) => Ok(true),
        Err(e) => Err(e.of(&doing(wish, cluster))),
    }
}

async fn complaint(cluster: &Cluster, name: &str, claim: Option<&str>) -> Result<Option<String>, Failure> {
    let namespace = cluster.namespace();
    let events = cluster.list(&Kind::Event.list(namespace)).await?;
    let pvc = match claim {
        Some(claim) => cluster.find(&PVC.one(namespace, claim)).await?,
        None => None,
    };
    let data_volume = cluster.find(&Kind::DataVolume.one(namespace, name)).await?;
    Ok(told(&events, uid(pvc.as_ref()), uid(data_volume.as_ref())))
}

fn uid(object: Option<&Value>) -> Option<&str> {
    object?["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty())
}

/// Message of the first Event that says why the volume cannot be provisioned.
fn told(events: &[Value], pvc: Option<&str>, data_volume: Option<&str>) -> Option<String> {
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
        let told = |event: Value| told(&[event], Some("p"), Some("v"));
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
        assert_eq!(super::told(&nobody, uid(Some(&json!({}))), None), None);
    }
}
