//! What the API server itself refuses, by policies in CEL (`ValidatingAdmissionPolicy`): they hold while no virt-api
//! answers, and whatever the rights of an account say.
//!
//! | file | whom it binds | to what |
//! |---|---|---|
//! | [`handler`] | virt-handler | its own node's labels and heartbeat, the status of its own node's VMIs, events about those |
//! | [`controller`] | virt-controller | launcher pods, one label of nodes, objects with the names it declares |
//! | [`claims`] | virt-controller | the size and the owner of DataVolumes' PVCs, the hand-over of volumes |
//! | [`uploads`] | virt-controller | secrets with the names it declares, secrets and services of upload pods and of clones |
//! | [`components`] | virt-controller | where the programs of the installation run, and nothing of what runs in them |
//! | [`clones`] | everybody | the tokens by which PVCs of other namespaces are cloned |
//! | [`api`] | virt-api | the few fields of VMs and VMIs that subresources and evictions change |
//! | [`versions`] | everybody | the version of what is installed: it does not fall |
//! | [`fencing`] | everybody else | what keeps a second QEMU from a disk: finalizers, launcher pods, the status of VMIs |
//!
//! An account's token may be stolen: what its role permits on all objects of a kind (RBAC knows neither nodes nor fields) is
//! bound here to what the program does. What is permitted follows from the constants that the programs write by, so that
//! the two cannot differ.
//!
//! **Guarantees.** A policy that cannot be evaluated refuses (`failurePolicy: Fail`). Each asks the API server only about
//! who or what it binds (match conditions, a label selector): other requests pay nothing, and cannot be hurt by it.
//! **Assumptions.** Kubernetes 1.30 or newer: since then policies are served as `v1`, and a token says the node of its pod
//! (`ServiceAccountTokenPodNodeInfo`; it cannot be switched off any more from 1.32 on). A token that does not say it is
//! refused.
//! **Caveats.** Reading is not admitted but authorised: no policy bounds it. In an upgrade the policies are applied first: for up to half
//! an hour the virt-controller of the version before acts under them, so that a policy which is made narrower has to let its writes through.

mod api;
mod claims;
mod clones;
mod components;
mod controller;
mod fencing;
mod handler;
#[cfg(test)]
mod tests;
mod uploads;
mod versions;

use super::Wishes;
use serde_json::{Value, json};

pub(super) fn objects(wishes: &Wishes) -> Vec<Value> {
    let all = handler::policies(wishes).into_iter();
    let all = all.chain(controller::policies(wishes)).chain(api::policies(wishes));
    let all =
        all.chain(uploads::policies(wishes)).chain(claims::policies(wishes)).chain(fencing::policies(wishes));
    let all = all.chain(clones::policies()).chain([components::policy(wishes), versions::policy()]);
    all.flat_map(Policy::objects).collect()
}

/// What requests a policy is about: API group, resources, operations.
type Rule = (&'static str, &'static [&'static str], &'static [&'static str]);

/// As one.
const fn rule(
    group: &'static str,
    resources: &'static [&'static str],
    operations: &'static [&'static str],
) -> Rule {
    (group, resources, operations)
}

/// A policy, before it is written.
#[derive(Default)]
struct Policy {
    name: &'static str,
    rules: Vec<Rule>,
    /// Only objects with this label, before or after.
    label: Option<(&'static str, &'static str)>,
    /// Only where these are true: a name, an expression.
    when: Vec<(&'static str, String)>,
    /// Names for expressions.
    variables: Vec<(&'static str, String)>,
    /// What must be true, and what is said where it is not.
    validations: Vec<(String, String)>,
}

impl Policy {
    /// The policy, and that it holds everywhere.
    fn objects(self) -> [Value; 2] {
        let rules: Vec<Value> = (self.rules.iter())
            .map(|(group, resources, operations)| {
                json!({
                    "apiGroups": [group], "apiVersions": ["*"], "resources": resources, "operations": operations,
                })
            })
            .collect();
        let mut constraints = json!({"resourceRules": rules});
        if let Some((label, value)) = self.label {
            constraints["objectSelector"] = json!({"matchLabels": {label: value}});
        }
        let named = |(name, expression): &(&str, String)| json!({"name": name, "expression": expression});
        let validation = |(expression, message): &(String, String)| json!({"expression": expression, "message": message, "reason": "Forbidden"});
        let mut spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": constraints,
            "validations": self.validations.iter().map(validation).collect::<Vec<_>>(),
        });
        for (field, expressions) in [("matchConditions", &self.when), ("variables", &self.variables)] {
            if !expressions.is_empty() {
                spec[field] = expressions.iter().map(named).collect();
            }
        }
        let object = |kind: &str, spec: Value| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": self.name, "labels": {"kubevirt.io": ""}},
                "spec": spec,
            })
        };
        [
            object("ValidatingAdmissionPolicy", spec),
            object(
                "ValidatingAdmissionPolicyBinding",
                json!({"policyName": self.name, "validationActions": ["Deny"]}),
            ),
        ]
    }
}

// ── Expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────

/// A list or a text as a literal: CEL reads those of JSON.
fn literal(value: impl serde::Serialize) -> String {
    json!(value).to_string()
}

/// Who asks is this user.
fn is_user(user: &str) -> String {
    format!("request.userInfo.username == {}", literal(user))
}

/// What stands there is the same as before. `path` begins below the object, and may miss from its last step on.
fn same(path: &str) -> String {
    format!("{} == {}", below("object", path), below("oldObject", path))
}

/// What stands there, or nothing at all.
fn below(object: &str, path: &str) -> String {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let parents = if parents.is_empty() { object.to_owned() } else { format!("{object}.{parents}") };
    format!("{parents}.?{last}.orValue(null)")
}

/// A map as it is to be, and as it was; it may miss.
fn maps(path: &str) -> [String; 2] {
    ["object", "oldObject"].map(|object| format!("{object}.{path}.orValue({{}})"))
}

/// Of two maps, all that differs has a key for which `allowed` is true.
fn differ_only(path: &str, allowed: &str) -> String {
    let [new, old] = maps(path);
    format!(
        "{new}.all(key, {allowed} || key in {old} && {old}[key] == {new}[key]) && {old}.all(key, {allowed} || key in {new})"
    )
}
