//! Puts the commit into the program, for `--version`.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=.git/HEAD");
    println!("cargo::rerun-if-changed=.git/refs/heads");
    println!("cargo::rerun-if-env-changed=CORACLE_COMMIT");
    // A source archive has no .git; its packager sets the variable.
    let commit = std::env::var("CORACLE_COMMIT").ok().or_else(described).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=CORACLE_COMMIT={commit}");
}

fn described() -> Option<String> {
    let output =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
