//! Answer files for Windows Setup, which looks for them on every CD-ROM.

use super::tree::Files;
use crate::error::{Error, ErrorKind, Result};
use api::machine::volume::ConfigMapOrSecret;

/// Label of the volume, as in KubeVirt.
pub const LABEL: &str = "unattendCD";

const ANSWERS: [&str; 2] = ["autounattend.xml", "unattend.xml"];

/// Checks that one of the two answer files exists, in any case: without it Windows Setup waits for user
/// input.
pub fn check(files: &Files, source: &ConfigMapOrSecret) -> Result<()> {
    if files.paths().any(|path| ANSWERS.iter().any(|name| path.eq_ignore_ascii_case(name))) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NotFound,
        format!("the {} has neither a key {} nor {}", source_name(source), ANSWERS[0], ANSWERS[1]),
    ))
}

/// The name of the source in errors.
pub(super) fn source_name(source: &ConfigMapOrSecret) -> String {
    match source {
        ConfigMapOrSecret::ConfigMap(name) => format!("config map {name:?}"),
        ConfigMapOrSecret::Secret(name) => format!("secret {name:?}"),
    }
}
