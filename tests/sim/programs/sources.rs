//! The text of our programs, without their tests: for rules that no type can hold.

use std::collections::BTreeSet;
use std::path::Path;

/// Packages of `controller/` that are in no program.
const OTHERS: [&str; 2] = ["fuzz", "kit"];

/// Files of the programs, below `controller/`, whose text without tests satisfies `is`.
pub(crate) fn that(is: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let controller = Path::new(env!("CARGO_MANIFEST_DIR")).join("../controller");
    let mut found = BTreeSet::new();
    packages(&controller, &mut |package| look(&controller, &package.join("src"), &is, &mut found));
    found
}

fn packages(folder: &Path, each: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_other = OTHERS.iter().any(|other| path.ends_with(other));
        if !is_other && path.join("Cargo.toml").is_file() {
            each(&path);
            packages(&path, each);
        }
    }
}

fn look(controller: &Path, folder: &Path, is: &impl Fn(&str) -> bool, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            look(controller, &path, is, found);
        } else if name.ends_with(".rs") && !name.contains("tests") {
            let text = std::fs::read_to_string(&path).unwrap();
            let program = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            if is(program) {
                found.insert(path.strip_prefix(controller).unwrap().display().to_string());
            }
        }
    }
}

/// A program that evaluates a VMI must read the settings of the cluster. The sources are searched, since the
/// property cannot be tested otherwise.
#[test]
fn a_cluster_judges_by_its_own_settings_alone() {
    assert!(that(|text| text.contains("of_laptop(")).is_empty(), "that is for a person's own computer");
    let handed = that(|text| text.contains("Machine::check_again("));
    // These write the status of VMIs that run already, and tell their guests of a router.
    let of_running = ["virt-handler/src/vmi/keeper/facts.rs", "virt-handler/src/vmi/status.rs"];
    assert_eq!(handed, of_running.map(str::to_owned).into());
    let judged = that(|text| text.contains("Machine::check("));
    let judges = [
        "virt-controller/src/vmi/launcher_pod.rs",
        "virt-controller/src/vmi/mod.rs",
        "virt-handler/src/vmi/permitted.rs",
        "virt-api/admission/src/rules/template.rs",
        "virt-api/admission/src/rules/vmi.rs",
    ];
    assert_eq!(judged, judges.map(str::to_owned).into());
}
