//! Names of images in arguments, read by the rule of [`container_disk::meaning`].

use crate::error::{Error, ErrorKind, Result};
use container_disk::Name;
use container_disk::meaning::{Meaning, Role, Surroundings, not_a_volume};

/// Paragraph of `--help` about names; a macro, so that it can stand in `concat!`.
macro_rules! names_help {
    ($rest:literal) => {
        concat!(
            "Names: a scheme decides (docker://, oci:, oci-archive:, docker-archive:, store:,\n\
             http://, https://, file:, pvc/NAME). Else what exists as a path, or begins with\n\
             /, ./, ../ or ~, is a file; HOST/REPO is in a registry if HOST has a dot or a\n\
             port or is localhost; any other name is one in the store. A target without a\n\
             scheme is a path for convert, and never a path for verbs on images\n\
             (docs/reference/names.md).\n\n",
            $rest
        )
    };
}
pub(crate) use names_help;

/// Reads an image that is copied from.
pub(super) fn source(text: &str, around: &dyn Surroundings) -> Result<Name> {
    image(text, Meaning::of(text, Role::Image, around)?)
}

/// Reads an image that is written.
pub(super) fn target(text: &str, around: &dyn Surroundings) -> Result<Name> {
    image(text, Meaning::of(text, Role::Target, around)?)
}

/// Reads a name in the store. With a scheme it may be any image.
pub(super) fn stored(text: &str, around: &dyn Surroundings) -> Result<Name> {
    image(text, Meaning::of(text, Role::Stored, around)?)
}

fn image(text: &str, meaning: Meaning) -> Result<Name> {
    let what = match meaning {
        Meaning::Image(name) => return Ok(name),
        Meaning::Volume(volume) => return Err(not_a_volume(&volume).into()),
        Meaning::Pipe => "- is a pipe, and an image is asked for".to_owned(),
        Meaning::Web(_) | Meaning::File(_) => {
            format!("{} is a disk, and an image is asked for", cdi::source::shown(text))
        }
    };
    Err(Error::new(ErrorKind::Usage, what).with_hint("coracle build -t NAME makes an image of a disk"))
}
