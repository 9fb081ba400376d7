//! Build of a container image from a disk, or from a kernel.
//!
//! ```text
//!   Order ──prepare──► the engine's plan, its target a layer
//!                         │ run
//!                         ▼
//!   source ─► engine ─► LayerTarget ─► Tee ─► store, registry, folder, archive     one pass for all of them
//!                         │ layer's digests
//!                         ▼
//!   config ─► manifest ─► under each name; or joined into the index that has the name
//! ```
//!
//! The same disk and the same options give the same bytes, on any host and with any number of threads.

mod addition;
mod boot;

use addition::Addition;
pub use boot::BootFiles;

use crate::convert::{self, PlanJson, Prepared, Request};
use crate::run::watch::Watch;
use crate::target::{Destination, LayerTarget, Target};
use crate::{Error, Result};
use container_disk::image::{self, Recipe};
use container_disk::inputs::Inputs;
use container_disk::manifest::Document;
use container_disk::open::{Goal, Places};
use container_disk::pack;
use container_disk::place::{Reference, SinkLock};
use container_disk::registry::copy::{Options, Progress, copy};
use container_disk::tee::Tee;
use container_disk::{Digest, ErrorKind, Name};
use serde::Serialize;
use std::cell::RefCell;

/// Input of a build.
pub struct Order {
    /// The disk and how it is read and written; its target is a layer of the image. `None`: an image of a
    /// kernel alone.
    pub disk: Option<Request>,
    /// A kernel to boot.
    pub boot: Option<BootFiles>,
    /// Configuration of the image; the layers are added.
    pub recipe: Recipe,
    /// Options for the layers.
    pub pack: pack::Options,
    /// The names of the image.
    pub names: Vec<Name>,
    /// True to add the image to the index of that name, in place of the image of its architecture there.
    pub append: bool,
}

/// The result of a build.
#[derive(Debug, Serialize)]
pub struct Built {
    /// Version of this JSON.
    pub schema: &'static str,
    /// The names of the image.
    pub names: Vec<String>,
    /// Digest of the manifest.
    pub digest: String,
    /// Digest of the index that the image was added to; of the last name, if they have different ones.
    pub index: Option<String>,
    /// The index of each name that the image was added to.
    #[serde(skip)]
    indexes: Vec<Digest>,
    /// Architecture of the image, with its variant.
    #[serde(skip)]
    architecture: String,
    /// The size of the disk that the guest sees; absent for a kernel alone.
    pub virtual_size: Option<u64>,
    /// The layers, lowest first.
    pub layers: Vec<BuiltLayer>,
    /// The report of the disk's conversion.
    pub disk: Option<convert::Report>,
}

/// A layer of the image.
#[derive(Debug, Serialize)]
pub struct BuiltLayer {
    /// Digest of the blob.
    pub digest: String,
    /// Bytes of the blob.
    pub size: u64,
    /// The digest of the tar inside.
    pub diff_id: String,
    /// `none`, `gzip` or `zstd`.
    pub compression: &'static str,
}

/// A build that has been planned.
pub struct Ready {
    order: Order,
    disk: Option<Prepared>,
}

/// Opens the disk and plans. Nothing is written.
pub fn prepare(mut order: Order, watch: &Watch) -> Result<Ready> {
    let Some(first) = order.names.first() else {
        return Err(Error::new(
            crate::ErrorKind::Usage,
            "an image without a name would be lost; give one with -t",
        ));
    };
    let disk = match order.disk.take() {
        Some(request) => {
            let target = Destination::Image(first.to_string());
            Some(convert::prepare(Request { target, ..request }, watch)?)
        }
        None => None,
    };
    Ok(Ready { order, disk })
}

impl Ready {
    /// Warning about bytes of the disk's file that are not of its disk.
    pub fn leftover_warning(&self) -> Option<String> {
        self.disk.as_ref().and_then(Prepared::leftover_warning)
    }

    /// The plan as JSON and text.
    pub fn plan(&self, places: &Places) -> Result<BuildPlan> {
        let images = self.order.names.iter().map(|name| {
            let waits = match name {
                Name::Registry(remote) => places.registries()?.open(remote)?.wants_digest_first(),
                _ => false,
            };
            Ok(PlannedImage { name: name.to_string(), waits })
        });
        Ok(BuildPlan {
            schema: "coracle.build-plan/v1",
            disk: self.disk.as_ref().map(Prepared::plan_json),
            images: images.collect::<Result<_>>()?,
            text: self.disk.as_ref().map(Prepared::plan_text).unwrap_or_default(),
        })
    }

    /// Builds the image and sends it to all its names.
    pub fn run(self, places: &Places, watch: &Watch) -> Result<Built> {
        let Ready { mut order, disk } = self;
        let inputs = inputs(disk.as_ref(), order.boot.as_ref())?;
        let goals = order.names.iter().map(|name| Ok(places.goal(name, &inputs)?));
        let goals = goals.collect::<Result<Vec<_>>>()?;
        // The store can send the image again, so the other sinks may fall behind it.
        let leader = order.names.iter().position(|name| matches!(name, Name::Store(_)));
        let sink = Tee::new(goals.iter().map(|goal| goal.sink.clone()).collect(), |at| {
            leader.is_none_or(|leader| leader == at)
        });
        let mut report = None;
        if let Some(prepared) = disk {
            let (layer, told) = disk_layer(prepared, &sink, &order.pack, places, watch)?;
            order.recipe.layers.push(layer);
            report = Some(told);
        }
        if let Some(boot) = &order.boot {
            order.recipe.layers.push(boot.layer(&sink, &order.pack, &mut order.recipe.labels)?);
        }
        let document = image::write(&sink, &order.recipe, &[])?;
        for (at, why) in sink.fallen() {
            let Some(leader) = leader else { return Err(why.into()) };
            send_again(places, &order.names[leader], &document, &goals[at])?;
        }
        let mut indexes = vec![];
        for (goal, name) in goals.iter().zip(&order.names) {
            // Another build may add its image to the same index now.
            let _lock = if order.append { goal.sink.lock()? } else { SinkLock::default() };
            match order.append {
                true => indexes.push(joined(places, name, goal, &document, &order.recipe)?),
                false => goal.sink.put(&document, goal.tag.as_deref())?,
            }
            goal.sink.close()?;
        }
        Ok(Built {
            schema: "coracle.build/v1",
            names: order.names.iter().map(Name::to_string).collect(),
            digest: document.digest.to_string(),
            index: indexes.last().map(Digest::to_string),
            indexes,
            architecture: match &order.recipe.variant {
                Some(variant) => format!("{}/{variant}", order.recipe.architecture),
                None => order.recipe.architecture.clone(),
            },
            virtual_size: report.as_ref().map(|report| report.virtual_size),
            layers: order.recipe.layers.iter().map(BuiltLayer::of).collect(),
            disk: report,
        })
    }
}

/// The plan of a build.
#[derive(Debug, Serialize)]
pub struct BuildPlan {
    /// Version of this JSON.
    pub schema: &'static str,
    /// The plan of the disk's conversion; `None` for a kernel alone.
    pub disk: Option<PlanJson>,
    /// The names of the image.
    pub images: Vec<PlannedImage>,
    #[serde(skip)]
    text: String,
}

/// A name that an image will have.
#[derive(Debug, Serialize)]
pub struct PlannedImage {
    pub name: String,
    /// True if the packed layer waits in a spool, since the registry needs its digest first.
    pub waits: bool,
}

impl BuildPlan {
    /// The plan as text.
    pub fn text(&self) -> String {
        let images = self.images.iter().map(|image| {
            let how = match image.waits {
                true => "the registry wants the digest first: the packed layer waits in a spool in the store's folder",
                false => "written as it is made",
            };
            format!("image     {}: {how}\n", image.name)
        });
        self.text.clone() + &images.collect::<String>()
    }
}

impl Built {
    /// The result in one line of text.
    pub fn sentence(&self) -> String {
        let size = self.layers.iter().map(|layer| layer.size).sum();
        let size = crate::size::human(size);
        let padding = self.disk.as_ref().map(convert::Report::padding).unwrap_or_default();
        let image = format!("{} in {} layer(s), {size}{padding}", self.digest, self.layers.len());
        if self.indexes.is_empty() {
            return format!("{}: {image}", self.names.join(", "));
        }
        // A name stands for its index; names may have had other images before.
        let names = self.names.iter().zip(&self.indexes);
        let names: Vec<String> = names.map(|(name, index)| format!("{name}: {index}")).collect();
        format!("{}, an index in which the image for {} is {image}", names.join(", "), self.architecture)
    }
}

impl BuiltLayer {
    fn of(layer: &pack::Layer) -> BuiltLayer {
        BuiltLayer {
            digest: layer.digest.to_string(),
            size: layer.size,
            diff_id: layer.diff_id.to_string(),
            compression: layer.compression.name(),
        }
    }
}

/// Files that the image is made of.
fn inputs(disk: Option<&Prepared>, boot: Option<&BootFiles>) -> Result<Inputs> {
    let inputs = disk.map_or(Ok(Inputs::default()), Prepared::inputs)?;
    let mut files = boot.into_iter().flat_map(|boot| std::iter::once(&boot.kernel).chain(&boot.initrd));
    Ok(files.try_fold(inputs, |inputs, file| inputs.with_path(file))?)
}

/// Copies the image from the store to a sink that fell behind.
fn send_again(places: &Places, from: &Name, document: &Document, to: &Goal) -> Result<()> {
    let (found, which) = (places.find(from)?, Reference::Digest(document.digest));
    copy(&*found.place, &which, &*to.sink, None, &Options::default(), &Progress::default())?;
    Ok(())
}

fn disk_layer(
    prepared: Prepared,
    sink: &Tee,
    options: &pack::Options,
    places: &Places,
    watch: &Watch,
) -> Result<(pack::Layer, convert::Report)> {
    let folder = places.make_store_folder()?;
    let made = RefCell::default();
    let is_raw = prepared.writes_raw();
    let layer = || -> Box<dyn Target> {
        let target = LayerTarget::new(sink, *options, folder.clone()).for_raw_disk(is_raw);
        *made.borrow_mut() = target.made();
        Box::new(target)
    };
    let report = prepared.run_into(layer, &folder, watch)?;
    let layer = made.into_inner().get().cloned();
    Ok((layer.ok_or_else(|| Error::failed("the disk is written and has no layer"))?, report))
}

/// Adds the image to the index of that name, and returns the digest of the index. A missing index is created.
fn joined(places: &Places, name: &Name, goal: &Goal, document: &Document, recipe: &Recipe) -> Result<Digest> {
    let mut addition = Addition::new(document, recipe);
    if let (Some(registry), Some(tag)) = (&goal.registry, &goal.tag) {
        return Ok(registry.update(tag, |there| addition.next(there, &**registry))?);
    }
    let there =
        places.find(name).and_then(|found| Ok((found.place.document(&found.reference)?, found.place)));
    let index = match there {
        Ok((there, place)) => addition.to_document(&there, &*place)?,
        Err(e) if e.kind() == ErrorKind::NotFound => addition.alone()?,
        Err(e) => return Err(e.into()),
    };
    goal.sink.put(&index, goal.tag.as_deref())?;
    Ok(index.digest)
}
