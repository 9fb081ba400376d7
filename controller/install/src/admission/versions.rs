//! Everybody: what is installed is not replaced by an older version.
//!
//! | what | bound |
//! |---|---|
//! | update `deployments`, `daemonsets`, `customresourcedefinitions` that are of this installation ([`VERSION`]) | the version stays or rises; one that says no version is older than all that do |
//!
//! Manifests of an older version would take fields out of the definitions, and so out of the objects, which their programs could not read
//! in the first place. Where one of the two versions is no version (`latest`), nothing is known, and it is let through:
//! virt-controller itself refuses to run on what a newer one has written (package `cluster`).
//!
//! **Caveats.** Objects that are made or deleted are not looked at: whoever takes the installation away may install an older one.

use super::{Policy, literal, rule};
use kubernetes::versions::{COMPARABLE, VERSION};

/// The policy.
pub(super) const NAME: &str = "kubevirt-versions";

pub(super) fn policy() -> Policy {
    let value = |object: &str| format!("{object}.metadata.?annotations[?{}].orValue('')", literal(VERSION));
    let numbers = |of: &str| format!("variables.{of}.findAll('[0-9]+', 3).map(number, int(number))");
    let is_version = |of: &str| format!("variables.{of}.matches({})", literal(COMPARABLE));
    let variables = [
        ("before", value("oldObject")),
        ("after", value("object")),
        ("old", numbers("before")),
        ("new", numbers("after")),
    ];
    Policy {
        name: NAME,
        rules: vec![
            rule("apps", &["deployments", "daemonsets"], &["UPDATE"]),
            rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["UPDATE"]),
        ],
        when: vec![("installed", format!("{} != ''", value("oldObject")))],
        variables: variables.into(),
        validations: vec![(
            format!(
                "variables.after != '' && (!{} || !{} || {})",
                is_version("before"),
                is_version("after"),
                not_older()
            ),
            format!(
                "a downgrade is not supported: what is installed is of a newer version (annotation {VERSION}), whose objects an older \
                 one may misread. Apply the manifests of that version, or of a newer one; where the newer one never ran, \
                 delete validatingadmissionpolicybinding/{NAME} before you go back"
            ),
        )],
        ..Policy::default()
    }
}

/// The new numbers are not below the old ones; the first that differ decide.
fn not_older() -> String {
    let at = |list: &str, place: usize| format!("variables.{list}[{place}]");
    let step = |place: usize, rest: String| {
        let (new, old) = (at("new", place), at("old", place));
        format!("({new} > {old} || {new} == {old} && {rest})")
    };
    step(0, step(1, format!("{} >= {}", at("new", 2), at("old", 2))))
}
