//! The verb `coracle push`.

use super::complete;
use super::image_name::{self, names_help};
use super::transfer::TransferArgs;
use crate::error::{Error, ErrorKind, Result};
use clap_complete::engine::ArgValueCompleter;
use container_disk::Name;

/// Send an image to a registry
///
/// IMAGE is a name in the store, or any other image. Without DST it goes to
/// the registry in its own name. Blobs that the registry has are not sent
/// again; the same command continues an interrupted push.
#[derive(Debug, clap::Args)]
#[command(after_help = names_help!("Examples:\n  \
    coracle push os:12 docker://registry.example/os:12\n  \
    coracle push registry.example/os:12\n  \
    coracle push oci:layout docker://registry.example/os:12"))]
pub(crate) struct Args {
    /// Name of the image to push
    #[arg(value_name = "IMAGE", add = ArgValueCompleter::new(complete::image))]
    image: String,

    /// Name of the target: docker://HOST/REPO:TAG [default: that of IMAGE]
    #[arg(value_name = "DST")]
    target: Option<String>,

    /// Architecture of the image to push [default: all]
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,

    #[command(flatten)]
    transfer: TransferArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let places = args.transfer.places();
    let image = image_name::stored(&args.image, &*places)?;
    let (source, target) = match &args.target {
        Some(target) => (image, image_name::target(target, &*places)?),
        None => by_its_name(image)?,
    };
    if !matches!(target, Name::Registry(_)) {
        let what = format!("{target} is not in a registry; write docker://HOST/REPO, or use coracle copy");
        return Err(Error::new(ErrorKind::Usage, what));
    }
    args.transfer.run(&source, &target, args.arch.clone(), &places)
}

/// The image of the store under a full name, and its registry.
fn by_its_name(image: Name) -> Result<(Name, Name)> {
    match image {
        Name::Registry(remote) => Ok((Name::Store(remote.stored()), Name::Registry(remote))),
        Name::Store(local) => match local.remote() {
            Some(remote) => Ok((Name::Store(local), Name::Registry(remote))),
            None => {
                let what = format!("{local} names no registry to push to");
                let e = Error::new(ErrorKind::Usage, what);
                Err(e.with_hint(format!("coracle push {local} docker://HOST/{local} names one")))
            }
        },
        other => {
            let what = format!("{other} names no registry to push to");
            let e = Error::new(ErrorKind::Usage, what);
            Err(e.with_hint(format!("coracle push {other} docker://HOST/REPO:TAG names one")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_goes_to_the_registry_in_its_name() {
        for (name, from, to) in [
            ("docker://h/os:1", "store:h/os:1", "docker://h/os:1"),
            ("store:h.example/os:1", "store:h.example/os:1", "docker://h.example/os:1"),
            (
                "store:localhost:5000/g/os",
                "store:localhost:5000/g/os:latest",
                "docker://localhost:5000/g/os:latest",
            ),
        ] {
            let (source, target) = by_its_name(Name::of_image(name).unwrap()).unwrap();
            assert_eq!((source.to_string().as_str(), target.to_string().as_str()), (from, to), "{name}");
        }
        for (name, said) in [
            ("store:os:1", "coracle push os:1 docker://HOST/os:1"),
            ("store:group/os:1", "names no registry"),
            ("oci:layout", "coracle push oci:layout docker://HOST/REPO:TAG"),
        ] {
            let e = by_its_name(Name::of_image(name).unwrap()).unwrap_err();
            assert!(e.to_string().contains(said), "{e}");
        }
    }
}
