//! What is followed while the server runs: the KubeVirt object, and the secret with our certificate.

use super::admission::Around;
use super::tls::Shown;
use crate::cluster::certificates::SERVER;
use crate::error::chain;
use crate::kind::{Key, Kind};
use crate::watch::{Seen, Which, follow};
use crate::world::{Plain, Shelf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::mpsc;

/// What is seen and not yet looked at.
const WAITING: usize = 64;

/// What is known now.
pub struct Live {
    namespace: String,
    around: RwLock<Arc<Around>>,
    listed: AtomicBool,
    /// The certificate.
    pub shown: Arc<Shown>,
}

impl Live {
    /// Nothing is known yet.
    pub fn new(namespace: &str) -> Live {
        Live {
            namespace: namespace.to_owned(),
            around: RwLock::new(Arc::new(Around::new(namespace, None))),
            listed: AtomicBool::new(false),
            shown: Arc::default(),
        }
    }

    /// The settings are known, and there is a certificate.
    pub fn is_ready(&self) -> bool {
        self.listed.load(Ordering::Relaxed) && self.shown.is_there()
    }

    /// What surrounds a request that comes now.
    pub fn around(&self) -> Arc<Around> {
        Arc::clone(&self.around.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Follows both, for ever.
    pub async fn keep(self: Arc<Self>, client: kube::Client) {
        let (to, mut seen) = mpsc::channel(WAITING);
        let settings = Which::all(Kind::KubeVirt, None);
        let secret = Which::only(Kind::Secret, &self.namespace, SERVER);
        for which in [settings, secret] {
            tokio::spawn(follow(client.clone(), which, to.clone()));
        }
        drop(to);
        let mut objects = Shelf::<Plain>::default();
        while let Some(event) = seen.recv().await {
            match event {
                Seen::Only(_, Some(secret)) | Seen::Changed(Kind::Secret, secret) => self.take(&secret),
                // Without it the one that is shown is still the best there is.
                Seen::Only(_, None) | Seen::Gone(Key { kind: Kind::Secret, .. }, _) => {}
                Seen::Listed(_, list) => {
                    objects = Shelf::default();
                    for object in list {
                        objects.put(object);
                    }
                    self.know(&objects);
                    self.listed.store(true, Ordering::Relaxed);
                }
                Seen::Changed(_, object) => {
                    objects.put(object);
                    self.know(&objects);
                }
                Seen::Gone(key, _) => {
                    objects.remove(&key.namespace, &key.name);
                    self.know(&objects);
                }
            }
        }
    }

    fn take(&self, secret: &serde_json::Value) {
        match self.shown.take(secret) {
            Ok(()) => tracing::info!("the certificate of {SERVER} is shown from now on"),
            Err(error) => tracing::warn!("the certificate of {SERVER} is not taken: {}", chain(&error)),
        }
    }

    fn know(&self, objects: &Shelf<Plain>) {
        let mut around = Around::new(&self.namespace, objects.within(&self.namespace).next());
        around.installations = objects.names();
        *self.around.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(around);
    }
}
