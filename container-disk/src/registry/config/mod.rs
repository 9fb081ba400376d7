//! Settings of registries: the servers for each image name, their order, and the access to them.
//!
//! ```text
//!  registries.toml  (/etc/coracle, the user's folder, --registries)      file.rs ──┐
//!  registries.conf and its .d folders, of podman and skopeo               conf.rs ──┤─► Config ─ route(host, repo) ─► Route:
//!  certs.d folders, of docker and podman                                certs_d.rs ─┘                       endpoints in order
//! ```
//!
//! `registries.toml` is parsed strictly: an unknown key is an error that names the file and the key. In files
//! of other tools, unknown keys cause a warning. A host's table in a later `registries.toml` replaces its
//! table from an earlier one. `registries.conf` applies to hosts without a table in `registries.toml`.
//!
//! **Without any file** the host itself is used, over TLS. A host at a loopback address (`localhost`,
//! `127.0.0.0/8`, `::1`) is also used over plain HTTP if it has no TLS, as in docker, since such traffic
//! stays on the loopback interface. Any other host needs `plain-http = true`.

mod advice;
mod certs_d;
mod conf;
mod file;
mod paths;
mod units;

pub(crate) use advice::Advice;
pub(crate) use file::{CHUNK, LARGEST_CHUNK};
pub use paths::SettingsPaths;
pub(crate) use paths::read as read_file;

use crate::{Error, Result};
use fetch::{LeastRate, Secret, least_rate};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// All settings of registries.
#[derive(Debug, Clone, Default)]
pub struct Config {
    hosts: BTreeMap<String, Host>,
    theirs: conf::Conf,
    certs_d: Vec<PathBuf>,
    /// A host, and its user's settings, which take precedence over all files.
    own: Option<(String, UserSettings)>,
    /// The audience of error messages, which determines the advice in them.
    readers: Readers,
}

/// Settings of one user for one host. They take precedence over files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserSettings {
    /// The login. Unset: the one from files.
    pub login: Option<Login>,
    /// PEM files with CAs to trust, in addition to the system's.
    pub ca: Vec<PathBuf>,
    /// Skips the verification of the certificate, and allows plain HTTP if the host has no TLS.
    pub insecure: bool,
}

/// The audience of error messages. The settings have other names for a user than in a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Readers {
    /// A user of this computer, whose files are read.
    #[default]
    User,
    /// The author of a DataVolume or an export, and the administrator of the cluster.
    Cluster,
}

/// A login to a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    Basic(String, Secret),
    /// The text of a docker `config.json`. Credential helpers in it are not run.
    Config(Secret),
}

/// Settings of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    mirrors: Vec<MirrorRule>,
    fallback: bool,
    own: Access,
    terms: Terms,
}

/// A mirror of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MirrorRule {
    address: String,
    priority: i64,
    rewrite: Rewrite,
    asks: MirrorUse,
    access: Access,
}

/// A rewriting of repositories: the prefix `from` becomes `to`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rewrite {
    from: String,
    to: String,
}

/// Settings for the connection to one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Access {
    pub(crate) scheme: Scheme,
    pub(crate) insecure: bool,
    pub(crate) ca: Vec<PathBuf>,
    pub(crate) client: Option<(PathBuf, PathBuf)>,
    pub(crate) credentials: Source,
    /// The kind of advice in errors of this server.
    pub(crate) advice: Advice,
}

/// The protocol to a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    /// TLS. Plain HTTP at a loopback address if the server has no TLS.
    #[default]
    Usual,
    Plain,
    /// TLS, or plain HTTP if the server has no TLS.
    Either,
}

/// The source of user and password.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// The existing files of docker and podman.
    #[default]
    Usual,
    /// Anonymous access, without a login.
    Nothing,
    /// A file in the form of docker's `config.json`.
    File(PathBuf),
    /// The credential helper `docker-credential-NAME`.
    Helper(String),
    /// A user and a password.
    Given(Secret, Secret),
    /// The text of a file in the form of docker's `config.json`.
    Text(Secret),
}

/// The requests that a mirror is used for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum MirrorUse {
    #[default]
    All,
    /// Documents by digest, and blobs.
    Digests,
    /// Documents by tag, and the documents and blobs below them.
    Tags,
}

/// Requirements for transfers from a server, and the upload method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Minimum rate in bytes per second. A slower mirror is replaced by another one, if there is one.
    pub(crate) min_rate: u64,
    /// Time that the rate may stay below `min_rate`.
    pub(crate) patience: Duration,
    /// Rate in bytes per second below which a transfer fails, even without another mirror.
    pub(crate) least_rate: Option<LeastRate>,
    /// Time without any byte after which a request fails.
    pub(crate) idle: Duration,
    /// The upload method for blobs.
    pub(crate) upload: UploadMethod,
}

impl Default for Terms {
    fn default() -> Self {
        let (patience, idle) = (Duration::from_secs(30), Duration::from_secs(60));
        Terms { min_rate: 64 << 10, patience, least_rate: None, idle, upload: UploadMethod::Stream }
    }
}

/// The upload method for a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadMethod {
    /// One request with all bytes as they are produced, then the digest. Falls back to chunks, and then to
    /// whole blobs, if the registry rejects it.
    Stream,
    /// Requests of this size, or of the registry's minimum if that is larger.
    Chunks(u64),
    /// One request with the digest and all bytes.
    Whole,
}

/// The servers of a repository, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) terms: Terms,
}

/// The repository on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: String,
    pub(crate) repository: String,
    pub(crate) access: Access,
    pub(crate) asks: MirrorUse,
    /// The host itself, to which pushes go. False for a mirror.
    pub(crate) origin: bool,
}

impl Config {
    /// Reads the settings of this host and user, and then `file`, which must exist.
    pub fn load(file: Option<&std::path::Path>) -> Result<Config> {
        Config::read(&SettingsPaths::of_user(&|name| std::env::var_os(name)), file)
    }

    /// Reads the files at `paths`, if they exist, and then `file`, which must exist.
    pub fn read(paths: &SettingsPaths, file: Option<&std::path::Path>) -> Result<Config> {
        let mut hosts = BTreeMap::new();
        for path in &paths.ours {
            if let Some(text) = paths::read(path)? {
                hosts.extend(file::parse(path, &text)?);
            }
        }
        if let Some(path) = file {
            let text = paths::read(path)?.ok_or_else(|| {
                Error::usage(format!("the registry settings {} do not exist; check the path", path.display()))
            })?;
            hosts.extend(file::parse(path, &text)?);
        }
        let (theirs, certs_d) = (conf::Conf::read(paths)?, paths.certs_d.clone());
        Ok(Config { hosts, theirs, certs_d, own: None, readers: Readers::User })
    }

    /// Adds the settings of a host's user. They do not apply to mirrors, which are other hosts.
    pub fn with_user_settings(self, host: &str, own: UserSettings) -> Config {
        Config { own: Some((host.to_owned(), own)), ..self }
    }

    /// Sets the audience of error messages.
    pub fn read_by(self, readers: Readers) -> Config {
        Config { readers, ..self }
    }

    /// The servers to ask for `repository` of `host`.
    pub(crate) fn route(&self, host: &str, repository: &str) -> Result<Route> {
        let mut route = match (self.hosts.get(host), self.theirs.find(host, repository)) {
            (Some(ours), _) => ours.route(host, repository),
            (None, Some(theirs)) => theirs.route(host, repository)?,
            (None, None) => Host::default().route(host, repository),
        };
        if self.readers == Readers::Cluster {
            route.terms.least_rate = Some(least_rate::WORKER_RATE);
        }
        for endpoint in &mut route.endpoints {
            endpoint.at_docker_hub();
            endpoint.access.advice = match (self.readers, endpoint.origin) {
                (Readers::User, _) => Advice::Files,
                (Readers::Cluster, true) => Advice::Source,
                (Readers::Cluster, false) => Advice::Mirror,
            };
            if let Some((_, own)) = self.own.as_ref().filter(|(known, _)| endpoint.origin && known == host) {
                own.apply(&mut endpoint.access);
            }
            if endpoint.access.ca.is_empty() && endpoint.access.client.is_none() {
                let found = certs_d::find(&self.certs_d, &endpoint.address)?;
                (endpoint.access.ca, endpoint.access.client) = (found.ca, found.client);
            }
        }
        if route.endpoints.is_empty() {
            let what = "no mirror has this repository and fallback is false; see registries.toml";
            return Err(Error::usage(format!("docker://{host}/{repository}: {what}")));
        }
        Ok(route)
    }
}

impl UserSettings {
    fn apply(&self, access: &mut Access) {
        access.ca.extend(self.ca.iter().cloned());
        if self.insecure {
            access.insecure = true;
            access.scheme = if access.scheme == Scheme::Plain { Scheme::Plain } else { Scheme::Either };
        }
        match &self.login {
            None => {}
            Some(Login::Basic(user, password)) => {
                access.credentials = Source::Given(Secret::new(user), password.clone());
            }
            Some(Login::Config(text)) => access.credentials = Source::Text(text.clone()),
        }
    }
}

impl Default for Host {
    fn default() -> Self {
        Host { mirrors: vec![], fallback: true, own: Access::default(), terms: Terms::default() }
    }
}

impl Host {
    fn route(&self, host: &str, repository: &str) -> Route {
        let mut mirrors: Vec<&MirrorRule> = self.mirrors.iter().collect();
        mirrors.sort_by_key(|mirror| mirror.priority);
        let mut endpoints: Vec<Endpoint> = mirrors.iter().filter_map(|m| m.endpoint(repository)).collect();
        if self.fallback {
            endpoints.push(Endpoint::origin(host, repository, self.own.clone()));
        }
        Route { endpoints, terms: self.terms.clone() }
    }
}

impl MirrorRule {
    /// The mirror's endpoint for a repository. `None` if the mirror's rewriting does not match.
    fn endpoint(&self, repository: &str) -> Option<Endpoint> {
        let rest = repository.strip_prefix(self.rewrite.from.as_str())?;
        Some(Endpoint {
            address: self.address.clone(),
            repository: format!("{}{rest}", self.rewrite.to),
            access: self.access.clone(),
            asks: self.asks,
            origin: false,
        })
    }
}

impl Endpoint {
    fn origin(host: &str, repository: &str, access: Access) -> Endpoint {
        let (address, repository) = (host.to_owned(), repository.to_owned());
        Endpoint { address, repository, access, asks: MirrorUse::All, origin: true }
    }

    /// Replaces `docker.io` with its real host name, and adds `library/` to images without a group.
    fn at_docker_hub(&mut self) {
        if matches!(self.address.as_str(), "docker.io" | "index.docker.io") {
            self.address = "registry-1.docker.io".into();
            if !self.repository.contains('/') {
                self.repository.insert_str(0, "library/");
            }
        }
    }
}

#[cfg(test)]
mod tests;
