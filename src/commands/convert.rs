//! The verb `coracle convert`.

use super::complete;
use super::disk::{DiskArgs, compression, size};
use super::image_name::names_help;
use super::source::SourceArgs;
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use cdi::convert::{Keep, Prepared, Request, SharedLayout, prepare};
use cdi::journal::Mode;
use cdi::plan::{ConvertOptions, Output};
use cdi::run::watch::Watch;
use cdi::size::human;
use cdi::source::SourceSpec;
use cdi::target::Destination;
use clap_complete::engine::ArgValueCompleter;
use container_disk::inputs::beside;
use container_disk::meaning::{Meaning, Role};
use disk_format::Codec;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Convert a raw, ISO or qcow2 disk to raw or qcow2, in one pass
///
/// SRC is a path, a block device, http:// or https://, '-' for standard
/// input, or an image (docker://HOST/REPO:TAG, oci:DIR, oci-archive:FILE,
/// docker-archive:FILE, or the name of one in the store), whose one disk is
/// taken; compression (gzip, xz, zstd) and tar around the disk are undone on
/// the way. DST is a path, a block device, or '-' for standard output.
/// Nothing stands under DST until it is whole; a run that was cut short is
/// continued by the same command.
#[derive(Debug, clap::Args)]
#[command(after_help = names_help!("Examples:\n  \
    coracle convert disk.qcow2.xz disk.img\n  \
    coracle convert docker://registry.example/os:12 disk.img\n  \
    coracle convert https://server/disk.qcow2 /dev/vg/disk\n  \
    coracle convert --format qcow2 --compress zstd disk.img small.qcow2\n  \
    coracle convert --plan http://server/disk.raw.gz disk.img"))]
pub(crate) struct Args {
    /// Source of the disk
    #[arg(value_name = "SRC", add = ArgValueCompleter::new(complete::source))]
    source: String,

    /// Target of the disk
    #[arg(value_name = "DST")]
    target: String,

    /// Format of the target [default: qcow2 if DST ends in .qcow2, else raw]
    #[arg(short = 'O', long, value_enum)]
    format: Option<TargetFormat>,

    /// Compression of a qcow2 target: zlib or zstd, with an optional level
    /// (zstd:9); zlib without a value
    #[arg(short = 'c', long, value_name = "CODEC[:LEVEL]", value_parser = compression, num_args = 0..=1,
        default_missing_value = "zlib")]
    compress: Option<(Codec, u8)>,

    /// Cluster size of a qcow2: 512 bytes to 2 MiB
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = cluster_bits)]
    cluster_size: u32,

    /// Enlarge the disk to this size, or by +SIZE; shrinking is refused
    #[arg(long, value_name = "[+]SIZE", value_parser = new_size)]
    resize: Option<NewSize>,

    /// Allocate all blocks of the target instead of leaving holes
    #[arg(long)]
    preallocate: bool,

    /// Read the target back and compare it before it gets its final name
    #[arg(long)]
    verify: bool,

    /// Continue an earlier run, or fail; by default a run is continued if the
    /// source proves to be unchanged. An address with another query
    /// (a new signature) is taken for the same where size and ETag agree
    #[arg(long, conflicts_with = "no_resume")]
    resume: bool,

    /// Start over, discarding an earlier run
    #[arg(long)]
    no_resume: bool,

    #[command(flatten)]
    work: DiskArgs,

    #[command(flatten)]
    from: SourceArgs,

    /// Milliseconds between journal entries, whatever they cost
    #[arg(long, hide = true)]
    journal_every: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TargetFormat {
    Raw,
    Qcow2,
}

/// Size of an enlarged disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewSize {
    To(u64),
    By(u64),
}

fn new_size(text: &str) -> Result<NewSize> {
    match text.strip_prefix('+') {
        Some(growth) => size(growth).map(NewSize::By),
        None => size(text).map(NewSize::To),
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let request = request(args)?;
    request.permissions()?.enter();
    let watch = Arc::new(Watch::default());
    if !args.work.plan {
        ui::on_interrupt(watch.clone())?;
    }
    let prepared = prepare(request, &watch)?;
    if args.work.plan {
        return if args.work.output.is_json() {
            ui::json(&prepared.plan_json())
        } else {
            ui::out(&prepared.plan_text())
        };
    }
    convert(args, prepared, &watch)
}

fn convert(args: &Args, prepared: Prepared, watch: &Arc<Watch>) -> Result<()> {
    let progress = ui::Progress::of(watch, args.work.show());
    let report = prepared.run(watch);
    drop(progress);
    let report = report?;
    if args.work.output.is_json() {
        return ui::json(&report);
    }
    if !args.work.quiet {
        ui::say(&report.sentence());
        if let Some(kept) = kept_state(Path::new(&args.target)) {
            ui::say(&kept);
        }
    }
    Ok(())
}

/// A sentence about the state of the disk that had this name before, if there is any. It stays: the new disk may be a copy of the
/// same system.
fn kept_state(target: &Path) -> Option<String> {
    let state = beside(target, ".state");
    (target.is_file() && state.is_dir()).then(|| {
        format!(
            "coracle: {} is kept: EFI variables and a TPM of a disk of this name; remove it if another system is on the disk now",
            state.display()
        )
    })
}

fn request(args: &Args) -> Result<Request> {
    let options = args.from.options()?;
    let target = target(args, &options)?;
    let format = match args.format {
        Some(format) => format,
        None if args.target.to_ascii_lowercase().ends_with(".qcow2") => TargetFormat::Qcow2,
        None => TargetFormat::Raw,
    };
    if let (None, Some(e)) = (args.format, other_format(&args.target)) {
        return Err(e);
    }
    let output = match (format, args.compress) {
        (TargetFormat::Raw, None) => Output::Raw,
        (TargetFormat::Raw, Some(_)) => {
            let what = "a raw disk cannot be compressed; add --format qcow2, or drop --compress";
            return Err(Error::new(ErrorKind::Usage, what));
        }
        (TargetFormat::Qcow2, compress) => Output::Qcow2 { cluster_bits: args.cluster_size, compress },
    };
    if args.preallocate && output != Output::Raw {
        return Err(Error::new(
            ErrorKind::Usage,
            "--preallocate is for raw targets; a qcow2 grows as it is written",
        ));
    }
    let resume = match (args.resume, args.no_resume) {
        (true, _) => Mode::Always,
        (_, true) => Mode::Never,
        _ => Mode::Auto,
    };
    let source = SourceSpec::resolve(&args.source, &options)?;
    Ok(Request {
        source_format: args.work.source_format_of(&source)?,
        source,
        target,
        keep: Keep::No,
        options,
        output,
        convert_options: ConvertOptions {
            verify: args.verify,
            preallocate: args.preallocate,
            resize: args.resize.and_then(|size| match size {
                NewSize::To(size) => Some(size),
                NewSize::By(_) => None,
            }),
            growth: args.resize.map_or(0, |size| match size {
                NewSize::To(_) => 0,
                NewSize::By(growth) => growth,
            }),
            resume,
            ..args.work.wishes(&args.from)
        },
        journal_every: args.journal_every.map(Duration::from_millis),
        layout: SharedLayout::default(),
    })
}

/// The target. Without a scheme it is a path.
fn target(args: &Args, options: &cdi::source::Options) -> Result<Destination> {
    match Meaning::of(&args.target, Role::DiskTarget, &*options.places)? {
        Meaning::Image(image) => {
            let what = format!(
                "{image} is an image and not a disk; make it with: coracle build -t {image} {}",
                cdi::source::shown(&args.source)
            );
            Err(Error::new(ErrorKind::Usage, what))
        }
        Meaning::File(path) => Ok(Destination::from_name(path.as_os_str())?),
        Meaning::Pipe | Meaning::Web(_) | Meaning::Volume(_) => {
            Ok(Destination::from_name(args.target.as_ref())?)
        }
    }
}

/// Refuses a target whose suffix stands for a format that is not written here: it would be a raw disk, which
/// its next reader would take for that format.
fn other_format(target: &str) -> Option<Error> {
    let (_, ending) = target.rsplit('/').next()?.rsplit_once('.')?;
    let ending = ending.to_ascii_lowercase();
    let stem = &target[..target.len() - ending.len() - 1];
    let written = "raw and qcow2 are what can be written";
    let advice = match ending.as_str() {
        "vmdk" | "vdi" | "vhdx" | "vhd" | "qcow" | "qed" => {
            // QEMU calls the format of a .vhd by the product that had it first.
            let format = if ending == "vhd" { "vpc" } else { ending.as_str() };
            format!("{written}, and qemu-img convert -O {format} {stem}.qcow2 {target} makes one of a qcow2")
        }
        "ova" | "dmg" => written.to_owned(),
        "gz" | "xz" | "zst" | "bz2" | "tar" | "tgz" | "zip" => {
            "to pack it, write it to - and pipe that on; -O qcow2 --compress zstd packs it, too".to_owned()
        }
        _ => return None,
    };
    let what = format!(
        "{target} would be a plain raw disk, though its name ends in .{ending}: {advice}; choose another name, or add \
         --format raw if that is meant"
    );
    Some(Error::new(ErrorKind::Usage, what))
}

fn cluster_bits(text: &str) -> Result<u32> {
    let size = cdi::size::parse(text)?;
    if size.is_power_of_two() && (512..=2 << 20).contains(&size) {
        return Ok(size.trailing_zeros());
    }
    let what = format!("{} is not a cluster size: it is a power of two from 512 bytes to 2 MiB", human(size));
    Err(Error::new(ErrorKind::Usage, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_the_disk_before_is_kept_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk.img");
        std::fs::write(&disk, "x").unwrap();
        assert_eq!(kept_state(&disk), None);
        std::fs::create_dir(folder.path().join("disk.img.state")).unwrap();
        assert!(kept_state(&disk).unwrap().contains("disk.img.state is kept"));
        assert_eq!(kept_state(&folder.path().join("other.img")), None);
    }
}
