//! The new text of a file: each site once per mutant behind its switch, then as it was.
//!
//! | shape | becomes |
//! |---|---|
//! | expression | `(if on(1) { mutation } else { original })` |
//! | statement | `if on(1) { mutation } else { original }` |
//! | body | `{ if on(1) { return value; } original }` |
//! | arm | `pattern if !on(1) => …` |

use std::ops::Range;

use serde_json::{Value, json};

use crate::sites::{Shape, Site};

/// A file with its mutants.
pub(crate) struct Rewritten {
    pub(crate) text: String,
    /// Ranges of bytes in the new text, by which a compiler error finds its mutants: of one mutation (`key`), or of a site with
    /// all that is in it (`keys`).
    pub(crate) ranges: Vec<Value>,
}

/// The new text of a file. Sites are sorted by their start, an outer one before those inside.
pub(crate) fn of(text: &str, sites: &[Site]) -> Rewritten {
    let mut writer = Writer { text, out: String::new(), ranges: Vec::new() };
    writer.within(0..text.len(), sites);
    Rewritten { text: writer.out, ranges: writer.ranges }
}

struct Writer<'a> {
    text: &'a str,
    out: String,
    ranges: Vec<Value>,
}

impl Writer<'_> {
    /// Writes a range of the original, with the sites in it.
    fn within(&mut self, range: Range<usize>, sites: &[Site]) {
        let (mut at, mut left) = (range.start, sites);
        while let Some((site, rest)) = left.split_first() {
            assert!(site.range.start >= at, "sites overlap at {:?} in {}", site.range, site.function);
            self.out.push_str(&self.text[at..site.range.start]);
            let inside =
                |other: &Site| other.range.start < site.range.end && other.range.end <= site.range.end;
            let (inner, behind) = rest.split_at(rest.iter().take_while(|other| inside(other)).count());
            self.site(site, inner);
            (at, left) = (site.range.end, behind);
        }
        self.out.push_str(&self.text[at..range.end]);
    }

    fn site(&mut self, site: &Site, inner: &[Site]) {
        let begin = self.out.len();
        match site.shape {
            Shape::Expression => {
                self.out.push('(');
                self.alternatives(site, inner);
                self.out.push(')');
            }
            Shape::Statement => self.alternatives(site, inner),
            Shape::Body => {
                self.out.push('{');
                self.switched(site, " ");
                self.within(site.range.start + 1..site.range.end, inner);
            }
            Shape::Arm => {
                self.within(site.range.clone(), inner);
                self.out.push_str(&format!(" if !{}", switch(site.mutants[0].number)));
            }
        }
        let keys: Vec<&str> = site.mutants.iter().map(|mutant| mutant.key.as_str()).collect();
        let is_body = site.shape == Shape::Body;
        self.ranges.push(json!({ "keys": keys, "from": begin, "to": self.out.len(), "is_body": is_body }));
    }

    /// Writes each mutation, else the original.
    fn alternatives(&mut self, site: &Site, inner: &[Site]) {
        self.switched(site, "else ");
        self.out.push_str("else { ");
        self.within(site.range.clone(), inner);
        self.close(&self.text[site.range.clone()]);
    }

    /// Writes each mutation behind its switch, with a word between two of them.
    fn switched(&mut self, site: &Site, between: &str) {
        for (at, mutant) in site.mutants.iter().enumerate() {
            if at > 0 {
                self.out.push_str(between);
            }
            self.out.push_str(&format!("if {} {{ ", switch(mutant.number)));
            let begin = self.out.len();
            self.out.push_str(&mutant.text);
            self.ranges.push(json!({ "key": mutant.key, "from": begin, "to": self.out.len() }));
            self.close(&mutant.text);
            self.out.push(' ');
        }
    }

    /// Ends a block behind a text that may end in a comment.
    fn close(&mut self, text: &str) {
        self.out.push_str(if text.contains("//") { "\n}" } else { " }" });
    }
}

fn switch(number: u32) -> String {
    format!("crate::__mutants::on({number})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites;
    use std::collections::HashSet;

    /// The new text with all mutants, numbered from 1; `on` stands for the path of the switches.
    fn rewritten(text: &str) -> Rewritten {
        let mut sites = sites::of(text, &HashSet::new()).unwrap();
        let mutants = sites.iter_mut().flat_map(|site| &mut site.mutants);
        for (mutant, number) in mutants.zip(1..) {
            (mutant.number, mutant.key) = (number, format!("key {number}"));
        }
        let rewritten = of(text, &sites);
        syn::parse_file(&rewritten.text).unwrap_or_else(|e| panic!("{e}: {}", rewritten.text));
        rewritten
    }

    fn text(source: &str) -> String {
        rewritten(source).text.replace("crate::__mutants::on", "on")
    }

    #[test]
    fn an_expression_is_within_parentheses_and_a_body_returns_early() {
        assert_eq!(
            text("fn f(a: u8) -> u8 { a + 2 }"),
            "fn f(a: u8) -> u8 {if on(1) { return 0; }  if on(2) { return 1; }  \
             (if on(3) { a - 2 } else { a + 2 }) }"
        );
    }

    #[test]
    fn a_statement_is_done_or_left_out() {
        assert_eq!(text("fn f() -> X { a.b(c); x }"), "fn f() -> X { if on(1) {  } else { a.b(c); } x }");
    }

    #[test]
    fn an_error_is_ignored_or_the_call_is_left_out() {
        assert_eq!(
            text("fn f() -> X { a.b()?; x }"),
            "fn f() -> X { if on(1) {  } else if on(2) { let _ = a.b(); } else { a.b()?; } x }"
        );
    }

    #[test]
    fn an_arm_is_passed_over_if_another_takes_all() {
        assert_eq!(
            text("fn f() -> X { match a { 1 => b, _ => c } }"),
            "fn f() -> X { match a { 1 if !on(1) => b, _ => c } }"
        );
        let lone = "fn f() -> X { match a { A => b, B => c } }";
        assert_eq!(text(lone), lone);
    }

    #[test]
    fn sites_lie_within_sites() {
        assert_eq!(
            text("fn f() -> X { if a < b { c } else { d } }"),
            "fn f() -> X { if (if on(1) { true } else if on(2) { false } else if on(3) { a <= b } else { a < b }) \
             { c } else { d } }"
        );
        assert_eq!(
            text("fn f() -> X { g(a.min(b + 1)); x }"),
            "fn f() -> X { if on(1) {  } else { g((if on(2) { a.max(b + 1) } \
             else { a.min((if on(3) { b - 1 } else { b + 1 })) })); } x }"
        );
    }

    #[test]
    fn a_comment_at_the_end_does_not_hide_the_brace() {
        assert_eq!(
            text("fn f() -> X { a(|| { b // c\n}); x }"),
            "fn f() -> X { if on(1) {  } else { a(|| { b // c\n});\n} x }"
        );
    }

    #[test]
    fn ranges_hold_the_mutation_and_the_site() {
        let Rewritten { text, ranges } = rewritten("fn f() -> X { g(a + 1) }");
        let of = |range: &Value| {
            let place = |end: &str| range[end].as_u64().unwrap() as usize;
            text[place("from")..place("to")].to_owned()
        };
        assert_eq!((ranges.len(), &ranges[0]["key"]), (2, &json!("key 1")));
        assert_eq!((of(&ranges[0]), &ranges[1]["keys"]), ("a - 1".to_owned(), &json!(["key 1"])));
        assert_eq!(of(&ranges[1]), "(if crate::__mutants::on(1) { a - 1 } else { a + 1 })");
    }
}
