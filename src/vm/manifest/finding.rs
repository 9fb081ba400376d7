//! What is wrong with a manifest, or only odd, and where: file, line, field.

use api::fault::Fault;
use api::yaml::Lines;
use cdi::Error;
use printable::line;
use std::fmt;
use std::sync::Arc;

/// Where an object was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The file.
    pub(crate) file: Arc<str>,
    /// Where its fields stand.
    pub(crate) lines: Lines,
    /// What stands before `spec` in the file, where the object is a part of another: `spec.template`.
    pub(crate) before: String,
}

impl Origin {
    /// Where the object's spec stands in the file.
    pub(crate) fn spec(&self) -> String {
        if self.before.is_empty() { "spec".to_owned() } else { format!("{}.spec", self.before) }
    }

    /// A finding about a field of the object.
    pub(crate) fn finding(&self, field: &str, message: impl Into<String>) -> Finding {
        let field = match (self.before.as_str(), field.strip_prefix("metadata")) {
            ("", _) | (_, Some(_)) => field.to_owned(),
            (before, _) if field.is_empty() => before.to_owned(),
            (before, _) => format!("{before}.{field}"),
        };
        self.written(field, message.into())
    }

    fn written(&self, field: String, message: String) -> Finding {
        Finding { file: Arc::clone(&self.file), line: self.lines.of(&field), field, message, hint: None }
    }

    /// A finding of the judges, who name fields as they are written.
    pub(crate) fn fault(&self, fault: &Fault) -> Finding {
        Finding { hint: fault.hint.clone(), ..self.written(fault.field.clone(), fault.message.clone()) }
    }
}

/// One thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file.
    pub(crate) file: Arc<str>,
    /// The line, from 1; 0 where nothing was written.
    pub(crate) line: usize,
    /// The field's path in its document; may be empty.
    pub(crate) field: String,
    /// A sentence.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

impl Finding {
    /// Whether another finding may only follow from this one: it is about the same field, or what that is part of.
    pub(crate) fn covers(&self, other: &Finding) -> bool {
        let below = |whole: &str, part: &str| {
            part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.file == other.file
            && self.line > 0
            && (below(&other.field, &self.field) || below(&self.field, &other.field))
    }

    /// The same with what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Finding {
        self.hint = Some(hint.into());
        self
    }
}

/// Names and values in it are the words of a manifest's author: they do nothing on the terminal of who reads them.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&line(&self.file))?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        f.write_str(": ")?;
        // Many sentences name their field themselves.
        if !self.field.is_empty() && !self.message.starts_with(&self.field) {
            write!(f, "{}: ", line(&self.field))?;
        }
        f.write_str(&line(&self.message))?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\n    {}", line(hint)))
    }
}

/// All faults as one error, in the order of the files.
pub(crate) fn refusal(what: &str, mut faults: Vec<Finding>) -> Error {
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
