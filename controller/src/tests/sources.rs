//! The text of our programs, without their tests: for rules that no type can hold.

use std::collections::BTreeSet;
use std::path::Path;

/// Files of this package whose program, tests left out, is so.
pub(crate) fn that(is: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    look(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &is, &mut found);
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

/// Whoever makes something of an instance asks the settings of the cluster; there is no other way to judge one here.
#[test]
fn a_cluster_judges_by_its_own_settings_alone() {
    assert!(that(|text| text.contains("of_laptop(")).is_empty(), "that is for a person's own computer");
    let handed = that(|text| text.contains("Machine::handed("));
    // These tell of machines that run already.
    assert_eq!(handed, ["src/node/vmi/keeper.rs", "src/node/vmi/status.rs"].map(str::to_owned).into());
    let judged = that(|text| text.contains("Machine::check("));
    let judges = [
        "src/cluster/vmi/mod.rs",
        "src/node/vmi/permitted.rs",
        "src/serve/admission/instance.rs",
        "src/serve/admission/template.rs",
    ];
    assert_eq!(judged, judges.map(str::to_owned).into());
}
