//! A DataSource with the name of the PVC, which VMs can refer to.

use super::{UploadContext, bodies};
use crate::error::Result;
use crate::virt::client::Cluster;
use crate::virt::failure::Failure;
use cluster_model::objects::Kind;
use http::{Request, header};
use kube::client::Body;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates the DataSource, or points an existing one to the PVC.
pub(crate) async fn apply(UploadContext { cluster, params, observer }: UploadContext<'_>) -> Result<()> {
    let (namespace, name) = (cluster.namespace(), &params.name);
    let what = format!("cannot make DataSource {name} in namespace {namespace}");
    let path = Kind::DataSource.object(namespace, name);
    match cluster.find(&path).await.map_err(|e| e.into_error(&what))? {
        Some(there) => {
            let change = bodies::change_of_data_source(params, namespace, &there);
            patch(cluster, &path, &change).await.map_err(|e| e.into_error(&what))?;
            observer.out(&format!("Updated an existing DataSource {namespace}/{name}\n"))
        }
        None => {
            let made = cluster
                .post(&Kind::DataSource.collection(namespace), &bodies::data_source(params, namespace))
                .await;
            made.map_err(|e| e.into_error(&what))?;
            observer.out(&format!("Created a new DataSource {namespace}/{name}\n"))
        }
    }
}

/// Sends a JSON patch, as virtctl does: labels and source are replaced as a whole.
async fn patch(cluster: &Cluster, path: &str, change: &Value) -> Result<(), Failure> {
    let request = Request::patch(path)
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json-patch+json")
        .body(Body::from(change.to_string().into_bytes()));
    let answer = async {
        let response = cluster.send(request).await?;
        let status = response.status();
        let bytes = cluster.read(response).await?;
        match status.is_success() {
            true => Ok(()),
            false => Err(cluster.refusal(status, &bytes)),
        }
    };
    timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(cluster.silent()))
}
