//! Manifests: YAML becomes objects, and every fault knows its file, line and field.
//!
//! ```text
//!  path, folder, - ──source──► texts ──yaml──► documents with lines ──object──► Objects
//!                                                                          ├─ faults: all of them, exit code 3
//!                                                                          └─ warnings: unknown fields and kinds
//! ```
//!
//! [`Objects::choose`] and `api::machine` then select a VM and check it; their faults are reported in the
//! same way.

mod finding;
mod host_disk;
mod instance_types;
mod object;
mod selection;
mod source;
#[cfg(test)]
mod tests;
mod volume;
mod write;

pub use finding::{Finding, refusal};
pub use object::{Located, Objects};
pub use selection::Selection;
pub use source::is_manifest;
pub use write::yaml as text;

use crate::error::Result;
use api::yaml;
use serde_json::Value;
use std::sync::Arc;

/// Objects of these files and folders; `-` is standard input.
pub fn read(paths: &[String]) -> Result<Objects> {
    let mut objects = Objects::default();
    for path in paths {
        for source::Text { name, text } in source::read(path)? {
            let file: Arc<str> = name.into();
            match yaml::parse(&text) {
                Ok(documents) => documents.into_iter().for_each(|document| objects.add(&file, document)),
                Err(wrong) => objects.faults.extend(misread(&file, wrong)),
            }
        }
    }
    objects.finish();
    Ok(objects)
}

/// Documents of a file, a folder or standard input, unchecked.
pub fn values(path: &str) -> Result<Vec<Value>> {
    let mut values = Vec::new();
    for source::Text { name, text } in source::read(path)? {
        let documents =
            yaml::parse(&text).map_err(|wrong| refusal(&name, misread(&name.as_str().into(), wrong)))?;
        values.extend(documents.into_iter().map(|document| document.value));
    }
    Ok(values)
}

fn misread(file: &Arc<str>, wrong: Vec<yaml::SyntaxFault>) -> Vec<Finding> {
    let finding = |wrong: yaml::SyntaxFault| Finding {
        file: Arc::clone(file),
        line: wrong.line,
        field: wrong.field,
        message: wrong.what,
        hint: None,
    };
    wrong.into_iter().map(finding).collect()
}

/// Objects of documents that the program made from its arguments; `name` stands for the file in findings.
pub fn made(name: &str, documents: Vec<Value>) -> Objects {
    let mut objects = Objects { is_of_arguments: true, ..Objects::default() };
    let file: Arc<str> = name.into();
    for value in documents {
        objects.add(&file, yaml::Document { value, lines: yaml::Lines::default() });
    }
    objects.finish();
    objects
}
