//! Objects as YAML text, readable and fit for `kubectl`.

use serde_json::Value;
use std::fmt::Write as _;

/// The documents in one text.
pub fn yaml(documents: &[Value]) -> String {
    let texts: Vec<String> = documents.iter().map(one).collect();
    texts.join("---\n")
}

fn one(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => block(value, 0, &mut text),
        Value::Array(items) if !items.is_empty() => block(value, 0, &mut text),
        other => {
            text += &scalar(other, 0);
            text.push('\n');
        }
    }
    text
}

fn block(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (i, (key, value)) in fields.iter().enumerate() {
                // The first field of a list item follows its dash on the same line.
                let lead = if i == 0 && text.ends_with("- ") { "" } else { indent.as_str() };
                let _ = write!(text, "{lead}{}:", word(key));
                below(value, depth + 1, text);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                let lead = if i == 0 && text.ends_with("- ") { "" } else { indent.as_str() };
                let _ = write!(text, "{lead}- ");
                match is_block(item) {
                    true => block(item, depth + 1, text),
                    false => {
                        *text += &scalar(item, depth + 1);
                        text.push('\n');
                    }
                }
            }
        }
        _ => {}
    }
}

fn below(value: &Value, depth: usize, text: &mut String) {
    match value {
        // A list has the indentation of its key.
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            block(value, depth - 1, text);
        }
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            block(value, depth, text);
        }
        other => {
            text.push(' ');
            *text += &scalar(other, depth);
            text.push('\n');
        }
    }
}

fn is_block(value: &Value) -> bool {
    matches!(value, Value::Object(fields) if !fields.is_empty())
        || matches!(value, Value::Array(items) if !items.is_empty())
}

fn scalar(value: &Value, depth: usize) -> String {
    match value {
        Value::String(text) if literal(text) => {
            let indent = "  ".repeat(depth);
            let lines: Vec<String> = text
                .trim_end_matches('\n')
                .lines()
                .map(|line| if line.is_empty() { String::new() } else { format!("{indent}{line}") })
                .collect();
            let end = if text.ends_with('\n') { "" } else { "-" };
            format!("|{end}\n{}", lines.join("\n"))
        }
        Value::String(text) => word(text),
        other => other.to_string(),
    }
}

/// True if a text is written as a block of lines (`|`).
fn literal(text: &str) -> bool {
    let inner = text.strip_suffix('\n').unwrap_or(text);
    text.contains('\n')
        && !inner.is_empty()
        && !inner.starts_with([' ', '\n'])
        && !inner.ends_with('\n')
        && text.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{feff}' && c != '\u{2028}'))
}

/// A text without quotes if YAML reads it back as a string, else in JSON quotes.
fn word(text: &str) -> String {
    let sign = |c: char| c.is_ascii_alphanumeric() || "-_./+=@".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let plain = begins && text.chars().all(sign) && api::yaml::plain(text).is_ok_and(|v| v.is_string());
    if plain { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::yaml::parse;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_again() {
        let value = json!({
            "a": {"b": [], "c": {}, "d": [1, {"x": "yes", "y": [true, null]}, [["deep"], {}]], "e": ""},
            "texts": ["on", "010", "a: b", "#x", "line\nline\n", "\n", " lead\n", "tab\t", "-", "12:30", "ä", "x\n\n"],
            "user data": {"t": "#cloud-config\n{\"a\": 1}\n\nend\n", "u": "#cloud-config\nuser: me", "v": "a\n "},
            "n": -1.5, "null": null,
        });
        let text = yaml(&[value.clone(), json!({"kind": "X"})]);
        let documents = parse(&text).unwrap();
        assert_eq!(documents[0].value, value, "{text}");
        assert_eq!(documents[1].value, json!({"kind": "X"}));
    }
}
