//! The keys of a ConfigMap or a Secret as files.

use super::folder::Folder;
use super::source_name;
use super::tree::Files;
use crate::error::{Error, ErrorKind, Result};
use api::launcher::Source;

/// The default volume label.
pub const LABEL: &str = "cfgdata";

/// The files of a volume; empty if it is optional and does not exist.
pub fn read(volume: &str, what: &str, source: Option<&Source>) -> Result<Files> {
    match source {
        Some(Source::Folder { path }) => Folder::open(path)?.files(),
        Some(Source::Absent) => Ok(Files::new()),
        Some(other) => Err(Error::refused(format!(
            "the {what} of the volume {volume:?} should be given as a folder and is {}",
            source_name(other)
        ))),
        None => Err(Error::new(ErrorKind::NotFound, format!("the {what} is not there"))),
    }
}
