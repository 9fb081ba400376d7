//! The drawing, compared letter by letter with what is committed in `golden/`. `UPDATE_GOLDEN=1 cargo test` writes it anew;
//! `launcher/tests/define.rs` shows every one to libvirt.

mod devices;
mod fixture;
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
        "{} is another; UPDATE_GOLDEN=1 writes it anew.\n{}",
        path.display(),
        difference(&wanted, xml)
    );
}

fn difference(wanted: &str, drawn: &str) -> String {
    let (wanted, drawn): (Vec<_>, Vec<_>) = (wanted.lines().collect(), drawn.lines().collect());
    let missing = wanted.iter().filter(|line| !drawn.contains(line)).map(|line| format!("- {line}"));
    let added = drawn.iter().filter(|line| !wanted.contains(line)).map(|line| format!("+ {line}"));
    missing.chain(added).collect::<Vec<_>>().join("\n")
}
