//! A DataSource with the name of the PVC, which VMs can refer to.

use super::{UploadContext, bodies};
use crate::error::Result;
use cluster_model::objects::Kind;

/// Creates the DataSource, or points an existing one to the PVC.
pub(crate) async fn apply(UploadContext { cluster, params, observer }: UploadContext<'_>) -> Result<()> {
    let (namespace, name) = (cluster.namespace(), &params.name);
    let what = format!("cannot make DataSource {name} in namespace {namespace}");
    let path = Kind::DataSource.object(namespace, name);
    match cluster.find(&path).await.map_err(|e| e.into_error(&what))? {
        Some(there) => {
            // As virtctl does: labels and source are replaced as a whole.
            let change = bodies::change_of_data_source(params, namespace, &there);
            cluster.patch(&path, &change).await.map_err(|e| e.into_error(&what))?;
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
