//! Objects as YAML that reads well in a review: sorted fields, every text in quotes.

use serde_json::Value;
use std::collections::BTreeMap;

/// An object as YAML.
pub(crate) fn yaml(object: &Value) -> String {
    let mut text = String::new();
    write(object, 0, &mut text);
    text.trim_start().to_owned()
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            // Sorted here: whether a map of serde_json is sorted depends on who else is built beside it.
            for (key, value) in fields.iter().collect::<BTreeMap<_, _>>() {
                // The first field of a list's entry stands beside its dash.
                let lead = if text.ends_with("- ") { "" } else { "\n" };
                let indent = if lead.is_empty() { "" } else { &indent };
                text.push_str(&format!("{lead}{indent}{key}:"));
                write(value, depth + 1, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&format!("\n{indent}- "));
                write(item, depth + 1, text);
            }
        }
        scalar => {
            let lead = if text.ends_with("- ") { "" } else { " " };
            text.push_str(&format!("{lead}{scalar}"));
        }
    }
    if depth == 0 {
        text.push('\n');
    }
}

#[test]
fn lists_and_objects_nest() {
    let object = serde_json::json!({"b": [{"d": 1, "c": ["x: y"]}, "é", {}], "a": {"e": true}});
    let wanted = "a:\n  e: true\nb:\n  - c:\n      - \"x: y\"\n    d: 1\n  - \"é\"\n  - {}\n";
    assert_eq!(yaml(&object), wanted);
}
