//! What is followed while the server runs: the KubeVirt object, the secret with our certificate, the settings of the API
//! server's aggregator, the addresses of the virt-handlers, and what storage can do: StorageClasses, StorageProfiles, the
//! CDIConfig.

use super::rules::Around;
use api::cdi::CONFIG;
use api_server::watch::{Seen, follow};
use jiff::Timestamp;
use kubernetes::objects::{Kind, Plain, Store, Which, World};
use kubernetes::servers::API;
use serve::certificate;
use serve::token::Signer;
use serve::transport::tls::Shown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use subresources::{Aggregation, Handlers};
use tokio::sync::mpsc;

/// What is seen and not yet looked at.
const WAITING: usize = 64;

/// What is known now.
pub struct Live {
    namespace: String,
    around: RwLock<Arc<Around>>,
    storage: RwLock<Arc<World>>,
    listed: AtomicBool,
    /// The certificate.
    pub shown: Arc<Shown>,
    /// How the API server's aggregator proves itself.
    pub aggregation: Arc<Aggregation>,
    /// The virt-handlers.
    pub handlers: Arc<Handlers>,
    /// The key of upload tokens; none, until its Secret is mounted.
    pub signer: Arc<Signer>,
}

impl Live {
    /// Nothing is known yet; what is shown will be what the secret holds.
    pub fn new(namespace: &str, shown: Arc<Shown>) -> Live {
        Live {
            namespace: namespace.to_owned(),
            around: RwLock::new(Arc::new(Around::new(namespace, None))),
            storage: RwLock::default(),
            listed: AtomicBool::new(false),
            handlers: Arc::new(Handlers::new(namespace, Arc::clone(&shown))),
            aggregation: Arc::default(),
            signer: Arc::default(),
            shown,
        }
    }

    /// The settings are known, and the aggregator; and there is a certificate.
    pub fn is_ready(&self) -> bool {
        self.listed.load(Ordering::Relaxed) && self.aggregation.is_known() && self.shown.is_signed()
    }

    /// What surrounds a request that comes now.
    pub fn around(&self) -> Arc<Around> {
        Arc::clone(&self.around.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What storage can do, as far as it is known.
    pub fn storage(&self) -> Arc<World> {
        Arc::clone(&self.storage.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Follows all of it, for ever.
    pub async fn keep(self: Arc<Self>, client: kube::Client) {
        let (to, seen) = mpsc::channel(WAITING);
        let (of_storage, storage) = mpsc::channel(WAITING);
        tokio::join!(
            follow(client.clone(), Which::all(Kind::StorageClass, None), of_storage.clone()),
            follow(client.clone(), Which::all(Kind::StorageProfile, None), of_storage.clone()),
            follow(client.clone(), Which::only(Kind::CDIConfig, "", CONFIG), of_storage),
            self.keep_storage(storage),
            follow(client.clone(), Which::all(Kind::KubeVirt, None), to),
            certificate::follow(client.clone(), &self.namespace, API.secret, Arc::clone(&self.shown)),
            self.aggregation.keep(client.clone()),
            self.handlers.keep(client),
            self.settings(seen),
        );
    }

    async fn settings(&self, mut seen: mpsc::Receiver<Seen>) {
        let mut objects = Store::<Plain>::default();
        while let Some(event) = seen.recv().await {
            match event {
                Seen::Listed(_, list) => {
                    objects = Store::default();
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
                // No single object is followed here by its name.
                Seen::Only(..) => {}
            }
        }
    }

    /// There are few of these objects, and they hardly change: each change makes the picture anew.
    async fn keep_storage(&self, mut seen: mpsc::Receiver<Seen>) {
        let mut world = World::default();
        while let Some(event) = seen.recv().await {
            let now = Timestamp::now();
            match event {
                Seen::Listed(kind, list) => {
                    for key in world.keys(kind) {
                        world.remove(&key);
                    }
                    for object in list {
                        world.put(kind, object, now);
                    }
                }
                Seen::Changed(kind, object) => {
                    world.put(kind, object, now);
                }
                Seen::Only(key, Some(object)) => {
                    world.put(key.kind, object, now);
                }
                Seen::Only(key, None) | Seen::Gone(key, _) => {
                    world.remove(&key);
                }
            }
            *self.storage.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(world.clone());
        }
    }

    fn know(&self, objects: &Store<Plain>) {
        let mut around = Around::new(&self.namespace, objects.within(&self.namespace).next());
        around.installations = objects.names();
        *self.around.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(around);
    }
}
