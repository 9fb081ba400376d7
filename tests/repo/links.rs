//! Links of the documents lead to a file, and to a heading in it.

use super::{assert_none, files, short};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The changelog names headings as they were in its version.
#[test]
fn links_in_the_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for file in files().iter().filter(|file| file.extension().is_some_and(|ending| ending == "md")) {
        let content = fs::read_to_string(file).unwrap();
        for link in content.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let path = match target {
                "" => file.clone(),
                _ => file.parent().unwrap().join(target),
            };
            let is_document = path.extension().is_some_and(|ending| ending == "md");
            let is_checked = !anchor.is_empty() && is_document && !file.ends_with("CHANGELOG.md");
            if !path.exists() || is_checked && !anchors(&path).contains(anchor) {
                dead.push(format!("{}: {link}", short(file)));
            }
        }
    }
    assert_none(&dead);
}

/// The names that headings of a document have in links.
fn anchors(document: &Path) -> BTreeSet<String> {
    let content = fs::read_to_string(document).expect("a document");
    let mut found = BTreeSet::new();
    let mut in_block = false;
    for line in content.lines() {
        in_block ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !in_block) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let is_kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        found.insert(heading.chars().filter(is_kept).collect::<String>().replace(' ', "-"));
    }
    found
}
