//! Which domain an XML text is of. Not a parser: libvirt's is the one that counts, and what this misreads, libvirt refuses to
//! start under the name that the launcher knows.

/// What a domain is known by.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outline {
    pub(super) name: Option<String>,
    pub(super) uuid: Option<String>,
}

/// The texts of the elements `name` and `uuid` that are children of the root.
pub(super) fn of(xml: &str) -> Outline {
    let mut found = Outline::default();
    let (mut rest, mut depth) = (xml, 0_usize);
    while let Some((_, tail)) = rest.split_once('<') {
        let skipped = [("!--", "-->"), ("![CDATA[", "]]>"), ("?", "?>"), ("!", ">")];
        if let Some((begin, end)) = skipped.iter().find(|(begin, _)| tail.starts_with(begin)) {
            rest = tail[begin.len()..].split_once(end).map_or("", |(_, rest)| rest);
            continue;
        }
        let end = end_of_tag(tail);
        let (tag, after) = (&tail[..end], tail.get(end + 1..).unwrap_or_default());
        rest = after;
        if tag.starts_with('/') {
            depth = depth.saturating_sub(1);
        } else if !tag.ends_with('/') {
            let name = tag.split(|c: char| c.is_whitespace()).next().unwrap_or_default();
            if depth == 1 {
                let text = || Some(after.split('<').next().unwrap_or_default().trim().to_owned());
                match name {
                    "name" if found.name.is_none() => found.name = text(),
                    "uuid" if found.uuid.is_none() => found.uuid = text(),
                    _ => {}
                }
            }
            depth += 1;
        }
    }
    found
}

/// Where a tag ends: at a `>` that is in no attribute.
fn end_of_tag(tag: &str) -> usize {
    let mut quote = None;
    for (at, c) in tag.char_indices() {
        match (quote, c) {
            (None, '>') => return at,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    tag.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_breaks_it(xml in r#"([<>!?/"'a ]|<name>|</|<!--|-->|ü|\PC){0,60}"#) {
            let _ = of(&xml);
        }
    }

    #[test]
    fn a_domain_is_known_by_the_children_of_its_root() {
        let said = |xml: &str| {
            let Outline { name, uuid } = of(xml);
            (name.unwrap_or_default(), uuid.unwrap_or_default())
        };
        let pair = |name: &str, uuid: &str| (name.to_owned(), uuid.to_owned());
        let plain = "<?xml version='1.0'?>\n<domain type='kvm'><name>a</name><uuid>1</uuid><os/></domain>";
        assert_eq!(said(plain), pair("a", "1"));
        let inner =
            "<domain><!-- <name>no</name> --><disk a='>'><name>no</name></disk><x/><name> a </name></domain>";
        assert_eq!(said(inner), pair("a", ""));
        assert_eq!(
            said("<domain><m><![CDATA[<name>no</name>]]></m><name>b</name><name>c</name></domain>"),
            pair("b", "")
        );
        for nonsense in ["", "<", "<!--", "<domain", "</a></a><name>x</name>", "<a b='", "ä<ö>ü"] {
            assert_eq!(said(nonsense), pair("", ""), "{nonsense}");
        }
    }
}
