//! Watched state of virt-api: the KubeVirt object, the Secret with our certificate, the settings of the API
//! aggregator, the addresses of the virt-handlers, storage (StorageClasses, StorageProfiles, the CDIConfig),
//! instance types and preferences, and presets.

use super::order;
use super::rules::{Operation, Request, RequestContext, Sizes};
use api::cdi::CONFIG;
use api::instancetype::MatcherKind;
use api::meta::ObjectMeta;
use api::preset::{self, VirtualMachineInstancePreset};
use api::wire;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_client::watch::{WatchMessage, follow};
use cluster_model::instancetypes::{find_referenced, kind_of};
use cluster_model::objects::{Home, Kind, Plain, Program, Store, WatchTarget, World};
use cluster_model::servers::API;
use cluster_model::webhook_paths::{FIELD, PathSegments};
use cluster_model::webhooks::{Question, Webhook};
use jiff::Timestamp;
use serde_json::Value;
use serve::certificate;
use serve::settings::Dials;
use serve::token::Signer;
use serve::transport::tls::CurrentCertificate;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;
use subresources::{Aggregation, Handlers};
use tokio::sync::mpsc;

/// Capacity of the queue of watch events.
const WAITING: usize = 64;

/// State of virt-api that follows the cluster, shared by all requests.
pub struct Live {
    namespace: String,
    context: RwLock<Arc<RequestContext>>,
    storage: RwLock<Arc<World>>,
    /// Instance types, preferences and presets. Tenants write them often, so they are not copied at each
    /// change, unlike `storage`.
    sizes: RwLock<World>,
    /// Number of kinds of instance types and preferences that were listed.
    sizes_listed: AtomicUsize,
    /// Presets were listed. Before that, a new VMI would miss its presets.
    presets_listed: AtomicBool,
    listed: AtomicBool,
    /// Set while an older virt-controller acts during an upgrade, with the start of this process.
    waits: (AtomicBool, Instant),
    /// Settings of this program in the KubeVirt object.
    pub dials: Arc<Dials>,
    /// Server certificate, replaced when it is rotated.
    pub shown: Arc<CurrentCertificate>,
    /// Authentication of the API aggregator.
    pub aggregation: Arc<Aggregation>,
    /// Addresses of the virt-handlers.
    pub handlers: Arc<Handlers>,
    /// The key of upload tokens; `None` until its Secret is mounted.
    pub signer: Arc<Signer>,
    /// Path segments of the webhooks; `None` until their Secret is known.
    paths: RwLock<Option<PathSegments>>,
}

impl Live {
    /// Empty state. The server certificate is the one in `shown`.
    pub fn new(namespace: &str, shown: Arc<CurrentCertificate>) -> Live {
        let home = Home { namespace: namespace.to_owned(), ..Home::default() };
        Live {
            dials: Dials::new(Program::Api, home),
            namespace: namespace.to_owned(),
            context: RwLock::new(Arc::new(RequestContext::new(namespace, None))),
            storage: RwLock::default(),
            sizes: RwLock::default(),
            sizes_listed: AtomicUsize::new(0),
            presets_listed: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            waits: (AtomicBool::new(false), Instant::now()),
            handlers: Arc::new(Handlers::new(namespace, Arc::clone(&shown))),
            aggregation: Arc::default(),
            signer: Arc::default(),
            paths: RwLock::default(),
            shown,
        }
    }

    /// True if settings, presets and aggregator are known, there is a certificate, and in an upgrade
    /// virt-controller is not older.
    pub fn is_ready(&self) -> bool {
        let (waits, began) = &self.waits;
        let is_next = !waits.load(Ordering::Relaxed) || began.elapsed() >= order::MOST;
        self.is_known() && self.aggregation.is_known() && self.shown.is_signed() && is_next
    }

    fn is_known(&self) -> bool {
        self.listed.load(Ordering::Relaxed) && self.presets_listed.load(Ordering::Relaxed)
    }

    /// The context for a request that comes now.
    pub fn context(&self) -> Arc<RequestContext> {
        Arc::clone(&self.context.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The webhook at a path with a valid segment.
    pub(super) fn webhook(&self, path: &str) -> Option<&'static Webhook> {
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        Webhook::find_by_path(paths.as_ref()?.strip_segment(path)?)
    }

    /// Reads the path segments of webhooks from the Secret of the certificate.
    pub fn take_paths(&self, secret: &Value) {
        let text = secret["data"][FIELD].as_str().and_then(|text| STANDARD.decode(text).ok());
        let text = text.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
        *self.paths.write().unwrap_or_else(PoisonError::into_inner) = Some(PathSegments::read(&text));
    }

    /// Cache of StorageClasses, StorageProfiles and the CDIConfig.
    pub fn storage(&self) -> Arc<World> {
        Arc::clone(&self.storage.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The instance type and the preference that the VM of a request references.
    pub(super) fn sizes(&self, question: Question, request: &Request) -> Sizes {
        // A pool contains the spec of its VMs.
        let at = if question == Question::Pool { "/spec/virtualMachineTemplate/spec" } else { "/spec" };
        let spec = request.object.pointer(at).unwrap_or(&Value::Null);
        let said =
            serde_json::json!({"instancetype": spec["instancetype"], "preference": spec["preference"]});
        let spec = wire::read_in_part::<api::vm::Spec>(said, &mut Vec::new());
        let spec = spec
            .filter(|_| matches!(question, Question::FillVm | Question::Vm | Question::Pool))
            .unwrap_or_default();
        if spec.instancetype.is_none() && spec.preference.is_none() {
            return Sizes::default();
        }
        let sizes = self.sizes.read().unwrap_or_else(PoisonError::into_inner);
        Sizes {
            live: find_referenced(&sizes, &spec, &request.namespace),
            is_complete: self.sizes_listed.load(Ordering::Relaxed) >= MatcherKind::ALL.len(),
        }
    }

    /// The presets that may apply to the VMI of a request.
    pub(super) fn presets(&self, question: Question, request: &Request) -> Vec<VirtualMachineInstancePreset> {
        if question != Question::FillVmi || request.operation != Operation::Create {
            return Vec::new();
        }
        let kept = self.sizes.read().unwrap_or_else(PoisonError::into_inner);
        let meta = wire::read_in_part::<ObjectMeta>(request.object["metadata"].clone(), &mut Vec::new());
        let meta = meta.unwrap_or_default();
        preset::matching(kept.presets.in_namespace(&request.namespace), &meta).cloned().collect()
    }

    /// Watches all of it, for ever.
    pub async fn keep(self: Arc<Self>, client: kube::Client) {
        let (to, seen) = mpsc::channel(WAITING);
        let (of_storage, storage) = mpsc::channel(WAITING);
        let (of_sizes, sizes) = mpsc::channel(WAITING);
        let sized = MatcherKind::ALL
            .map(|kind| follow(client.clone(), WatchTarget::all(kind_of(kind), None), of_sizes.clone()));
        let [instancetypes, cluster_instancetypes, preferences, cluster_preferences] = sized;
        let presets = WatchTarget::all(Kind::VirtualMachineInstancePreset, None);
        tokio::join!(
            follow(client.clone(), presets, of_sizes.clone()),
            instancetypes,
            cluster_instancetypes,
            preferences,
            cluster_preferences,
            self.keep_sizes(sizes),
            follow(client.clone(), WatchTarget::all(Kind::StorageClass, None), of_storage.clone()),
            follow(client.clone(), WatchTarget::all(Kind::StorageProfile, None), of_storage.clone()),
            follow(client.clone(), WatchTarget::for_object(Kind::CDIConfig, "", CONFIG), of_storage),
            self.keep_storage(storage),
            follow(client.clone(), WatchTarget::all(Kind::KubeVirt, None), to),
            certificate::follow_with(
                client.clone(),
                &self.namespace,
                API.secret,
                Arc::clone(&self.shown),
                |secret| self.take_paths(secret)
            ),
            self.aggregation.keep(client.clone()),
            self.handlers.keep(client),
            self.settings(seen),
        );
    }

    async fn settings(&self, mut seen: mpsc::Receiver<WatchMessage>) {
        let mut objects = Store::<Plain>::default();
        while let Some(event) = seen.recv().await {
            self.dials.see(&event);
            match event {
                WatchMessage::Listed(_, list) => {
                    objects = Store::default();
                    for object in list {
                        objects.put(object);
                    }
                    self.know(&objects);
                    self.listed.store(true, Ordering::Relaxed);
                }
                WatchMessage::Changed(_, object) => {
                    objects.put(object);
                    self.know(&objects);
                }
                WatchMessage::Gone(key, _) => {
                    objects.remove(&key.namespace, &key.name);
                    self.know(&objects);
                }
                // These watches select no single object by name.
                WatchMessage::Only(..) => {}
            }
        }
    }

    /// Objects of storage are few and rarely change. So each change replaces the shared copy.
    async fn keep_storage(&self, mut seen: mpsc::Receiver<WatchMessage>) {
        let mut world = World::default();
        while let Some(event) = seen.recv().await {
            take(&mut world, event);
            *self.storage.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(world.clone());
        }
    }

    async fn keep_sizes(&self, mut seen: mpsc::Receiver<WatchMessage>) {
        let mut listed = BTreeSet::new();
        while let Some(event) = seen.recv().await {
            let kind = if let WatchMessage::Listed(kind, _) = &event { Some(*kind) } else { None };
            take(&mut self.sizes.write().unwrap_or_else(PoisonError::into_inner), event);
            match kind {
                Some(Kind::VirtualMachineInstancePreset) => {
                    self.presets_listed.store(true, Ordering::Relaxed)
                }
                kind => listed.extend(kind),
            }
            self.sizes_listed.store(listed.len(), Ordering::Relaxed);
        }
    }

    fn know(&self, objects: &Store<Plain>) {
        let mut context = RequestContext::new(&self.namespace, objects.in_namespace(&self.namespace).next());
        context.installations = objects.names();
        let waits =
            order::waits(objects.in_namespace(&self.namespace), &self.namespace, env!("CARGO_PKG_VERSION"));
        self.waits.0.store(waits, Ordering::Relaxed);
        *self.context.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(context);
    }
}

/// Applies a watch event to a cache.
fn take(world: &mut World, event: WatchMessage) {
    let now = Timestamp::now();
    match event {
        WatchMessage::Listed(kind, list) => {
            for key in world.keys(kind) {
                world.remove(&key);
            }
            for object in list {
                world.put(kind, object, now);
            }
        }
        WatchMessage::Changed(kind, object) => {
            world.put(kind, object, now);
        }
        WatchMessage::Only(key, Some(object)) => {
            world.put(key.kind, object, now);
        }
        WatchMessage::Only(key, None) | WatchMessage::Gone(key, _) => {
            world.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::vmi::VirtualMachineInstance;
    use serde_json::json;

    /// A VMI created while virt-api starts would otherwise miss its presets.
    #[tokio::test]
    async fn virt_api_is_ready_when_the_presets_are_listed() {
        let live = Live::new("kubevirt", Arc::default());
        live.listed.store(true, Ordering::Relaxed);
        for (kind, is_known) in
            [(kind_of(MatcherKind::ALL[0]), false), (Kind::VirtualMachineInstancePreset, true)]
        {
            let (to, seen) = mpsc::channel(1);
            to.send(WatchMessage::Listed(kind, Vec::new())).await.unwrap();
            drop(to);
            live.keep_sizes(seen).await;
            assert_eq!(live.is_known(), is_known, "{kind:?}");
        }
    }

    /// Each review gets its own copy.
    #[test]
    fn of_a_thousand_presets_no_more_are_handed_on_than_show_that_there_are_too_many() {
        let live = Live::new("kubevirt", Arc::default());
        for number in 0..1000 {
            let spec = json!({"selector": {}, "domain": {"cpu": {"cores": 2}}});
            let meta = json!({"namespace": "default", "name": format!("p{number}")});
            take(
                &mut live.sizes.write().unwrap(),
                WatchMessage::Changed(
                    Kind::VirtualMachineInstancePreset,
                    json!({"metadata": meta, "spec": spec}),
                ),
            );
        }
        let request = Request { namespace: "default".to_owned(), ..Request::default() };
        let presets = live.presets(Question::FillVmi, &request);
        assert_eq!(presets.len(), 33);
        assert_eq!(live.presets(Question::Vm, &request).len(), 0);
        let mut vmi = VirtualMachineInstance::default();
        assert!(preset::apply(presets.iter(), &mut vmi).unwrap_err().contains("more than 32"));
    }
}
