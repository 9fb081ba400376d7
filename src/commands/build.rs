//! The verb `coracle build`.

mod volume;

use super::complete;
use super::disk::{DiskArgs, compression};
use super::image_name::{self, names_help};
use super::pull::local_name;
use super::source::SourceArgs;
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use cdi::build::{BootFiles, Order, prepare};
use cdi::convert::{Keep, Request};
use cdi::permissions::Permissions;
use cdi::plan::Output;
use cdi::run::watch::Watch;
use cdi::source::SourceSpec;
use cdi::target::Destination;
use clap_complete::engine::ArgValueCompleter;
use container_disk::image::{HINTS, ManifestFormat, Recipe, hints, time};
use container_disk::open::Places;
use container_disk::reference::Local;
use container_disk::registry::UPLOAD_MEMORY;
use container_disk::{Name, pack};
use disk_format::Codec;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum memory for packing a layer in bytes. A build uses a quarter of --memory up to this value, so that
/// it stays small on computers with many cores.
const PACKING: u64 = 32 << 20;
/// Maximum number of decoding threads while clusters are not compressed.
const CARRIERS: usize = 2;
/// Default command line of a kernel: its console is the serial port.
const SERIAL: &str = "console=ttyS0";

/// Build a container image from a disk or a kernel
///
/// DISK is any source of convert: a path, a URL, '-', an ISO, a qcow2, a raw
/// disk, any of them inside gzip, xz, zstd or tar, or another image. In one
/// pass the disk becomes a containerDisk: one file under /disk, owned by
/// 107:107, mode 0444. The same disk and options give the same digest on any
/// computer.
///
/// pvc/NAME and dv/NAME are a PVC of a cluster: a pod there reads it and sends
/// the image to the registry, and no byte passes this computer. ./pvc/NAME is
/// a file.
#[derive(Debug, clap::Args)]
#[command(after_help = names_help!("Examples:\n  \
    coracle build -t os:12 debian.qcow2\n  \
    coracle build -t docker://registry.example/os:12 https://server/os.raw.xz\n  \
    coracle build -t registry.example/os:12 --push --keep os.qcow2\n  \
    coracle build -t docker://registry.example/os:12 pvc/golden -n images --secret login\n  \
    coracle build -t os:12 --arch arm64 --append-arch os-arm64.qcow2\n  \
    coracle build -t boot:1 --kernel vmlinuz --initrd initrd.img"))]
pub(crate) struct Args {
    /// Source of the disk; optional with --kernel
    #[arg(value_name = "DISK", required_unless_present = "kernel", add = ArgValueCompleter::new(volume::complete))]
    disk: Option<String>,

    /// Name of the image; may be given several times. HOST/REPO and docker://
    /// are sent to the registry, oci:, oci-archive:, docker-archive: write
    /// there; any other name is one in the store
    #[arg(short = 't', long = "tag", value_name = "NAME", required = true, add = ArgValueCompleter::new(complete::image))]
    names: Vec<String>,

    /// Send the image to the registry in its name. With docker:// it is sent
    /// in any case, and for now --push alone also keeps it, as --keep does
    #[arg(long)]
    push: bool,

    /// Keep an image that is written elsewhere in the store, too, under its
    /// full name
    #[arg(long)]
    keep: bool,

    /// Format of the disk in the image [default: a qcow2 is kept unless it has
    /// snapshots or deleted data, an ISO stays raw, any other raw disk becomes
    /// a qcow2, which stores no holes]
    #[arg(long, value_enum)]
    format: Option<Inside>,

    /// Compression of the qcow2 clusters: zlib or zstd, with an optional level
    /// (zstd:9); the layer is compressed anyway
    #[arg(long, value_name = "CODEC[:LEVEL]", value_parser = compression)]
    compress: Option<(Codec, u8)>,

    /// Compression of the image layer
    #[arg(long, value_enum, default_value_t = Layer::Zstd)]
    layer: Layer,

    /// Manifest format of the image; docker supports neither zstd nor annotations
    #[arg(long, value_enum, default_value_t = Manifest::Oci)]
    manifest: Manifest,

    /// Label of the image configuration: NAME=VALUE
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,

    /// Annotation of the image manifest: NAME=VALUE
    #[arg(long = "annotation", value_name = "NAME=VALUE", value_parser = pair)]
    annotations: Vec<(String, String)>,

    /// Default instance type of VMs with this disk
    #[arg(long, value_name = "NAME")]
    instancetype: Option<String>,

    /// Default preference of VMs with this disk
    #[arg(long, value_name = "NAME")]
    preference: Option<String>,

    /// Creation time of the image: 2026-01-31T12:00:00Z, or seconds since 1970
    /// [default: none, for reproducible digests]
    #[arg(long, value_name = "TIME", env = "SOURCE_DATE_EPOCH", value_parser = date)]
    created: Option<u64>,

    /// Add the image to the multi-platform index of that name, replacing the
    /// image for --arch; the digests of both are printed
    #[arg(long)]
    append_arch: bool,

    /// Kernel for VMs that boot without a boot loader
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,

    /// Initrd that the kernel boots with
    #[arg(long, value_name = "FILE", requires = "kernel")]
    initrd: Option<PathBuf>,

    /// Command line of the kernel
    #[arg(long, value_name = "TEXT", requires = "kernel", default_value = SERIAL)]
    cmdline: String,

    #[command(flatten)]
    work: DiskArgs,

    #[command(flatten)]
    from: SourceArgs,

    #[command(flatten)]
    volume: volume::VolumeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Inside {
    /// Source file, stored unchanged
    Keep,
    /// Raw disk with the guest's data
    Raw,
    /// qcow2 image without a backing file
    Qcow2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Layer {
    None,
    Gzip,
    Zstd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Manifest {
    Oci,
    Docker,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some((kind, name)) = args.disk.as_deref().and_then(volume::named) {
        return volume::run(args, kind, name);
    }
    volume::refuse(&args.volume)?;
    let options = args.from.options()?;
    let places = options.places.clone();
    let names = names(args, &places)?;
    let threads = args.work.threads();
    let sending =
        names.iter().filter(|name| matches!(name, Name::Registry(_))).count() as u64 * UPLOAD_MEMORY;
    let packing = PACKING.min(args.work.memory.saturating_sub(sending) / 4);
    let beside = vec![("packing", packing), ("sending", sending)];
    let disk = args.disk.as_ref().map(|disk| request(args, disk, options, beside)).transpose()?;
    let order = Order {
        disk,
        boot: args.kernel.as_ref().map(|kernel| BootFiles {
            kernel: kernel.clone(),
            initrd: args.initrd.clone(),
            cmdline: args.cmdline.clone(),
        }),
        recipe: recipe(args)?,
        pack: pack::Options {
            compression: args.layer.into(),
            created: args.created.unwrap_or(0),
            threads,
            memory: packing as usize,
        },
        names,
        append: args.append_arch,
    };
    reach(args, &order, &places)?.enter();
    let watch = Arc::new(Watch::default());
    if !args.work.plan {
        ui::on_interrupt(watch.clone())?;
    }
    let ready = prepare(order, &watch)?;
    if args.work.plan {
        let plan = ready.plan(&places)?;
        return if args.work.output.is_json() { ui::json(&plan) } else { ui::out(&plan.text()) };
    }
    if let Some(warning) = ready.leftover_warning() {
        ui::say(&format!("coracle: warning: {warning}"));
    }
    let progress = ui::Progress::of(&watch, args.work.show());
    let built = ready.run(&places, &watch);
    drop(progress);
    let built = built?;
    if args.work.output.is_json() {
        return ui::json(&built);
    }
    if !args.work.quiet {
        ui::say(&built.sentence());
    }
    Ok(())
}

/// Access of a build: its disk, its kernel, its names, and the store, which holds temporary files.
fn reach(args: &Args, order: &Order, places: &Places) -> Result<Permissions> {
    let mut reach = Permissions::new();
    if let Some(disk) = &order.disk {
        reach = reach.source(&disk.source, &disk.options)?;
    }
    for file in args.kernel.iter().chain(&args.initrd) {
        reach = reach.file(file);
    }
    if args.work.plan {
        // A plan only looks names up in registries.
        return Ok(order.names.iter().try_fold(reach, |reach, name| reach.image(name, places))?);
    }
    Ok(order.names.iter().try_fold(reach.store(places)?, |reach, name| reach.goal(name, places))?)
}

/// Memory that other parts of a build need while the disk is read.
type OtherMemory = Vec<(&'static str, u64)>;

fn request(args: &Args, disk: &str, options: cdi::source::Options, beside: OtherMemory) -> Result<Request> {
    let cluster_bits = 16;
    let qcow2 = Output::Qcow2 { cluster_bits, compress: args.compress };
    let (keep, output) = match args.format {
        None => (Keep::UnlessRaw(qcow2), Output::Raw),
        Some(Inside::Keep) => (Keep::Yes, Output::Raw),
        Some(Inside::Raw) => (Keep::No, Output::Raw),
        Some(Inside::Qcow2) => (Keep::No, qcow2),
    };
    if args.compress.is_some() && matches!(args.format, Some(Inside::Keep | Inside::Raw)) {
        let what = "--compress is for a qcow2 that is written; drop it, or give --format qcow2";
        return Err(Error::new(ErrorKind::Usage, what));
    }
    let mut wishes = args.work.wishes(&args.from);
    wishes.beside = beside;
    if args.compress.is_none() {
        // Packing is the bottleneck: more decoding threads would only use memory.
        wishes.threads = wishes.threads.min(CARRIERS);
    }
    let source = SourceSpec::resolve(disk, &options)?;
    let source_format = args.work.source_format_of(&source)?;
    // The build makes the disk a layer of the image.
    let request = Request::new(source, Destination::Null, options, wishes);
    Ok(Request { source_format, keep, output, ..request })
}

fn recipe(args: &Args) -> Result<Recipe> {
    let arch = args.from.image().arch;
    let (arch, variant) = match arch.split_once('/') {
        Some((arch, variant)) => (arch, Some(variant.to_owned())),
        None => (arch.as_str(), None),
    };
    let mut labels: BTreeMap<String, String> = args.labels.iter().cloned().collect();
    labels.extend(hinted(args));
    let env = hints(&labels);
    if args.layer == Layer::Zstd && args.manifest == Manifest::Docker {
        let what = "a Docker manifest does not support zstd; add --layer gzip, or drop --manifest docker";
        return Err(Error::new(ErrorKind::Usage, what));
    }
    Ok(Recipe {
        kind: args.manifest.into(),
        variant,
        created: args.created,
        labels,
        env,
        annotations: args.annotations.iter().cloned().collect(),
        ..Recipe::new(arch, vec![])
    })
}

/// Labels with defaults for VMs of a disk.
fn hinted(args: &Args) -> Vec<(String, String)> {
    let named = [("default-instancetype", &args.instancetype), ("default-preference", &args.preference)];
    let named = named.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
    named.map(|(name, value)| (format!("instancetype.{HINTS}{name}"), value)).collect()
}

/// All names, and with --keep also their names in the store.
fn names(args: &Args, places: &Places) -> Result<Vec<Name>> {
    let mut names: Vec<Name> = vec![];
    for text in &args.names {
        let name = image_name::target(text, places)?;
        let by_host = matches!(name, Name::Registry(_)) && !text.starts_with("docker://");
        if by_host && !args.push {
            ui::say(&format!(
                "coracle: warning: {text} is in a registry, and is sent there; --push says so, \
                 and -t store:{text} writes into the store"
            ));
        }
        let kept = match (&name, args.keep, args.push) {
            (Name::Store(_), ..) => None,
            (_, true, _) => Some(local_name(&name)?),
            (_, false, true) if !by_host => Some(kept_by_push(&name)?),
            _ => None,
        };
        for name in kept.map(Name::Store).into_iter().chain([name]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if args.push && !names.iter().any(|name| matches!(name, Name::Registry(_))) {
        let what = "--push needs the name of a registry: -t docker://HOST/REPO:TAG";
        return Err(Error::new(ErrorKind::Usage, what));
    }
    Ok(names)
}

/// Name under which `--push` without `--keep` keeps an image: without its registry. An image that is named by a
/// scheme is written without `--push`, which therefore meant to keep it.
fn kept_by_push(name: &Name) -> Result<Local> {
    let local = match name {
        Name::Registry(remote) => {
            Local::parse(&format!("{}:{}", remote.repository, remote.tag.as_deref().unwrap_or("latest")))?
        }
        other => local_name(other)?,
    };
    ui::say(&format!(
        "coracle: warning: --push also keeps the image as store:{local}, and will not in a later version; \
         --keep keeps it, as store:{}",
        local_name(name)?
    ));
    Ok(local)
}

fn pair(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Error::new(ErrorKind::Usage, format!("{text:?} is not NAME=VALUE"))),
    }
}

fn date(text: &str) -> Result<u64> {
    text.parse().ok().or_else(|| time::seconds(text)).ok_or_else(|| {
        let what = format!("{text:?} is not a time; write 2026-01-31T12:00:00Z or seconds since 1970");
        Error::new(ErrorKind::Usage, what)
    })
}

impl From<Layer> for pack::Compression {
    fn from(layer: Layer) -> pack::Compression {
        match layer {
            Layer::None => pack::Compression::None,
            Layer::Gzip => pack::Compression::Gzip,
            Layer::Zstd => pack::Compression::Zstd,
        }
    }
}

impl From<Manifest> for ManifestFormat {
    fn from(manifest: Manifest) -> ManifestFormat {
        match manifest {
            Manifest::Oci => ManifestFormat::Oci,
            Manifest::Docker => ManifestFormat::Docker,
        }
    }
}
