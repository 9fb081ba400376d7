//! Values that match or nearly match a schema, generated from the bytes of a fuzzer.
//!
//! ```text
//!  bytes ─► Chance ─► change(schema, value):  walk down some fields, then put what the schema allows there
//!                                             ─ sometimes what it does not: another type, a number without end
//! ```
//!
//! Without bytes left nothing is added, so the size of a value is bounded by the number of bytes.

use serde_json::{Map, Value, json};

/// Words with a special meaning somewhere, or invalid nearly everywhere.
const WORDS: &[&str] = &[
    "",
    "root",
    "default",
    "web",
    "data",
    "a",
    " ",
    "\0",
    "é\u{202e}",
    "-",
    ".",
    "..",
    "/",
    "../../etc/passwd",
    "/dev/sda",
    "kubevirt.io/nodeName",
    "0",
    "1",
    "-1",
    "1Gi",
    "64Mi",
    "1e400",
    "0.5",
    "1n",
    "9223372036854775808",
    "-1Gi",
    "1Ei",
    "100m",
    "10.0.2.1",
    "10.0.2.1/33",
    "::1",
    "02:00:00:00:00:01",
    "02:00:00:00:00:0g",
    "0000:00:1f.7",
    "virtio",
    "sata",
    "q35",
    "Always",
    "Halted",
    "true",
    "host-passthrough",
    "5d307ca9-b3ef-428c-8861-06e72d69f223",
    "2026-01-01T00:00:00Z",
    "1s",
    "Exists",
    "In",
    "Filesystem",
    "ReadWriteOnce",
    "QUJD",
    "http://a/b",
    "docker://r/i:1",
    "UTC",
    "Europe/Berlin",
];

/// Boundary numbers.
const NUMBERS: &[i64] = &[
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    255,
    256,
    1024,
    4096,
    65_535,
    65_536,
    i32::MAX as i64,
    1 << 32,
    1 << 53,
    i64::MAX,
    i64::MIN,
];

/// The fuzzer's bytes.
pub(crate) struct Chance<'a> {
    bytes: &'a [u8],
}

impl<'a> Chance<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Chance<'a> {
        Chance { bytes }
    }

    /// The next byte; 0 after the end.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        byte
    }

    /// A number below `end`, which is at least 1.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let wide = if end > 256 { usize::from(self.byte()) << 8 } else { 0 };
        (wide | usize::from(self.byte())) % end
    }

    pub(crate) fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next bytes as a text.
    fn text(&mut self) -> String {
        let (text, rest) = self.bytes.split_at(self.below(24).min(self.bytes.len()));
        self.bytes = rest;
        String::from_utf8_lossy(text).into_owned()
    }
}

/// Changes a value somewhere, guided by its schema.
pub(crate) fn change(schema: &Value, value: &mut Value, chance: &mut Chance<'_>) {
    let (mut schema, mut value) = (schema, value);
    // Our schemas are not deeper.
    for _ in 0..32 {
        let stop = chance.byte() & 3 == 3;
        if let (false, Some(fields)) = (stop, schema["properties"].as_object()) {
            let (name, inner) = pick(fields, chance);
            if !value.is_object() {
                *value = json!({});
            }
            (schema, value) = (inner, &mut value[name.as_str()]);
        } else if let (false, Some(_)) = (stop, schema["items"].as_object()) {
            if !value.is_array() {
                *value = json!([]);
            }
            let Value::Array(list) = value else { return };
            let index = chance.below(list.len() + 1);
            if index == list.len() {
                list.push(Value::Null);
            }
            (schema, value) = (&schema["items"], &mut list[index]);
        } else {
            break;
        }
    }
    *value = match chance.byte() {
        255 => Value::Null,
        // Repeats an entry: duplicate names, very long lists.
        254 if value.is_array() => {
            let times = chance.below(300);
            let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().cycle().take(list.len() * times.min(1 + 2000 / list.len().max(1))).cloned().collect()
        }
        _ => made(schema, chance),
    };
}

/// A value that mostly matches the schema.
pub(crate) fn made(schema: &Value, chance: &mut Chance<'_>) -> Value {
    let kind = chance.byte();
    if kind >= 248 {
        return wrong(kind);
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if kind & 1 == 0 { text(schema, chance) } else { number(chance) };
    }
    match schema["type"].as_str() {
        Some("object") => object(schema, kind, chance),
        Some("array") => (0..kind & 3).map(|_| made(&schema["items"], chance)).collect(),
        Some("boolean") => Value::from(kind & 1 == 0),
        Some("integer" | "number") => number(chance),
        Some("string") => text(schema, chance),
        _ => json!({"any": text(schema, chance)}),
    }
}

fn object(schema: &Value, kind: u8, chance: &mut Chance<'_>) -> Value {
    let mut object = Map::new();
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        object.insert(name.to_owned(), made(&schema["properties"][name], chance));
    }
    for _ in 0..kind & 3 {
        if let Some(fields) = schema["properties"].as_object().filter(|fields| !fields.is_empty()) {
            let (name, inner) = pick(fields, chance);
            object.insert(name.clone(), made(inner, chance));
        } else if schema["additionalProperties"].is_object() {
            let Value::String(name) = text(&Value::Null, chance) else { continue };
            object.insert(name, made(&schema["additionalProperties"], chance));
        }
    }
    if kind & 0x40 != 0 && schema["x-kubernetes-preserve-unknown-fields"] == true {
        object.insert(chance.text(), json!(chance.byte()));
    }
    Value::Object(object)
}

fn pick<'s>(fields: &'s Map<String, Value>, chance: &mut Chance<'_>) -> (&'s String, &'s Value) {
    fields.iter().nth(chance.below(fields.len())).expect("below its length")
}

fn number(chance: &mut Chance<'_>) -> Value {
    match chance.byte() {
        255 => json!(u64::MAX),
        254 => json!(1e308),
        253 => json!(0.5),
        small @ 128.. => json!(small - 128),
        place => json!(NUMBERS[usize::from(place) % NUMBERS.len()]),
    }
}

/// A word of the schema's description, a special word, a long one, or any bytes.
fn text(schema: &Value, chance: &mut Chance<'_>) -> Value {
    let told = schema["description"].as_str().unwrap_or_default();
    let told: Vec<&str> = told.split('`').skip(1).step_by(2).collect();
    match chance.byte() {
        255 => json!("x".repeat(70_000)),
        254 => json!("é".repeat(130)),
        253 => json!("a-".repeat(40)),
        240.. => json!(chance.text()),
        place @ 160.. if !told.is_empty() => json!(told[usize::from(place) % told.len()]),
        place => json!(WORDS[usize::from(place) % WORDS.len()]),
    }
}

/// A value that no schema of ours permits.
fn wrong(kind: u8) -> Value {
    match kind & 7 {
        0 => Value::Null,
        1 => json!([]),
        2 => json!({}),
        3 => json!(true),
        4 => json!(-1),
        5 => json!([[null]]),
        6 => json!("?"),
        _ => json!({"name": {"name": []}}),
    }
}
