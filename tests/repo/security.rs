//! docs/explanation/security.md claims nothing without a test. Each line of its tables names one as
//! `path.rs::name`, and each name must be a function of this tree that the test runner runs. So a renamed or
//! removed test either takes its claim along, or fails here.

use super::{assert_none, root};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const DOCUMENT: &str = "docs/explanation/security.md";

/// Published faults that the document must speak of.
const PUBLISHED: &[&str] = &[
    "CVE-2022-1798",
    "CVE-2022-47951",
    "CVE-2023-26484",
    "CVE-2024-4467",
    "CVE-2024-32498",
    "CVE-2024-33394",
    "CVE-2024-44082",
    "CVE-2025-64324",
    "CVE-2025-64433",
    "CVE-2025-64434",
    "CVE-2025-64435",
    "CVE-2025-64436",
    "CVE-2025-64437",
];

#[test]
fn every_promise_of_the_security_document_names_a_test_that_is_there() {
    let text = fs::read_to_string(root().join(DOCUMENT)).expect(DOCUMENT);
    assert_none(&faults(&text, &root()));
}

#[test]
fn the_published_faults_that_are_asked_about_are_answered_once() {
    let text = fs::read_to_string(root().join(DOCUMENT)).expect(DOCUMENT);
    let rows = || rows(&text).filter(|(_, row)| row.starts_with("| CVE-"));
    let mut wrong = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, row) in rows() {
        // One row may speak of several that are one fault.
        let cell = row.trim_start_matches("| ").split(" | ").next().unwrap_or_default();
        for id in cell.split(", ") {
            if let Some(other) = known.insert(id, line) {
                wrong.push(format!("{DOCUMENT}:{line}: {id} stands in line {other} too"));
            }
        }
    }
    for id in PUBLISHED.iter().filter(|id| !known.contains_key(*id)) {
        wrong.push(format!("{DOCUMENT}: no row speaks of {id}"));
    }
    assert_none(&wrong);
}

/// Errors in the tables of a document.
fn faults(text: &str, root: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut promises = 0;
    for (line, row) in rows(text) {
        promises += 1;
        let named: Vec<&str> = names(row).collect();
        if named.is_empty() {
            wrong.push(format!("{DOCUMENT}:{line}: this row names no test as `path.rs::name`"));
        }
    }
    // Names outside of tables must be true, too.
    for (number, line) in text.lines().enumerate() {
        wrong.extend(names(line).filter_map(|name| {
            missing(name, root).map(|why| format!("{DOCUMENT}:{}: `{name}`: {why}", number + 1))
        }));
    }
    if promises == 0 {
        wrong.push(format!("{DOCUMENT}: it has no table"));
    }
    wrong
}

/// The rows of all tables, with their lines: not their heads.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    let rule = |line: &str| line.starts_with("|--") || line.starts_with("| --") || line.starts_with("|:-");
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if !line.starts_with('|') {
            inside = false;
        } else if rule(line) {
            inside = true;
        } else if inside {
            found.push((index + 1, line));
        }
    }
    found.into_iter()
}

/// The references `path.rs::name` in a line.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|word| word.contains(".rs::"))
}

/// Why a name leads to no test.
fn missing(name: &str, root: &Path) -> Option<String> {
    let (path, function) = name.split_once("::")?;
    if path.split('/').any(|part| part == "..") || path.starts_with('/') {
        return Some("a path begins at the root of the tree".to_owned());
    }
    let Ok(text) = fs::read_to_string(root.join(path)) else { return Some(format!("there is no {path}")) };
    (!is_test(&text, function)).then(|| format!("{path} has no test of this name"))
}

/// The function is there, and marked as a test.
fn is_test(text: &str, function: &str) -> bool {
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            marked |= line == "#[test]" || line.starts_with("#[tokio::test");
        } else if let Some(rest) = line.trim_start_matches("async ").strip_prefix("fn ") {
            if marked && rest.strip_prefix(function).is_some_and(|rest| rest.starts_with('(')) {
                return true;
            }
            marked = false;
        } else if !line.is_empty() && !line.starts_with("//") {
            marked = false;
        }
    }
    false
}

mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().expect("a folder");
        let text = "mod tests {\n    #[test]\n    fn it_holds() {}\n\n    fn helper() {}\n\n    \
                    #[tokio::test(start_paused = true)]\n    async fn it_waits() {}\n\n    #[test]\n    \
                    #[ignore = \"slow\"]\n    /// Why.\n    fn it_is_slow() {}\n}\n";
        fs::create_dir(tree.path().join("src")).expect("a folder");
        fs::write(tree.path().join("src/a.rs"), text).expect("a file");
        tree
    }

    fn found(row: &str) -> Vec<String> {
        faults(&format!("| who | test |\n|---|---|\n{row}\n"), tree().path())
    }

    #[test]
    fn a_test_that_is_there_is_found() {
        for name in ["it_holds", "it_waits", "it_is_slow"] {
            assert_eq!(found(&format!("| guest | `src/a.rs::{name}` |")), Vec::<String>::new(), "{name}");
        }
    }

    #[test]
    fn a_promise_that_nothing_proves_is_a_fault() {
        for (row, says) in [
            ("| guest | we are careful |", "names no test"),
            ("| guest | `src/a.rs::it_held` |", "no test of this name"),
            ("| guest | `src/a.rs::it` |", "no test of this name"),
            ("| guest | `src/a.rs::helper` |", "no test of this name"),
            ("| guest | `src/b.rs::it_holds` |", "there is no src/b.rs"),
            ("| guest | `../src/a.rs::it_holds` |", "root of the tree"),
            ("| guest | `src/a.rs::it_holds`, `src/a.rs::gone` |", "`src/a.rs::gone`"),
        ] {
            let faults = found(row);
            assert_eq!(faults.len(), 1, "{row}: {faults:?}");
            assert!(faults[0].contains(says), "{row}: {faults:?}");
        }
        assert!(faults("no table at all\n", tree().path())[0].contains("it has no table"));
    }
}
