//! Selection by labels, and the settings of a migration.

use super::*;
use crate::wire;
use serde_json::{Value, json};

fn policy(spec: &Value) -> Spec {
    wire::read_in_part(spec.clone(), &mut Vec::new()).unwrap()
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn all_labels_of_both_selectors_are_required_and_counted() {
    let (vmi, namespace) = (labels(&[("app", "db"), ("tier", "gold")]), labels(&[("zone", "a")]));
    let score = |vmi_labels: Value, namespace_labels: Value| {
        let selectors =
            json!({"virtualMachineInstanceSelector": vmi_labels, "namespaceSelector": namespace_labels});
        policy(&json!({"selectors": selectors})).selectors.unwrap().score(&vmi, &namespace)
    };
    assert_eq!(score(json!({}), json!({})), Some((0, 0)));
    assert_eq!(score(json!({"app": "db"}), json!({"zone": "a"})), Some((2, 1)));
    assert_eq!(score(json!({"app": "db", "tier": "gold"}), json!(null)), Some((2, 2)));
    assert_eq!(score(json!({"app": "db", "tier": "tin"}), json!({"zone": "a"})), None);
    assert_eq!(score(json!({"app": "db"}), json!({"zone": "b"})), None);
    assert_eq!(
        score(json!({"zone": "a"}), json!({})),
        None,
        "a label of the namespace is not a label of the VMI"
    );
}

/// Upstream looks at the selector of namespaces only where the VMI has labels.
#[test]
fn a_vmi_without_labels_is_selected_by_its_namespace_alone() {
    let score = |selectors: Value| {
        let selectors = policy(&json!({"selectors": selectors})).selectors.unwrap();
        selectors.score(&BTreeMap::new(), &labels(&[("zone", "a")]))
    };
    assert_eq!(score(json!({"namespaceSelector": {"zone": "a"}})), Some((1, 0)));
    assert_eq!(score(json!({"namespaceSelector": {"zone": "b"}})), None);
    assert_eq!(score(json!({"virtualMachineInstanceSelector": {"app": "db"}})), None);
}

#[test]
fn unset_selectors_differ_from_empty_ones() {
    assert_eq!(policy(&json!({})).selectors, None);
    assert_eq!(policy(&json!({"selectors": null})).selectors, None);
    assert_eq!(policy(&json!({"selectors": {}})).selectors, Some(Selectors::default()));
}

fn cluster() -> MigrationConfiguration {
    MigrationConfiguration {
        allow_auto_converge: Some(false),
        bandwidth_per_migration: Some(Quantity::of_bytes(0)),
        completion_timeout_per_gib: Some(150),
        max_downtime_ms: Some(900),
        progress_timeout: Some(150),
        allow_post_copy: Some(false),
        allow_workload_disruption: Some(false),
        ..MigrationConfiguration::default()
    }
}

#[test]
fn each_field_of_a_policy_replaces_that_of_the_cluster_and_no_other() {
    assert_eq!(policy(&json!({"selectors": {}})).apply_to(&cluster()), cluster());
    let compressed = Some(ExperimentalMigrationOptions {
        compression: Some(Compression::Zstd),
        ..ExperimentalMigrationOptions::default()
    });
    for (spec, expected) in [
        (
            json!({"allowAutoConverge": true}),
            MigrationConfiguration { allow_auto_converge: Some(true), ..cluster() },
        ),
        (
            json!({"bandwidthPerMigration": "64Mi"}),
            MigrationConfiguration { bandwidth_per_migration: Quantity::parse("64Mi").ok(), ..cluster() },
        ),
        (
            json!({"completionTimeoutPerGiB": 0}),
            MigrationConfiguration { completion_timeout_per_gib: Some(0), ..cluster() },
        ),
        (
            json!({"maxDowntimeMs": 2_000_000}),
            MigrationConfiguration { max_downtime_ms: Some(2_000_000), ..cluster() },
        ),
        (
            json!({"allowWorkloadDisruption": true}),
            MigrationConfiguration { allow_workload_disruption: Some(true), ..cluster() },
        ),
        (
            json!({"compression": "zstd"}),
            MigrationConfiguration { experimental: compressed.clone(), ..cluster() },
        ),
        (
            json!({"experimental": {"compression": "zstd", "downtimeTuning": {"steps": 2}}}),
            MigrationConfiguration { experimental: compressed, ..cluster() },
        ),
    ] {
        assert_eq!(policy(&spec).apply_to(&cluster()), expected, "{spec}");
    }
}

#[test]
fn post_copy_alone_decides_on_disruption_too() {
    let both = |spec: Value, cluster: &MigrationConfiguration| {
        let settings = policy(&spec).apply_to(cluster);
        (settings.allow_post_copy.unwrap(), settings.allow_workload_disruption.unwrap())
    };
    let disrupts = MigrationConfiguration {
        allow_post_copy: Some(true),
        allow_workload_disruption: Some(true),
        ..cluster()
    };
    assert_eq!(both(json!({"allowPostCopy": true}), &cluster()), (true, true));
    assert_eq!(both(json!({"allowPostCopy": false}), &disrupts), (false, false));
    assert_eq!(
        both(json!({"allowPostCopy": true, "allowWorkloadDisruption": false}), &cluster()),
        (true, false)
    );
    assert_eq!(both(json!({"allowAutoConverge": true}), &disrupts), (true, true));
}

/// A policy may be older than the webhook, or than this version of it.
#[test]
fn an_invalid_value_leaves_that_of_the_cluster() {
    for spec in [
        json!({"bandwidthPerMigration": "-1"}),
        json!({"bandwidthPerMigration": "much"}),
        json!({"completionTimeoutPerGiB": -1}),
        json!({"maxDowntimeMs": 0}),
        json!({"maxDowntimeMs": 2_000_001}),
        json!({"compression": "lz4"}),
        json!({"allowAutoConverge": "yes"}),
    ] {
        assert_eq!(policy(&spec).apply_to(&cluster()), cluster(), "{spec}");
    }
}

fn told(spec: &Value, gates: &[&str]) -> Vec<(String, String)> {
    let faults = faults(&policy(spec), |gate| gates.contains(&gate));
    faults.into_iter().map(|fault| (fault.field, fault.message)).collect()
}

#[test]
fn values_that_no_migration_can_have_are_faults() {
    let spec = json!({
        "selectors": {}, "bandwidthPerMigration": "64Mi", "completionTimeoutPerGiB": 0, "maxDowntimeMs": 1,
        "compression": "none", "experimental": {"compression": "zstd"},
    });
    assert_eq!(told(&spec, &[]), []);
    assert_eq!(told(&json!({}), &[]), []);
    for (spec, field, message) in [
        (json!({"completionTimeoutPerGiB": -1}), "completionTimeoutPerGiB", "must not be negative"),
        (json!({"bandwidthPerMigration": "-1"}), "bandwidthPerMigration", "must not be negative"),
        (json!({"bandwidthPerMigration": "-1m"}), "bandwidthPerMigration", "must not be negative"),
        (json!({"maxDowntimeMs": 0}), "maxDowntimeMs", "must be from 1 to 2000000, not 0"),
        (json!({"maxDowntimeMs": 2_000_001}), "maxDowntimeMs", "must be from 1 to 2000000, not 2000001"),
        (
            json!({"compression": "lz4"}),
            "compression",
            "spec.compression is set with an unrecognized option: lz4",
        ),
        (
            json!({"experimental": {"compression": "lz4"}}),
            "experimental.compression",
            "spec.experimental.compression is set with an unrecognized option: lz4",
        ),
    ] {
        assert_eq!(told(&spec, &[]), [(format!("spec.{field}"), message.to_owned())], "{spec}");
    }
}

#[test]
fn experimental_settings_need_their_feature_gates_and_exclude_one_another() {
    let both = json!({"experimental": {"stallDetector": {}, "downtimeTuning": {}}});
    let of_tuning = (
        "spec.experimental.downtimeTuning".to_owned(),
        "experimental.downtimeTuning cannot be modified without enabling the MigrationDowntimeTuning feature gate".to_owned(),
    );
    let of_detector = (
        "spec.experimental.stallDetector".to_owned(),
        "experimental.stallDetector cannot be modified without enabling the MigrationStallDetection feature gate".to_owned(),
    );
    let of_both = (
        "spec.experimental".to_owned(),
        "experimental.stallDetector and experimental.downtimeTuning are mutually exclusive; the stall detection path manages its own \
         downtime schedule"
            .to_owned(),
    );
    assert_eq!(told(&both, &[]), [of_tuning.clone(), of_detector.clone(), of_both.clone()]);
    assert_eq!(told(&both, &[STALL_GATE]), [of_tuning.clone(), of_both.clone()]);
    assert_eq!(told(&both, &[STALL_GATE, DOWNTIME_GATE]), [of_both]);
    assert_eq!(told(&json!({"experimental": {"downtimeTuning": {}}}), &[STALL_GATE]), [of_tuning]);
    assert_eq!(told(&json!({"experimental": {"stallDetector": {}}}), &[DOWNTIME_GATE]), [of_detector]);
    assert_eq!(told(&json!({"experimental": {"stallDetector": {}}}), &[STALL_GATE]), []);
}

#[test]
fn factors_of_the_stall_detector_have_bounds_and_three_decimal_places() {
    for (field, valid, invalid) in [
        (
            "ewmaAlpha",
            &["0.001", "400m", "1"][..],
            &[("0", "must be greater than 0"), ("1.1", "must be less than or equal to 1")][..],
        ),
        ("precopyPossibleFactor", &["1", "1.5"], &[("0.9", "must be greater than or equal to 1")]),
        ("patienceWindowDecayFactor", &["0", "1"], &[("2", "must be less than or equal to 1")]),
        (
            "completionTimeoutFactor",
            &["2"],
            &[
                ("0", "must be greater than or equal to 1"),
                ("-1", "invalid scalar \"-1\": must not be negative"),
                ("1.0001", "invalid scalar \"1.0001\": must have at most 3 decimal places"),
            ],
        ),
    ] {
        let faults =
            |value: &str| told(&json!({"experimental": {"stallDetector": {field: value}}}), &[STALL_GATE]);
        for value in valid {
            assert_eq!(faults(value), [], "{field}: {value}");
        }
        for (value, message) in invalid {
            let at = format!("spec.experimental.stallDetector.{field}");
            assert_eq!(faults(value), [(at, (*message).to_owned())], "{field}: {value}");
        }
    }
}

#[test]
fn a_field_has_the_effect_that_it_has_in_the_kubevirt_object() {
    let mut compared = 0;
    for (field, served) in served::FIELDS {
        if let Some((_, of_cluster)) =
            crate::kubevirt::served::entry(&format!("configuration.migrations.{field}"))
        {
            assert_eq!(served, of_cluster, "{field}");
            compared += 1;
        }
    }
    assert_eq!(compared, 6, "the fields that both have");
}

#[test]
fn fields_without_an_effect_are_named_with_the_reason() {
    let object = json!({"spec": {
        "allowPostCopy": true, "allowWorkloadDisruption": true,
        "experimental": {"stallDetector": {"stallMargin": 4}, "downtimeTuning": {"steps": 0}, "compression": "zstd"},
    }});
    let named: Vec<String> = served::unserved(&object).iter().map(ToString::to_string).collect();
    let start = [
        "allowPostCopy: no effect, there is no post-copy yet",
        "experimental.stallDetector: no effect, ",
        "experimental.downtimeTuning: no effect, ",
    ];
    assert_eq!(named.len(), start.len(), "{named:?}");
    for (named, start) in named.iter().zip(start) {
        assert!(named.starts_with(&format!("spec.{start}")), "{named}");
    }
    assert_eq!(served::unserved(&json!({"spec": {"allowPostCopy": false, "selectors": {}}})), []);
}
