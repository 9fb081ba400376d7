//! Source of a disk's bytes. The whole chain of backing files is named, so libvirt (and QEMU through it)
//! opens exactly these files, whatever the header of an image names.

use super::driver::word_of_format;
use crate::domain::error::DomainError;
use crate::domain::host::DiskLocation;
use crate::domain::text;
use crate::domain::xml::Element;
use api::launcher::Format;
use api::machine::Disk;
use std::path::PathBuf;

/// The type of the disk, and its source. A CD-ROM without media has none.
pub(super) fn type_and_source(
    disk: &Disk,
    place: &DiskLocation,
    position: usize,
) -> Result<(&'static str, Vec<Element>), DomainError> {
    let field = format!("spec.domain.devices.disks[{position}] ({})", disk.name);
    match place {
        DiskLocation::File { path, backing, .. } => {
            let source = Element::new("source").at("file", text(path, &field)?);
            Ok(("file", vec![source, below(backing, &field)?]))
        }
        DiskLocation::Block { path, .. } => {
            let source = Element::new("source").at("dev", text(path, &field)?);
            Ok(("block", vec![source, Element::new("backingStore")]))
        }
        DiskLocation::Nothing => Ok(("file", Vec::new())),
    }
}

fn below(files: &[(PathBuf, Format)], field: &str) -> Result<Element, DomainError> {
    let mut element = Element::new("backingStore");
    for (path, format) in files.iter().rev() {
        element = Element::new("backingStore")
            .at("type", "file")
            .and(Element::new("format").at("type", word_of_format(*format)))
            .and(Element::new("source").at("file", text(path, field)?))
            .and(element);
    }
    Ok(element)
}
