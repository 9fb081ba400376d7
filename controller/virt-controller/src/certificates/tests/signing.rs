//! The keys that sign upload tokens. They are names here, but for one that is made and signs.

use super::*;
use cluster_model::objects::public_keys;
use cluster_model::uploads::{PUBLIC_KEY, SIGNING_KEY};
use jiff::Timestamp;
use serve::token::{Claims, Pair, public_keys as read, sign, verify};

fn secret() -> Key {
    Key::new(Kind::Secret, "kubevirt", SIGNING_KEY)
}

fn map() -> Key {
    Key::new(Kind::ConfigMap, "kubevirt", SIGNING_KEY)
}

fn signs(sim: &Sim) -> String {
    sim.world.secrets.get("kubevirt", SIGNING_KEY).unwrap().signs.clone().unwrap()
}

fn known(sim: &Sim) -> Vec<String> {
    public_keys::all(sim.get(&map())["data"][PUBLIC_KEY].as_str().unwrap())
}

fn begin() -> Sim {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    sim
}

#[test]
fn the_first_key_signs_at_once_and_then_there_is_silence() {
    let mut sim = begin();
    assert_eq!(known(&sim), [signs(&sim)]);
    assert_eq!(sim.get(&secret())["type"], "Opaque");
    let writes = sim.writes;
    sim.advance(3600);
    assert_eq!((settle(&mut sim), sim.writes), (0, writes));
}

#[test]
fn for_months_a_key_is_known_before_it_signs_and_a_while_after() {
    let mut sim = begin();
    let mut keys = vec![(sim.now, signs(&sim))];
    let mut first_known = std::collections::BTreeMap::from([(signs(&sim), Timestamp::MIN)]);
    let end = saturating_add(sim.now, SignedDuration::from_hours(100 * 24));
    while sim.now < end {
        sim.now = decide(&sim.world, sim.now).again.unwrap();
        settle(&mut sim);
        for key in known(&sim) {
            first_known.entry(key).or_insert(sim.now);
        }
        let (since, last) = keys.last().unwrap();
        if *last != signs(&sim) {
            assert!(sim.now.duration_since(*since) >= SignedDuration::from_hours(30 * 24));
            let spread = saturating_add(first_known[&signs(&sim)], SignedDuration::from_secs(120));
            assert!(spread <= sim.now, "it signs before it is known");
            keys.push((sim.now, signs(&sim)));
        }
        let (since, _) = keys.last().unwrap();
        if let [.., (_, before), _] = &keys[..] {
            let is_kept = sim.now < saturating_add(*since, SignedDuration::from_hours(1));
            assert_eq!(known(&sim).contains(before), is_kept, "at {}", sim.now);
        }
        assert_eq!(known(&sim)[0], signs(&sim), "the one that signs is the first");
        assert!(known(&sim).len() <= 2);
        assert!(sim.get(&secret())["data"].as_object().unwrap().len() <= 4);
    }
    assert_eq!(keys.len(), 4, "every 30 days");
    assert_eq!(sim.get(&secret())["data"].as_object().unwrap().len(), 2, "what is over is forgotten");
}

#[test]
fn what_is_spoilt_is_made_again() {
    let mut sim = begin();
    // The ConfigMap is gone, or has what nobody can read, or a stranger's key.
    let whole = sim.get(&map())["data"].clone();
    sim.vanish(&map());
    settle(&mut sim);
    assert_eq!(sim.get(&map())["data"], whole);
    sim.advance(2 * 3600);
    for text in [
        "none".to_owned(),
        format!("{}-----BEGIN PUBLIC KEY-----\n?\n-----END PUBLIC KEY-----\n", signs(&sim)),
        format!("{}{}", public_keys::to_pem(b"stranger"), signs(&sim)),
    ] {
        sim.change(&map(), json!({"data": {PUBLIC_KEY: text}}));
        settle(&mut sim);
        assert_eq!(sim.get(&map())["data"], whole);
    }
    // The key is gone, or half of it: there is a new one, and it is believed alone.
    for spoil in [json!({"id_rsa": null}), json!({"id_rsa.pub": "bm9uZQ=="})] {
        let old = signs(&sim);
        sim.advance(2 * 3600);
        settle(&mut sim);
        sim.change(&secret(), json!({"data": spoil}));
        settle(&mut sim);
        assert_ne!(signs(&sim), old);
        assert_eq!(known(&sim), [signs(&sim)]);
    }
}

/// A stolen key is revoked by the deletion of its Secret, in the midst of a change of keys too.
#[test]
fn a_key_whose_secret_is_deleted_is_believed_no_more() {
    let mut sim = begin();
    // It was just made; the next one is known already; that one has just taken its place.
    for moment in 0..3 {
        let first = signs(&sim);
        let is_reached = |sim: &Sim| match moment {
            0 => true,
            1 => known(sim).len() == 2,
            _ => signs(sim) != first,
        };
        while !is_reached(&sim) {
            sim.now = decide(&sim.world, sim.now).again.unwrap();
            settle(&mut sim);
        }
        let stolen = known(&sim);
        assert_eq!(stolen.len(), if moment == 0 { 1 } else { 2 });
        sim.vanish(&secret());
        let plan = decide(&sim.world, sim.now);
        sim.apply(plan);
        assert!(sim.objects.contains_key(&secret()));
        // The first round of the new key.
        let plan = decide(&sim.world, sim.now);
        sim.apply(plan);
        assert_eq!(known(&sim), [signs(&sim)]);
        assert!(!stolen.contains(&signs(&sim)));
        settle(&mut sim);
        assert_eq!(known(&sim), [signs(&sim)]);
    }
}

/// A key that was made, in the files where they are looked for.
#[test]
fn a_key_that_is_made_signs_tokens() {
    let (one, other) =
        (cluster_client::signing_key::make().unwrap(), cluster_client::signing_key::make().unwrap());
    let (now, pair) =
        (Timestamp::from_second(1_800_000_000).unwrap(), Pair::read(one.private.as_bytes()).unwrap());
    let token = sign(&pair, &Claims::upload("n", "disk", now)).unwrap();
    let keys = |text: &str| read(text.as_bytes()).unwrap();
    let claims = verify(&keys(&format!("{}{}", other.public, one.public)), &token, now).unwrap();
    assert_eq!((&*claims.namespace, &*claims.name), ("n", "disk"));
    assert!(verify(&keys(&other.public), &token, now).is_err());
    assert_eq!(public_keys::all(&one.public), std::slice::from_ref(&one.public), "as it is written down");
}
