//! The control plane and the program say VM and VMI (see the glossary of CONTRIBUTING.md). In comments,
//! messages, names of tests and documents, "machine" and "instance" stand for neither, and virt-handler is
//! not called "node agent".

use super::{assert_none, files, short};
use std::fs;
use std::iter::once;

/// Folders with this rule, and the files that check descriptions of our schemas and help texts, with
/// examples.
const PLACES: &[&str] = &[
    "controller/",
    "docs/how-to/access.md",
    "docs/how-to/cluster.md",
    "docs/how-to/install.md",
    "docs/how-to/nodes.md",
    "docs/how-to/run.md",
    "docs/how-to/settings.md",
    "docs/how-to/storage.md",
    "docs/how-to/upgrade.md",
    "docs/reference/accounts.md",
    "docs/reference/kubevirt.md",
    "docs/reference/metadata.md",
    "docs/reference/vm-reasons.md",
    "docs/reference/vmi.md",
    "lib/api/",
    "src/",
    "tests/e2e/",
    "tests/local/run/",
    "tests/sim/apply_to_boot/",
    "tests/sim/upload_to_disk/",
];
const EXAMPLES: &[&str] = &["lib/api/tests/spec/descriptions.rs", "src/cli.rs"];
/// The name of a field in JSON is an interface and stays.
const INTERFACE: &str = "#[serde(rename";
/// Words after which "machine" is a noun of prose, and not a name in code.
const BEFORE: &[&str] = &["a", "an", "another", "each", "every", "its", "no", "one", "the", "whose"];

#[test]
fn texts_say_vm_and_vmi() {
    let mut faults = Vec::new();
    for file in files() {
        let name = short(&file);
        let is_there = name.ends_with(".rs") || name.ends_with(".md");
        if !is_there || !PLACES.iter().any(|place| name.starts_with(place)) || EXAMPLES.contains(&&*name) {
            continue;
        }
        for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            if line.trim().starts_with(INTERFACE) {
                continue;
            }
            let found = vague(line)
                .map(|words| format!("{name}:{}: {words:?}, for VM, VMI or virt-handler", number + 1));
            faults.extend(found);
        }
    }
    assert_none(&faults);
}

/// The first words of a line that leave open what is meant.
fn vague(line: &str) -> Option<String> {
    let line = line.to_lowercase().replace('_', " ");
    let words =
        line.split_whitespace().map(|word| word.trim_matches(['"', '(', ')', '*', ',', '.', ':', ';']));
    let words: Vec<&str> = once("").chain(words).chain(once("")).collect();
    let is_vague = |words: &&[&str]| match words[1].trim_end_matches("'s") {
        "agent" | "agents" => words[0].starts_with("node"),
        "machine" | "instance" => BEFORE.contains(&words[0]) && !words[2].starts_with("type"),
        "machines" | "instances" => {
            !["available", "emulated", "machine", "virtual"].iter().any(|term| words[0].ends_with(term))
        }
        _ => false,
    };
    words.windows(3).find(is_vague).map(|words| words[..2].join(" "))
}

#[test]
fn what_leaves_it_open_is_found_and_other_words_are_not() {
    for line in [
        "/// The pod of a machine's disk.",
        "fn an_instance_ends() {",
        "\"Machines of each node.\"",
        "the node agent",
    ] {
        assert!(vague(line).is_some(), "{line}");
    }
    for line in
        ["the machine type q35", "A [`Machine`] is checked", "Virtual Machine Instances", "each(machine, 1)"]
    {
        assert_eq!(vague(line), None);
    }
}
