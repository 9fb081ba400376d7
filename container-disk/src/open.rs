//! The one place where a [`Name`] becomes a place to read images from, or a sink to write them to.

use crate::archive::{DockerArchive, DockerArchiveSink, OciArchive, OciArchiveSink};
use crate::layout::Layout;
use crate::place::{Place, Sink, Which};
use crate::registry::config::{Own, Readers};
use crate::registry::{Config, Counted, Registries, Registry};
use crate::spooled::Spooled;
use crate::store::{self, Store};
use crate::{Digest, Error, Name, Result};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// All places that this user can name.
pub struct Places {
    store: Option<PathBuf>,
    config: Option<PathBuf>,
    own: Option<(String, Own)>,
    readers: Readers,
    registries: OnceLock<Registries>,
}

/// An image to be read.
pub struct FoundImage {
    /// Where it is.
    pub place: Arc<dyn Place>,
    /// Which one of those that are there.
    pub which: Which,
}

impl FoundImage {
    /// The document of this digest, wherever the name leads by now.
    pub fn exactly(self, digest: Digest) -> FoundImage {
        FoundImage { which: Which::Digest(digest), ..self }
    }
}

/// A name to be written.
pub struct Goal {
    /// Where it goes.
    pub sink: Arc<dyn Sink>,
    /// The tag it gets there.
    pub tag: Option<String>,
    /// The registry, where it is one: blobs may be mounted there.
    pub registry: Option<Arc<Registry>>,
}

impl Places {
    /// Registries as this file says, or else the user's and the system's, and the user's own store. None of these is
    /// looked at before a name needs it.
    pub fn new(config: Option<PathBuf>) -> Places {
        Places { store: None, config, own: None, readers: Readers::User, registries: OnceLock::new() }
    }

    /// The same places, for other readers of what is said of registries.
    pub fn read_by(self, readers: Readers) -> Places {
        Places { readers, ..self }
    }

    /// The same places, with what the user of a registry says of it; nothing that these have learnt.
    pub fn for_user_of(&self, host: &str, own: Own) -> Places {
        let own = Some((host.to_owned(), own));
        Places {
            store: self.store.clone(),
            config: self.config.clone(),
            own,
            readers: self.readers,
            registries: OnceLock::new(),
        }
    }

    /// Another folder for the store.
    pub fn with_store(mut self, folder: PathBuf) -> Places {
        self.store = Some(folder);
        self
    }

    /// The registries.
    pub fn registries(&self) -> Result<&Registries> {
        if let Some(registries) = self.registries.get() {
            return Ok(registries);
        }
        let mut config = Config::load(self.config.as_deref())?.read_by(self.readers);
        if let Some((host, own)) = &self.own {
            config = config.with_own(host, own.clone());
        }
        Ok(self.registries.get_or_init(|| Registries::new(config)))
    }

    /// Looks up everything on this host that a registry of this name needs, before the program gives up its rights:
    /// settings, and who we are, for which a program may be started. Gives the files that are read later: certificates.
    pub fn ready(&self, name: &Name) -> Result<Vec<PathBuf>> {
        match name {
            Name::Registry(remote) => self.registries()?.ready(remote),
            _ => Ok(vec![]),
        }
    }

    /// What all transfers with registries came to.
    pub fn counted(&self) -> Counted {
        self.registries.get().map(|registries| registries.counters().now()).unwrap_or_default()
    }

    /// The folder of the store.
    pub fn store_folder(&self) -> Result<PathBuf> {
        self.store.clone().map_or_else(store::folder, Ok)
    }

    /// The same, made where it does not exist.
    pub fn make_store_folder(&self) -> Result<PathBuf> {
        let folder = self.store_folder()?;
        store::make(&folder)?;
        Ok(folder)
    }

    /// The store, made where it does not exist.
    pub fn store(&self) -> Result<Store> {
        Store::open(&self.store_folder()?)
    }

    /// The store as it is; an error where there is none.
    pub fn store_to_read(&self) -> Result<Store> {
        Store::read(&self.store_folder()?)
    }

    /// An image that exists by this name. Registries are not asked before a document is wanted.
    pub fn find(&self, name: &Name) -> Result<FoundImage> {
        let found = |place: Arc<dyn Place>, which| Ok(FoundImage { place, which });
        match name {
            Name::Registry(remote) => found(Arc::new(self.registries()?.open(remote)?), remote.which()),
            Name::Store(local) => found(Arc::new(self.store_to_read()?), local.which()),
            Name::Layout(path, tag) => {
                let layout = Layout::open(path)?;
                let which = layout.which(tag.as_deref())?;
                found(Arc::new(layout), which)
            }
            Name::OciArchive(path, tag) => {
                let archive = OciArchive::open(path)?;
                let which = archive.which(tag.as_deref())?;
                found(Arc::new(archive), which)
            }
            Name::DockerArchive(path, tag) => {
                let archive = DockerArchive::open(path)?;
                let which = archive.which(tag.as_deref())?;
                found(Arc::new(archive), which)
            }
        }
    }

    /// A sink for this name.
    pub fn goal(&self, name: &Name) -> Result<Goal> {
        let goal = |sink: Arc<dyn Sink>, tag| Ok(Goal { sink, tag, registry: None });
        match name {
            Name::Registry(remote) if remote.digest.is_some() => {
                Err(Error::usage(format!("{name}: a digest cannot be chosen; give a tag")))
            }
            Name::Registry(remote) => {
                let registry = Arc::new(self.registries()?.open(remote)?);
                let sink: Arc<dyn Sink> = match registry.wants_digest_first() {
                    true => Arc::new(Spooled::new(registry.clone(), self.store_folder()?)),
                    false => registry.clone(),
                };
                Ok(Goal { sink, tag: remote.tag.clone(), registry: Some(registry) })
            }
            Name::Store(local) => goal(Arc::new(self.store()?), Some(local.to_string())),
            Name::Layout(path, tag) => goal(Arc::new(Layout::create(path)?), named(tag)),
            Name::OciArchive(path, tag) => goal(Arc::new(OciArchiveSink::create(path)?), named(tag)),
            Name::DockerArchive(path, tag) => goal(Arc::new(DockerArchiveSink::create(path)?), tag.clone()),
        }
    }
}

/// An image without a name in its layout could not be told from the next one.
fn named(tag: &Option<String>) -> Option<String> {
    Some(tag.clone().unwrap_or_else(|| "latest".to_owned()))
}
