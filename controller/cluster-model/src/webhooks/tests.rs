//! What the API server is told to ask virt-api, as tests.

use super::*;
use serde_json::json;
use std::collections::BTreeSet;

const TARGET: WebhookTarget<'_> = WebhookTarget { namespace: "here", bundle: "QQ==", segment: None };

/// The webhooks of both configurations.
fn all(mutates: bool) -> Value {
    let both = [false, true].map(|of_cdi| configuration(mutates, of_cdi, &TARGET));
    both.iter().flat_map(|part| part.as_array().unwrap()).cloned().collect()
}

#[test]
fn each_has_a_name_and_a_path_of_its_own() {
    let names: BTreeSet<&str> = WEBHOOKS.iter().map(|hook| hook.name).collect();
    let paths: BTreeSet<&str> = WEBHOOKS.iter().map(|hook| hook.path).collect();
    assert_eq!((names.len(), paths.len()), (WEBHOOKS.len(), WEBHOOKS.len()));
    let found =
        |hook: &Webhook| Webhook::find_by_path(hook.path).is_some_and(|found| found.name == hook.name);
    assert!(WEBHOOKS.iter().all(found));
}

#[test]
fn a_configuration_says_where_we_are_and_whom_not_to_ask_about() {
    let hooks = all(false);
    let update =
        hooks.as_array().unwrap().iter().find(|hook| hook["rules"][0]["operations"] == json!(["UPDATE"]));
    let update = update.unwrap();
    assert_eq!(update["clientConfig"]["service"]["namespace"], "here");
    assert_eq!(
        update["matchConditions"][0]["expression"],
        "!(request.operation != 'CREATE' && request.userInfo.username == \
         'system:serviceaccount:here:kubevirt-controller')"
    );
    assert_eq!(all(true).as_array().unwrap().len(), 5);
}

/// A cluster's PVCs do not wait for virt-api: it is asked about those that carry a label, and not waited for.
#[test]
fn pvcs_are_asked_about_where_they_ask_for_it_and_never_wait() {
    let all = all(true);
    let of_core = |hook: &&Value| hook["rules"][0]["apiGroups"][0] == "";
    let hooks: Vec<&Value> = all.as_array().unwrap().iter().filter(of_core).collect();
    let [hook] = hooks[..] else { panic!("{all}") };
    assert_eq!(hook["failurePolicy"], "Ignore");
    let label = json!({"matchLabels": {"cdi.kubevirt.io/applyStorageProfile": "true"}});
    assert_eq!(hook["objectSelector"], label);
    assert_eq!(hook["rules"][0]["operations"], json!(["CREATE"]));
}

/// Whoever writes a disk waits for virt-api; virt-controller, which keeps its status and its finalizers, does
/// not.
#[test]
fn kinds_of_cdi_are_asked_about_in_their_own_version() {
    let all = all(false);
    let is_of_cdi = |hook: &&Value| hook["rules"][0]["apiGroups"] == json!(["cdi.kubevirt.io"]);
    let mut resources = Vec::new();
    for hook in all.as_array().unwrap().iter().filter(is_of_cdi) {
        let rule = &hook["rules"][0];
        assert_eq!(rule["apiVersions"], json!(["v1beta1"]), "{hook}");
        let removes = rule["operations"] == json!(["DELETE"]);
        let warns = hook["name"] == "cdi-settings.cdi.kubevirt.io";
        let policy = if removes || warns { "Ignore" } else { "Fail" };
        assert_eq!(hook["failurePolicy"], policy, "{hook}");
        let conditions = hook["matchConditions"].as_array().map_or(0, Vec::len);
        assert_eq!(conditions, if removes { 0 } else { 2 }, "{hook}");
        resources.extend(rule["resources"].as_array().unwrap().iter().filter_map(Value::as_str));
    }
    let expected = [
        "datavolumes",
        "dataimportcrons",
        "volumeimportsources",
        "volumeuploadsources",
        "volumeclonesources",
        "objecttransfers",
        "cdis",
        "cdiconfigs",
        "cdis",
    ];
    assert_eq!(resources, expected);
}

#[test]
fn what_another_cdi_asks_about_stands_in_configurations_of_its_own() {
    for (mutates, others) in [
        (true, &["kubevirt.io"][..]),
        (
            false,
            &["", "instancetype.kubevirt.io", "kubevirt.io", "migrations.kubevirt.io", "pool.kubevirt.io"],
        ),
    ] {
        let groups = |of_cdi: bool| -> BTreeSet<String> {
            let part = configuration(mutates, of_cdi, &TARGET);
            let group = |hook: &Value| hook["rules"][0]["apiGroups"][0].as_str().unwrap().to_owned();
            part.as_array().unwrap().iter().map(group).collect()
        };
        assert_eq!(groups(false), others.iter().map(|group| (*group).to_owned()).collect());
        assert!(groups(true).iter().all(|group| ["", "cdi.kubevirt.io"].contains(&group.as_str())));
    }
}

#[test]
fn a_path_begins_with_the_segment() {
    let target = WebhookTarget { segment: Some("0123456789abcdef0123456789abcdef"), ..TARGET };
    for hook in configuration(false, false, &target).as_array().unwrap() {
        let path = hook["clientConfig"]["service"]["path"].as_str().unwrap();
        let rest = path.strip_prefix("/0123456789abcdef0123456789abcdef").unwrap();
        assert!(Webhook::find_by_path(rest).is_some(), "{path}");
    }
}

/// A configuration without the webhook, or with one that is asked about less, leaves DataVolumes that
/// virt-api has never seen.
#[test]
fn a_configuration_asks_a_question_where_its_webhook_is_whole() {
    let asked = |change: &dyn Fn(&mut Value)| {
        let mut hooks = configuration(true, true, &WebhookTarget { segment: Some("a"), ..TARGET });
        let found = hooks.as_array_mut().unwrap().iter_mut();
        found.filter(|hook| hook["name"] == "datavolume-mutate.cdi.kubevirt.io").for_each(change);
        has_webhook(&json!({"webhooks": hooks}), Question::FillDataVolume, "here")
    };
    assert!(asked(&|_| {}));
    assert!(asked(&|hook| hook["clientConfig"]["caBundle"] = json!("Qg==")), "the bundle is renewed");
    assert!(!asked(&|hook| hook["name"] = json!("other")));
    assert!(!asked(&|hook| hook["clientConfig"]["service"]["name"] = json!("other")));
    assert!(!asked(&|hook| hook["failurePolicy"] = json!("Ignore")));
    assert!(!asked(&|hook| hook["namespaceSelector"] = json!({"matchLabels": {"a": "b"}})));
    assert!(!asked(&|hook| hook["rules"][0]["operations"] = json!(["UPDATE"])));
    let others = json!({"webhooks": configuration(true, false, &TARGET)});
    assert!(!has_webhook(&others, Question::FillDataVolume, "here"));
}

/// An old version of an instance type is shown as the stored one, and judged like it.
#[test]
fn instance_types_are_asked_about_in_the_version_that_is_stored() {
    let all = all(false);
    let is_size = |hook: &&Value| hook["rules"][0]["apiGroups"] == json!(["instancetype.kubevirt.io"]);
    let hooks: Vec<&Value> = all.as_array().unwrap().iter().filter(is_size).collect();
    assert_eq!(hooks.len(), 4);
    for hook in hooks {
        assert_eq!(hook["rules"][0]["apiVersions"], json!(["v1beta1"]), "{hook}");
        assert_eq!((&hook["matchPolicy"], &hook["failurePolicy"]), (&json!("Equivalent"), &json!("Fail")));
    }
}

/// The name and the path are upstream's. virt-controller writes no policy.
#[test]
fn a_migration_policy_is_validated_in_its_own_version() {
    let all = all(false);
    let is_its = |hook: &&Value| hook["rules"][0]["apiGroups"] == json!(["migrations.kubevirt.io"]);
    let hooks: Vec<&Value> = all.as_array().unwrap().iter().filter(is_its).collect();
    let [hook] = hooks[..] else { panic!("{all}") };
    assert_eq!(hook["name"], "migration-policy-validator.kubevirt.io");
    assert_eq!(hook["clientConfig"]["service"]["path"], "/migration-policy-validate-create");
    let rule = json!({
        "apiGroups": ["migrations.kubevirt.io"], "apiVersions": ["v1alpha1"], "resources": ["migrationpolicies"],
        "operations": ["CREATE", "UPDATE"], "scope": "*",
    });
    assert_eq!((&hook["rules"], &hook["failurePolicy"]), (&json!([rule]), &json!("Fail")));
    assert_eq!(hook["matchConditions"].as_array().map(Vec::len), Some(1), "{hook}");
}

/// Of what virt-api writes for a user nothing is filled in; the validators are asked all the same.
#[test]
fn what_virt_api_writes_is_validated_and_not_mutated() {
    let is_exempt = |hook: &Value| {
        let expected = "!(request.userInfo.username == 'system:serviceaccount:here:kubevirt-apiserver')";
        let mut conditions = hook["matchConditions"].as_array().into_iter().flatten();
        conditions.any(|one| one["expression"] == expected)
    };
    for mutates in [true, false] {
        for hook in all(mutates).as_array().unwrap() {
            assert_eq!(is_exempt(hook), mutates, "{}", hook["name"]);
        }
    }
}
/// No other PVC of the cluster is any business of virt-api's, and none waits for it.
#[test]
fn pvcs_are_judged_where_they_ask_for_an_export_and_never_wait() {
    let all = all(false);
    let mut hooks = all.as_array().unwrap().iter();
    let hook = hooks.find(|hook| hook["name"] == "pvc-validate.cdi.kubevirt.io").unwrap();
    assert_eq!(hook["failurePolicy"], "Ignore");
    assert_eq!(hook["rules"][0]["operations"], json!(["CREATE", "UPDATE"]));
    let conditions: Vec<&Value> = hook["matchConditions"].as_array().unwrap().iter().collect();
    let asks = json!({
        "name": "asks-for-an-export",
        "expression": "has(object.metadata.annotations) && object.metadata.annotations.exists(name, name.startsWith('cdi.kubevirt.io/storage.export.'))",
    });
    assert!(conditions.len() == 3 && conditions.contains(&&asks), "{hook}");
}

/// Each new migration is asked about. virt-controller, which keeps its label, its finalizer and its status, is not
/// held up.
#[test]
fn migrations_are_filled_and_judged_when_they_are_made_and_keep_what_they_are() {
    let both = [all(true), all(false)];
    let hooks = both.iter().flat_map(|all| all.as_array().unwrap());
    let of_migrations: Vec<[&Value; 4]> = hooks
        .filter(|hook| hook["rules"][0]["resources"] == json!(["virtualmachineinstancemigrations"]))
        .map(|hook| {
            [&hook["name"], &hook["rules"][0]["operations"], &hook["failurePolicy"], &hook["matchConditions"]]
        })
        .collect();
    let names = |conditions: &Value| {
        let names = conditions.as_array().into_iter().flatten().map(|one| one["name"].as_str().unwrap());
        names.collect::<Vec<_>>().join(",")
    };
    let told: Vec<String> = of_migrations
        .iter()
        .map(|[name, operations, policy, unless]| format!("{name} {operations} {policy} {}", names(unless)))
        .collect();
    assert_eq!(
        told,
        [
            r#""migrations-mutator.kubevirt.io" ["CREATE"] "Fail" not-virt-api"#,
            r#""migration-create-validator.kubevirt.io" ["CREATE"] "Fail" "#,
            r#""migration-update-validator.kubevirt.io" ["UPDATE"] "Fail" not-virt-controller,not-being-deleted"#,
        ]
    );
}

/// A drain of a node evicts all of its pods: those that are no launchers never wait for virt-api.
#[test]
fn evictions_are_asked_about_for_launcher_pods_alone() {
    let all = all(false);
    let mut of_core =
        all.as_array().unwrap().iter().filter(|hook| hook["rules"][0]["resources"][0] == "pods/eviction");
    let (hook, none) = (of_core.next().unwrap(), of_core.next());
    assert_eq!((&hook["name"], none), (&json!("virt-launcher-eviction-interceptor.kubevirt.io"), None));
    assert_eq!(
        hook["rules"],
        json!([{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"], "operations": ["CREATE"],
            "scope": "*",
        }])
    );
    assert_eq!(
        hook["matchConditions"],
        json!([{
            "name": "launcher-pods", "expression": "request.?name.orValue('').startsWith('virt-launcher-')",
        }])
    );
    assert_eq!((&hook["failurePolicy"], &hook["sideEffects"]), (&json!("Fail"), &json!("NoneOnDryRun")));
    let is_other = |other: &&Value| other["name"] != hook["name"];
    let mut others = all.as_array().unwrap().iter().filter(is_other);
    assert!(others.all(|other| other["sideEffects"] == "None"), "no other writes");
}
