//! What the importer pod of an image is told about registries. The administrator of the cluster says it; the DataVolume's author
//! does not.
//!
//! ```text
//!  CDIConfig config, spec.insecureRegistries ── the image's own registry, HOST[:PORT] ──► insecure ─┐
//!  ConfigMap coracle-registries, in the namespace of the installation ── its files ──► settings ─────┴─► job of the pod ─► TOLD
//! ```
//!
//! **Assumptions.** The files hold no secrets: pods in the namespaces of tenants have them, and so has whoever may read pods
//! there. They go in the job, for no pod can mount a ConfigMap of another namespace.
//! **Guarantees.** A pod that waits because of a registry is replaced when what it would be told has changed ([`TOLD`] has a sum
//! of what it was told): nobody has to delete it. One that moves bytes is let be.

use api::datavolume::DataVolume;
use api::job::Registry;
use kubernetes::config::imports;
use kubernetes::objects::{Pod, World, names};
use kubernetes::worker::{REGISTRIES, TOLD};
use std::collections::BTreeMap;

/// The most bytes of all files, written as JSON: a job is one variable of a pod's environment, which takes 128 KiB.
const MOST: usize = 48 << 10;

/// What one pod is told.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Told {
    insecure: bool,
    settings: BTreeMap<String, String>,
}

impl Told {
    /// What the pod of a DataVolume is told now; or why that is not possible. Nothing is told of a source without a registry,
    /// nor of an image that the node pulls.
    pub(crate) fn of(volume: &DataVolume, world: &World) -> Result<Told, String> {
        let source = volume.spec.source.as_ref();
        let registry = source.and_then(|source| source.registry.as_ref());
        match registry.filter(|registry| registry.of_node().is_none()) {
            None => Ok(Told::default()),
            Some(registry) => Told::of_host(registry.host().as_deref(), world),
        }
    }

    /// The same for a pod that asks the registry of this name.
    pub(crate) fn of_host(host: Option<&str>, world: &World) -> Result<Told, String> {
        let insecure = host.is_some_and(|host| is_insecure(world, host));
        Ok(Told { insecure, settings: settings(world)? })
    }

    /// Says it in a job.
    pub(crate) fn say(&self, registry: &mut Registry) {
        registry.insecure = self.insecure;
        registry.settings.clone_from(&self.settings);
    }

    /// The sum of it; nothing where nothing is told.
    pub(crate) fn sum(&self) -> Option<String> {
        let text = format!("{}{:?}", self.insecure, self.settings);
        (*self != Told::default()).then(|| format!("{:016x}", names::fnv(&text)))
    }

    /// Whether a pod was told this.
    pub(crate) fn is_known_to(&self, pod: &Pod) -> bool {
        pod.meta.annotations.get(TOLD).cloned() == self.sum()
    }
}

/// Whether a registry may be asked without TLS, or with a certificate that nobody believes: `HOST[:PORT]` as it stands in the list.
fn is_insecure(world: &World, host: &str) -> bool {
    let listed = imports::read(world).insecure_registries;
    listed.iter().any(|one| one.trim().eq_ignore_ascii_case(host))
}

/// The files of the ConfigMap.
fn settings(world: &World) -> Result<BTreeMap<String, String>, String> {
    let namespace = &world.facts.namespace;
    let Some(map) = world.config_maps.get(namespace, REGISTRIES) else { return Ok(BTreeMap::new()) };
    let files = map.object["data"].as_object().into_iter().flatten();
    let files: BTreeMap<String, String> =
        files.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned()))).collect();
    let bytes = serde_json::to_string(&files).map_or(usize::MAX, |text| text.len());
    if bytes > MOST {
        return Err(format!(
            "the ConfigMap {REGISTRIES} in the namespace {namespace} is too large for importer pods: its files have {bytes} bytes \
             as JSON, and {MOST} are passed on; take away what registries.toml does not need"
        ));
    }
    Ok(files)
}
