//! The sites of one file: places whose text is replaced, each with its mutants.
//!
//! `finder` walks the syntax tree. `statements` leaves out calls and assignments, and ignores errors; `operators` exchanges
//! operators and methods; `values` has what a body may return instead; `builders` knows which calls a chain can do without. Left out
//! are tests, constants, types, patterns, macros, `const fn`, `main` and `Debug`.

mod builders;
mod finder;
mod operators;
mod statements;
mod values;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;

pub(crate) use builders::builders;

/// A place in the source.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) range: Range<usize>,
    pub(crate) shape: Shape,
    /// The path of the function within its file.
    pub(crate) function: String,
    pub(crate) mutants: Vec<Mutant>,
}

/// The syntax at a site, which decides how mutations are put beside the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Expression,
    Statement,
    /// The block of a function. Mutations return before it begins.
    Body,
    /// The pattern of a match arm. The mutation never matches.
    Arm,
}

/// One change of a site.
#[derive(Debug)]
pub(crate) struct Mutant {
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    /// Name that stays while the code does.
    pub(crate) key: String,
    /// Number of its switch; 0 until it has one.
    pub(crate) number: u32,
}

/// The sites of a source text, sorted by their start, an outer one before those inside.
/// `builders`: names of methods whose calls are left out of chains.
pub(crate) fn of(text: &str, builders: &HashSet<String>) -> Result<Vec<Site>, syn::Error> {
    let mut sites = finder::sites(text, &syn::parse_file(text)?, builders);
    let rank = |shape: Shape| match shape {
        Shape::Body => 0,
        Shape::Statement => 1,
        Shape::Expression | Shape::Arm => 2,
    };
    sites.sort_by_key(|site| (site.range.start, Reverse(site.range.end), rank(site.shape)));
    let mut merged: Vec<Site> = Vec::new();
    for site in sites {
        match merged.last_mut() {
            Some(last) if last.range == site.range && last.shape == site.shape => {
                let new =
                    site.mutants.into_iter().find(|new| last.mutants.iter().all(|old| old.text != new.text));
                last.mutants.extend(new);
            }
            _ => merged.push(site),
        }
    }
    Ok(merged)
}

/// True for `#[cfg(test)]`.
pub(crate) fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg") && {
        let text = quote::quote!(#attribute).to_string();
        text.contains("test") && !text.contains("not")
    }
}

#[cfg(test)]
mod tests;
