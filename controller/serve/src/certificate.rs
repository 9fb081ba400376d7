//! The certificate of a program, as virt-controller puts it into a secret, and the authorities whose certificates its
//! clients may show, as virt-controller puts them into a ConfigMap. Both are followed, so that a new
//! one takes no restart.

use super::transport::Authorities;
use super::transport::tls::Shown;
use cluster_client::watch::{self, Seen};
use cluster_model::objects::{AUTHORITY, BUNDLE, Kind, Which};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Shows what the secret of this name holds, for ever.
pub async fn follow(client: kube::Client, namespace: &str, secret: &'static str, shown: Arc<Shown>) {
    follow_with(client, namespace, secret, shown, |_| {}).await;
}

/// The same, of a Secret of which something else is read, too.
pub async fn follow_with(
    client: kube::Client,
    namespace: &str,
    secret: &'static str,
    shown: Arc<Shown>,
    also: impl Fn(&Value),
) {
    let which = Which::only(Kind::Secret, namespace, secret);
    follow_one(client, which, |object| {
        also(object);
        match shown.take(object) {
            Ok(()) => tracing::info!("the certificate in {secret} is shown from now on"),
            Err(error) => tracing::warn!("the certificate in {secret} is not taken: {}", error.chain()),
        }
    })
    .await;
}

/// Believes certificates of clients by the authorities that the ConfigMap holds, for ever.
pub async fn follow_authorities(client: kube::Client, namespace: &str, authorities: Arc<Authorities>) {
    let which = Which::only(Kind::ConfigMap, namespace, AUTHORITY);
    follow_one(client, which, |object| {
        match authorities.take(object["data"][BUNDLE].as_str().unwrap_or_default()) {
            Ok(()) => tracing::info!("the authorities in {AUTHORITY} may sign for clients from now on"),
            Err(error) => tracing::warn!("the authorities in {AUTHORITY} are not taken: {}", error.chain()),
        }
    })
    .await;
}

/// Gives away one object as often as it changes. While it is not there, what it held before is still the best there is.
async fn follow_one(client: kube::Client, which: Which, take: impl Fn(&Value)) {
    let (to, mut seen) = mpsc::channel(4);
    tokio::join!(watch::follow(client, which, to), async {
        while let Some(event) = seen.recv().await {
            match event {
                Seen::Only(_, Some(object)) | Seen::Changed(_, object) => take(&object),
                Seen::Only(_, None) | Seen::Gone(..) | Seen::Listed(..) => {}
            }
        }
    });
}
