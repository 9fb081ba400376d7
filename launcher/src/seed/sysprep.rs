//! Answers for the setup of Windows, which looks for them on every disc.

use super::tree::Files;
use crate::error::{Error, ErrorKind, Result};
use api::machine::volume::Named;

/// The label of the disc.
pub const LABEL: &str = "unattendCD";

const ANSWERS: [&str; 2] = ["autounattend.xml", "unattend.xml"];

/// One of the two files of answers must be there, in whatever case: without it Windows asks a person, who is not there.
pub fn check(files: &Files, source: &Named) -> Result<()> {
    if files.paths().any(|path| ANSWERS.iter().any(|name| path.eq_ignore_ascii_case(name))) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NotFound,
        format!("the {} has neither a key {} nor {}", shown(source), ANSWERS[0], ANSWERS[1]),
    ))
}

/// How errors name it.
pub(super) fn shown(source: &Named) -> String {
    match source {
        Named::ConfigMap(name) => format!("config map {name:?}"),
        Named::Secret(name) => format!("secret {name:?}"),
    }
}
