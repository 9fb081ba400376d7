//! The keys that sign upload tokens: virt-api signs by the Secret, cdi-uploadproxy believes the ConfigMap.
//!
//! ```text
//!  Secret cdi-api-signing-key                     ConfigMap cdi-api-signing-key
//!   id_rsa, id_rsa.pub           ─────────────►    id_rsa.pub: the one that signs, the next one, those before
//!   next.id_rsa, next.id_rsa.pub ─────────────►       │
//!        │      ROTATE after it began to sign         │ known for SPREAD
//!        └─────────────── takes the place ◄───────────┘      (the one before is believed for another KEPT)
//! ```
//!
//! **Guarantees.** Nobody signs by a key before cdi-uploadproxy knows it, but where there is no key to go on with. A key is
//! believed for longer than any token that was signed by it, unless its Secret was deleted or spoilt: it is so revoked, and the
//! key that takes its place is believed alone. Neither the picture nor a plan has a private key: it is made,
//! and moved, when the step is carried out ([`KeyChange`]).
//! **Caveats.** A public key that somebody else has put into the ConfigMap is taken out again; as long as a key is new, it stays
//! for up to KEPT.

use super::{after, version};
use api::meta::ObjectMeta;
use cluster_model::issue::{IssueKey, KeyChange, LABEL};
use cluster_model::objects::{Key, Kind, Plain, World, public_keys};
use cluster_model::plan::Plan;
use cluster_model::uploads::{PUBLIC_KEY, SIGNING_KEY, SINCE};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// How long a key signs.
const ROTATE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How long a public key is known before its private key signs: kubelets bring a changed ConfigMap after 60 to 90 seconds.
const SPREAD: SignedDuration = SignedDuration::from_secs(120);
/// How long the key before is believed: a token holds 5 minutes, and kubelets bring a changed Secret to virt-api after a while.
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// The most public keys in the ConfigMap.
const MOST: usize = 4;

/// What is to be done.
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
    let known = known(map);
    let since = since(&secret.meta, now);
    let rotate = after(since, ROTATE);
    match &secret.signs_next {
        None if now < rotate => plan.look_again(rotate),
        None => issue(KeyChange::Next),
        Some(next) if known.contains(next) => {
            let from = after(map.map_or(now, |map| self::since(&map.meta, now)), SPREAD);
            if now < from {
                plan.look_again(from);
            } else {
                issue(KeyChange::Promote);
            }
        }
        // It is made known first.
        Some(_) => {}
    }
    let mut all = vec![signs];
    all.extend(secret.signs_next.clone().filter(|next| *next != all[0]));
    let forget = after(since, KEPT);
    // A key that took the place of another was known before it signed. One that was not is a first one: the one before is
    // lost, or was deleted because somebody else has it.
    if now < forget && known.contains(&all[0]) {
        let before: Vec<&String> = known.iter().filter(|key| !all.contains(key)).collect();
        let room = MOST.saturating_sub(all.len());
        if !before.is_empty() {
            plan.look_again(forget);
        }
        let before: Vec<String> = before.into_iter().take(room).cloned().collect();
        all.extend(before);
    }
    tell(world, map, &all.concat(), now, plan);
}

/// Writes down the public keys that hold, and since when it is these.
fn tell(world: &World, map: Option<&Plain>, text: &str, now: Timestamp, plan: &mut Plan) {
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
fn known(map: Option<&Plain>) -> Vec<String> {
    let text = map.and_then(|map| map.object["data"][PUBLIC_KEY].as_str());
    public_keys::all(text.unwrap_or_default())
}

/// Since when an object is as it is; long ago, where it does not say so.
fn since(meta: &ObjectMeta, now: Timestamp) -> Timestamp {
    let said = meta.annotations.get(SINCE).and_then(|time| time.parse::<Timestamp>().ok());
    said.filter(|time| *time <= after(now, super::BEHIND)).unwrap_or(Timestamp::MIN)
}
