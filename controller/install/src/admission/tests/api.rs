//! Policies of virt-api.

use super::{expressions, policy};
use cluster_model::subresources::{
    MIGRATION_PREFIX, MIGRATION_SPEC_FIELDS, VM_SPEC_FIELDS, VM_STATUS_FIELDS, VMI_SPEC_FIELDS,
    VMI_STATUS_FIELDS,
};
use serde_json::json;

/// The policies permit virt-api's writes, by the constants that it uses, and refuse all other differences.
#[test]
fn virt_api_may_write_what_subresources_change_and_nothing_else() {
    let of_server = &crate::admission::api::OF_THE_SERVER[..];
    for (name, resources, parts) in [
        (
            "kubevirt-apiserver-vms",
            json!(["virtualmachines", "virtualmachines/status"]),
            vec![("spec", &VM_SPEC_FIELDS[..]), ("status", &VM_STATUS_FIELDS[..]), ("metadata", of_server)],
        ),
        (
            "kubevirt-apiserver-vmis",
            json!(["virtualmachineinstances"]),
            vec![("spec", &VMI_SPEC_FIELDS[..]), ("status", &VMI_STATUS_FIELDS[..]), ("metadata", of_server)],
        ),
    ] {
        let policy = policy(name);
        let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap();
        assert_eq!(rules.len(), 1, "{name}");
        assert_eq!((&rules[0]["resources"], &rules[0]["operations"]), (&resources, &json!(["UPDATE"])));
        let validations = policy["spec"]["validations"].as_array().unwrap();
        let says = |expression: &str| validations.iter().any(|one| one["expression"] == expression);
        for (part, fields) in parts {
            let [new, old] = ["object", "oldObject"].map(|object| format!("{object}.?{part}.orValue({{}})"));
            let allowed = format!("key in {}", json!(fields));
            let expression = format!(
                "{new}.all(key, {allowed} || key in {old} && {old}[key] == {new}[key]) && \
                 {old}.all(key, {allowed} || key in {new})"
            );
            assert!(says(&expression), "{name}: {expression}");
        }
        assert_eq!(validations.len(), 3, "{name}");
    }
    // The fencing policies also apply to virt-api, which may change one field of a VMI's status.
    let fencing = expressions(&policy("kubevirt-fencing-finalizers"));
    assert!(!fencing.contains("kubevirt-apiserver"), "{fencing}");
    let status = policy("kubevirt-fencing-status");
    assert!(!status["spec"]["matchConditions"].to_string().contains("kubevirt-apiserver"), "{status}");
    let first = status["spec"]["validations"][0]["expression"].as_str().unwrap();
    let is_api = "request.userInfo.username == \"system:serviceaccount:kubevirt:kubevirt-apiserver\"";
    let [new, old] = ["object", "oldObject"].map(|object| format!("{object}.?status.orValue({{}})"));
    let evacuates = format!(
        "{is_api} && {new}.all(key, key in [\"evacuationNodeName\"] || key in {old} && {old}[key] == {new}[key]) && \
         {old}.all(key, key in [\"evacuationNodeName\"] || key in {new})"
    );
    assert!(first.ends_with(&format!("|| {evacuates}")), "{first}");
}

/// A migration of virt-api is one of a user: without a priority, and without the marks of our own programs.
#[test]
fn virt_api_makes_migrations_of_a_user_and_no_others() {
    let policy = policy("kubevirt-apiserver-migrations");
    let rule = json!([{
        "apiGroups": ["kubevirt.io"], "apiVersions": ["*"], "resources": ["virtualmachineinstancemigrations"],
        "operations": ["CREATE"],
    }]);
    assert_eq!(policy["spec"]["matchConstraints"]["resourceRules"], rule);
    let validations = policy["spec"]["validations"].as_array().unwrap();
    let expected = [
        format!("object.metadata.?generateName.orValue('') == {}", json!(MIGRATION_PREFIX)),
        format!("object.?spec.orValue({{}}).all(key, key in {})", json!(MIGRATION_SPEC_FIELDS)),
        "object.metadata.?annotations.orValue({}).all(key, !key.contains('kubevirt.io/'))".to_owned(),
    ];
    let said: Vec<&str> = validations.iter().map(|one| one["expression"].as_str().unwrap()).collect();
    assert_eq!(said, expected);
    assert!(!MIGRATION_SPEC_FIELDS.contains(&"priority"));
}
