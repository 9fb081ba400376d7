//! Declared dependencies must be used. An unused one is compiled by every user, and seems to have a purpose.
//!
//! A dependency is used if a file of the package has its name at the beginning of a path. This misses a crate
//! that only a test of the library uses, and one whose name is also that of a module. It never reports a used
//! one.

use crate::{assert_none, list, modules_of, packages, root, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// Package and dependency that is declared for what it chooses, not for what it offers.
const CHOOSES: &[(&str, &str, &str)] = &[
    ("cluster-client", "k8s-openapi", "its feature is the version of Kubernetes that kube speaks"),
    ("coracle", "k8s-openapi", "its feature is the version of Kubernetes that kube speaks"),
    ("launcher", "virt-sys", "its version is the last one of virt's bindings that pins no libc"),
];

#[test]
fn every_declared_dependency_is_used() {
    let mut wrong = Vec::new();
    for package in packages() {
        let name = text(&package["name"]);
        let mut known = BTreeMap::new();
        for dependency in list(&package["dependencies"]) {
            let declared = text(&dependency["name"]);
            let chooses = CHOOSES.iter().any(|(who, what, _)| *who == name && *what == declared);
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            let code = known.entry(kind.to_owned()).or_insert_with(|| sources(&package, kind));
            let crate_name = dependency["rename"].as_str().unwrap_or(&declared).replace('-', "_");
            match (names(code, &crate_name), chooses) {
                (false, false) => wrong.push(format!("{name} declares {declared} and no code names it")),
                (true, true) => wrong.push(format!("{name} uses {declared}: take it off the list CHOOSES")),
                _ => {}
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn every_version_of_the_workspace_is_one_that_a_package_takes() {
    let used: BTreeSet<String> = packages()
        .iter()
        .flat_map(|package| list(&package["dependencies"]))
        .map(|dependency| {
            text(dependency.get("rename").filter(|n| n.is_string()).unwrap_or(&dependency["name"]))
        })
        .collect();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the root manifest");
    let (_, section) = manifest.split_once("[workspace.dependencies]\n").expect("versions");
    let section = section.split("\n[").next().unwrap_or_default();
    let named = section.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let unused: Vec<String> = named.filter(|name| !used.contains(*name)).map(str::to_owned).collect();
    assert_none(&unused);
}

#[test]
fn a_name_within_a_path_or_another_name_is_not_a_use() {
    for used in [
        "use tar::Builder;",
        "use tar;",
        "let x = ::tar::Archive::new(y);",
        "#[tar::main]",
        "(tar::A)",
        "use tar as t;",
    ] {
        assert!(names(used, "tar"), "{used}");
    }
    for unused in ["use crate::tar::Members;", "use star::A;", "tar(x)", "mod tar;", "tar_b::c"] {
        assert!(!names(unused, "tar"), "{unused}");
    }
}

/// All code of a package that this kind of dependency is for, without its comments.
fn sources(package: &Value, kind: &str) -> String {
    let kinds: &[&str] = match kind {
        "normal" => &["lib", "bin"],
        "build" => &["custom-build"],
        // Tests within the library use them too.
        _ => &["lib", "bin", "test", "example", "bench"],
    };
    let targets = list(&package["targets"]);
    let targets = targets
        .iter()
        .filter(|target| list(&target["kind"]).iter().any(|kind| kinds.iter().any(|wanted| kind == wanted)));
    let mut files: Vec<PathBuf> = targets.map(|target| PathBuf::from(text(&target["src_path"]))).collect();
    let (mut seen, mut code) = (BTreeSet::new(), String::new());
    while let Some(file) = files.pop() {
        if seen.insert(file.clone()) {
            let source = fs::read_to_string(&file).expect("a source file");
            for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
                code.push_str(line);
                code.push('\n');
            }
            files.extend(modules_of(&file));
        }
    }
    code
}

/// True if a path in this code begins with the crate's name.
fn names(code: &str, name: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let before = before.strip_suffix("::").unwrap_or(before);
        let leads = after.starts_with("::")
            || before.ends_with("use ") && (after.starts_with(';') || after.starts_with(" as "));
        leads && !before.ends_with(is_letter) && !before.ends_with(['>', ':'])
    })
}
