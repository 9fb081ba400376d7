//! Which registries are asked for a name, in which order, and how.
//!
//! ```text
//!  registries.toml  (/etc/coracle, the user's folder, --registries)      file.rs ──┐
//!  registries.conf and its .d folders, of podman and skopeo               conf.rs ──┤─► Config ─ route(host, repo) ─► Route:
//!  certs.d folders, of docker and podman                                certs_d.rs ─┘                       endpoints in order
//! ```
//!
//! Ours is read strictly: an unknown key is an error that names the file and the key. What belongs to others is read as
//! far as we know it, and the rest is a warning. A host that has a table in a later file of ours replaces the table of
//! an earlier one; a host that only `registries.conf` knows is asked as that says.
//!
//! **Without any file** a host is asked itself, over TLS. One at a loopback address (`localhost`, `127.0.0.0/8`, `::1`)
//! is asked in plain where it does not speak TLS, as docker does: such bytes stay on the loopback. Any other host
//! needs `plain-http = true`.

mod advice;
mod certs_d;
mod conf;
mod file;
mod places;
mod units;

pub(crate) use advice::Advice;
pub(crate) use file::{CHUNK, LARGEST_CHUNK};
pub use places::Places;
pub(crate) use places::read as read_file;

use crate::{Error, Result};
use fetch::{LeastRate, Secret, least_rate};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Every setting about registries.
#[derive(Debug, Clone, Default)]
pub struct Config {
    hosts: BTreeMap<String, Host>,
    theirs: conf::Conf,
    certs_d: Vec<PathBuf>,
    /// A host, and what its user says of it beside all files.
    own: Option<(String, Own)>,
    /// Who reads what is said of a server, and sets what is asked for.
    readers: Readers,
}

/// What the user of one host says of it, for one piece of work: it stands before what files say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own {
    /// Who asks. Unset: as files say.
    pub login: Option<Login>,
    /// Files with certificates (PEM) to trust beside the system's.
    pub ca: Vec<PathBuf>,
    /// Its certificate is not checked, and plain HTTP is spoken where it does not know TLS.
    pub insecure: bool,
}

/// Who reads what is said of a server: settings have other names for a user than in a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Readers {
    /// A user of this computer, whose files are read.
    #[default]
    User,
    /// The author of a DataVolume, or who exports a PVC, and the administrator of a cluster.
    Cluster,
}

/// Who asks a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// A user and a password.
    Basic(String, Secret),
    /// The text of a docker `config.json`. Programs that it names are not started.
    Config(Secret),
}

/// What is set for one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    mirrors: Vec<MirrorRule>,
    fallback: bool,
    own: Access,
    terms: Terms,
}

/// A place that has what a host has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MirrorRule {
    address: String,
    priority: i64,
    rewrite: Rewrite,
    asks: Asks,
    access: Access,
}

/// A repository that begins with `from` is found under `to` instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rewrite {
    from: String,
    to: String,
}

/// How one server is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Access {
    pub(crate) scheme: Scheme,
    pub(crate) insecure: bool,
    pub(crate) ca: Vec<PathBuf>,
    pub(crate) client: Option<(PathBuf, PathBuf)>,
    pub(crate) credentials: Source,
    /// What to do about a server that is not believed or does not let us in.
    pub(crate) advice: Advice,
}

/// What is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    /// TLS; at a loopback address plain HTTP where the server does not know TLS.
    #[default]
    Usual,
    /// Plain HTTP.
    Plain,
    /// TLS, or plain HTTP where the server does not know it.
    Either,
}

/// Where user and password come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// The files of docker and podman that people already have.
    #[default]
    Usual,
    /// Nowhere.
    Nothing,
    /// A file in the form of docker's `config.json`.
    File(PathBuf),
    /// The program `docker-credential-NAME`.
    Helper(String),
    /// This user.
    Given(Secret, Secret),
    /// The text of a file in the form of docker's `config.json`.
    Text(Secret),
}

/// What a mirror is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Everything.
    #[default]
    All,
    /// Documents by digest, and blobs.
    Digests,
    /// Documents by tag, and what they lead to.
    Tags,
}

/// What is expected of whoever is asked, and how blobs are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Bytes per second under which a mirror is left, where another one is there.
    pub(crate) min_rate: u64,
    /// For how long it may be under that.
    pub(crate) patience: Duration,
    /// Bytes per second under which a transfer ends, whoever else is there.
    pub(crate) least_rate: Option<LeastRate>,
    /// How long nothing at all may come.
    pub(crate) idle: Duration,
    /// How blobs go up.
    pub(crate) upload: Manner,
}

impl Default for Terms {
    fn default() -> Self {
        let (patience, idle) = (Duration::from_secs(30), Duration::from_secs(60));
        Terms { min_rate: 64 << 10, patience, least_rate: None, idle, upload: Manner::Stream }
    }
}

/// How a blob is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// One request with all bytes as they are made, then the digest. A registry that does not take it is sent chunks,
    /// and one that does not take those, whole blobs.
    Stream,
    /// Requests of so many bytes, or of the least that the registry takes.
    Chunks(u64),
    /// One request with digest and bytes.
    Whole,
}

/// Who is asked for a repository, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) terms: Terms,
}

/// A repository of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: String,
    pub(crate) repository: String,
    pub(crate) access: Access,
    pub(crate) asks: Asks,
    /// The host itself, whom pushes go to.
    pub(crate) origin: bool,
}

impl Config {
    /// Reads the files of this host and user, and then `file`, which must exist.
    pub fn load(file: Option<&std::path::Path>) -> Result<Config> {
        Config::read(&Places::of_user(&|name| std::env::var_os(name)), file)
    }

    /// Reads the files at `places`, as far as they exist, and then `file`, which must.
    pub fn read(places: &Places, file: Option<&std::path::Path>) -> Result<Config> {
        let mut hosts = BTreeMap::new();
        for path in &places.ours {
            if let Some(text) = places::read(path)? {
                hosts.extend(file::parse(path, &text)?);
            }
        }
        if let Some(path) = file {
            let text = places::read(path)?.ok_or_else(|| {
                Error::usage(format!(
                    "{}: there is no such file; it was given for registries",
                    path.display()
                ))
            })?;
            hosts.extend(file::parse(path, &text)?);
        }
        let (theirs, certs_d) = (conf::Conf::read(places)?, places.certs_d.clone());
        Ok(Config { hosts, theirs, certs_d, own: None, readers: Readers::User })
    }

    /// The same with what the user of a host says of it. A mirror is another host, and hears nothing of it.
    pub fn with_own(self, host: &str, own: Own) -> Config {
        Config { own: Some((host.to_owned(), own)), ..self }
    }

    /// The same for other readers.
    pub fn read_by(self, readers: Readers) -> Config {
        Config { readers, ..self }
    }

    /// Who is asked for `repository` of `host`.
    pub(crate) fn route(&self, host: &str, repository: &str) -> Result<Route> {
        let mut route = match (self.hosts.get(host), self.theirs.find(host, repository)) {
            (Some(ours), _) => ours.route(host, repository),
            (None, Some(theirs)) => theirs.route(host, repository)?,
            (None, None) => Host::default().route(host, repository),
        };
        if self.readers == Readers::Cluster {
            route.terms.least_rate = Some(least_rate::UNWATCHED);
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

impl Own {
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
    /// Where it has the repository; `None` when its rewriting is not for this one.
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
        Endpoint { address, repository, access, asks: Asks::All, origin: true }
    }

    /// What everybody calls `docker.io` is another host, and its images without a group are in `library`.
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
