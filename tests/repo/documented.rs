//! Required documentation: a header in each file that holds modules, and a comment on each public function
//! and trait of `lib/`. Fields, variants and constants with clear names need none.

use crate::{assert_none, files, is_rust, short};
use std::fs;

/// Beginnings of items of `lib/` that carry a comment.
const ITEMS: &[&str] = &["pub fn ", "pub const fn ", "pub async fn ", "pub trait ", "pub unsafe fn "];

#[test]
fn folders_of_modules_have_a_header() {
    let is_head =
        |name: &str| name.ends_with("/lib.rs") || name.ends_with("/mod.rs") || name.ends_with("/main.rs");
    let heads = files().into_iter().filter(|file| is_rust(file) && is_head(&short(file)));
    let without = heads.filter(|file| !fs::read_to_string(file).unwrap().starts_with("//! "));
    assert_none(&without.map(|file| format!("{} begins without `//!`", short(&file))).collect::<Vec<_>>());
}

#[test]
fn public_functions_of_lib_have_comments() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in files().into_iter().filter(|file| is_rust(file)) {
        let name = short(&file);
        if !name.starts_with("lib/") || !name.contains("/src/") || name.contains("tests") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let found = undocumented(code);
        seen += code.lines().filter(|line| is_item(line)).count();
        wrong.extend(found.into_iter().map(|(line, item)| format!("{name}:{line}: no comment on `{item}`")));
    }
    assert!(seen > 400, "{seen} public functions of lib/ seen; are they written otherwise now?");
    assert_none(&wrong);
}

#[test]
fn an_attribute_between_comment_and_item_is_passed_over() {
    let code = "/// A.\n#[must_use]\npub fn a() {}\n\n#[must_use]\npub fn b() {}\n";
    assert_eq!(undocumented(code), [(6, "pub fn b() {}".to_owned())]);
}

fn is_item(line: &str) -> bool {
    ITEMS.iter().any(|item| line.trim_start().starts_with(item))
}

/// Line numbers and texts of public items without a comment.
fn undocumented(code: &str) -> Vec<(usize, String)> {
    let (mut found, mut has_comment, mut depth) = (Vec::new(), false, 0_usize);
    for (number, line) in code.lines().enumerate() {
        let text = line.trim();
        if is_item(line) && !has_comment {
            found.push((number + 1, text.to_owned()));
        }
        if text.starts_with("///") {
            has_comment = true;
        } else if depth > 0 || text.starts_with("#[") {
            depth = (depth + text.matches('[').count()).saturating_sub(text.matches(']').count());
        } else {
            has_comment = false;
        }
    }
    found
}
