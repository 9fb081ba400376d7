//! Certificate of a program, which virt-controller keeps in a Secret, and authorities of its clients, which
//! virt-controller keeps in a ConfigMap. Both objects are followed, so that a new certificate or authority
//! needs no restart.

use super::transport::Authorities;
use super::transport::tls::CurrentCertificate;
use cluster_client::watch::{self, WatchMessage};
use cluster_model::objects::{AUTHORITY, BUNDLE, Kind, WatchTarget};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Shows the certificate of the Secret of this name. Never returns.
pub async fn follow(
    client: kube::Client,
    namespace: &str,
    secret: &'static str,
    shown: Arc<CurrentCertificate>,
) {
    follow_with(client, namespace, secret, shown, |_| {}).await;
}

/// Same as [`follow`]; `also` reads further data of the Secret.
pub async fn follow_with(
    client: kube::Client,
    namespace: &str,
    secret: &'static str,
    shown: Arc<CurrentCertificate>,
    also: impl Fn(&Value),
) {
    let which = WatchTarget::for_object(Kind::Secret, namespace, secret);
    follow_one(client, which, |object| {
        also(object);
        match shown.take(object) {
            Ok(()) => tracing::info!("now serving the certificate of Secret {secret}"),
            Err(error) => tracing::warn!(
                "cannot use the certificate of Secret {secret}, keeping the earlier one: {}",
                error.chain()
            ),
        }
    })
    .await;
}

/// Accepts client certificates of the authorities in the ConfigMap. Never returns.
pub async fn follow_authorities(client: kube::Client, namespace: &str, authorities: Arc<Authorities>) {
    let which = WatchTarget::for_object(Kind::ConfigMap, namespace, AUTHORITY);
    follow_one(client, which, |object| {
        match authorities.take(object["data"][BUNDLE].as_str().unwrap_or_default()) {
            Ok(()) => tracing::info!(
                "now accepting client certificates of the authorities in ConfigMap {AUTHORITY}"
            ),
            Err(error) => tracing::warn!(
                "cannot use the authorities in ConfigMap {AUTHORITY}, keeping the earlier ones: {}",
                error.chain()
            ),
        }
    })
    .await;
}

/// Calls `take` with each version of one object. While the object does not exist, its last version stays in
/// use.
async fn follow_one(client: kube::Client, which: WatchTarget, take: impl Fn(&Value)) {
    let (to, mut seen) = mpsc::channel(4);
    tokio::join!(watch::follow(client, which, to), async {
        while let Some(event) = seen.recv().await {
            match event {
                WatchMessage::Only(_, Some(object)) | WatchMessage::Changed(_, object) => take(&object),
                WatchMessage::Only(_, None) | WatchMessage::Gone(..) | WatchMessage::Listed(..) => {}
            }
        }
    });
}
