//! The certificate of a program, as virt-controller puts it into a secret (package `cluster`): it is followed,
//! so that a new one takes no restart.

use super::transport::tls::Shown;
use api_server::error::chain;
use api_server::watch::{self, Seen};
use kubernetes::objects::{Kind, Which};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Shows what the secret of this name holds, for ever.
pub async fn follow(client: kube::Client, namespace: &str, secret: &'static str, shown: Arc<Shown>) {
    let (to, mut seen) = mpsc::channel(4);
    let which = Which::only(Kind::Secret, namespace, secret);
    tokio::join!(watch::follow(client, which, to), async {
        while let Some(event) = seen.recv().await {
            match event {
                Seen::Only(_, Some(object)) | Seen::Changed(_, object) => take(&shown, secret, &object),
                // Without it the one that is shown is still the best there is. (One secret is followed, never a list.)
                Seen::Only(_, None) | Seen::Gone(..) | Seen::Listed(..) => {}
            }
        }
    });
}

fn take(shown: &Shown, secret: &str, object: &serde_json::Value) {
    match shown.take(object) {
        Ok(()) => tracing::info!("the certificate in {secret} is shown from now on"),
        Err(error) => tracing::warn!("the certificate in {secret} is not taken: {}", chain(&error)),
    }
}
