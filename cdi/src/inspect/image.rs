//! A disk in a container image: the image's documents, and the disk's report.

use super::report::{ContainerImage, Report};
use super::{InspectOptions, inspect};
use crate::source::Options;
use crate::source::image::ImageDisk;
use crate::{ErrorKind, Result};
use container_disk::Name;
use container_disk::describe::describe;

/// Bytes of a disk in a packed layer that are inspected, where each byte comes over the network. The data of a
/// qcow2 begins at 320 KiB where qemu-img made it, behind its tables: with 4 MiB the partition table and the
/// first file systems are among them.
const REMOTE_FRONT: usize = 4 << 20;

/// Inspects an image: its documents and the front of its disk. An image without a disk is described, too,
/// with the reason.
pub fn inspect_image(name: &Name, source: &Options, options: InspectOptions<'_>) -> Result<Report> {
    let found = source.places.find(name)?;
    let facts = describe(&found, &source.image.arch)?;
    let mut file = None;
    let remote = matches!(name, Name::Registry(_));
    let options = InspectOptions { front: if remote { REMOTE_FRONT } else { options.front }, ..options };
    let looked = ImageDisk::inspect(found, name, &source.image).and_then(|disk| {
        file = Some(disk.file().clone());
        inspect(&disk, options)
    });
    let mut report = match looked {
        Ok(report) => report,
        Err(e) if matches!(e.kind(), ErrorKind::Refused | ErrorKind::NotFound) => {
            let mut report = Report::new(&name.to_string(), None);
            report.refused = Some(e.chain());
            report
        }
        Err(e) => return Err(e),
    };
    let registries = remote.then(|| source.places.transfer_counts());
    report.image = Some(ContainerImage { facts, file, registries });
    Ok(report)
}
