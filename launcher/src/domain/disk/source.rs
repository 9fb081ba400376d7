//! Source of a disk's bytes. The whole chain of backing files is named, so libvirt (and QEMU through it)
//! opens exactly these files, whatever the header of an image names.

use super::driver::word_of_format;
use crate::domain::error::DomainError;
use crate::domain::host::{DiskLocation, Layer, Layers, Medium};
use crate::domain::text;
use crate::domain::xml::Element;
use api::machine::Disk;

/// The type of the disk, and its source. A CD-ROM without media has none.
pub(super) fn type_and_source(
    disk: &Disk,
    place: &DiskLocation,
    position: usize,
) -> Result<(&'static str, Vec<Element>), DomainError> {
    let field = format!("spec.domain.devices.disks[{position}] ({})", disk.name);
    match place {
        DiskLocation::Layers(Layers { top, below, .. }) => {
            Ok((kind(top), vec![source(top, &field)?, backing(below, &field)?]))
        }
        DiskLocation::Nothing => Ok(("file", Vec::new())),
    }
}

/// The end of the chain is an empty element: without it libvirt reads the image's header.
fn backing(below: &[Layer], field: &str) -> Result<Element, DomainError> {
    let mut element = Element::new("backingStore");
    for layer in below.iter().rev() {
        element = Element::new("backingStore")
            .at("type", kind(layer))
            .and(Element::new("format").at("type", word_of_format(layer.format)))
            .and(source(layer, field)?)
            .and(element);
    }
    Ok(element)
}

fn kind(layer: &Layer) -> &'static str {
    match layer.medium {
        Medium::File => "file",
        Medium::Device => "block",
    }
}

fn source(layer: &Layer, field: &str) -> Result<Element, DomainError> {
    let attribute = match layer.medium {
        Medium::File => "file",
        Medium::Device => "dev",
    };
    Ok(Element::new("source").at(attribute, text(&layer.path, field)?))
}
