//! The verb `coracle push`.

use super::transfer::TransferArgs;
use crate::error::{Error, ErrorKind, Result};
use container_disk::Name;

/// Send an image to a registry
///
/// IMAGE is a name in the store, or any other image. Blobs that the registry
/// has are not sent again; the same command continues an interrupted push.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle push os:12 docker://registry.example/os:12\n  \
    coracle push oci:layout docker://registry.example/os:12")]
pub(crate) struct Args {
    /// Name of the image to push
    #[arg(value_name = "IMAGE")]
    image: String,

    /// Name of the target: docker://HOST/REPO:TAG
    #[arg(value_name = "DST")]
    target: String,

    /// Architecture of the image to push [default: all]
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,

    #[command(flatten)]
    transfer: TransferArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let target = Name::of_image(&args.target)?;
    if !matches!(target, Name::Registry(_)) {
        let what = format!("{target} is not in a registry; write docker://HOST/REPO, or use coracle copy");
        return Err(Error::new(ErrorKind::Usage, what));
    }
    args.transfer.run(&Name::of_image(&args.image)?, &target, args.arch.clone())
}
