//! Every example in README.md, in the crates' READMEs and under docs/ is run, and its output compared.
//!
//! A document is one story in one empty folder, with the program just built first on the path. Nothing in that folder is hidden:
//! readers who type what they see get as far as the test.
//!
//! ````text
//! <!-- outside                       files of web servers: made first, in a folder that the reader does not have
//! qemu-img create -f qcow2 disk.qcow2 1G
//! -->
//!
//! ```console                         run
//! $ coracle inspect disk.qcow2       a command; `> ` continues it on the next line
//! format    qcow2                    its output, both streams; nothing here: the output is not compared
//! ...                                any lines; within a line: any text
//! $ coracle inspect nothing.img
//! ...
//! $ echo $?                          a command may fail only when the next one asks for its exit code
//! 4
//! ```
//!
//! ```console no-run: needs a block device     not run, and why
//!
//! ```yaml vm.yaml                    written into a file of that name, for the commands that follow; also json
//! ````
//!
//! An address `http://ANYTHING/NAME` reaches nginx on a loopback port, which serves the files of `<!-- outside`, or else the
//! reader's folder; images `docker://registry.example/…` are in an empty docker-registry behind it.
//!
//! | file | |
//! |---|---|
//! | `flags.rs` | the verbs and flags of commands that are not run |
//! | `page.rs` | a document as its examples |
//! | `prose.rs` | what the words around the blocks must say, so that no page starts in the middle |
//! | `run.rs` | the examples, run and compared |

mod flags;
mod page;
mod prose;
mod run;

use ::tests::registry::Registry;
use page::Page;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn every_example_in_the_documents_runs() {
    let documents = documents();
    assert!(documents.iter().any(|path| path.ends_with("README.md")), "no documents found");
    let faults: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = documents.iter().map(|path| scope.spawn(|| check(path))).collect();
        runs.into_iter().flat_map(|run| run.join().expect("the run of a document")).collect()
    });
    assert!(faults.is_empty(), "{} examples are not true:\n\n{}", faults.len(), faults.join("\n\n"));
}

#[test]
fn no_document_starts_in_the_middle() {
    let mut faults = Vec::new();
    for path in documents() {
        let name = short(&path);
        let content = fs::read_to_string(&path).expect("a document");
        let of_page: Vec<String> = match Page::parse(&content) {
            Err((line, fault)) => vec![format!("{name}:{line}: {fault}")],
            Ok(page) => {
                let found = prose::faults(&name, &content).into_iter().chain(page.hidden());
                found.map(|(line, fault)| format!("{name}:{line}: {fault}")).collect()
            }
        };
        faults.extend(of_page);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn commands_that_are_not_run_have_their_verbs_and_flags() {
    let mut faults = Vec::new();
    for path in documents() {
        let content = fs::read_to_string(&path).expect("a document");
        let found = flags::faults(&content).into_iter();
        faults.extend(found.map(|(line, fault)| format!("{}:{line}: {fault}", short(&path))));
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The tag stands there in words, and is another with each version.
#[test]
fn the_guide_to_a_cluster_pushes_the_images_that_the_manifests_name() {
    let guide = fs::read_to_string(root().join("docs/how-to/install.md")).expect("the guide");
    let copies = guide.lines().filter_map(|line| line.strip_prefix("$ coracle copy oci-archive:"));
    let pushed: BTreeSet<&str> =
        copies.filter_map(|line| line.split_once(" docker://")).map(|(_, image)| image).collect();
    let mut program = Command::new(env!("CARGO_BIN_EXE_coracle"));
    let printed = program.args(["manifests", "--registry", "registry.example/coracle"]).output();
    let printed = printed.expect("the manifests").stdout;
    let manifests = String::from_utf8_lossy(&printed);
    let named: BTreeSet<&str> =
        manifests.split(['"', ',']).filter(|word| word.starts_with("registry.example/coracle/")).collect();
    assert_eq!(pushed, named);
}

fn check(document: &Path) -> Vec<String> {
    let name = short(document);
    let content = fs::read_to_string(document).expect("a document");
    match Page::parse(&content) {
        Err((line, fault)) => vec![format!("{name}:{line}: {fault}")],
        Ok(page) if page.examples.is_empty() => Vec::new(),
        Ok(page) => {
            let registry = content.contains("docker://").then(Registry::start);
            let faults = run::run(&page, content.contains("http://"), registry.as_ref());
            faults.into_iter().map(|(line, fault)| format!("{name}:{line}: {fault}")).collect()
        }
    }
}

/// README.md of the root and of each folder, and everything under docs/.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if path.is_dir() && !path.is_symlink() && !hidden && !path.join("CACHEDIR.TAG").exists() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn short(document: &Path) -> String {
    document.strip_prefix(root()).unwrap_or(document).display().to_string()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
