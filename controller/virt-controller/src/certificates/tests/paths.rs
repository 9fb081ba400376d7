//! The segments of virt-api's webhook paths, and the configurations that another CDI operator has taken away.

use super::*;
use cluster_model::objects::{CDI_MUTATOR, CDI_VALIDATOR, MUTATOR, UPLOADS};
use cluster_model::webhook_paths::PathSegments;
use std::collections::BTreeSet;

const HOOK: &str = "/virtualmachines-validate";

fn secret() -> Key {
    Key::new(Kind::Secret, "kubevirt", SERVER)
}

/// The first segments of the paths of all webhooks.
fn segments(sim: &Sim) -> BTreeSet<String> {
    let stores = [&sim.world.mutating_webhooks, &sim.world.validating_webhooks];
    let hooks = stores.into_iter().flat_map(|store| store.all());
    let hooks = hooks.flat_map(|hooks| hooks.object["webhooks"].as_array().unwrap());
    let paths = hooks.map(|hook| hook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned());
    paths.map(|path| path.rsplit_once('/').unwrap().0.to_owned()).collect()
}

/// What a virt-api that read the Secret then answers of the webhooks that are configured now.
fn are_answered(sim: &Sim, then: &PathSegments) -> bool {
    segments(sim).iter().all(|segment| then.strip_segment(&format!("{segment}{HOOK}")) == Some(HOOK))
}

#[test]
fn segments_are_exchanged_with_the_certificate_and_known_before() {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    let mut seen = BTreeSet::new();
    for _ in 0..6 {
        let now = segments(&sim);
        assert_eq!(now.len(), 1, "{now:?}");
        assert!(now.iter().all(|segment| segment.len() == 33), "a slash and 32 letters: {now:?}");
        assert!(seen.insert(now), "each is another one");
        let (before, certificate) =
            (sim.world.secrets.get("kubevirt", SERVER).unwrap().paths.clone(), of(&sim, SERVER));
        while of(&sim, SERVER) == certificate {
            sim.now = decide(&sim.world, sim.now).again.unwrap();
            settle(&mut sim);
        }
        assert!(are_answered(&sim, &before), "a virt-api that has not read the new Secret answers, too");
    }
}

/// Whoever deletes the Secret, since somebody else knows the paths, has others at once.
#[test]
fn a_secret_that_was_deleted_has_other_segments() {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    let before = sim.world.secrets.get("kubevirt", SERVER).unwrap().paths.clone();
    sim.vanish(&secret());
    settle(&mut sim);
    assert!(!are_answered(&sim, &before));
}

/// An installation of a version that had none: its virt-api answers plain paths until it is replaced.
#[test]
fn in_an_upgrade_the_paths_stay_plain_until_no_older_virt_api_is_left() {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    sim.advance(120);
    sim.change(&secret(), json!({"data": {"webhook-paths": null}}));
    let virt_api = |ready: u32| {
        json!({
            "metadata": {"namespace": "kubevirt", "name": "virt-api"}, "spec": {"replicas": 2},
            "status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": ready, "updatedReplicas": 2},
        })
    };
    sim.put(Kind::Deployment, virt_api(1));
    settle(&mut sim);
    sim.advance(600);
    settle(&mut sim);
    let plain = BTreeSet::from([String::new()]);
    assert_eq!(segments(&sim), plain);
    let older = sim.world.secrets.get("kubevirt", SERVER).unwrap().paths.clone();
    sim.put(Kind::Deployment, virt_api(2));
    sim.advance(60);
    settle(&mut sim);
    let now = sim.world.secrets.get("kubevirt", SERVER).unwrap().paths.clone();
    assert_ne!(segments(&sim), plain);
    assert!(now.has_plain() && older.strip_segment(HOOK).is_some());
    sim.advance(61);
    settle(&mut sim);
    let last = sim.world.secrets.get("kubevirt", SERVER).unwrap().paths.clone();
    assert!(!last.has_plain() && last.strip_segment(HOOK).is_none());
}

/// So the age of the configuration says since when virt-api has been asked about DataVolumes.
#[test]
fn beside_another_cdi_there_is_no_configuration_for_its_kinds() {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    let of_cdi = [
        Key::new(Kind::MutatingWebhookConfiguration, "", CDI_MUTATOR),
        Key::new(Kind::ValidatingWebhookConfiguration, "", CDI_VALIDATOR),
    ];
    let others = Key::new(Kind::MutatingWebhookConfiguration, "", MUTATOR);
    let made = |sim: &Sim, key: &Key| sim.get(key)["metadata"]["creationTimestamp"].clone();
    let (before, of_others) = (made(&sim, &of_cdi[0]), made(&sim, &others));
    let uploads = Key::new(Kind::APIService, "", UPLOADS);
    sim.change(&uploads, json!({"spec": {"service": {"name": "cdi-api", "namespace": "cdi"}}}));
    settle(&mut sim);
    assert!(of_cdi.iter().all(|key| !sim.objects.contains_key(key)));
    sim.advance(60);
    sim.vanish(&uploads);
    settle(&mut sim);
    assert!(of_cdi.iter().all(|key| sim.objects.contains_key(key)));
    assert_ne!(made(&sim, &of_cdi[0]), before);
    assert_eq!(made(&sim, &others), of_others, "VMs are asked about all the time");
}
