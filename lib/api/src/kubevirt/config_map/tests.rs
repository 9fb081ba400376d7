use super::*;
use crate::kubevirt::served;

/// What each key says in an older guide, and the value of its field.
fn samples() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("cpu-allocation-ratio", "4", json!(4)),
        ("cpu-request", "200m", json!("200m")),
        ("debug.useEmulation", "true", json!(true)),
        ("default-cpu-model", "Haswell", json!("Haswell")),
        ("default-network-interface", "masquerade", json!("masquerade")),
        ("dev.imagePullPolicy", "Never", json!("Never")),
        ("emulated-machines", "q35*, pc-q35*,pc", json!(["q35*", "pc-q35*", "pc"])),
        ("feature-gates", "DataVolumes,HostDisk", json!(["DataVolumes", "HostDisk"])),
        ("machine-type", "pc-q35-7.2", json!("pc-q35-7.2")),
        ("memBalloonStatsPeriod", "0", json!(0)),
        ("memory-overcommit", "150", json!(150)),
        ("node-selectors", "kvm=true\nzone=\n", json!({"kvm": "true", "zone": ""})),
        ("ovmfPath", "/usr/share/OVMF", json!("/usr/share/OVMF")),
        ("permitBridgeInterfaceOnPodNetwork", "false", json!(false)),
        ("pvc-tolerate-less-space-up-to-percent", "0", json!(0)),
        ("selinuxLauncherType", "virt_launcher.process", json!("virt_launcher.process")),
    ]
}

fn field_of(key: &str) -> &'static str {
    KEYS.iter().find(|(name, ..)| *name == key).unwrap().1
}

fn whys(adoption: &Adoption) -> Vec<String> {
    adoption.unserved.iter().map(ToString::to_string).collect()
}

#[test]
fn each_key_of_an_older_guide_becomes_its_field_or_is_named() {
    let (samples, mut data) = (samples(), json!({}));
    for (key, text, _) in &samples {
        data[*key] = json!(text);
    }
    let mut object = json!({"metadata": {"name": "kubevirt"}, "spec": {}});
    let adoption = adopt(&data, &mut object);
    assert_eq!((adoption.taken.len(), adoption.unserved.len()), (samples.len(), 0), "{adoption:?}");
    for (key, _, value) in &samples {
        assert_eq!(at(&object["spec"], field_of(key)), value, "{key}");
        assert!(adoption.taken.contains(&format!("{key} as spec.{}", field_of(key))));
    }
    // The object is valid, and says the same a second time.
    crate::wire::read::<crate::kubevirt::KubeVirt>(object.clone()).unwrap();
    let before = object.clone();
    assert_eq!((adopt(&data, &mut object), object), (Adoption::default(), before));
    // All other keys are named with the field of today.
    let others = KEYS.iter().filter(|(key, ..)| !samples.iter().any(|(name, ..)| name == key));
    for (key, field, form) in others {
        assert!(matches!(form, No(_)), "{key} has no sample");
        let adoption = adopt(&json!({*key: "one: two"}), &mut json!({}));
        let [why] = &whys(&adoption)[..] else { panic!("{key}: {adoption:?}") };
        assert!(why.starts_with(&format!("ConfigMap kubevirt-config, key {key}: no effect, ")), "{why}");
        assert!(why.ends_with(&format!("; the field of today is spec.{field}")), "{why}");
    }
}

#[test]
fn each_field_is_one_of_the_kubevirt_object() {
    for (key, field, form) in KEYS {
        let is_read = !matches!(form, No(_));
        let has_parts = served::FIELDS.iter().any(|(part, _)| part.starts_with(&format!("{field}.")));
        if has_parts && !is_read {
            continue;
        }
        let (_, served) = served::entry(field).unwrap_or_else(|| panic!("{field}"));
        assert!(!is_read || !matches!(served, served::Served::No(_)), "{key}: {field} has no effect");
    }
}

#[test]
fn the_kubevirt_object_wins() {
    let emulation = "configuration.developerConfiguration.useEmulation";
    let data = json!({"debug.useEmulation": "true", "machine-type": "q35", "dev.imagePullPolicy": "Never"});
    let mut object = json!({"spec": {"imagePullPolicy": "Always", "configuration": {
        "developerConfiguration": {"useEmulation": false},
        "architectureConfiguration": {"amd64": {"machineType": "pc-q35-7.2"}},
    }}});
    let before = object.clone();
    let adoption = adopt(&data, &mut object);
    assert_eq!((object, adoption.taken.len()), (before, 0));
    assert_eq!(
        whys(&adoption),
        [
            format!("debug.useEmulation: no effect, the KubeVirt object decides, by spec.{emulation}"),
            "dev.imagePullPolicy: no effect, the KubeVirt object has spec.imagePullPolicy, which holds"
                .to_owned(),
            "machine-type: no effect, the KubeVirt object has \
             spec.configuration.architectureConfiguration.amd64.machineType, which holds"
                .to_owned(),
        ]
        .map(|why| format!("ConfigMap kubevirt-config, key {why}"))
    );
    // It says the same: nothing to tell.
    let mut same = json!({"spec": {"configuration": {"developerConfiguration": {"useEmulation": true}}}});
    assert_eq!(adopt(&json!({"debug.useEmulation": " true\n"}), &mut same), Adoption::default());
}

#[test]
fn a_field_follows_the_config_map_until_the_kubevirt_object_says_otherwise() {
    let gates =
        |object: &Value| object["spec"]["configuration"]["developerConfiguration"]["featureGates"].clone();
    let says = |text: &str| json!({"feature-gates": text});
    let mut object = json!({"metadata": {}, "spec": {"configuration": null}});
    assert_eq!(adopt(&says("DataVolumes"), &mut object).taken.len(), 1);
    assert_eq!(adopt(&says("DataVolumes,HostDisk"), &mut object).taken.len(), 1);
    assert_eq!(gates(&object), json!(["DataVolumes", "HostDisk"]));
    // The field is removed from the KubeVirt object, and stays away until the ConfigMap has another value.
    object["spec"]["configuration"]["developerConfiguration"] = json!({});
    let adoption = adopt(&says("DataVolumes,HostDisk"), &mut object);
    assert_eq!((adoption.taken.len(), adoption.unserved.len(), gates(&object)), (0, 1, Value::Null));
    assert_eq!(adopt(&says("HostDisk"), &mut object).taken.len(), 1);
    // The KubeVirt object says something else.
    object["spec"]["configuration"]["developerConfiguration"]["featureGates"] = json!(["VSOCK"]);
    let adoption = adopt(&says("Sidecar"), &mut object);
    assert_eq!((adoption.taken.len(), adoption.unserved.len()), (0, 1));
    assert_eq!(gates(&object), json!(["VSOCK"]));
    // Without the ConfigMap's key, nothing changes.
    let before = object.clone();
    assert_eq!((adopt(&json!({}), &mut object), object), (Adoption::default(), before));
}

#[test]
fn nonsense_is_named_and_not_written() {
    for (key, text) in [
        ("debug.useEmulation", "yes"),
        ("memory-overcommit", "0"),
        ("memory-overcommit", "-1"),
        ("pvc-tolerate-less-space-up-to-percent", "101"),
        ("cpu-request", "much"),
        ("cpu-request", "-1"),
        ("default-network-interface", "slirp"),
        ("machine-type", "two words"),
        ("ovmfPath", "../OVMF"),
        ("feature-gates", ","),
        ("emulated-machines", "pc\u{7},q35"),
        ("node-selectors", "kvm"),
        ("node-selectors", "a=b=c"),
        ("Debug.UseEmulation", "true"),
    ] {
        let mut object = json!({"spec": {}});
        let adoption = adopt(&json!({key: text}), &mut object);
        assert_eq!((adoption.taken.len(), adoption.unserved.len()), (0, 1), "{key}: {text}");
        assert_eq!(object, json!({"spec": {}}), "{key}: {text}");
    }
    let long =
        json!({"machine-type": "x".repeat(254), "feature-gates": "a,".repeat(65), "y".repeat(500): "1"});
    let adoption = adopt(&long, &mut json!({}));
    assert!(adoption.taken.is_empty() && whys(&adoption).iter().all(|why| why.len() < 300), "{adoption:?}");
    let many: Map<String, Value> = (0..1000).map(|n| (format!("k{n}"), json!("1"))).collect();
    assert_eq!(adopt(&Value::Object(many), &mut json!({})).unserved.len(), NAMED);
    // A record that another program wrote, and places that are not objects.
    for annotation in ["", "[]", "{", r#"{"spec.x": 1, "configuration.cpuModel": "x"}"#] {
        let mut object =
            json!({"metadata": {"annotations": {TAKEN: annotation}}, "spec": {"configuration": "a"}});
        let adoption = adopt(&json!({"debug.useEmulation": "true"}), &mut object);
        assert_eq!((adoption.taken.len(), adoption.unserved.len()), (0, 1), "{annotation}");
    }
    assert_eq!(adopt(&json!("text"), &mut json!({})), Adoption::default());
    assert_eq!(adopt(&json!({"debug.useEmulation": 1}), &mut json!({})), Adoption::default());
}
