//! Two tiers of tests: `make test` runs the tests that tests/e2e/stories.tsv lists, `make test-all` every one. Each row of
//! README's table "What works today" and each kind of ours has a line there, and each line names a test that exists.

use super::{assert_none, files, is_rust, root, short};
use std::collections::BTreeSet;
use std::fs;

const TABLE: &str = "tests/e2e/stories.tsv";

/// A line of the table.
struct Line {
    /// `row` of the README, or `kind`.
    of: String,
    name: String,
    test: String,
}

#[test]
fn each_row_of_the_readme_and_each_kind_has_a_test_in_the_short_tier() {
    let lines = lines();
    let named = |of: &str| -> BTreeSet<String> {
        lines.iter().filter(|line| line.of == of).map(|line| line.name.clone()).collect()
    };
    let mut wrong = Vec::new();
    for (of, there) in [("row", rows()), ("kind", kinds())] {
        assert!(there.len() > 15, "{} of '{of}': are they written otherwise now?", there.len());
        let listed = named(of);
        wrong.extend(there.difference(&listed).map(|name| format!("{TABLE}: no test for the {of} '{name}'")));
        wrong.extend(listed.difference(&there).map(|name| format!("{TABLE}: there is no {of} '{name}'")));
    }
    wrong.extend(
        lines
            .iter()
            .filter(|line| !["row", "kind"].contains(&line.of.as_str()))
            .map(|line| format!("{TABLE}: '{}' is neither 'row' nor 'kind'", line.of)),
    );
    assert_none(&wrong);
}

#[test]
fn each_test_of_the_short_tier_exists() {
    let (stories, suites) = (stories(), suites());
    let is_there = |test: &str| match test.strip_prefix("suite ") {
        Some(suite) => suites.contains(suite),
        None => stories.contains(test),
    };
    let missing = lines().into_iter().filter(|line| !is_there(&line.test));
    assert_none(
        &missing.map(|line| format!("{TABLE}: there is no test '{}'", line.test)).collect::<Vec<_>>(),
    );
}

fn lines() -> Vec<Line> {
    let text = fs::read_to_string(root().join(TABLE)).expect("the table");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let [of, name, test] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{TABLE}: '{line}' has not three columns")
            };
            Line { of: of.to_owned(), name: name.to_owned(), test: test.to_owned() }
        })
        .collect()
}

/// The first cells of README's table "What works today".
fn rows() -> BTreeSet<String> {
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let section = readme.split("## What works today").nth(1).expect("the table of the README");
    let section = section.split("\n## ").next().unwrap_or_default();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.filter(|cell| cell.chars().any(char::is_alphabetic)).map(str::to_owned).collect()
}

/// The kinds of the committed CustomResourceDefinitions.
fn kinds() -> BTreeSet<String> {
    let crds = files().into_iter().filter(|file| short(file).starts_with("controller/manifests/crds/"));
    crds.map(|file| {
        let text = fs::read_to_string(&file).expect("a file of the tree");
        let names = text.split("\n  names:\n").nth(1).unwrap_or_else(|| panic!("{}: no names", short(&file)));
        let kind = names.lines().find_map(|line| line.strip_prefix("    kind: "));
        kind.unwrap_or_else(|| panic!("{}: no kind", short(&file))).trim_matches('"').to_owned()
    })
    .collect()
}

/// The tests of tests/e2e, as `module::name`.
fn stories() -> BTreeSet<String> {
    let modules = files().into_iter().filter(|file| short(file).starts_with("tests/e2e/") && is_rust(file));
    modules
        .flat_map(|file| {
            let module = short(&file)["tests/e2e/".len()..].trim_end_matches(".rs").replace('/', "::");
            let text = fs::read_to_string(&file).expect("a file of the tree");
            let tests = text.split("#[test]\n").skip(1).filter_map(|rest| {
                let name = rest.split("fn ").nth(1)?.split('(').next()?;
                Some(format!("{module}::{name}"))
            });
            tests.collect::<Vec<_>>()
        })
        .collect()
}

/// The names of the suites that need no cluster: test targets of the root package, and packages with unit tests.
fn suites() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for package in super::packages() {
        names.insert(super::text(&package["name"]));
        let targets = super::list(&package["targets"]);
        let tests =
            targets.iter().filter(|target| super::list(&target["kind"]).iter().any(|kind| kind == "test"));
        names.extend(tests.map(|target| super::text(&target["name"])));
    }
    names
}
