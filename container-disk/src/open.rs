//! The only module that turns a [`Name`] into a place to read images from, or a sink to write them to.

use crate::archive::{DockerArchive, DockerArchiveSink, OciArchive, OciArchiveSink};
use crate::inputs::Inputs;
use crate::layout::Layout;
use crate::place::{Place, Reference, Sink};
use crate::registry::config::{Readers, UserSettings};
use crate::registry::{Config, Registries, Registry, TransferCounts};
use crate::spooled::Spooled;
use crate::store::{self, Store};
use crate::{Digest, Error, Name, Result};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// All places that the user can name: the store, layouts, archives, registries.
pub struct Places {
    store: Option<PathBuf>,
    config: Option<PathBuf>,
    own: Option<(String, UserSettings)>,
    readers: Readers,
    registries: OnceLock<Registries>,
}

/// An image to read.
pub struct FoundImage {
    /// The place that holds the image.
    pub place: Arc<dyn Place>,
    /// The reference of the image in that place.
    pub reference: Reference,
}

impl FoundImage {
    /// The same image by the digest of its document, even if the tag has moved.
    pub fn exactly(self, digest: Digest) -> FoundImage {
        FoundImage { reference: Reference::Digest(digest), ..self }
    }
}

/// A destination for an image.
pub struct Goal {
    /// The sink to write to.
    pub sink: Arc<dyn Sink>,
    /// The tag for the image.
    pub tag: Option<String>,
    /// The registry, if the sink is one. Blobs may be mounted there from other repositories.
    pub registry: Option<Arc<Registry>>,
}

impl Places {
    /// Uses the registry settings of the file `config`, or else those of the user and the system, and the
    /// user's own store. All of them are loaded when a name needs them.
    pub fn new(config: Option<PathBuf>) -> Places {
        Places { store: None, config, own: None, readers: Readers::User, registries: OnceLock::new() }
    }

    /// The same places, with registry errors worded for other readers.
    pub fn read_by(self, readers: Readers) -> Places {
        Places { readers, ..self }
    }

    /// The same places with registry settings of one user for `host`, and without cached state.
    pub fn for_user_of(&self, host: &str, own: UserSettings) -> Places {
        let own = Some((host.to_owned(), own));
        Places {
            store: self.store.clone(),
            config: self.config.clone(),
            own,
            readers: self.readers,
            registries: OnceLock::new(),
        }
    }

    /// The same places with another folder for the store.
    pub fn with_store(mut self, folder: PathBuf) -> Places {
        self.store = Some(folder);
        self
    }

    /// The registry client, with its settings loaded.
    pub fn registries(&self) -> Result<&Registries> {
        if let Some(registries) = self.registries.get() {
            return Ok(registries);
        }
        let mut config = Config::load(self.config.as_deref())?.read_by(self.readers);
        if let Some((host, own)) = &self.own {
            config = config.with_user_settings(host, own.clone());
        }
        Ok(self.registries.get_or_init(|| Registries::new(config)))
    }

    /// Loads everything on this host that the registry of `name` needs, before the program is confined:
    /// settings and credentials, for which a helper program may be run. Returns the files that are read
    /// later: certificates.
    pub fn ready(&self, name: &Name) -> Result<Vec<PathBuf>> {
        match name {
            Name::Registry(remote) => self.registries()?.ready(remote),
            _ => Ok(vec![]),
        }
    }

    /// Totals of all transfers with registries.
    pub fn transfer_counts(&self) -> TransferCounts {
        self.registries.get().map(|registries| registries.counters().now()).unwrap_or_default()
    }

    /// The folder of the store.
    pub fn store_folder(&self) -> Result<PathBuf> {
        self.store.clone().map_or_else(store::folder, Ok)
    }

    /// The folder of the store, created if it does not exist.
    pub fn make_store_folder(&self) -> Result<PathBuf> {
        let folder = self.store_folder()?;
        store::make(&folder)?;
        Ok(folder)
    }

    /// Opens the store, and creates it if it does not exist.
    pub fn store(&self) -> Result<Store> {
        Store::open(&self.store_folder()?)
    }

    /// Opens the existing store. Fails if it does not exist.
    pub fn store_to_read(&self) -> Result<Store> {
        Store::read(&self.store_folder()?)
    }

    /// Opens the place of an existing image. A registry is not contacted before a document is read.
    pub fn find(&self, name: &Name) -> Result<FoundImage> {
        let found = |place: Arc<dyn Place>, reference| Ok(FoundImage { place, reference });
        match name {
            Name::Registry(remote) => found(Arc::new(self.registries()?.open(remote)?), remote.reference()),
            Name::Store(local) => found(Arc::new(self.store_to_read()?), local.reference()),
            Name::Layout(path, tag) => {
                let layout = Layout::open(path)?;
                let reference = layout.reference(tag.as_deref())?;
                found(Arc::new(layout), reference)
            }
            Name::OciArchive(path, tag) => {
                let archive = OciArchive::open(path)?;
                let reference = archive.reference(tag.as_deref())?;
                found(Arc::new(archive), reference)
            }
            Name::DockerArchive(path, tag) => {
                let archive = DockerArchive::open(path)?;
                let reference = archive.reference(tag.as_deref())?;
                found(Arc::new(archive), reference)
            }
        }
    }

    /// Opens a sink for this name. An archive is refused where it would replace or remove one of the
    /// `inputs`, which are all files that the image is made of.
    pub fn goal(&self, name: &Name, inputs: &Inputs) -> Result<Goal> {
        if let Name::OciArchive(path, _) | Name::DockerArchive(path, _) = name {
            inputs.refuse_target(path)?;
        }
        let goal = |sink: Arc<dyn Sink>, tag| Ok(Goal { sink, tag, registry: None });
        match name {
            Name::Registry(remote) if remote.digest.is_some() => Err(Error::usage(format!(
                "{name}: an image cannot be written under a given digest; give a tag"
            ))),
            Name::Registry(remote) => {
                let registry = Arc::new(self.registries()?.open(remote)?);
                let sink: Arc<dyn Sink> = match registry.wants_digest_first() {
                    true => Arc::new(Spooled::new(registry.clone(), self.store_folder()?)),
                    false => registry.clone(),
                };
                Ok(Goal { sink, tag: remote.tag.clone(), registry: Some(registry) })
            }
            Name::Store(local) => goal(Arc::new(self.store()?), Some(local.to_string())),
            Name::Layout(path, tag) => goal(Arc::new(Layout::create(path)?), tag_or_latest(tag)),
            Name::OciArchive(path, tag) => goal(Arc::new(OciArchiveSink::create(path)?), tag_or_latest(tag)),
            Name::DockerArchive(path, tag) => goal(Arc::new(DockerArchiveSink::create(path)?), tag.clone()),
        }
    }
}

/// The tag, `latest` by default. Without a tag an image could not be distinguished from others in the layout.
fn tag_or_latest(tag: &Option<String>) -> Option<String> {
    Some(tag.clone().unwrap_or_else(|| "latest".to_owned()))
}
