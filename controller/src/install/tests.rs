use super::*;
use std::collections::BTreeSet;

pub(super) fn wishes() -> Wishes {
    Wishes {
        namespace: "kubevirt".into(),
        registry: "registry.example/coracle".into(),
        version: "1.2.3".into(),
        pull_policy: None,
        pull_secret: None,
    }
}

#[test]
fn every_object_has_a_name_of_its_own_and_none_is_the_settings() {
    let mut seen = BTreeSet::new();
    for object in objects(&wishes()) {
        let key =
            format!("{} {} {}", object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]);
        assert_ne!(object["kind"], "KubeVirt");
        assert!(seen.insert(key.clone()), "twice: {key}");
    }
}

#[test]
fn what_was_wished_is_in_every_place() {
    let wishes = Wishes {
        namespace: "machines".into(),
        pull_policy: Some("Always".into()),
        pull_secret: Some("key".into()),
        ..wishes()
    };
    let text = objects(&wishes).iter().map(Value::to_string).collect::<String>();
    assert!(!text.contains(r#""namespace":"kubevirt""#));
    for object in objects(&wishes) {
        let spec = &object["spec"]["template"]["spec"];
        let lists =
            ["containers", "initContainers"].map(|name| spec[name].as_array().cloned().unwrap_or_default());
        for container in lists.into_iter().flatten() {
            let image = container["image"].as_str().unwrap();
            assert!(
                image.starts_with("registry.example/coracle/virt-") && image.ends_with(":1.2.3"),
                "{image}"
            );
            assert_eq!(container["imagePullPolicy"], "Always");
            assert_eq!(spec["imagePullSecrets"][0]["name"], "key");
        }
    }
}
