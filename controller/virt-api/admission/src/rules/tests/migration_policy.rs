//! MigrationPolicies, and the webhook's answers.

use super::base::*;
use serde_json::{Value, json};

const POLICY: &str = "/migration-policy-validate-create";

fn policy(spec: &Value) -> Value {
    json!({
        "apiVersion": "migrations.kubevirt.io/v1alpha1", "kind": "MigrationPolicy",
        "metadata": {"name": "slow"}, "spec": spec,
    })
}

fn messages(spec: &Value, context: &crate::rules::RequestContext) -> Vec<String> {
    let answer = ask(POLICY, &create(policy(spec)), context);
    told(&answer).into_iter().map(|(_, message)| message).collect()
}

#[test]
fn a_policy_is_accepted_and_a_value_that_no_migration_can_have_is_refused() {
    let selectors =
        json!({"namespaceSelector": {"team": "data"}, "virtualMachineInstanceSelector": {"app": "db"}});
    let spec = json!({"selectors": selectors, "bandwidthPerMigration": "64Mi", "maxDowntimeMs": 500});
    let answer = ask(POLICY, &create(policy(&spec)), &context());
    assert_eq!((&answer.faults, &answer.warnings), (&vec![], &vec![]));
    let answer = ask(
        POLICY,
        &create(policy(&json!({"bandwidthPerMigration": "-1", "completionTimeoutPerGiB": -1}))),
        &context(),
    );
    let fault = |field: &str| (format!("spec.{field}"), "must not be negative".to_owned());
    assert_eq!(told(&answer), [fault("completionTimeoutPerGiB"), fault("bandwidthPerMigration")]);
    let [message] = &messages(&json!({"allowAutoConverge": "yes"}), &context())[..] else {
        panic!("no fault")
    };
    assert!(message.contains("allowAutoConverge"), "{message}");
}

#[test]
fn a_change_is_judged_like_a_new_policy_and_other_fields_are_left_alone() {
    let (valid, invalid) =
        (policy(&json!({"selectors": {}})), policy(&json!({"completionTimeoutPerGiB": -1})));
    let is_refused = |old: &Value, new: &Value| {
        !ask(POLICY, &update(old.clone(), new.clone()), &context()).faults.is_empty()
    };
    assert!(is_refused(&valid, &invalid));
    assert!(!is_refused(&invalid, &valid));
    // The policy may be older than the webhook.
    let mut labelled = invalid.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert!(!is_refused(&invalid, &labelled));
    let mut leaving = invalid.clone();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(!is_refused(&leaving, &leaving));
}

#[test]
fn an_experiment_is_refused_without_its_feature_gate_and_named_with_it() {
    for (experiment, gate) in
        [("downtimeTuning", "MigrationDowntimeTuning"), ("stallDetector", "MigrationStallDetection")]
    {
        let spec = json!({"selectors": {}, "experimental": {experiment: {}}});
        let refused =
            format!("experimental.{experiment} cannot be modified without enabling the {gate} feature gate");
        assert_eq!(messages(&spec, &context()), [refused]);
        let gates = json!({"developerConfiguration": {"featureGates": [gate]}});
        let answer = ask(POLICY, &create(policy(&spec)), &with(&gates));
        assert_eq!(answer.faults, []);
        let [warning] = &answer.warnings[..] else { panic!("{:?}", answer.warnings) };
        assert!(warning.starts_with(&format!("spec.experimental.{experiment}: no effect, ")), "{warning}");
    }
}

#[test]
fn fields_without_an_effect_and_unknown_ones_are_named() {
    let spec = json!({"selectors": {}, "allowPostCopy": true, "bandwith": "1Mi"});
    let answer = ask(POLICY, &create(policy(&spec)), &context());
    let [post_copy, unknown] = &answer.warnings[..] else { panic!("{:?}", answer.warnings) };
    assert!(post_copy.starts_with("spec.allowPostCopy: no effect, there is no post-copy yet"), "{post_copy}");
    assert!(unknown.contains("spec.bandwith"), "{unknown}");
}
