//! No circle between the modules of a package, so that a reader of one folder knows the other folders it
//! depends on. (Cargo prevents circles between packages, and the table ARROWS lists the packages that a
//! package may use.)
//!
//! An edge is a path that begins with `crate` or `super` in the code of one module of the crate's root and leads into
//! another; tests are left out. What the root itself defines is everybody's.

use crate::{assert_none, list, packages, short, text};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Circles that are meant: the package, the modules, and why they are not one.
const MEANT: &[(&str, &[&str], &str)] = &[
    (
        "cdi",
        &["journal", "run", "target"],
        "a journal lies beside a target, which a run writes: one story in three folders",
    ),
    (
        "disk-format",
        &["image", "qcow2", "raw"],
        "image names the formats by which it opens, and each format is an image",
    ),
];

/// The modules that each module uses, with the line.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

#[test]
fn no_circle_between_the_modules_of_a_package() {
    let mut wrong = Vec::new();
    let mut met = BTreeSet::new();
    let mut looked = 0;
    for package in packages() {
        let name = text(&package["name"]);
        for target in list(&package["targets"]) {
            if !list(&target["kind"]).iter().any(|kind| kind == "lib" || kind == "bin") {
                continue;
            }
            let uses = uses(Path::new(&text(&target["src_path"])));
            looked += uses.len();
            for circle in circles(&uses) {
                let meant =
                    MEANT.iter().position(|(package, modules, _)| *package == name && *modules == circle);
                match meant {
                    Some(at) => drop(met.insert(at)),
                    None => wrong.push(format!("{name}: {}", told(&circle, &uses))),
                }
            }
        }
    }
    assert!(looked > 40, "the modules were not found");
    for (at, (package, modules, _)) in MEANT.iter().enumerate() {
        if !met.contains(&at) {
            wrong.push(format!("{package}: {modules:?} are no circle: take them off the list MEANT"));
        }
    }
    assert_none(&wrong);
}

#[test]
fn a_circle_is_found_and_a_chain_is_none() {
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(files.path().join(name), text).unwrap();
    fs::create_dir(files.path().join("b")).unwrap();
    let root = files.path().join("lib.rs");
    write(
        "lib.rs",
        "mod a;\nmod b;\npub mod c;\n#[cfg(test)]\nmod played;\npub use c::{Noun, other as Name};\n",
    );
    write("a.rs", "use super::b::{inner::{self, Deep}, More};\n");
    write("b/mod.rs", "mod inner;\nuse crate::c;\n");
    write("b/inner.rs", "// Not crate::a::any.\n#[cfg(test)]\nmod tests {\n    use crate::a::All;\n}\n");
    write("c.rs", "pub struct Noun;\n");
    write("played.rs", "use crate::a;\n");
    let found = uses(&root);
    let of = |module: &str| found[module].keys().map(String::as_str).collect::<Vec<_>>();
    assert_eq!((of("a"), of("b"), of("c")), (vec!["b"], vec!["c"], vec![]));
    assert!(!found.contains_key("played") && circles(&found).is_empty());
    // By a name that the root gives it, and from a folder in a folder.
    write("c.rs", "fn all() -> crate::Name {}\npub fn third() { crate::a::third() }\n");
    assert_eq!(circles(&uses(&root)), [["a", "b", "c"]]);
    write("c.rs", "");
    write("b/inner.rs", "pub(in super::super) use super::super::a::All;\n");
    assert_eq!(circles(&uses(&root)), [["a", "b"]]);
}

/// The modules below a root, each with those that it uses.
fn uses(root: &Path) -> Uses {
    let code = code(root);
    let children = modules(root, &code, true);
    let mut names = BTreeMap::new();
    for path in paths(&code, "") {
        // A re-export of the root stands for the module that defines it.
        if let Some((module, name)) = path.first().zip(path.last())
            && children.iter().any(|(child, _)| child == module)
        {
            names.insert(name.clone(), module.clone());
        }
    }
    names.extend(children.iter().map(|(child, _)| (child.clone(), child.clone())));
    let mut uses = Uses::new();
    for (child, file) in &children {
        let mut to = BTreeMap::new();
        let mut files = vec![(vec![child.clone()], file.clone())];
        while let Some((module, file)) = files.pop() {
            let text = self::code(&file);
            for path in paths(&text, "crate").into_iter().chain(up(&module, paths(&text, "super"))) {
                if let Some(other) = path.first().and_then(|first| names.get(first))
                    && other != child
                {
                    to.entry(other.clone())
                        .or_insert_with(|| format!("{}: {}", short(&file), path.join("::")));
                }
            }
            for (name, below) in modules(&file, &text, false) {
                files.push(([module.clone(), vec![name]].concat(), below));
            }
        }
        uses.insert(child.clone(), to);
    }
    uses
}

/// Groups of modules each of which leads to all others of its group.
fn circles(uses: &Uses) -> Vec<Vec<&str>> {
    let reached = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = next.pop() {
            for to in uses.get(&module).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    };
    let all: BTreeMap<&str, BTreeSet<String>> =
        uses.keys().map(|from| (from.as_str(), reached(from))).collect();
    let circle = |from: &&str| -> Vec<&str> {
        let back = |to: &&str| all[from].contains(*to) && all[to].contains(*from);
        all.keys().copied().filter(back).collect()
    };
    let circles: BTreeSet<Vec<&str>> = all.keys().map(circle).filter(|one| one.len() > 1).collect();
    circles.into_iter().collect()
}

/// A circle, with a place for each of its edges.
fn told(circle: &[&str], uses: &Uses) -> String {
    let edges = circle.iter().flat_map(|from| {
        let within = uses[*from].iter().filter(|(to, _)| circle.contains(&to.as_str()));
        within.map(move |(to, place)| format!("\n    {from} uses {to} ({place})"))
    });
    format!("{} are a circle:{}", circle.join(", "), edges.collect::<String>())
}

/// The code of a file: no comments, and no tests, which stand at its end.
fn code(file: &Path) -> String {
    let content = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let lines: Vec<&str> = content.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let is_tests = |at: &usize| {
        lines[*at].trim() == "#[cfg(test)]"
            && lines.get(at + 1).is_some_and(|next| next.contains("mod ") && next.trim_end().ends_with('{'))
    };
    let end = (0..lines.len()).find(is_tests).unwrap_or(lines.len());
    lines[..end].join("\n")
}

/// The modules that a file declares in files of their own, but for those of tests.
fn modules(file: &Path, code: &str, is_root: bool) -> Vec<(String, PathBuf)> {
    let folder = file.parent().expect("a file has a folder");
    let below = match is_root || file.file_name().is_some_and(|name| name == "mod.rs") {
        true => folder.to_owned(),
        false => file.with_extension(""),
    };
    let mut found = Vec::new();
    let (mut tests, mut put) = (false, None);
    for line in code.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix(';').and_then(|line| line.split_once("mod ")) {
            let is_declared = name.0.is_empty() || name.0.starts_with("pub");
            if is_declared && !tests {
                let usual = [below.join(format!("{}.rs", name.1)), below.join(name.1).join("mod.rs")];
                let files = put.map(|path| vec![folder.join::<&str>(path)]).unwrap_or(usual.to_vec());
                found.extend(
                    files.into_iter().find(|file| file.is_file()).map(|file| (name.1.to_owned(), file)),
                );
            }
        }
        if line.starts_with("#[") {
            tests |= line == "#[cfg(test)]";
            put = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")).or(put);
        } else if !line.is_empty() {
            (tests, put) = (false, None);
        }
    }
    found
}

/// All paths in a text that begin with a word, without that word; a `use` of many is as many. For no word, what is used
/// from the modules of the file itself.
fn paths(code: &str, word: &str) -> Vec<Vec<String>> {
    let begin = if word.is_empty() { "use ".to_owned() } else { format!("{word}::") };
    let mut found = Vec::new();
    for (at, _) in code.match_indices(&begin) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':') {
            continue;
        }
        tree(&mut code[at + begin.len()..].trim_start(), &[], &mut found);
    }
    found
}

/// Reads a path, or a tree of paths in braces.
fn tree(rest: &mut &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let mut path = before.to_vec();
    loop {
        *rest = rest.trim_start();
        if let Some(inner) = rest.strip_prefix('{') {
            *rest = inner.trim_start();
            while !rest.is_empty() && !rest.starts_with('}') {
                let left = rest.len();
                tree(rest, &path, found);
                *rest = rest.trim_start_matches(|letter: char| letter == ',' || letter.is_whitespace());
                if rest.len() == left {
                    return;
                }
            }
            *rest = rest.strip_prefix('}').unwrap_or(rest);
            return;
        }
        let end =
            rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].to_owned());
            *rest = &rest[end..];
        }
        match rest.strip_prefix("::") {
            Some(more) if end > 0 => *rest = more,
            _ => break,
        }
    }
    *rest = rest.strip_prefix('*').unwrap_or(rest);
    if let Some(renamed) = rest.strip_prefix(" as ") {
        let end = renamed
            .find(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
            .unwrap_or(renamed.len());
        path.push(renamed[..end].to_owned());
        *rest = &renamed[end..];
    }
    found.push(path);
}

/// Paths that begin above a module, from the root on. The first `super` of each is taken off already.
fn up(module: &[String], paths: Vec<Vec<String>>) -> impl Iterator<Item = Vec<String>> {
    paths.into_iter().filter_map(|path| {
        let more = path.iter().take_while(|word| *word == "super").count();
        let above = module.len().checked_sub(1 + more)?;
        Some([&module[..above], &path[more..]].concat())
    })
}
