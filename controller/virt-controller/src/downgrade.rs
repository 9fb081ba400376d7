//! A downgrade: an older virt-controller does not run on what a newer one has written.
//!
//! A newer one may have written objects that this one would misread, and that it would then write back. So it ends before it is
//! ready, and before it acts: the newer one goes on, and a Deployment that rolls back stands still and says why. The policy
//! `kubevirt-versions` of the installation refuses older manifests before it comes to that.

use cluster_client::error::{Error, ErrorKind, Result};
use cluster_model::objects::Kind;
use cluster_model::versions::is_older;
use serde_json::Value;
use std::time::Duration;

/// The pause before an API server that was not reached is asked again.
const PAUSE: Duration = Duration::from_secs(2);

/// Fails where a newer virt-controller than `own` looks after the installation, or has done so last.
pub(crate) async fn refuse(client: &kube::Client, namespace: &str, own: &str) -> Result<()> {
    loop {
        match cluster_client::list_few(client, Kind::KubeVirt, namespace).await {
            Ok(all) => return newer(&all, own).map_or(Ok(()), Err),
            // The definition of the kind is not there yet, and so no object.
            Err(error) if error.kind() == ErrorKind::Gone => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Unreachable => {
                tracing::warn!("{}", error.chain());
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Error for a KubeVirt object that a newer virt-controller has written.
fn newer(all: &[Value], own: &str) -> Option<Error> {
    let version =
        |object: &Value| object["status"]["operatorVersion"].as_str().unwrap_or_default().to_owned();
    let object = all.iter().find(|object| is_older(own, &version(object)))?;
    let (name, version) = (object["metadata"]["name"].as_str().unwrap_or_default(), version(object));
    // Clients that may write the status may write anything there.
    let version: String = version.chars().filter(char::is_ascii_graphic).take(64).collect();
    Some(Error::new(
        ErrorKind::Refused,
        format!(
            "virt-controller {own} does not replace {version}, which status.operatorVersion of KubeVirt {name} names: a downgrade \
             is not supported; apply the manifests of {version}, or of a newer version"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::ApiServer;
    use serde_json::json;

    fn of(version: &str) -> Vec<Value> {
        vec![json!({"metadata": {"name": "kubevirt"}, "status": {"operatorVersion": version}})]
    }

    #[test]
    fn what_a_newer_one_has_written_is_left_to_it() {
        let said = newer(&of("0.2.0"), "0.1.9").unwrap().to_string();
        for words in ["virt-controller 0.1.9 ", "replace 0.2.0", "KubeVirt kubevirt", "manifests of 0.2.0"] {
            assert!(said.contains(words), "{said}");
        }
        for version in ["0.1.9", "0.1.0", "", "devel"] {
            assert!(newer(&of(version), "0.1.9").is_none(), "{version}");
        }
        assert!(newer(&[json!({"metadata": {"name": "kubevirt"}})], "0.1.9").is_none(), "it is new");
        assert!(newer(&[], "0.1.9").is_none());
    }

    #[tokio::test]
    async fn where_nothing_is_installed_nothing_is_newer() {
        let server = ApiServer::default();
        assert!(refuse(&server.client(), "kubevirt", "0.1.0").await.is_ok());
        assert_eq!(server.rights(), [(Kind::KubeVirt, None, "list")].into());
    }
}
