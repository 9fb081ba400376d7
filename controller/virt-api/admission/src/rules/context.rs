//! Context of a request: settings of the cluster, cached objects, and random values, which pure functions
//! cannot get themselves.

use super::clone::CloneResult;
use super::eviction::Evicted;
use super::migration::MigrationFacts;
use api::defaults::DefaultsContext;
use api::machine::Settings;
use api::preset::VirtualMachineInstancePreset;
use api::wire::Path;
use cluster_model::accounts::Accounts;
use cluster_model::config::Config;
use cluster_model::instancetypes::LiveObject;
use cluster_model::objects::{Plain, World};
use serde_json::Value;
use std::sync::Arc;

/// The instance type and the preference that a VM references, as far as they exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    pub live: Vec<LiveObject>,
    /// All were listed, so a missing one does not exist.
    pub is_complete: bool,
}

/// Context of a request.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// Service accounts of our programs.
    pub accounts: Accounts,
    /// Settings of the cluster.
    pub config: Config,
    /// Feature gates, machine types and devices that the KubeVirt object permits to VMIs.
    pub permitted: Settings,
    /// Namespaces and names of the existing KubeVirt objects.
    pub installations: Vec<(String, String)>,
    /// A random UUID, and a random serial number.
    pub random: (String, String),
    /// StorageClasses, StorageProfiles and the CDIConfig.
    pub storage: Arc<World>,
    /// The instance type and the preference that the VM references.
    pub sizes: Sizes,
    /// Presets of the namespace of a new VMI.
    pub presets: Vec<VirtualMachineInstancePreset>,
    /// A kind with remaining objects, if that was checked.
    pub left: Option<&'static str>,
    /// The pod to evict, if it was read.
    pub evicted: Option<Evicted>,
    /// The VMI of a new migration and its other migrations, if they were read.
    pub migration: Option<MigrationFacts>,
    /// Result for each source of a clone, if they were checked.
    pub clones: Vec<Option<CloneResult>>,
    /// Token for the clone of a DataVolume, if it is permitted.
    pub token: Option<String>,
}

impl RequestContext {
    /// The context of a KubeVirt object.
    pub fn new(namespace: &str, object: Option<&Plain>) -> RequestContext {
        RequestContext {
            accounts: Accounts::new(namespace),
            config: Config::from_kubevirt(object.map(|object| &object.object)),
            // Without a KubeVirt object all feature gates are closed.
            permitted: Settings::of_cluster(object.map_or(&Value::Null, |object| &object.object)),
            installations: Vec::new(),
            random: Default::default(),
            storage: Arc::default(),
            sizes: Sizes::default(),
            presets: Vec::new(),
            left: None,
            evicted: None,
            migration: None,
            clones: Vec::new(),
            token: None,
        }
    }

    /// Defaults for VMIs, with the random UUID of this request.
    pub(super) fn given(&self) -> DefaultsContext {
        self.config.defaults_context(self.random.0.clone())
    }

    /// Permissions for a spec at the path `at`.
    pub(super) fn permitted_at(&self, at: &str) -> Settings {
        self.permitted.clone().at_path(Path::of(at))
    }
}
