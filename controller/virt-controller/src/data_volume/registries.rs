//! Settings of registries and of the proxy that an importer pod gets. The administrator of the cluster sets them, not the author of the
//! DataVolume.
//!
//! ```text
//!  ConfigMap trusted-ca-proxy-bundle-cm, where importProxy.trustedCAProxy names it ── certificates ──► environment of the pod ─► TOLD
//!  CDIConfig config, spec.insecureRegistries ── the image's own registry, HOST[:PORT] ──► insecure ─┐
//!  ConfigMap coracle-registries, in the namespace of the installation ── its files ──► settings ─────┴─► job of the pod ─► TOLD
//! ```
//!
//! **Assumptions.** The files hold no secrets, because pods in the namespaces of tenants get them, and every
//! user who may read pods there sees them. They are part of the job, since a pod cannot mount a ConfigMap of
//! another namespace.
//! **Guarantees.** A pod that waits because of a registry is replaced when its settings have changed
//! ([`TOLD`] has a checksum of the settings it was started with), so no user has to delete it. A pod that
//! transfers bytes is left alone.

use api::cdi::served::PROXY_AUTHORITIES;
use api::data_volume::DataVolume;
use api::job::{self, Registry};
use cluster_model::objects::{Pod, World, names};
use cluster_model::worker::{AUTHORITIES, REGISTRIES, TOLD, TRUST};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The most bytes of all files, written as JSON, and of the authorities of the proxy: each is one variable of a pod's environment,
/// which takes 128 KiB.
const MOST: usize = 48 << 10;

/// Settings of registries and of the proxy for one pod.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RegistrySettings {
    insecure: bool,
    settings: BTreeMap<String, String>,
    /// Certificates (PEM) to trust beside the system's.
    authorities: Option<String>,
}

impl RegistrySettings {
    /// Settings for the pod of a DataVolume, or the reason why they cannot be read. A source without a
    /// registry, and an image that the node pulls, get no settings of registries. A pod that fetches nothing
    /// gets no settings of the proxy.
    pub(crate) fn for_data_volume(volume: &DataVolume, world: &World) -> Result<RegistrySettings, String> {
        let Some(source) = &volume.spec.source else { return Ok(RegistrySettings::default()) };
        let fetches = source.http.is_some() || source.s3.is_some() || source.gcs.is_some();
        match source.registry.as_ref().filter(|registry| registry.of_node().is_none()) {
            None if fetches => {
                Ok(RegistrySettings { authorities: authorities(world)?, ..RegistrySettings::default() })
            }
            None => Ok(RegistrySettings::default()),
            Some(registry) => {
                let told = RegistrySettings::of_host(registry.host().as_deref(), world)?;
                Ok(RegistrySettings { authorities: authorities(world)?, ..told })
            }
        }
    }

    /// The same for a pod that polls a source.
    pub(crate) fn of_source(source: &job::Source, world: &World) -> Result<RegistrySettings, String> {
        let told = match source {
            job::Source::Registry(registry) => {
                let rest = registry.url.strip_prefix("docker://").unwrap_or(&registry.url);
                RegistrySettings::of_host(rest.split('/').next(), world)?
            }
            _ => RegistrySettings::default(),
        };
        Ok(RegistrySettings { authorities: authorities(world)?, ..told })
    }

    /// Settings for a pod that reads from the registry `host` without a proxy.
    pub(crate) fn of_host(host: Option<&str>, world: &World) -> Result<RegistrySettings, String> {
        let insecure = host.is_some_and(|host| is_insecure(world, host));
        Ok(RegistrySettings { insecure, settings: settings(world)?, authorities: None })
    }

    /// Says it in a job.
    pub(crate) fn apply_to_job(&self, registry: &mut Registry) {
        registry.insecure = self.insecure;
        registry.settings.clone_from(&self.settings);
    }

    /// Writes the certificates of the proxy into a pod with one container, and the checksum of all settings into its annotation.
    pub(crate) fn apply_to_pod(&self, pod: &mut Value) {
        if let (Some(pem), Some(env)) =
            (&self.authorities, pod["spec"]["containers"][0]["env"].as_array_mut())
        {
            env.push(json!({"name": AUTHORITIES, "value": pem}));
            env.push(json!({"name": TRUST.0, "value": TRUST.1}));
        }
        if let Some(sum) = self.sum() {
            pod["metadata"]["annotations"][TOLD] = json!(sum);
        }
    }

    /// True without any settings.
    pub(crate) fn is_empty(&self) -> bool {
        *self == RegistrySettings::default()
    }

    /// Checksum of the settings; `None` if there are none.
    fn sum(&self) -> Option<String> {
        let authorities = self.authorities.as_deref().unwrap_or_default();
        let text = format!("{}{:?}{authorities}", self.insecure, self.settings);
        (!self.is_empty()).then(|| format!("{:016x}", names::fnv(&text)))
    }

    /// True where a pod was made with these settings.
    pub(crate) fn is_known_to(&self, pod: &Pod) -> bool {
        pod.meta.annotations.get(TOLD).cloned() == self.sum()
    }
}

/// The certificates by which the proxy of imports is known; nothing where the settings name none that is read.
fn authorities(world: &World) -> Result<Option<String>, String> {
    let named = world.disk_settings().imports.import_proxy.as_ref();
    let named = named.and_then(|proxy| proxy.trusted_ca_proxy.as_deref());
    if named != Some(PROXY_AUTHORITIES) {
        return Ok(None);
    }
    let namespace = &world.facts.namespace;
    let what = format!(
        "the ConfigMap {PROXY_AUTHORITIES} in the namespace {namespace}, which importProxy.trustedCAProxy names,"
    );
    let Some(map) = world.config_maps.get(namespace, PROXY_AUTHORITIES) else {
        return Err(format!("{what} does not exist: create it, with the certificates of the proxy in PEM"));
    };
    let files = map.object["data"].as_object().into_iter().flatten();
    let all: Vec<&str> = files.filter_map(|(_, text)| text.as_str()).collect();
    let pem = all.join("\n");
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(format!("{what} has no certificate in PEM under any key"));
    }
    if pem.len() > MOST {
        return Err(format!(
            "{what} is too large for importer pods: it has {} bytes, and {MOST} are passed on; leave only those of the proxy",
            pem.len()
        ));
    }
    Ok(Some(pem))
}

/// True where a registry may be used without TLS, or with an untrusted certificate: `HOST[:PORT]` as in the list.
fn is_insecure(world: &World, host: &str) -> bool {
    let listed = &world.disk_settings().imports.insecure_registries;
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
            "the ConfigMap {REGISTRIES} in the namespace {namespace} is too large for importer pods: its files have \
             {bytes} bytes as JSON, and {MOST} are passed on; remove the files that registries.toml does not need"
        ));
    }
    Ok(files)
}
