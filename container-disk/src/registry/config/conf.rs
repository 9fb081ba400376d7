//! `registries.conf` (version 2) of podman, buildah and skopeo: locations and mirrors by prefix of the image
//! name.
//!
//! Supported: `[[registry]]` with `prefix`, `location`, `insecure`, `blocked`, `mirror-by-digest-only` and
//! `[[registry.mirror]]` with `location`, `insecure`, `pull-from-mirror`. Short names are not supported:
//! every name has its host. Unknown keys cause a warning.

use super::{Access, Endpoint, MirrorUse, Route, Scheme, SettingsPaths, Terms, paths};
use crate::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Top-level keys that only concern short names.
const ABOUT_SHORT_NAMES: [&str; 4] =
    ["unqualified-search-registries", "short-name-mode", "aliases", "additional-layer-store-auth-helper"];

/// The merged content of all files: entries by prefix.
#[derive(Debug, Clone, Default)]
pub(super) struct Conf(BTreeMap<String, Entry>);

/// The settings for one prefix.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Entry {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<MirrorEntry>,
    #[serde(flatten)]
    rest: BTreeMap<String, toml::Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct MirrorEntry {
    location: String,
    #[serde(default)]
    insecure: bool,
    pull_from_mirror: Option<String>,
    #[serde(flatten)]
    rest: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    registry: Vec<Entry>,
    #[serde(flatten)]
    rest: BTreeMap<String, toml::Value>,
}

impl Conf {
    /// Reads the last existing `registries.conf`, then all files in the folders.
    pub(super) fn read(paths: &SettingsPaths) -> Result<Conf> {
        let mut conf = Conf::default();
        let main = paths.conf.iter().rev().find(|path| path.exists());
        let more = paths.conf_d.iter().flat_map(|folder| paths::list(folder, &[".conf"]));
        for path in main.cloned().into_iter().chain(more) {
            if let Some(text) = paths::read(&path)? {
                conf.0.extend(parse(&path, &text)?);
            }
        }
        Ok(conf)
    }

    /// The entry with the longest matching prefix.
    pub(super) fn find(&self, host: &str, repository: &str) -> Option<&Entry> {
        let name = format!("{host}/{repository}");
        let fitting = self.0.iter().filter(|(prefix, _)| covers(prefix, host, &name).is_some());
        fitting.max_by_key(|(prefix, _)| prefix.len()).map(|(_, entry)| entry)
    }
}

impl Entry {
    pub(super) fn route(&self, host: &str, repository: &str) -> Result<Route> {
        let name = format!("{host}/{repository}");
        if self.blocked {
            let what = format!("docker://{name} is blocked by registries.conf (prefix {:?})", self.prefix);
            return Err(Error::usage(what));
        }
        let rest = covers(&self.prefix, host, &name).unwrap_or_default();
        let wildcard = self.prefix.starts_with("*.");
        let mut endpoints = Vec::new();
        for mirror in &self.mirror {
            let asks = match mirror.pull_from_mirror.as_deref() {
                Some("digest-only") => MirrorUse::Digests,
                Some("tag-only") => MirrorUse::Tags,
                None if self.mirror_by_digest_only => MirrorUse::Digests,
                _ => MirrorUse::All,
            };
            endpoints.push(endpoint(&mirror.location, rest, mirror.insecure, asks, false)?);
        }
        let own = if self.location.is_empty() && wildcard { host } else { &self.location };
        endpoints.push(endpoint(own, rest, self.insecure, MirrorUse::All, true)?);
        Ok(Route { endpoints, terms: Terms::default() })
    }
}

/// The rest of `name` after a prefix: `example.com`, `example.com/group`, `*.example.com`. `None` if it does
/// not match.
fn covers<'a>(prefix: &str, host: &str, name: &'a str) -> Option<&'a str> {
    if let Some(domain) = prefix.strip_prefix('*') {
        return host.ends_with(domain).then(|| name.get(host.len()..)).flatten();
    }
    name.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn endpoint(location: &str, rest: &str, insecure: bool, asks: MirrorUse, origin: bool) -> Result<Endpoint> {
    let whole = format!("{location}{rest}");
    let (address, repository) = whole.split_once('/').unwrap_or((&whole, ""));
    let address = address.to_ascii_lowercase();
    if !crate::reference::is_host(&address) || repository.is_empty() {
        let what = format!("registries.conf: the location {location:?} is not HOST[:PORT][/PATH]");
        return Err(Error::usage(what));
    }
    // In registries.conf, insecure means both: an unverified certificate, and plain HTTP if the server has no
    // TLS.
    let scheme = if insecure { Scheme::Either } else { Scheme::Usual };
    let access = Access { scheme, insecure, ..Access::default() };
    Ok(Endpoint { address, repository: repository.to_owned(), access, asks, origin })
}

fn parse(path: &Path, text: &str) -> Result<BTreeMap<String, Entry>> {
    let shown = path.display();
    let file: File = toml::from_str(text).map_err(|e| {
        let line = paths::line(text, e.span().map_or(0, |span| span.start));
        Error::usage(format!("{shown}, line {line}: {}", e.message()))
    })?;
    let unknown = file.rest.keys().filter(|key| !ABOUT_SHORT_NAMES.contains(&key.as_str()));
    let inner = file
        .registry
        .iter()
        .flat_map(|entry| entry.rest.keys().chain(entry.mirror.iter().flat_map(|mirror| mirror.rest.keys())));
    for key in unknown.chain(inner) {
        tracing::warn!(file = %shown, key, "an unknown key of registries.conf is ignored");
    }
    let mut entries = BTreeMap::new();
    for mut entry in file.registry {
        match (entry.prefix.is_empty(), entry.location.is_empty()) {
            (true, true) => {
                return Err(Error::usage(format!("{shown}: a [[registry]] has neither prefix nor location")));
            }
            (true, false) => entry.prefix.clone_from(&entry.location),
            (false, true) if !entry.prefix.starts_with("*.") => entry.location.clone_from(&entry.prefix),
            (false, _) => {}
        }
        entries.insert(entry.prefix.clone(), entry);
    }
    Ok(entries)
}

#[cfg(test)]
impl Conf {
    pub(super) fn of(text: &str) -> Result<Conf> {
        parse(Path::new("registries.conf"), text).map(Conf)
    }
}
