//! The tags of an XML text of libvirt or a hook, one after the other. This is not a parser: entities stay as
//! they are, and a text that is not well-formed gives some tags or none. libvirt's own parser is
//! authoritative.

/// The opening tags of a text.
#[derive(Debug)]
pub struct XmlTags<'a> {
    rest: &'a str,
    /// Elements that are open around the last tag.
    path: Vec<&'a str>,
    /// Element that the last tag has opened, unless it was an empty one.
    opened: Option<&'a str>,
}

/// An opening tag, with its attributes unparsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XmlTag<'a> {
    /// The name of the element.
    pub name: &'a str,
    attributes: &'a str,
    /// The text up to the next tag; `None` for an empty element.
    pub text: Option<&'a str>,
}

impl<'a> XmlTags<'a> {
    /// The tags of this text, from its beginning on.
    pub fn of(xml: &'a str) -> XmlTags<'a> {
        XmlTags { rest: xml, path: Vec::new(), opened: None }
    }

    /// The next opening tag. Comments, CDATA sections and declarations are skipped.
    pub fn next_tag(&mut self) -> Option<XmlTag<'a>> {
        self.path.extend(self.opened.take());
        loop {
            let (_, tail) = self.rest.split_once('<')?;
            let skipped = [("!--", "-->"), ("![CDATA[", "]]>"), ("?", "?>"), ("!", ">")];
            if let Some((begin, end)) = skipped.iter().find(|(begin, _)| tail.starts_with(begin)) {
                self.rest = tail[begin.len()..].split_once(end).map_or("", |(_, rest)| rest);
                continue;
            }
            let end = end_of_tag(tail)?;
            let (tag, after) = (&tail[..end], &tail[end + 1..]);
            self.rest = after;
            if tag.starts_with('/') {
                self.path.pop();
                continue;
            }
            let (is_empty, tag) = tag.strip_suffix('/').map_or((false, tag), |tag| (true, tag));
            let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
            let text = (!is_empty).then(|| after.split('<').next().unwrap_or_default().trim());
            self.opened = (!is_empty).then_some(name);
            return Some(XmlTag { name, attributes, text });
        }
    }

    /// Names of the elements around the last tag, the outermost one first.
    pub fn path(&self) -> &[&'a str] {
        &self.path
    }
}

impl<'a> XmlTag<'a> {
    /// The attributes in their order, with their values as written, escapes included.
    pub fn attributes(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut rest = self.attributes.trim_start();
        std::iter::from_fn(move || {
            let (name, tail) = rest.split_once('=')?;
            let tail = tail.trim_start();
            let quote = if tail.starts_with('\'') { '\'' } else { '"' };
            let (value, tail) =
                tail.strip_prefix(quote).and_then(|tail| tail.split_once(quote)).unwrap_or(("", tail));
            rest = tail.trim_start();
            Some((name.trim(), value))
        })
    }
}

/// End of a tag: a `>` outside of attributes.
fn end_of_tag(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in tag.char_indices() {
        match (quote, c) {
            (None, '>') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    None
}
