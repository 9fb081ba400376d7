//! The PVC of a token, and whether its upload pod accepts an upload now. virt-controller publishes that in
//! annotations of the PVC.
//!
//! ```text
//!  no PVC, filled already, of an unknown content type ─► refused: 503, as CDI answers
//!  storage.pod.ready is not "true" ────────────────────► waits: asked again for 10 s
//!  else ───────────────────────────────────────────────► ready
//! ```
//!
//! A PVC whose `dataSourceRef` is a VolumeUploadSource is filled through a second PVC, `prime-UID`. The
//! upload goes to that one.

use crate::route::Content;
use cluster_client::error::ErrorKind;
use cluster_client::{Server as _, Writer};
use cluster_model::objects::{Key, Kind, PRIME, names};
use cluster_model::uploads::{CONTENT_TYPE, POD_PHASE, POD_READY, TARGET};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The time for the pod to become ready.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two reads of the PVC.
const PERIOD: Duration = Duration::from_secs(1);

/// Upload state of a PVC.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Ready(Content),
    /// Not ready yet: reason.
    Waits(String),
    /// Never ready: reason. Waiting does not help.
    Refused(String),
}

/// A PVC whose pod accepts an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Name of the PVC that is filled: the PVC of the token, or its `prime-UID` PVC.
    pub(crate) name: String,
    pub(crate) content: Content,
}

/// Waits until the upload pod of a PVC is ready. An error gives the reason.
pub(crate) async fn ready(api: &Writer, namespace: &str, name: &str) -> Result<Ready, String> {
    let mut key = Key::new(Kind::PersistentVolumeClaim, namespace, name);
    let end = Instant::now() + PATIENCE;
    loop {
        let state = match api.get(&key).await {
            Ok(pvc) if key.name == name => match prime(&pvc) {
                // The name contains the UID, so it stays the same as long as the PVC does.
                Some(prime) if !is_bound(&pvc) => {
                    key.name = prime;
                    continue;
                }
                Some(_) => finished(name),
                None => look(name, &pvc),
            },
            Ok(pvc) if is_filled_for(&pvc, name) => look(name, &pvc),
            Ok(_) => State::Refused(format!("PVC {} is not filled in the place of PVC {name}", key.name)),
            Err(error) if error.kind() == ErrorKind::Gone && key.name != name => State::Waits(format!(
                "PVC {}, which is filled in the place of PVC {name}, does not exist yet",
                key.name
            )),
            Err(error) if error.kind() == ErrorKind::Gone => {
                State::Refused(format!("rejecting Upload Request for PVC {name} that doesn't exist"))
            }
            Err(error) => {
                tracing::warn!("cannot read PVC {namespace}/{name} of an upload: {}", error.chain());
                State::Refused(format!("cannot read PVC {name} from the API server; try again"))
            }
        };
        match state {
            State::Ready(content) => return Ok(Ready { name: key.name, content }),
            State::Refused(why) => return Err(why),
            State::Waits(why) if Instant::now() + PERIOD > end => {
                let seconds = PATIENCE.as_secs();
                return Err(format!("timed out waiting for the condition: within {seconds} s {why}"));
            }
            State::Waits(_) => sleep(PERIOD).await,
        }
    }
}

/// Name of the `prime-UID` PVC that is filled in place of this PVC; `None` without a VolumeUploadSource.
fn prime(pvc: &Value) -> Option<String> {
    let named = &pvc["spec"]["dataSourceRef"];
    let is_upload = named["apiGroup"] == Kind::VolumeUploadSource.group()
        && named["kind"] == Kind::VolumeUploadSource.name();
    let uid = pvc["metadata"]["uid"].as_str().filter(|_| is_upload)?;
    let name = format!("{PRIME}{uid}");
    names::is_name(&name).then_some(name)
}

fn is_bound(pvc: &Value) -> bool {
    pvc["status"]["phase"] == "Bound"
}

/// True if this PVC is filled in place of the PVC `name`: its controller is that PVC, and its own name has
/// the UID of that PVC.
fn is_filled_for(pvc: &Value, name: &str) -> bool {
    let own = pvc["metadata"]["name"].as_str().unwrap_or_default();
    let mut owners = pvc["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| {
        let uid = owner["uid"].as_str().unwrap_or_default();
        owner["controller"] == true
            && owner["kind"] == Kind::PersistentVolumeClaim.name()
            && owner["name"] == name
            && own.strip_prefix(PRIME) == Some(uid)
    })
}

fn finished(name: &str) -> State {
    State::Refused(format!("rejecting Upload Request for PVC {name} that already finished uploading"))
}

/// Upload state according to the annotations of the PVC.
fn look(name: &str, pvc: &Value) -> State {
    let annotations = &pvc["metadata"]["annotations"];
    let is = |key: &str| annotations[key].as_str().unwrap_or_default();
    if is(POD_PHASE) == "Succeeded" {
        return finished(name);
    }
    let content = match is(CONTENT_TYPE) {
        "" | "kubevirt" => Content::Disk,
        "archive" => Content::Archive,
        other => {
            return State::Refused(format!(
                "rejecting upload request for PVC {name} - upload content-type {other} is invalid"
            ));
        }
    };
    if annotations[TARGET].is_null() {
        return State::Waits(format!(
            "PVC {name} has not become the target of an upload (annotation {TARGET})"
        ));
    }
    match (is(POD_READY), is(POD_PHASE)) {
        ("true", _) => State::Ready(content),
        (_, "") => State::Waits(format!("the upload pod of PVC {name} was not created")),
        (_, phase) => State::Waits(format!("the upload pod of PVC {name} was not ready (phase {phase})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::objects::Program;
    use kit::ApiServer;
    use serde_json::json;
    use std::collections::BTreeSet;

    fn pvc(annotations: &[(&str, &str)]) -> Value {
        let all: serde_json::Map<_, _> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        json!({"metadata": {"annotations": all}})
    }

    #[test]
    fn the_annotations_say_whether_an_upload_is_taken() {
        let (target, ready) = ((TARGET, ""), (POD_READY, "true"));
        let archive = (CONTENT_TYPE, "archive");
        assert_eq!(look("a", &pvc(&[target, ready])), State::Ready(Content::Disk));
        assert_eq!(look("a", &pvc(&[target, ready, archive])), State::Ready(Content::Archive));
        for (all, why) in [
            (vec![target, ready, (POD_PHASE, "Succeeded")], "PVC a that already finished uploading"),
            (vec![target, ready, (CONTENT_TYPE, "x")], "PVC a - upload content-type x is invalid"),
        ] {
            let State::Refused(said) = look("a", &pvc(&all)) else { panic!("{all:?}") };
            assert!(said.ends_with(why), "{said}");
        }
        for (all, why) in [
            (vec![], "annotation cdi.kubevirt.io/storage.upload.target"),
            (vec![ready], "annotation cdi.kubevirt.io/storage.upload.target"),
            (vec![target], "was not created"),
            (vec![target, (POD_READY, "false"), (POD_PHASE, "Pending")], "was not ready (phase Pending)"),
            (vec![target, (POD_READY, "True"), (POD_PHASE, "Running")], "was not ready (phase Running)"),
        ] {
            let State::Waits(said) = look("a", &pvc(&all)) else { panic!("{all:?}") };
            assert!(said.contains(why), "{said}");
        }
    }

    #[tokio::test]
    async fn a_pvc_that_is_not_there_is_refused_at_once_and_its_name_is_told() {
        let server = ApiServer::default();
        let api = Writer::new(server.client(), "cdi-uploadproxy");
        let why = ready(&api, "n", "gone").await.unwrap_err();
        assert_eq!(why, "rejecting Upload Request for PVC gone that doesn't exist");
        assert_eq!(server.count(), 1);
        server.put(
            "/api/v1/namespaces/n/persistentvolumeclaims/disk",
            pvc(&[(TARGET, ""), (POD_READY, "true")]),
        );
        let taken = Ready { name: "disk".to_owned(), content: Content::Disk };
        assert_eq!(ready(&api, "n", "disk").await, Ok(taken));
        // Reading one PVC needs no other right.
        server.kept_to(Program::Proxy);
        let used = [(Kind::PersistentVolumeClaim, None, "get")];
        assert_eq!(server.rights(), BTreeSet::from(used));
    }

    /// An upload to a PVC with a VolumeUploadSource goes to the PVC that is filled in its place. A PVC of
    /// that name with another owner is refused.
    #[tokio::test]
    async fn an_upload_follows_a_pvc_to_the_one_that_is_filled_in_its_place() {
        let server = ApiServer::default();
        let api = Writer::new(server.client(), "cdi-uploadproxy");
        let named = json!({"apiGroup": "cdi.kubevirt.io", "kind": "VolumeUploadSource", "name": "a"});
        let at = "/api/v1/namespaces/n/persistentvolumeclaims";
        let target = |phase: &str| json!({"metadata": {"uid": "1"}, "spec": {"dataSourceRef": named}, "status": {"phase": phase}});
        server.put(&format!("{at}/disk"), target("Pending"));
        let prime = |uid: &str| {
            let owner =
                json!({"kind": "PersistentVolumeClaim", "name": "disk", "uid": uid, "controller": true});
            let mut prime = pvc(&[(TARGET, ""), (POD_READY, "true")]);
            prime["metadata"]["name"] = json!("prime-1");
            prime["metadata"]["ownerReferences"] = json!([owner]);
            prime
        };
        server.put(&format!("{at}/prime-1"), prime("2"));
        assert!(
            ready(&api, "n", "disk").await.unwrap_err().contains("is not filled in the place of PVC disk")
        );
        server.put(&format!("{at}/prime-1"), prime("1"));
        let taken = Ready { name: "prime-1".to_owned(), content: Content::Disk };
        assert_eq!(ready(&api, "n", "disk").await, Ok(taken));
        server.put(&format!("{at}/disk"), target("Bound"));
        assert!(ready(&api, "n", "disk").await.unwrap_err().ends_with("already finished uploading"));
    }
}
