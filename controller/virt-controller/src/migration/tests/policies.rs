//! The policy of a VMI, and the settings of its migration.

use super::*;

/// A policy with these selectors, and a bandwidth by which it is known.
fn policy(sim: &mut Sim, name: &str, selectors: &Value, bandwidth: &str) -> Key {
    let spec = json!({"selectors": selectors, "bandwidthPerMigration": bandwidth});
    sim.put(Kind::MigrationPolicy, json!({"metadata": {"name": name}, "spec": spec}))
}

fn of_vmi(labels: &Value) -> Value {
    json!({"virtualMachineInstanceSelector": labels})
}

fn of_namespace(labels: &Value) -> Value {
    json!({"namespaceSelector": labels})
}

fn of_both(vmi: &Value, namespace: &Value) -> Value {
    json!({"virtualMachineInstanceSelector": vmi, "namespaceSelector": namespace})
}

/// The state of a migration that is handed over, with these policies. The VMI has the labels `app: db` and `tier: gold` or none, and
/// its namespace has `zone: a` and `team: x`.
fn state_with(labels: &Value, policies: &[(&str, Value)]) -> Value {
    let mut sim = Sim::new();
    sim.put(Kind::Namespace, json!({"metadata": {"name": "n", "labels": {"zone": "a", "team": "x"}}}));
    sim.put(Kind::Namespace, json!({"metadata": {"name": "other", "labels": {"zone": "b"}}}));
    let mut object = vmi("web");
    object["metadata"]["labels"] = labels.clone();
    let key = sim.put(Kind::VirtualMachineInstance, object);
    sim.boot(&key);
    for (name, selectors) in policies {
        policy(&mut sim, name, selectors, "1Mi");
    }
    let migration = migration(&mut sim, "move", &key, &json!({}));
    hand_over(&mut sim, &migration);
    sim.get(&key)["status"]["migrationState"].clone()
}

fn chosen(labels: &Value, policies: &[(&str, Value)]) -> Option<String> {
    state_with(labels, policies)["migrationPolicyName"].as_str().map(str::to_owned)
}

#[test]
fn all_labels_of_a_policy_have_to_match() {
    let labels = json!({"app": "db", "tier": "gold"});
    for (selectors, is_chosen) in [
        (of_vmi(&json!({"app": "db"})), true),
        (of_vmi(&json!({"app": "db", "tier": "tin"})), false),
        (of_vmi(&json!({"app": "web"})), false),
        (of_namespace(&json!({"zone": "a"})), true),
        (of_namespace(&json!({"zone": "b"})), false),
        (of_both(&json!({"app": "db"}), &json!({"zone": "a"})), true),
        (of_both(&json!({"app": "db"}), &json!({"zone": "b"})), false),
        (of_both(&json!({"app": "web"}), &json!({"zone": "a"})), false),
        (json!({}), true),
        (Value::Null, false),
    ] {
        assert_eq!(chosen(&labels, &[("one", selectors.clone())]).is_some(), is_chosen, "{selectors}");
    }
}

#[test]
fn the_policy_with_the_most_labels_is_chosen() {
    let labels = json!({"app": "db", "tier": "gold"});
    let every = ("a", json!({}));
    let one = ("b", of_namespace(&json!({"zone": "a"})));
    let one_of_vmi = ("c", of_vmi(&json!({"app": "db"})));
    let two = ("d", of_namespace(&json!({"zone": "a", "team": "x"})));
    let mixed = ("e", of_both(&json!({"app": "db"}), &json!({"zone": "a"})));
    let two_of_vmi = ("f", of_vmi(&json!({"app": "db", "tier": "gold"})));
    let mismatch = ("g", of_both(&json!({"app": "db", "tier": "gold"}), &json!({"zone": "b"})));
    for (policies, expected) in [
        (vec![&every, &one], "b"),
        (vec![&one, &two], "d"),
        // One label of each: that of the VMI decides.
        (vec![&one, &one_of_vmi], "c"),
        (vec![&two, &mixed], "e"),
        (vec![&two, &mixed, &two_of_vmi], "f"),
        // The number of all labels comes first.
        (vec![&one_of_vmi, &two], "d"),
        (vec![&mismatch, &every], "a"),
    ] {
        for policies in [policies.clone(), policies.into_iter().rev().collect()] {
            let policies: Vec<_> = policies.into_iter().cloned().collect();
            assert_eq!(chosen(&labels, &policies).as_deref(), Some(expected), "{policies:?}");
        }
    }
}

#[test]
fn of_policies_with_equal_labels_the_smallest_name_is_chosen() {
    let labels = json!({"app": "db", "tier": "gold"});
    let by = |name: &'static str, key: &str, value: &str| (name, of_vmi(&json!({key: value})));
    assert_eq!(chosen(&labels, &[by("b", "app", "db"), by("a", "tier", "gold")]).as_deref(), Some("a"));
    assert_eq!(chosen(&labels, &[by("a", "app", "db"), by("b", "tier", "gold")]).as_deref(), Some("a"));
    assert_eq!(chosen(&labels, &[by("a10", "app", "db"), by("a9", "tier", "gold")]).as_deref(), Some("a10"));
}

/// Upstream chooses a policy of any namespace for a VMI without labels.
#[test]
fn a_vmi_without_labels_has_the_policies_of_its_namespace_alone() {
    let of_vmi = ("a", of_vmi(&json!({"app": "db"})));
    let (here, there) =
        (("b", of_namespace(&json!({"zone": "a"}))), ("c", of_namespace(&json!({"zone": "b"}))));
    assert_eq!(chosen(&Value::Null, &[of_vmi.clone(), there.clone()]), None);
    assert_eq!(chosen(&Value::Null, &[of_vmi, there, here]).as_deref(), Some("b"));
}

#[test]
fn without_a_policy_a_migration_has_the_settings_of_the_cluster() {
    let state = state_with(&json!({"app": "db"}), &[("one", of_vmi(&json!({"app": "web"})))]);
    assert!(state["migrationPolicyName"].is_null(), "{state}");
    let settings = &state["migrationConfiguration"];
    assert_eq!(
        (&settings["bandwidthPerMigration"], &settings["progressTimeout"]),
        (&json!("0"), &json!(150))
    );
}

#[test]
fn the_settings_of_a_policy_are_frozen_with_the_hand_over() {
    let mut sim = Sim::new();
    let settings = json!({"bandwidthPerMigration": "9Mi", "progressTimeout": 7});
    let spec = json!({"configuration": {"migrations": settings}});
    sim.world.put(Kind::KubeVirt, crate::sim::kubevirt(spec), sim.now);
    let vmi = running(&mut sim, "web");
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    // A policy counts that was made while the target pod started.
    let policy = policy(&mut sim, "slow", &json!({}), "1Mi");
    sim.change(&policy, json!({"spec": {"allowPostCopy": true}}));
    hand_over(&mut sim, &key);
    let state = sim.get(&vmi)["status"]["migrationState"].clone();
    assert_eq!(state["migrationPolicyName"], "slow");
    let settings = &state["migrationConfiguration"];
    let named = [
        "bandwidthPerMigration",
        "progressTimeout",
        "allowPostCopy",
        "allowWorkloadDisruption",
        "allowAutoConverge",
    ];
    assert_eq!(
        named.map(|field| settings[field].clone()),
        [json!("1Mi"), json!(7), json!(true), json!(true), json!(false)]
    );
    let writes = sim.writes;
    sim.change(&policy, json!({"spec": {"bandwidthPerMigration": "2Mi"}}));
    sim.settle();
    sim.delete(&policy);
    sim.settle();
    assert_eq!(sim.writes, writes, "a change of a policy is no reason to write");
    assert_eq!(sim.get(&vmi)["status"]["migrationState"], state);
}
