//! The XML, compared letter by letter with `golden/`. `UPDATE_GOLDEN=1 cargo test` rewrites the golden files;
//! `launcher/tests/define.rs` gives each of them to libvirt.

mod devices;
mod fixture;
mod host_devices;
mod hostile;
mod manifest;
mod places;
mod refused;
mod whole;

use std::path::Path;

/// Compares with `golden/NAME.xml`.
fn golden(name: &str, xml: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/domain/golden").join(format!("{name}.xml"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, xml).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        xml == wanted,
        "{} differs; UPDATE_GOLDEN=1 rewrites it.\n{}",
        path.display(),
        difference(&wanted, xml)
    );
}

fn difference(wanted: &str, rendered: &str) -> String {
    let (wanted, rendered): (Vec<_>, Vec<_>) = (wanted.lines().collect(), rendered.lines().collect());
    let missing = wanted.iter().filter(|line| !rendered.contains(line)).map(|line| format!("- {line}"));
    let added = rendered.iter().filter(|line| !wanted.contains(line)).map(|line| format!("+ {line}"));
    missing.chain(added).collect::<Vec<_>>().join("\n")
}
