//! The descriptions that `kubectl explain` prints are sentences with the field's own words: long enough to define the
//! field, with its noun in front, and free of riddles. CONTRIBUTING.md has the rules and the glossary.

use api::crd::{self, KINDS};
use serde_json::{Map, Value};

/// Shorter than this, a description repeats the field's name at best.
const FEWEST_WORDS: usize = 4;

/// First words that make a question, a reference to an earlier sentence or a fragment of a description.
const NEVER_FIRST: &[&str] = &[
    "also",
    "and",
    "anybody",
    "anyone",
    "how",
    "it",
    "its",
    "nobody",
    "of",
    "so",
    "somebody",
    "someone",
    "something",
    "such",
    "that",
    "their",
    "there",
    "these",
    "they",
    "this",
    "those",
    "what",
    "whatever",
    "when",
    "where",
    "whether",
    "which",
    "who",
    "whoever",
    "whom",
    "whose",
    "why",
];

/// Phrases that have an established word, with that word.
const NEVER: &[(&str, &str)] = &[
    ("anybody", "the user, the client or the component"),
    ("by themselves", "automatically, or by default"),
    ("called off", "cancelled"),
    ("disc", "CD-ROM"),
    ("is no", "is not a"),
    ("machine", "VM or VMI"),
    ("machines", "VMs or VMIs"),
    ("nobody", "the user, the client or the component"),
    ("not said", "unset, or a default"),
    ("one day", "maximum, or after hotplug"),
    ("somebody", "the user, the client or the component"),
    ("someone", "the user, the client or the component"),
    ("who", "the user, the client or the component"),
    ("whoever", "the user, the client or the component"),
];

/// Terms in which the word machine stands.
const MACHINE: &[&str] = &["machine type", "machine types", "virtual machine"];

#[test]
fn every_field_has_a_description_in_the_words_of_kubernetes() {
    let mut faults = Vec::new();
    let mut looked_at = 0;
    for kind in KINDS {
        let definition = kind.definition();
        for column in definition["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap() {
            if let Some(text) = column.get("description") {
                judge(&format!("column {} of {}", column["name"], kind.singular), text, &mut faults);
            }
        }
        let mut root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        // The API server allows no description there and prints its own.
        root["properties"].as_object_mut().unwrap().remove("metadata");
        judge(kind.singular, &root["description"], &mut faults);
        walk(&root, kind.singular, &mut looked_at, &mut faults);
    }
    assert!(looked_at > 1000, "only {looked_at} fields: the schemas are not walked");
    assert!(faults.is_empty(), "{} of {looked_at} fields:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_type_in_a_list_has_a_description_too() {
    let mut faults = Vec::new();
    for definition in crd::all() {
        let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
        items(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &name, &mut faults);
    }
    assert!(faults.is_empty(), "{} types:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn riddles_are_found() {
    for text in [
        "",
        "The name.",
        "Its name and the like.",
        "How many seconds nobody asks at first.",
        "What is wanted of it.",
        "Seconds, not said is 1, of something.",
        "Name of the machine in libvirt.",
        "One of `a`, `b`, `c`, `d`.",
        "Bus of `a`. One of `usb`, `virtio`.",
    ] {
        assert!(fault(text).is_some(), "{text}");
    }
    for text in [
        "Seconds to wait before the first probe. Default: 0.",
        "QEMU machine type of the VMI, for example `q35`.",
        "Bus of the input device. One of `usb`, `virtio`.",
    ] {
        assert_eq!(fault(text), None, "{text}");
    }
}

fn walk(node: &Value, at: &str, looked_at: &mut usize, faults: &mut Vec<String>) {
    let none = Map::new();
    for (name, field) in node.get("properties").and_then(Value::as_object).unwrap_or(&none) {
        let at = format!("{at}.{name}");
        *looked_at += 1;
        judge(&at, &field["description"], faults);
        walk(field, &at, looked_at, faults);
    }
    for inside in ["items", "additionalProperties"].iter().filter_map(|key| node.get(key)) {
        walk(inside, at, looked_at, faults);
    }
}

fn items(node: &Value, at: &str, faults: &mut Vec<String>) {
    for (name, field) in node.get("properties").and_then(Value::as_object).into_iter().flatten() {
        items(field, &format!("{at}.{name}"), faults);
    }
    for inside in ["items", "additionalProperties"].iter().filter_map(|key| node.get(key)) {
        if inside.get("properties").is_some() {
            judge(&format!("{at}[]"), &inside["description"], faults);
        }
        items(inside, at, faults);
    }
}

fn judge(at: &str, description: &Value, faults: &mut Vec<String>) {
    let text = description.as_str().unwrap_or_default();
    if let Some(fault) = fault(text) {
        faults.push(format!("{at}: {fault}: {text:?}"));
    }
}

/// The rule that a description breaks. The words that the schema adds to it are no part of it.
fn fault(text: &str) -> Option<String> {
    let text = text.rfind("One of `").map_or(text, |at| &text[..at]).trim();
    if text.is_empty() {
        return Some("no description".to_owned());
    }
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !(c.is_alphanumeric() || c == '\'' || c == '-'))
        .filter(|w| !w.is_empty())
        .collect();
    if words.len() < FEWEST_WORDS {
        return Some(format!("fewer than {FEWEST_WORDS} words"));
    }
    if let Some(first) = NEVER_FIRST.iter().find(|first| **first == words[0]) {
        return Some(format!("begins with {first}"));
    }
    let spaced = MACHINE.iter().fold(format!(" {} ", words.join(" ")), |text, term| text.replace(term, ""));
    let (phrase, instead) = NEVER.iter().find(|(phrase, _)| spaced.contains(&format!(" {phrase} ")))?;
    Some(format!("says {phrase}, where {instead} is meant"))
}
