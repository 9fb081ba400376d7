//! The verb `coracle copy`.

use super::complete;
use super::image_name::{self, names_help};
use super::transfer::TransferArgs;
use crate::error::Result;
use clap_complete::engine::ArgValueCompleter;

/// Copy an image between registries, layouts, archives and the store
///
/// A copy between registries leaves nothing on the local disk. Digests are
/// preserved.
#[derive(Debug, clap::Args)]
#[command(after_help = names_help!("Examples:\n  \
    coracle copy docker://a.example/os:12 docker://b.example/os:12\n  \
    coracle copy os:12 oci-archive:os.tar\n  \
    coracle copy docker-archive:os.tar:os:12 os:12"))]
pub(crate) struct Args {
    /// Name of the image to copy
    #[arg(value_name = "SRC", add = ArgValueCompleter::new(complete::image))]
    source: String,

    /// Target of the copy
    #[arg(value_name = "DST", add = ArgValueCompleter::new(complete::image))]
    target: String,

    /// Architecture of the image to copy [default: all]
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,

    #[command(flatten)]
    transfer: TransferArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let places = args.transfer.places();
    let source = image_name::source(&args.source, &*places)?;
    let target = image_name::target(&args.target, &*places)?;
    args.transfer.run(&source, &target, args.arch.clone(), &places)
}
