//! OpenAPI schema of a type: a structural schema of OpenAPI 3, made from the description that also reads and
//! writes the type, so that the two cannot differ.
//!
//! ```text
//! object! ──► type: object, a description and a form for each field; unknown fields are kept
//! string_enum!  ──► type: string; the words stand in the description
//! ```
//!
//! A schema refuses values that no program could read (a text for a number), because one such object would
//! break every list that it is in. It does not refuse a word: a newer version may have more of them, and the
//! check of a VMI has better messages.

use serde_json::{Map, Value, json};

/// Schema of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    node: Map<String, Value>,
    /// Known values of a text.
    words: &'static [&'static str],
    /// The field that distinguishes the objects of a list.
    key: Option<&'static str>,
    /// The field is written even when empty, so clients must set it.
    required: bool,
}

impl Schema {
    /// An object without fields; it keeps unknown fields.
    pub fn object(doc: &str) -> Schema {
        let schema = Schema::scalar(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
        schema.described(doc)
    }

    /// A text with known values; others are allowed too.
    pub fn words(doc: &str, words: &'static [&'static str]) -> Schema {
        let schema = Schema { words, ..Schema::scalar(json!({"type": "string"})) };
        schema.described(doc)
    }

    /// A value that is not an object.
    pub fn scalar(node: Value) -> Schema {
        let node = if let Value::Object(node) = node { node } else { Map::new() };
        Schema { node, words: &[], key: None, required: false }
    }

    /// A list of values of this schema.
    pub fn list(item: Schema) -> Schema {
        let mut list = json!({"type": "array"});
        if let Some(key) = item.key {
            list["x-kubernetes-list-type"] = json!("map");
            list["x-kubernetes-list-map-keys"] = json!([key]);
        }
        list["items"] = item.into_value();
        Schema::scalar(list)
    }

    /// A map from free names to values of this schema.
    pub fn map(item: Schema) -> Schema {
        Schema::scalar(json!({"type": "object", "additionalProperties": item.into_value()}))
    }

    /// The schema with one more field.
    #[must_use]
    pub fn field(mut self, name: &str, doc: &str, form: Schema) -> Schema {
        if form.required {
            self.require(name);
        }
        let form = form.described(doc).into_value();
        if let Some(fields) = self.node.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
            fields.insert(name.to_owned(), form);
        }
        self
    }

    /// An object that this field identifies in a list.
    #[must_use]
    pub fn by(mut self, key: &'static str) -> Schema {
        self.key = Some(key);
        self.require(key);
        self
    }

    /// An object with one owner: a client that changes a part of it owns all of it.
    #[must_use]
    pub fn atomic(mut self) -> Schema {
        self.node.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
        self
    }

    /// The value may be `null`, which equals an absent field: Go programs write an unset time like that.
    #[must_use]
    pub fn nullable(mut self) -> Schema {
        self.node.insert("nullable".to_owned(), json!(true));
        self
    }

    /// The schema of a field that is always written. Clients must set it, unless it is an object, which may
    /// be empty.
    #[must_use]
    pub fn bare(self) -> Schema {
        let required = self.node.get("type") != Some(&json!("object"));
        Schema { required, ..self }
    }

    /// Clients may leave the field out, although we always write it.
    #[must_use]
    pub fn optional(self) -> Schema {
        Schema { required: false, ..self }
    }

    /// The schema as JSON.
    pub fn into_value(mut self) -> Value {
        if !self.words.is_empty() {
            let text = self.node.get("description").and_then(Value::as_str).unwrap_or_default();
            let words: Vec<String> = self.words.iter().map(|word| format!("`{word}`")).collect();
            let text = format!("{text} One of {}.", words.join(", "));
            self.node.insert("description".to_owned(), Value::from(text.trim()));
        }
        Value::Object(self.node)
    }

    /// The schema with a description, before the description of its type.
    fn described(mut self, doc: &str) -> Schema {
        let lines: Vec<&str> = doc.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if !lines.is_empty() {
            self.node.insert("description".to_owned(), Value::from(lines.join(" ")));
        }
        self
    }

    fn require(&mut self, name: &str) {
        if let Some(names) = self.node.entry("required").or_insert_with(|| json!([])).as_array_mut()
            && !names.iter().any(|known| known == name)
        {
            names.push(Value::from(name));
        }
    }
}
