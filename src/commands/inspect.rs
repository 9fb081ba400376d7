//! The verb `coracle inspect`.

use super::complete;
use super::image_name::names_help;
use super::json_args::JsonArgs;
use super::source::SourceArgs;
use crate::error::Result;
use crate::ui;
use crate::vm_disk;
use cdi::inspect::{InspectOptions, inspect, inspect_image, text};
use cdi::permissions::Permissions;
use cdi::source::SourceSpec;
use clap_complete::engine::ArgValueCompleter;

/// Describe a disk and its contents without converting it
///
/// NAME is a path, a block device, http:// or https://, '-' for standard
/// input, or an image: docker://HOST/REPO:TAG, oci:DIR, oci-archive:FILE,
/// docker-archive:FILE, or the name of one in the store. Of an image the
/// documents and the front of the disk are read. Of a disk that can be read by offset only the few KiB are read that
/// tell; of a compressed one the first MiB are decoded. An image that convert
/// would refuse is described, too, with the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = names_help!("Examples:\n  \
    coracle inspect disk.qcow2\n  \
    coracle inspect --json https://server/debian.iso\n  \
    coracle inspect docker://registry.example/os:12\n  \
    coracle inspect --usage --digest disk.img"))]
pub(crate) struct Args {
    /// Disk or image to inspect
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::source))]
    name: String,

    /// Count data and zeros of the disk by its allocation tables
    #[arg(long)]
    usage: bool,

    /// Compute the SHA-256 of the unmodified file, which reads the whole file
    #[arg(long)]
    digest: bool,

    #[command(flatten)]
    output: JsonArgs,

    /// Maximum size of the disk; a larger disk is reported as refused
    #[arg(long, value_name = "SIZE", default_value = "16TiB", value_parser = cdi::size::parse)]
    max_size: u64,

    /// Maximum memory for decompression
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = cdi::size::parse)]
    memory: u64,

    #[command(flatten)]
    from: SourceArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let source = args.from.options()?;
    let named = SourceSpec::resolve(&args.name, &source)?;
    // The records of VMs are not readable after the confinement.
    let source_format = vm_disk::format_of(&named).unwrap_or_else(|e| {
        ui::say(&format!("coracle: warning: {e}"));
        None
    });
    Permissions::new().source(&named, &source)?.enter();
    let options = InspectOptions {
        source_format,
        usage: args.usage,
        digest: args.digest,
        max_size: args.max_size,
        memory: args.memory,
        ..InspectOptions::default()
    };
    let report = match named.image() {
        Some(image) => inspect_image(image, &source, options)?,
        None => {
            let options = InspectOptions { path: source.image.path.as_deref(), ..options };
            inspect(&*cdi::source::open(&named, &source)?, options)?
        }
    };
    if args.output.is_json() { ui::json(&report) } else { ui::out(&text(&report)) }
}
