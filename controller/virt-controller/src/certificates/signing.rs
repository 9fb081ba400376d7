//! The keys that sign upload tokens: virt-api signs with the Secret, cdi-uploadproxy verifies with the
//! ConfigMap.
//!
//! ```text
//!  Secret cdi-api-signing-key                     ConfigMap cdi-api-signing-key
//!   id_rsa, id_rsa.pub           ─────────────►    id_rsa.pub: the one that signs, the next one, former ones
//!   next.id_rsa, next.id_rsa.pub ─────────────►       │
//!        │      ROTATE after it began to sign         │ known for SPREAD
//!        └─────────────── takes the place ◄───────────┘      (the former one is accepted for another KEPT)
//! ```
//!
//! **Guarantees.** virt-api signs with a key only after cdi-uploadproxy knows it, except if there is no
//! earlier key. A key is accepted for longer than any token that it has signed. If its Secret is deleted or
//! damaged, the key is revoked, and the key that takes its place is the only one that is accepted. Neither
//! the World nor a plan holds a private key: keys are generated and moved when the step is carried out
//! ([`KeyChange`]).
//! **Caveats.** A public key that another program has added to the ConfigMap is removed again. While the
//! current key is new, it stays for up to KEPT.

use super::{saturating_add, version};
use api::meta::ObjectMeta;
use cluster_model::issue::{IssueKey, KeyChange, LABEL};
use cluster_model::objects::{Key, Kind, Plain, World, public_keys};
use cluster_model::plan::Plan;
use cluster_model::uploads::{PUBLIC_KEY, SIGNING_KEY, SINCE};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// Time for which a key signs.
const ROTATE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Time for which a public key is published before its private key signs. Kubelets update a mounted ConfigMap
/// after 60 to 90 seconds.
const SPREAD: SignedDuration = SignedDuration::from_secs(120);
/// Time for which the previous key is accepted. A token is valid for 5 minutes, and kubelets bring a changed
/// Secret to virt-api after a while.
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// The most public keys in the ConfigMap.
const MOST: usize = 4;

/// Adds the steps for the signing keys.
pub(super) fn decide(world: &World, now: Timestamp, plan: &mut Plan) {
    let namespace = &world.facts.namespace;
    let secret = world.secrets.get(namespace, SIGNING_KEY);
    let mut issue = |change| {
        let key = Key::new(Kind::Secret, namespace, SIGNING_KEY);
        plan.issue_key(IssueKey { key, version: version(secret), change, at: now });
    };
    let Some((secret, signs)) = secret.and_then(|secret| Some((secret, secret.signs.clone()?))) else {
        return issue(KeyChange::First);
    };
    let map = world.config_maps.get(namespace, SIGNING_KEY);
    let known = published_keys(map);
    let since = last_changed(&secret.meta, now);
    let rotate = saturating_add(since, ROTATE);
    match &secret.signs_next {
        None if now < rotate => plan.look_again(rotate),
        None => issue(KeyChange::Next),
        Some(next) if known.contains(next) => {
            let from = saturating_add(map.map_or(now, |map| last_changed(&map.meta, now)), SPREAD);
            if now < from {
                plan.look_again(from);
            } else {
                issue(KeyChange::Promote);
            }
        }
        // The next key has to be published first.
        Some(_) => {}
    }
    let mut all = vec![signs];
    all.extend(secret.signs_next.clone().filter(|next| *next != all[0]));
    let forget = saturating_add(since, KEPT);
    // A key that succeeded another was published before it signed. A key that was not is a first key: the
    // previous one is lost, or was deleted because it leaked.
    if now < forget && known.contains(&all[0]) {
        let before: Vec<&String> = known.iter().filter(|key| !all.contains(key)).collect();
        let room = MOST.saturating_sub(all.len());
        if !before.is_empty() {
            plan.look_again(forget);
        }
        let before: Vec<String> = before.into_iter().take(room).cloned().collect();
        all.extend(before);
    }
    publish(world, map, &all.concat(), now, plan);
}

/// Plans the ConfigMap with the public keys that are valid, and the time of their last change.
fn publish(world: &World, map: Option<&Plain>, text: &str, now: Timestamp, plan: &mut Plan) {
    let namespace = &world.facts.namespace;
    let mut metadata = json!({
        "name": SIGNING_KEY,
        "namespace": namespace,
        "labels": {LABEL.0: LABEL.1},
        "annotations": {SINCE: now.to_string()},
    });
    match map {
        Some(map) if map.object["data"][PUBLIC_KEY] == text => {}
        Some(map) => {
            let mut should = map.object.clone();
            should["data"][PUBLIC_KEY] = json!(text);
            for part in ["labels", "annotations"] {
                for (name, value) in metadata[part].as_object_mut().into_iter().flatten() {
                    should["metadata"][part][name] = value.take();
                }
            }
            plan.update(Kind::ConfigMap, &map.meta, &map.object, &should, false);
        }
        None => plan.create(
            Key::new(Kind::ConfigMap, namespace, SIGNING_KEY),
            json!({
                "apiVersion": Kind::ConfigMap.api_version(),
                "kind": Kind::ConfigMap.name(),
                "metadata": metadata,
                "data": {PUBLIC_KEY: text},
            }),
        ),
    }
}

/// The public keys that others know.
fn published_keys(map: Option<&Plain>) -> Vec<String> {
    let text = map.and_then(|map| map.object["data"][PUBLIC_KEY].as_str());
    public_keys::all(text.unwrap_or_default())
}

/// Time of the last change of an object; long ago if the object does not have one.
fn last_changed(meta: &ObjectMeta, now: Timestamp) -> Timestamp {
    let said = meta.annotations.get(SINCE).and_then(|time| time.parse::<Timestamp>().ok());
    said.filter(|time| *time <= saturating_add(now, super::BEHIND)).unwrap_or(Timestamp::MIN)
}
