//! A small writer of XML. A tree is built from unescaped texts, and escaped in one place when it is written.
//! So no name, path or argument can become an element.
//!
//! XML 1.0 cannot express most control characters. A tree with one is an error.

use std::fmt::{Display, Write};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<Element>,
    text: Option<String>,
}

/// A character that XML cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unsayable {
    /// Place in the tree: `disk/serial`, `target@dev` for an attribute.
    pub place: String,
    pub character: char,
}

impl Element {
    pub(super) fn new(name: &'static str) -> Element {
        Element { name, attributes: Vec::new(), children: Vec::new(), text: None }
    }

    /// An element with a text.
    pub(super) fn of(name: &'static str, text: impl Display) -> Element {
        Element { text: Some(text.to_string()), ..Element::new(name) }
    }

    #[must_use]
    pub(super) fn at(mut self, name: &'static str, value: impl Display) -> Element {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// Adds an attribute, if it has a value.
    #[must_use]
    pub(super) fn maybe_at(self, name: &'static str, value: Option<impl Display>) -> Element {
        match value {
            Some(value) => self.at(name, value),
            None => self,
        }
    }

    /// Adds child elements: one, an `Option` of one, or many.
    #[must_use]
    pub(super) fn with(mut self, children: impl IntoIterator<Item = Element>) -> Element {
        self.children.extend(children);
        self
    }

    /// Adds one child element.
    #[must_use]
    pub(super) fn and(self, child: Element) -> Element {
        self.with([child])
    }

    /// True if the element has neither children nor a text.
    pub(super) fn is_empty(&self) -> bool {
        self.attributes.is_empty() && self.children.is_empty() && self.text.is_none()
    }

    /// The element as XML, in whole lines.
    pub(super) fn write(&self) -> Result<String, Unsayable> {
        let mut out = String::new();
        self.write_to(&mut out, 0)?;
        Ok(out)
    }

    fn write_to(&self, out: &mut String, depth: usize) -> Result<(), Unsayable> {
        let indent = "  ".repeat(depth);
        let name = self.name;
        let _ = write!(out, "{indent}<{name}");
        for (key, value) in &self.attributes {
            let _ = write!(out, " {key}='");
            escape(out, value).map_err(|c| Unsayable { place: format!("{name}@{key}"), character: c })?;
            out.push('\'');
        }
        match &self.text {
            Some(text) => {
                out.push('>');
                escape(out, text).map_err(|c| Unsayable { place: name.to_string(), character: c })?;
                let _ = writeln!(out, "</{name}>");
            }
            None if self.children.is_empty() => out.push_str("/>\n"),
            None => {
                out.push_str(">\n");
                for child in &self.children {
                    child.write_to(out, depth + 1)?;
                }
                let _ = writeln!(out, "{indent}</{name}>");
            }
        }
        Ok(())
    }
}

/// Escapes a text. White space other than the blank is written by number: a parser would turn it into blanks
/// in an attribute.
fn escape(out: &mut String, text: &str) -> Result<(), char> {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(out, "&#{};", c as u32);
            }
            '\u{0}'..'\u{20}' | '\u{fffe}' | '\u{ffff}' => return Err(c),
            _ => out.push(c),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_looks_like_an_element_stays_text() {
        let xml = Element::new("a")
            .at("b", "'/><x y=\"&amp;\"")
            .and(Element::of("c", "</c>\n\t&"))
            .write()
            .unwrap();
        assert_eq!(
            xml,
            "<a b='&apos;/&gt;&lt;x y=&quot;&amp;amp;&quot;'>\n  <c>&lt;/c&gt;&#10;&#9;&amp;</c>\n</a>\n"
        );
    }

    #[test]
    fn a_character_outside_of_xml_is_refused_with_its_place() {
        let refused = |element: Element| element.write().unwrap_err();
        assert_eq!(refused(Element::of("c", "a\0b")), Unsayable { place: "c".into(), character: '\0' });
        assert_eq!(
            refused(Element::new("a").and(Element::new("b").at("d", "\u{1b}[2J"))),
            Unsayable { place: "b@d".into(), character: '\u{1b}' }
        );
        assert_eq!(refused(Element::of("c", "\u{ffff}")).character, '\u{ffff}');
    }

    #[test]
    fn an_empty_element_is_self_closing() {
        assert_eq!(Element::new("acpi").write().unwrap(), "<acpi/>\n");
        assert!(Element::new("acpi").is_empty());
        assert!(!Element::new("acpi").at("x", 1).is_empty());
    }
}
