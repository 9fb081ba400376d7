//! virt-api: each of its write rights, restricted to the fields that subresources and evictions change.
//!
//! | right | bound |
//! |---|---|
//! | patch `virtualmachines` | the fields [`VM_SPEC_FIELDS`] of the spec: start and stop |
//! | patch `virtualmachines/status` | the fields [`VM_STATUS_FIELDS`] of the status: requests to virt-controller |
//! | patch `virtualmachineinstances` | the fields [`VMI_SPEC_FIELDS`] of the spec, and [`VMI_STATUS_FIELDS`] of the status: the node to leave |
//! | create `virtualmachineinstancemigrations` | names that begin with [`MIGRATION_PREFIX`], the fields [`MIGRATION_SPEC_FIELDS`] of the spec, no annotations of KubeVirt |
//!
//! Its role permits no deletion, and no other creation. In the metadata of VMs and VMIs only fields written by
//! the API server ([`OF_THE_SERVER`]) may differ. virt-api writes in its own name for users, after an access
//! review for the user. Policies do not see that user. So a stolen token of this account can start, stop and
//! migrate VMs of all namespaces, and change nothing else about them.

use super::{Policy, Rule, differ_only, is_user, literal, rule};
use crate::InstallOptions;
use cluster_model::accounts::Accounts;
use cluster_model::objects::Program;
use cluster_model::subresources::{
    MIGRATION_PREFIX, MIGRATION_SPEC_FIELDS, VM_SPEC_FIELDS, VM_STATUS_FIELDS, VMI_SPEC_FIELDS,
    VMI_STATUS_FIELDS,
};

/// The fields of an object's metadata that the API server writes with each change.
pub(super) const OF_THE_SERVER: [&str; 3] = ["generation", "managedFields", "resourceVersion"];

pub(super) fn policies(options: &InstallOptions) -> [Policy; 3] {
    let is_api = ("virt-api", is_user(&Accounts::new(&options.namespace).user(Program::Api)));
    let base = |name, rules: Rule, kind: &str, validations: Vec<(String, String)>| Policy {
        name,
        rules: vec![rules],
        when: vec![is_api.clone()],
        validations: (validations.into_iter())
            .chain([(only("metadata", &OF_THE_SERVER), "does not change the metadata".to_owned())])
            .map(|(expression, message)| (expression, format!("virt-api {message} of a {kind}")))
            .collect(),
        ..Policy::default()
    };
    let changes = |part: &str, fields: &[&str]| {
        let names: Vec<String> = fields.iter().map(|field| format!("{part}.{field}")).collect();
        (only(part, fields), format!("changes only {}", names.join(" and ")))
    };
    [
        // The API server ignores status changes in updates of a VM, and other changes in updates of its
        // status. So each rule holds for both.
        base(
            "kubevirt-apiserver-vms",
            rule("kubevirt.io", &["virtualmachines", "virtualmachines/status"], &["UPDATE"]),
            "VM",
            vec![changes("spec", &VM_SPEC_FIELDS), changes("status", &VM_STATUS_FIELDS)],
        ),
        base(
            "kubevirt-apiserver-vmis",
            rule("kubevirt.io", &["virtualmachineinstances"], &["UPDATE"]),
            "VMI",
            vec![changes("spec", &VMI_SPEC_FIELDS), changes("status", &VMI_STATUS_FIELDS)],
        ),
        Policy {
            name: "kubevirt-apiserver-migrations",
            rules: vec![rule("kubevirt.io", &["virtualmachineinstancemigrations"], &["CREATE"])],
            when: vec![is_api.clone()],
            validations: migration(),
            ..Policy::default()
        },
    ]
}

/// The form of a migration that virt-api creates for a user. Annotations of KubeVirt mark the migrations of its
/// own programs.
fn migration() -> Vec<(String, String)> {
    vec![
        (
            format!("object.metadata.?generateName.orValue('') == {}", literal(MIGRATION_PREFIX)),
            format!("virt-api creates only migrations whose names begin with {MIGRATION_PREFIX}"),
        ),
        (
            format!("object.?spec.orValue({{}}).all(key, key in {})", literal(MIGRATION_SPEC_FIELDS)),
            format!("virt-api sets only {} of a migration", MIGRATION_SPEC_FIELDS.join(" and ")),
        ),
        (
            "object.metadata.?annotations.orValue({}).all(key, !key.contains('kubevirt.io/'))".to_owned(),
            "virt-api creates migrations without annotations of kubevirt.io".to_owned(),
        ),
    ]
}

/// Only these fields of a part of the object differ. The part may be new.
pub(super) fn only(part: &str, fields: &[&str]) -> String {
    differ_only(&format!("?{part}"), &format!("key in {}", literal(fields)))
}
