//! The text of our programs, without their tests: for rules that no type can hold.

use std::collections::BTreeSet;
use std::path::Path;

/// Folders beside the packages of the programs: types, and what is for tests.
const OTHERS: [&str; 3] = ["api", "fuzz", "kit"];

/// Files of the programs, below `controller/`, whose text, tests left out, is so.
pub(crate) fn that(is: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let controller = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    look(&controller.join("src"), &is, &mut found);
    for entry in std::fs::read_dir(controller).unwrap() {
        let package = entry.unwrap().path();
        let is_other = OTHERS.iter().any(|other| package.ends_with(other));
        if !is_other && package.join("Cargo.toml").is_file() {
            look(&package.join("src"), &is, &mut found);
        }
    }
    found
}

fn look(folder: &Path, is: &impl Fn(&str) -> bool, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            look(&path, is, found);
        } else if name.ends_with(".rs") && !name.contains("tests") {
            let text = std::fs::read_to_string(&path).unwrap();
            let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            if is(program) {
                found.insert(path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string());
            }
        }
    }
}

/// A program that makes something of a VMI asks the settings of the cluster; there is no other way to judge one here.
#[test]
fn a_cluster_judges_by_its_own_settings_alone() {
    assert!(that(|text| text.contains("of_laptop(")).is_empty(), "that is for a person's own computer");
    let handed = that(|text| text.contains("Machine::handed("));
    // These write the status of VMIs that run already, and tell their guests of a router.
    let of_running = ["node/src/vmi/keeper.rs", "node/src/vmi/keeper_router.rs", "node/src/vmi/status.rs"];
    assert_eq!(handed, of_running.map(str::to_owned).into());
    let judged = that(|text| text.contains("Machine::check("));
    let judges = [
        "cluster/src/vmi/mod.rs",
        "node/src/vmi/permitted.rs",
        "admission/src/rules/template.rs",
        "admission/src/rules/vmi.rs",
    ];
    assert_eq!(judged, judges.map(str::to_owned).into());
}
