//! `coracle copy`.

use super::transfer::TransferArgs;
use cdi::Result;
use container_disk::Name;

/// Copy an image from any place to any other, byte for byte
///
/// From registry to registry nothing lands on this machine's disk. Digests
/// stay as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle copy docker://a.example/os:12 docker://b.example/os:12\n  \
    coracle copy os:12 oci-archive:os.tar\n  \
    coracle copy docker-archive:os.tar os:12")]
pub(crate) struct Args {
    /// The image
    #[arg(value_name = "SRC")]
    source: String,

    /// Where it goes
    #[arg(value_name = "DST")]
    target: String,

    /// Only the image for this architecture [default: all there are]
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,

    #[command(flatten)]
    transfer: TransferArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (source, target) = (Name::of_image(&args.source)?, Name::of_image(&args.target)?);
    args.transfer.run(&source, &target, args.arch.clone())
}
