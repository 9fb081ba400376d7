//! What surrounds a request: the settings of the cluster, and what a pure function cannot have of itself.

use super::clone::Found;
use super::eviction::Evicted;
use api::defaults::DefaultsContext;
use api::machine::Settings;
use api::preset::VirtualMachineInstancePreset;
use api::wire::Path;
use cluster_model::accounts::Accounts;
use cluster_model::config::Config;
use cluster_model::instancetypes::Live;
use cluster_model::objects::{Plain, World};
use serde_json::Value;
use std::sync::Arc;

/// The instance type and the preference that a VM names, as far as they are there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    /// Those that are there.
    pub live: Vec<Live>,
    /// What is not among them is not there: all were listed.
    pub is_complete: bool,
}

/// What surrounds a request.
#[derive(Clone, Debug)]
pub struct Around {
    /// The service accounts of our programs.
    pub accounts: Accounts,
    /// The settings of the cluster.
    pub config: Config,
    /// What is permitted.
    pub permitted: Settings,
    /// Names and namespaces of the KubeVirt objects there are.
    pub installations: Vec<(String, String)>,
    /// A new uuid, and a new serial number.
    pub random: (String, String),
    /// What storage can do: StorageClasses, StorageProfiles, the CDIConfig.
    pub storage: Arc<World>,
    /// The instance type and the preference that a VM names.
    pub sizes: Sizes,
    /// The presets of the namespace of a VMI that is made.
    pub presets: Vec<VirtualMachineInstancePreset>,
    /// A kind of which there still are objects, where that was asked for.
    pub left: Option<&'static str>,
    /// The pod that is to be evicted, where that was asked for.
    pub evicted: Option<Evicted>,
    /// What came of each source that would be cloned, where that was asked for.
    pub clones: Vec<Option<Found>>,
    /// The token for the clone of a DataVolume, where that is permitted.
    pub token: Option<String>,
}

impl Around {
    /// What the settings say; they are those of `object`.
    pub fn new(namespace: &str, object: Option<&Plain>) -> Around {
        Around {
            accounts: Accounts::of(namespace),
            config: Config::of(object),
            // Without an object every gate is shut.
            permitted: Settings::of_cluster(object.map_or(&Value::Null, |object| &object.object)),
            installations: Vec::new(),
            random: Default::default(),
            storage: Arc::default(),
            sizes: Sizes::default(),
            presets: Vec::new(),
            left: None,
            evicted: None,
            clones: Vec::new(),
            token: None,
        }
    }

    /// What is filled in.
    pub(super) fn given(&self) -> DefaultsContext {
        self.config.given(self.random.0.clone())
    }

    /// What is permitted to a spec that stands at `at`.
    pub(super) fn permitted_at(&self, at: &str) -> Settings {
        self.permitted.clone().at_path(Path::of(at))
    }
}
