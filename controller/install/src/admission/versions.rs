//! All users: an installed object is not replaced by one of an older version.
//!
//! | request | restricted to |
//! |---|---|
//! | update any installed object with a version ([`VERSION`]) | the version stays or rises; a missing version is older than any |
//! | update a Deployment or a DaemonSet | its pod template has the same version: `kubectl rollout undo` of a DaemonSet reverts the template only |
//! | the same | its images change together with the annotation [`IMAGES`]: `kubectl set image` changes the images only |
//!
//! Manifests of an older version would remove fields from the definitions, and so from the objects, which the
//! older programs could not read anyway. If one of the two is not a version (`latest`), their order is
//! unknown, and the update is permitted: virt-controller itself refuses to run on objects of a newer version.
//!
//! **Caveats.** Creations and deletions are not checked: after removing the installation, an older one may be
//! installed. The API server does not apply policies to policies, so those of the older version are applied
//! anyway. Images set by a kustomization are permitted if `kubectl apply` sets them, since it changes its own
//! annotation.

use super::{Policy, literal, rule};
use cluster_model::components::CONTAINERS;
use cluster_model::versions::{COMPARABLE, IMAGES, VERSION};

const UPDATE: &[&str] = &["UPDATE"];
/// Annotation with the last object given to `kubectl apply`.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Name of the policy.
pub(super) const NAME: &str = "kubevirt-versions";

pub(super) fn policy() -> Policy {
    let note =
        |object: &str, name: &str| format!("{object}.metadata.?annotations[?{}].orValue('')", literal(name));
    let value = |object: &str| note(object, VERSION);
    let images = |object: &str| {
        let of =
            |list: &str| format!("{object}.?spec.?template.?spec.?{list}.orValue([]).map(one, one.image)");
        CONTAINERS.map(of).join(" + ")
    };
    let same = |name: &str| format!("{} == {}", note("object", name), note("oldObject", name));
    let numbers = |of: &str| format!("variables.{of}.findAll('[0-9]+', 3).map(number, int(number))");
    let is_version = |of: &str| format!("variables.{of}.matches({})", literal(COMPARABLE));
    let variables = [
        ("before", value("oldObject")),
        ("after", value("object")),
        ("old", numbers("before")),
        ("new", numbers("after")),
        ("imagesBefore", images("oldObject")),
        ("imagesAfter", images("object")),
    ];
    Policy {
        name: NAME,
        rules: vec![
            rule("", &["namespaces", "serviceaccounts", "services"], UPDATE),
            rule("apiextensions.k8s.io", &["customresourcedefinitions"], UPDATE),
            rule("apps", &["daemonsets", "deployments"], UPDATE),
            rule("networking.k8s.io", &["networkpolicies"], UPDATE),
            rule("policy", &["poddisruptionbudgets"], UPDATE),
            rule(
                "rbac.authorization.k8s.io",
                &["clusterrolebindings", "clusterroles", "rolebindings", "roles"],
                UPDATE,
            ),
            rule("scheduling.k8s.io", &["priorityclasses"], UPDATE),
        ],
        when: vec![("installed", format!("{} != ''", value("oldObject")))],
        variables: variables.into(),
        validations: vec![
            (
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
            ),
            (
                format!(
                    "object.?spec.?template.?metadata.?annotations[?{}].orValue(variables.after) == variables.after",
                    literal(VERSION)
                ),
                format!(
                    "the pods of a component are of the version that the component says (annotation {VERSION}): apply the manifests \
                     of the version that is wanted instead of undoing a rollout"
                ),
            ),
            (
                format!(
                    "variables.imagesBefore == variables.imagesAfter || !({}) || !({}) || variables.imagesBefore.join(',') != {}",
                    same(IMAGES),
                    same(APPLIED),
                    note("oldObject", IMAGES)
                ),
                "the images of a component are those of its manifest: apply the manifests with the registry and the version that are \
                 wanted (coracle manifests --registry, --version) instead of setting an image"
                    .to_owned(),
            ),
        ],
        ..Policy::default()
    }
}

/// True if the new version is not lower than the old one: the first different number decides.
fn not_older() -> String {
    let at = |list: &str, place: usize| format!("variables.{list}[{place}]");
    let step = |place: usize, rest: String| {
        let (new, old) = (at("new", place), at("old", place));
        format!("({new} > {old} || {new} == {old} && {rest})")
    };
    step(0, step(1, format!("{} >= {}", at("new", 2), at("old", 2))))
}

#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::admission::tests::policy;
    use crate::objects;
    use crate::tests::options;
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_installed_is_not_replaced_by_an_older_version() {
        let policy = policy(NAME);
        let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap();
        assert!(rules.iter().all(|rule| rule["operations"] == json!(["UPDATE"])), "{rules:?}");
        let named: BTreeSet<&str> = rules
            .iter()
            .flat_map(|rule| rule["resources"].as_array().unwrap())
            .map(|resource| resource.as_str().unwrap())
            .collect();
        for object in objects(&options()) {
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            let plural = match kind.strip_suffix('y') {
                Some(rest) => format!("{rest}ies"),
                None if kind.ends_with('s') => format!("{kind}es"),
                None => format!("{kind}s"),
            };
            let is_policy = kind.starts_with("validatingadmissionpolicy");
            assert_eq!(
                named.contains(&*plural),
                !is_policy,
                "{plural}: the API server asks nobody about policies alone"
            );
        }
        let said = policy["spec"]["validations"][0]["expression"].as_str().unwrap();
        assert_eq!(
            said,
            "variables.after != '' && (!variables.before.matches(\"^v?[0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,9}\") || \
             !variables.after.matches(\"^v?[0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,9}\") || \
             (variables.new[0] > variables.old[0] || variables.new[0] == variables.old[0] && \
             (variables.new[1] > variables.old[1] || variables.new[1] == variables.old[1] && variables.new[2] >= variables.old[2])))"
        );
        let said: Vec<&str> = (policy["spec"]["validations"].as_array().unwrap().iter())
            .map(|validation| validation["expression"].as_str().unwrap())
            .collect();
        assert_eq!(
            said[1],
            "object.?spec.?template.?metadata.?annotations[?\"kubevirt.io/install-strategy-version\"].orValue(variables.after) == \
             variables.after"
        );
        assert!(said[2].starts_with("variables.imagesBefore == variables.imagesAfter || "), "{}", said[2]);
        let version = "kubevirt.io/install-strategy-version";
        for object in objects(&options()) {
            assert_eq!(object["metadata"]["annotations"][version], "1.2.3", "{object}");
            let pod = &object["spec"]["template"]["metadata"];
            assert!(pod.is_null() || pod["annotations"][version] == "1.2.3", "{pod}");
            let images = &object["metadata"]["annotations"]["kubevirt.io/install-strategy-images"];
            assert_eq!(images.is_null(), pod.is_null());
            let first = &object["spec"]["template"]["spec"]["containers"][0]["image"];
            assert!(
                pod.is_null() || images.as_str().unwrap().starts_with(first.as_str().unwrap()),
                "{images}"
            );
        }
    }
}
