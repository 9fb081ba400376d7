//! Faults and warnings of a manifest, with file, line and field.

use crate::error::Error;
use api::fault::Fault;
use api::yaml::Lines;
use printable::line;
use std::fmt;
use std::sync::Arc;

/// Place of an object in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub file: Arc<str>,
    /// Line numbers of the object's fields.
    pub lines: Lines,
    /// Path in front of `spec` in the file, for an object that is part of another: `spec.template`.
    pub before: String,
}

impl Origin {
    /// Path of the object's spec in the file.
    pub fn spec(&self) -> String {
        if self.before.is_empty() { "spec".to_owned() } else { format!("{}.spec", self.before) }
    }

    /// A finding about a field of the object.
    pub fn finding(&self, field: &str, message: impl Into<String>) -> Finding {
        let field = match (self.before.as_str(), field.strip_prefix("metadata")) {
            ("", _) | (_, Some(_)) => field.to_owned(),
            (before, _) if field.is_empty() => before.to_owned(),
            (before, _) => format!("{before}.{field}"),
        };
        self.written(field, message.into())
    }

    fn written(&self, field: String, message: String) -> Finding {
        Finding { file: Arc::clone(&self.file), line: self.lines.line(&field), field, message, hint: None }
    }

    /// A finding from a fault of the API checks, whose field is a path in the file already.
    pub fn fault(&self, fault: &Fault) -> Finding {
        Finding { hint: fault.hint.clone(), ..self.written(fault.field.clone(), fault.message.clone()) }
    }
}

/// A fault or a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub file: Arc<str>,
    /// Line number from 1; 0 for an object that no file has.
    pub line: usize,
    /// Path of the field in its document; may be empty.
    pub field: String,
    pub message: String,
    pub hint: Option<String>,
}

impl Finding {
    /// True if `other` may only be a consequence of this finding: its field is the same, a part of it, or
    /// contains it.
    pub fn covers(&self, other: &Finding) -> bool {
        let below = |whole: &str, part: &str| {
            part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.file == other.file
            && self.line > 0
            && (below(&other.field, &self.field) || below(&self.field, &other.field))
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Finding {
        self.hint = Some(hint.into());
        self
    }
}

/// Text for the terminal. Names and values come from the author of the manifest, so control characters are
/// escaped.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&line(&self.file))?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        f.write_str(": ")?;
        // Many messages begin with the field already.
        if !self.field.is_empty() && !self.message.starts_with(&self.field) {
            write!(f, "{}: ", line(&self.field))?;
        }
        f.write_str(&line(&self.message))?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\n    {}", line(hint)))
    }
}

/// All faults as one error, ordered by file and line.
pub fn refusal(what: &str, mut faults: Vec<Finding>) -> Error {
    faults.sort_by(|a, b| (&a.file, a.line, &a.field).cmp(&(&b.file, b.line, &b.field)));
    faults.dedup();
    let count = match faults.len() {
        1 => "one fault".to_owned(),
        n => format!("{n} faults"),
    };
    let lines: Vec<String> = faults.iter().map(|fault| format!("\n  {fault}")).collect();
    Error::refused(format!("{what} has {count}:{}", lines.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_manifest_do_nothing_on_a_terminal() {
        let finding = Finding {
            file: "a\u{1b}]0;x\u{7}.yaml".into(),
            line: 3,
            field: "spec.\u{1b}[2J".into(),
            message: "kind \u{1b}]52;c;eA==\u{7}\ncoracle: all is well".into(),
            hint: Some("remove \u{202e}it".into()),
        };
        let shown = finding.to_string();
        assert_eq!(
            shown,
            "a ]0;x .yaml:3: spec. [2J: kind  ]52;c;eA==  coracle: all is well\n    remove  it"
        );
    }
}
