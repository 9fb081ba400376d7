//! Parser of YAML (or JSON) that records the line of each field.
//!
//! ```text
//!  text ──parser──► events ──► Node (bounded: depth, number of nodes with every alias written out)
//!                               └──► serde_json::Value  and  Lines: field path ─► line      parse: a manifest
//!                                                       alone                               value: the body of a request
//! ```
//!
//! A manifest, or the body of a request, is foreign, so nesting and aliases are bounded before they take
//! memory. An alias counts with the depth and size of the value that it stands for. Work grows linearly with
//! the text. A duplicate key is a fault, as it is to an API server. A fault shows only the beginning of a
//! value.

mod scalar;
#[cfg(test)]
mod tests;

pub use scalar::plain;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Nesting levels of a document, with every alias expanded.
const DEPTH: usize = 100;
/// Values of a text, with every alias expanded.
const NODES: usize = 200_000;
/// Bytes of text that its aliases may expand to: 16 MiB.
const ALIASED: usize = 16 << 20;
/// Faults that are collected; one more ends the reading.
const FAULTS: usize = 100;
/// Characters of a value that a fault shows.
const SHOWN: usize = 60;

/// A parsed document, with the lines of its fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub value: Value,
    /// Lines of its fields in the text.
    pub lines: Lines,
}

/// Lines of the fields, by path from the root of the document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<String, usize>);

impl Lines {
    /// The line of a field, or of the nearest enclosing field that is written, or 0.
    pub fn line(&self, path: &str) -> usize {
        let mut path = path;
        loop {
            if let Some(line) = self.0.get(path) {
                return *line;
            }
            match path.rfind(['.', '[']) {
                Some(at) => path = &path[..at],
                None => return self.0.get("").copied().unwrap_or(0),
            }
        }
    }

    /// The lines of the value at `path`, with paths relative to it.
    pub fn below(&self, path: &str) -> Lines {
        let within = self.0.iter().filter_map(|(known, line)| {
            let rest = known.strip_prefix(path)?;
            let rest = if rest.is_empty() || rest.starts_with('[') { rest } else { rest.strip_prefix('.')? };
            Some((rest.to_owned(), *line))
        });
        Lines(within.collect())
    }
}

/// Fault of a text that is not valid YAML, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxFault {
    /// The line, from 1.
    pub line: usize,
    /// The field, if the fault is in one.
    pub field: String,
    /// Description of the fault.
    pub what: String,
}

/// The only document of a text, or its first fault. An empty text is null.
pub fn value(text: &str) -> Result<Value, SyntaxFault> {
    let mut nodes = Reader::new(text, 0).nodes()?;
    let first = nodes.pop().map_or(Value::Null, |node| spread(&node, "", None));
    match nodes.pop() {
        None => Ok(first),
        Some(_) => {
            let what = "the text has more than one document".to_owned();
            Err(SyntaxFault { line: 1, field: String::new(), what })
        }
    }
}

/// The documents of a text, without empty ones; or all its faults, up to a hundred.
pub fn parse(text: &str) -> Result<Vec<Document>, Vec<SyntaxFault>> {
    let mut reader = Reader::new(text, FAULTS);
    let read = reader.documents();
    match read {
        Ok(documents) if reader.wrong.is_empty() => Ok(documents),
        Ok(_) => Err(reader.wrong),
        Err(first) => match serde_json::from_str(text) {
            // JSON with tabs is valid JSON, though not valid YAML.
            Ok(value) if reader.wrong.is_empty() && text.trim_start().starts_with('{') => {
                Ok(vec![Document { value, lines: Lines::default() }])
            }
            _ => {
                reader.wrong.push(first);
                Err(reader.wrong)
            }
        },
    }
}

/// A value with its line.
#[derive(Debug)]
struct Node {
    line: usize,
    /// Number of values in the node.
    size: usize,
    /// Bytes of text in the node.
    text: usize,
    /// Nesting depth: 0 for a scalar.
    height: usize,
    kind: NodeKind,
}

#[derive(Debug)]
enum NodeKind {
    Scalar(Value),
    List(Vec<Rc<Node>>),
    Map(Vec<(String, usize, Rc<Node>)>),
}

struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Rc<Node>>,
    nodes: usize,
    /// Bytes of text that aliases stood for so far.
    aliased: usize,
    wrong: Vec<SyntaxFault>,
    /// Number of faults that are kept.
    most: usize,
}

impl<'t> Reader<'t> {
    /// `most`: faults after which reading stops.
    fn new(text: &'t str, most: usize) -> Self {
        // A byte-order mark does not belong to the text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Reader {
            events: Parser::new_from_str(text),
            anchors: HashMap::new(),
            nodes: 0,
            aliased: 0,
            wrong: vec![],
            most,
        }
    }

    fn documents(&mut self) -> Result<Vec<Document>, SyntaxFault> {
        let parsed = |node: &Rc<Node>| {
            let mut lines = Lines::default();
            Document { value: spread(node, "", Some(&mut lines)), lines }
        };
        Ok(self.nodes()?.iter().map(parsed).collect())
    }

    /// The documents that are not empty.
    fn nodes(&mut self) -> Result<Vec<Rc<Node>>, SyntaxFault> {
        let mut nodes = vec![];
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(nodes),
                Event::DocumentStart(_) => {
                    self.anchors.clear();
                    let (event, span) = self.next()?;
                    let node = self.node(event, span, 0)?;
                    if !matches!(&node.kind, NodeKind::Scalar(Value::Null)) {
                        nodes.push(node);
                    }
                }
                Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
                _ => return Err(syntax_fault(span, "something stands outside of a document")),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), SyntaxFault> {
        match self.events.next() {
            Some(Ok(next)) => Ok(next),
            Some(Err(e)) => {
                let line = e.marker().line().max(1);
                Err(SyntaxFault {
                    line,
                    field: String::new(),
                    what: format!("this is not valid YAML: {}", e.info()),
                })
            }
            None => {
                Err(SyntaxFault { line: 1, field: String::new(), what: "the text ends too early".into() })
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Rc<Node>, SyntaxFault> {
        reaches(depth, span)?;
        let line = span.start.line().max(1);
        let (kind, anchor) = match event {
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or_else(|| {
                    syntax_fault(span, "this alias has no anchor, or is inside of its own anchor")
                })?;
                // Recursive functions walk the expanded value, so its depth is bounded.
                reaches(depth.saturating_add(node.height), span)?;
                self.count(node.size, span)?;
                self.aliased = self.aliased.saturating_add(node.text);
                if self.aliased > ALIASED {
                    let what =
                        format!("with all aliases written out, this has more than {ALIASED} bytes of text");
                    return Err(syntax_fault(span, what));
                }
                // Fields of it are reported at the line of the alias.
                let kind = match &node.kind {
                    NodeKind::Scalar(value) => NodeKind::Scalar(value.clone()),
                    NodeKind::List(items) => NodeKind::List(items.clone()),
                    NodeKind::Map(fields) => NodeKind::Map(fields.clone()),
                };
                return Ok(Rc::new(Node {
                    line,
                    size: node.size,
                    text: node.text,
                    height: node.height,
                    kind,
                }));
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = match scalar_of(&text, style, tag.as_deref()) {
                    Ok(value) => value,
                    Err(what) => {
                        self.fault(syntax_fault(span, what))?;
                        Value::Null
                    }
                };
                (NodeKind::Scalar(value), anchor)
            }
            Event::SequenceStart(anchor, _) => (self.list(depth)?, anchor),
            Event::MappingStart(anchor, _) => (self.map(depth)?, anchor),
            _ => return Err(syntax_fault(span, "a value is missing here")),
        };
        self.count(1, span)?;
        let size = 1 + match &kind {
            NodeKind::Scalar(_) => 0,
            NodeKind::List(items) => items.iter().map(|item| item.size).sum(),
            NodeKind::Map(fields) => fields.iter().map(|(_, _, value)| value.size).sum(),
        };
        let text = match &kind {
            NodeKind::Scalar(Value::String(text)) => text.len(),
            NodeKind::Scalar(_) => 0,
            NodeKind::List(items) => items.iter().fold(0, |sum: usize, item| sum.saturating_add(item.text)),
            NodeKind::Map(fields) => fields.iter().fold(0, |sum: usize, (key, _, value)| {
                sum.saturating_add(key.len()).saturating_add(value.text)
            }),
        };
        let height = match &kind {
            NodeKind::Scalar(_) => 0,
            NodeKind::List(items) => 1 + items.iter().map(|item| item.height).max().unwrap_or(0),
            NodeKind::Map(fields) => 1 + fields.iter().map(|(_, _, value)| value.height).max().unwrap_or(0),
        };
        let node = Rc::new(Node { line, size, text, height, kind });
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        Ok(node)
    }

    /// Records a fault, to report all of them. An error ends the reading after too many.
    fn fault(&mut self, fault: SyntaxFault) -> Result<(), SyntaxFault> {
        if self.wrong.len() >= self.most {
            return Err(fault);
        }
        self.wrong.push(fault);
        Ok(())
    }

    fn count(&mut self, nodes: usize, span: Span) -> Result<(), SyntaxFault> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > NODES {
            return Err(syntax_fault(
                span,
                format!("with all aliases written out, this has more than {NODES} values"),
            ));
        }
        Ok(())
    }

    fn list(&mut self, depth: usize) -> Result<NodeKind, SyntaxFault> {
        let mut items = vec![];
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(NodeKind::List(items));
            }
            items.push(self.node(event, span, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<NodeKind, SyntaxFault> {
        let mut fields: Vec<(String, usize, Rc<Node>)> = vec![];
        // Line of each key.
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut merged = vec![];
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let is_merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key = self.node(event, span, depth + 1)?;
            let (event, value_span) = self.next()?;
            let value = self.node(event, value_span, depth + 1)?;
            if is_merge {
                merged.push((value, span));
                continue;
            }
            let key = self.key(&key, span)?;
            let line = span.start.line().max(1);
            match known.get(&key) {
                Some(first) => {
                    let key = excerpt(&key);
                    let what = format!("{key:?} stands here a second time; the first is on line {first}");
                    self.fault(syntax_fault(span, what))?;
                }
                None => drop(known.insert(key.clone(), line)),
            }
            fields.push((key, line, value));
        }
        for (value, span) in merged {
            self.merge(&value, span, &mut known, &mut fields)?;
        }
        Ok(NodeKind::Map(fields))
    }

    /// The text of a key; numbers and booleans are taken as they are written.
    fn key(&mut self, key: &Node, span: Span) -> Result<String, SyntaxFault> {
        Ok(match &key.kind {
            NodeKind::Scalar(Value::String(text)) => text.clone(),
            NodeKind::Scalar(Value::Number(number)) => number.to_string(),
            NodeKind::Scalar(Value::Bool(truth)) => truth.to_string(),
            _ => {
                self.fault(syntax_fault(span, "a key must be a word"))?;
                String::new()
            }
        })
    }

    /// Merge key `<<`: adds the fields of other objects, except those that the object has itself.
    fn merge(
        &mut self,
        from: &Rc<Node>,
        span: Span,
        known: &mut HashMap<String, usize>,
        fields: &mut Vec<(String, usize, Rc<Node>)>,
    ) -> Result<(), SyntaxFault> {
        let maps = match &from.kind {
            NodeKind::List(items) => items.clone(),
            _ => vec![Rc::clone(from)],
        };
        for map in maps {
            let NodeKind::Map(others) = &map.kind else {
                return self.fault(syntax_fault(span, "only objects can be merged with <<"));
            };
            for (key, _, value) in others {
                if !known.contains_key(key) {
                    let line = span.start.line().max(1);
                    known.insert(key.clone(), line);
                    fields.push((key.clone(), line, Rc::clone(value)));
                }
            }
        }
        Ok(())
    }
}

/// The JSON value of a node. Records the lines, except within an alias.
fn spread(node: &Node, path: &str, mut lines: Option<&mut Lines>) -> Value {
    if let Some(lines) = &mut lines {
        lines.0.entry(path.to_owned()).or_insert(node.line);
    }
    match &node.kind {
        NodeKind::Scalar(value) => value.clone(),
        NodeKind::List(items) => {
            let items = items.iter().enumerate().map(|(i, item)| {
                // The target of an alias is written above it, so its parts have smaller lines.
                match lines.as_deref_mut().filter(|_| item.line >= node.line) {
                    Some(lines) => spread(item, &format!("{path}[{i}]"), Some(lines)),
                    None => spread(item, "", None),
                }
            });
            Value::Array(items.collect())
        }
        NodeKind::Map(fields) => {
            let mut map = Map::new();
            for (key, line, value) in fields {
                let written = match lines.as_deref_mut().filter(|_| *line >= node.line) {
                    Some(lines) => {
                        let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                        lines.0.insert(at.clone(), *line);
                        spread(value, &at, Some(lines).filter(|_| value.line >= *line))
                    }
                    None => spread(value, "", None),
                };
                map.insert(key.clone(), written);
            }
            Value::Object(map)
        }
    }
}

/// Value of a scalar.
fn scalar_of(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let string = || Value::String(text.to_owned());
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain { plain(text) } else { Ok(string()) };
    };
    if !tag.is_yaml_core_schema() {
        return if tag.suffix.is_empty() {
            Ok(string())
        } else {
            Err(format!("the tag {} is not known", excerpt(&tag.to_string())))
        };
    }
    let value = match tag.suffix.as_str() {
        "str" => return Ok(string()),
        "int" | "float" | "bool" | "null" => plain(text)?,
        other => {
            return Err(format!("the tag !!{} is not supported; write the text itself", excerpt(other)));
        }
    };
    let fits = match tag.suffix.as_str() {
        "int" => value.is_i64() || value.is_u64(),
        "float" => value.is_number(),
        "bool" => value.is_boolean(),
        _ => value.is_null(),
    };
    if fits { Ok(value) } else { Err(format!("{:?} is not a value of type {}", excerpt(text), tag.suffix)) }
}

/// The beginning of a value, as a fault shows it.
fn excerpt(word: &str) -> Cow<'_, str> {
    match word.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &word[..end]).into(),
        None => word.into(),
    }
}

fn reaches(depth: usize, span: Span) -> Result<(), SyntaxFault> {
    if depth > DEPTH {
        return Err(syntax_fault(span, format!("this is nested more than {DEPTH} deep")));
    }
    Ok(())
}

fn syntax_fault(span: Span, what: impl Into<String>) -> SyntaxFault {
    SyntaxFault { line: span.start.line().max(1), field: String::new(), what: what.into() }
}
