//! Admission policies in CEL (`ValidatingAdmissionPolicy`), evaluated by the API server itself: they hold
//! while no virt-api answers, and in addition to the rights of an account.
//!
//! | file | restricts | to |
//! |---|---|---|
//! | [`handler`] | virt-handler | its own node's labels and heartbeat, the status of its own node's VMIs, events about those |
//! | [`controller`] | virt-controller | launcher pods, one label of nodes, objects with the names it declares |
//! | [`claims`] | virt-controller | the size and the owner of DataVolumes' PVCs, the hand-over of volumes |
//! | [`uploads`] | virt-controller | secrets with the names it declares, secrets and services of upload pods and of clones |
//! | [`components`] | virt-controller | placement and size of the installation's components, not their programs |
//! | [`clones`] | all users | the tokens by which PVCs of other namespaces are cloned |
//! | [`api`] | virt-api | the few fields of VMs and VMIs that subresources and evictions change |
//! | [`versions`] | all users | the version of the installation, which does not fall |
//! | [`fencing`] | all other users | protection of a disk from a second QEMU: finalizers, launcher pods, the status of VMIs |
//!
//! An account's token may be stolen. RBAC has neither nodes nor fields, so the policies restrict what a role
//! permits on all objects of a kind to the actions of the program. They are derived from the constants that
//! the programs use, so that the two cannot differ.
//!
//! **Guarantees.** A policy that cannot be evaluated refuses (`failurePolicy: Fail`). Each is evaluated only
//! for the users and objects that it restricts (match conditions, a label selector): other requests are not
//! affected.
//! **Assumptions.** Kubernetes 1.30 or newer: since then policies are served as `v1`, and a token contains
//! the node of its pod (`ServiceAccountTokenPodNodeInfo`; it cannot be switched off any more from 1.32 on). A
//! token without it is refused.
//! **Caveats.** Policies do not restrict reads, which are authorized by RBAC alone. In an upgrade the
//! policies are applied first: for up to half an hour the virt-controller of the previous version acts under
//! them, so a narrowed policy must still permit its writes.

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

use super::InstallOptions;
use serde_json::{Value, json};

pub(super) fn objects(options: &InstallOptions) -> Vec<Value> {
    let all = handler::policies(options).into_iter();
    let all = all.chain(controller::policies(options)).chain(api::policies(options));
    let all = all
        .chain(uploads::policies(options))
        .chain(claims::policies(options))
        .chain(fencing::policies(options));
    let all = all.chain(clones::policies()).chain([components::policy(options), versions::policy()]);
    all.flat_map(Policy::objects).collect()
}

/// Requests that a policy applies to: API group, resources, operations.
type Rule = (&'static str, &'static [&'static str], &'static [&'static str]);

const fn rule(
    group: &'static str,
    resources: &'static [&'static str],
    operations: &'static [&'static str],
) -> Rule {
    (group, resources, operations)
}

/// A policy, before it is written as objects.
#[derive(Default)]
struct Policy {
    name: &'static str,
    rules: Vec<Rule>,
    /// Restricts the policy to objects with this label, before or after the request.
    label: Option<(&'static str, &'static str)>,
    /// Match conditions: name and expression.
    when: Vec<(&'static str, String)>,
    /// CEL variables: name and expression.
    variables: Vec<(&'static str, String)>,
    /// Validations: the expression that must be true, and the message otherwise.
    validations: Vec<(String, String)>,
}

impl Policy {
    /// The policy, and its binding for all namespaces.
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

/// A list or a text as a CEL literal: CEL accepts JSON's.
fn literal(value: impl serde::Serialize) -> String {
    json!(value).to_string()
}

/// True if this user makes the request.
fn is_user(user: &str) -> String {
    format!("request.userInfo.username == {}", literal(user))
}

/// True if the value at the path is unchanged. `path` begins below the object, and only its last step may be
/// missing.
fn same(path: &str) -> String {
    format!("{} == {}", below("object", path), below("oldObject", path))
}

/// The value at the path, or null.
fn below(object: &str, path: &str) -> String {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let parents = if parents.is_empty() { object.to_owned() } else { format!("{object}.{parents}") };
    format!("{parents}.?{last}.orValue(null)")
}

/// The new and the old map at the path. Both may be missing.
fn maps(path: &str) -> [String; 2] {
    ["object", "oldObject"].map(|object| format!("{object}.{path}.orValue({{}})"))
}

/// True if two maps differ only in keys for which `allowed` is true.
fn differ_only(path: &str, allowed: &str) -> String {
    let [new, old] = maps(path);
    format!(
        "{new}.all(key, {allowed} || key in {old} && {old}[key] == {new}[key]) && {old}.all(key, {allowed} || key in {new})"
    )
}
