//! The input of a plan.

use super::Output;
use crate::filter::{Layer, Need};
use crate::source;
use crate::target::Destination;
use disk_format::Format;
use disk_format::qcow2::Leftover;

/// The input of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub source: source::SourceFacts,
    /// The layers around the disk, outermost first, with the needs of each.
    pub layers: Vec<(Layer, Need)>,
    pub format: Format,
    /// The image file that is kept as it is; `format` is then raw.
    pub kept: Option<KeptImage>,
    /// Bytes of an image file that are not of its disk, if the file is kept, or could be otherwise.
    pub leftover: Option<Leftover>,
    /// The size of the disk that is read, if a header states it; of a file that is kept, the file's.
    pub virtual_size: Option<u64>,
    pub target: Destination,
    /// Bytes of the target, if it is a device.
    pub room: Option<u64>,
    pub output: Output,
}

impl Facts {
    /// The format of the disk in the source.
    pub fn source_format(&self) -> Format {
        self.kept.map_or(self.format, |kept| kept.format)
    }

    /// Warning about bytes of an image file that are not of its disk: they are kept, or the disk alone is written.
    pub fn leftover_warning(&self) -> Option<String> {
        let (why, name) = (self.leftover?, &self.source.name);
        Some(match self.kept {
            Some(_) => {
                format!("{name} is kept as it is, though {why}: everybody who gets the file can read that")
            }
            None => format!("the disk of {name} is written anew, since {why}; --format keep keeps the file"),
        })
    }

    /// The size that the guest sees of a disk that was written with this size.
    pub fn guest_size(&self, written: u64) -> u64 {
        self.kept.and_then(|kept| kept.virtual_size).unwrap_or(written)
    }
}

/// An image file that is kept as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptImage {
    pub format: Format,
    /// The size the guest sees, if the header states it.
    pub virtual_size: Option<u64>,
}
