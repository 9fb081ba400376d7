//! The verb `coracle pull`.

use super::complete;
use super::image_name::{self, names_help};
use super::transfer::TransferArgs;
use crate::error::Result;
use cdi::source::image::architecture;
use clap_complete::engine::ArgValueCompleter;
use container_disk::Name;
use container_disk::reference::Local;

/// Pull an image into the store
///
/// The same command continues an interrupted pull; when a registry fails, its
/// mirrors are tried. An image that holds no disk or kernel, or something
/// harmful, or a disk that VMs cannot have (another format, an overlay over
/// another file) gets no name. To get the disk itself, convert the image: it
/// is pulled and unpacked in one pass.
#[derive(Debug, clap::Args)]
#[command(after_help = names_help!("Examples:\n  \
    coracle pull docker://registry.example/os:12\n  \
    coracle pull docker://registry.example/os:12 mine:1\n  \
    coracle convert docker://registry.example/os:12 disk.img"))]
pub(crate) struct Args {
    /// Image to pull: docker://HOST/REPO:TAG, or any other
    #[arg(value_name = "IMAGE", add = ArgValueCompleter::new(complete::image))]
    image: String,

    /// Name of the image in the store [default: its full name, with the
    /// registry's]
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::stored))]
    name: Option<String>,

    /// Architecture of the image [default: that of this computer]
    #[arg(long, value_name = "ARCH", conflicts_with = "all")]
    arch: Option<String>,

    /// Pull the images for all architectures
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    transfer: TransferArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let places = args.transfer.places();
    let image = image_name::source(&args.image, &*places)?;
    let name = match &args.name {
        Some(name) => image_name::stored(name, &*places)?,
        None => Name::Store(local_name(&image)?),
    };
    let arch = (!args.all).then(|| args.arch.clone().unwrap_or_else(|| architecture().to_owned()));
    args.transfer.run(&image, &name, arch, &places)
}

/// Default name of an image in the store: `docker://h/group/os:1` becomes `h/group/os:1`, and `oci:some/os`
/// becomes `os:latest`.
pub(super) fn local_name(image: &Name) -> Result<Local> {
    let text = match image {
        Name::Store(local) => return Ok(local.clone()),
        Name::Registry(remote) => return Ok(remote.stored()),
        Name::DockerArchive(_, Some(tag)) if tag.contains(':') => tag.clone(),
        Name::Layout(path, tag) | Name::OciArchive(path, tag) | Name::DockerArchive(path, tag) => {
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
            format!("{stem}:{}", tag.as_deref().unwrap_or("latest"))
        }
    };
    Ok(Local::parse(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_keeps_its_full_name() {
        for (image, name) in [
            ("docker://h:5000/group/os:1", "h:5000/group/os:1"),
            ("docker://h/os", "h/os:latest"),
            ("docker-archive:x/all.tar:group/win:11", "group/win:11"),
            ("oci:some/Disk:2", "disk:2"),
            ("docker-archive:x/win.tar", "win:latest"),
            ("mine:3", "mine:3"),
        ] {
            assert_eq!(local_name(&Name::of_image(image).unwrap()).unwrap().to_string(), name);
        }
    }
}
