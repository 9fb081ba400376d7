//! An authority, the ConfigMap that publishes it, and the certificates that it signs.
//!
//! ```text
//!  Secret ─────────────► ConfigMap ──────────► clients that verify certificates of this authority
//!  the authority, with   the authorities that hold:
//!  its key               the one now, and those before it
//!        │
//!        └─ signs, `spread` after it was made known beside another ─► a Secret with a [`Leaf`]
//! ```
//!
//! If no other authority is valid, no certificate of another one is in use, and the new one signs at once.

use super::terms::Term;
use super::{BEHIND, created_at, find_secret, saturating_add, saturating_sub, truncate_to_seconds, version};
use cluster_model::issue::{Issue, LABEL, Signer, Usage};
use cluster_model::objects::certificate::{self, pem};
use cluster_model::objects::{AUTHORITY, BUNDLE, Certificate, Key, Kind, Secret, World};
use cluster_model::plan::Plan;
use cluster_model::servers::API;
use cluster_model::uploads::{self, CLIENT_SIGNER, SERVER_SIGNER};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// Shortest time between two issues of a certificate that is not as it should be.
const PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// Time during which webhook paths without a segment are still answered beside the first paths with one. Also
/// the interval of checks if the previous version of virt-api is gone.
const PLAIN: SignedDuration = SignedDuration::from_mins(1);
/// The most authorities in a bundle.
const MOST: usize = 8;
/// Host names do not apply to client certificates.
const NO_HOSTS: [&str; 0] = [];

/// A chain of certificates.
pub(super) struct Chain {
    /// The Secret with the authority and its key.
    pub(super) secret: &'static str,
    /// The ConfigMap with the authorities that hold, and its key.
    bundle: (&'static str, &'static str),
    /// Prefix of the common names of its authorities.
    name: &'static str,
    /// Time for which a new authority is published, beside another, before it signs.
    pub(super) spread: SignedDuration,
}

/// Certificates that our programs present to each other and to the API server. Clients read the ConfigMap
/// directly.
pub(super) const KUBEVIRT: Chain = Chain {
    secret: AUTHORITY,
    bundle: (AUTHORITY, BUNDLE),
    name: "kubevirt.io",
    spread: SignedDuration::from_secs(30),
};
/// Certificates that upload pods present to cdi-uploadproxy. Its pods mount the ConfigMap, and a kubelet
/// updates that after 60 to 90 seconds.
pub(super) const UPLOAD_SERVERS: Chain = Chain {
    secret: SERVER_SIGNER.0,
    bundle: (SERVER_SIGNER.1, uploads::BUNDLE),
    name: SERVER_SIGNER.0,
    spread: SignedDuration::from_secs(120),
};
/// Certificates that cdi-uploadproxy presents to upload pods. A pod knows only the authorities that existed
/// when it was created, so a new one signs when those pods have ended. That is one hour less than the
/// shortest remaining life of a client certificate when its authority is renewed.
pub(super) const UPLOAD_CLIENTS: Chain = Chain {
    secret: CLIENT_SIGNER.0,
    bundle: (CLIENT_SIGNER.1, uploads::BUNDLE),
    name: CLIENT_SIGNER.0,
    spread: SignedDuration::from_hours(11),
};

/// A certificate that is signed by an authority, in a Secret of the installation.
pub(super) struct Leaf {
    pub(super) secret: &'static str,
    /// Common name of the certificate.
    pub(super) name: String,
    /// Host names of a server; empty for a client.
    pub(super) hosts: Vec<String>,
    pub(super) usage: Usage,
    /// True if its Secret holds the segments of virt-api's webhook paths.
    pub(super) has_paths: bool,
}

impl Chain {
    /// The current authority, if it is valid. Otherwise an authority is created.
    pub(super) fn authority(
        &self,
        world: &World,
        term: Term,
        now: Timestamp,
        plan: &mut Plan,
    ) -> Option<Certificate> {
        if let Some(certificate) = self.current_authority(world, now) {
            let renew = term.renew(certificate).max(saturating_add(created_at(certificate), PAUSE));
            if now < renew {
                plan.look_again(renew);
                return Some(certificate.clone());
            }
        }
        let from = truncate_to_seconds(saturating_sub(now, BEHIND));
        plan.issue(Issue {
            key: self.key(world),
            version: version(find_secret(world, self.secret).0),
            name: self.name_of(from),
            from,
            until: truncate_to_seconds(saturating_add(now, term.length)),
            signer: None,
            has_paths: false,
        });
        None
    }

    /// The current authority. `None` if it has no key, is not valid now, or was not created by us.
    pub(super) fn current_authority<'a>(&self, world: &'a World, now: Timestamp) -> Option<&'a Certificate> {
        let (secret, certificate) = find_secret(world, self.secret);
        let certificate = certificate.filter(|_| secret.is_some_and(|secret| secret.has_key))?;
        let is_ours = certificate.name.as_deref() == Some(&self.name_of(certificate.from));
        (is_ours && now < certificate.until).then_some(certificate)
    }

    /// Common name of an authority that was created at this time.
    fn name_of(&self, from: Timestamp) -> String {
        format!("{}@{}", self.name, from.as_second())
    }

    fn key(&self, world: &World) -> Key {
        Key::new(Kind::Secret, world.facts.namespace.clone(), self.secret)
    }

    /// The authorities that others know of.
    pub(super) fn published_authorities(&self, world: &World, now: Timestamp) -> Vec<Certificate> {
        let map = world.config_maps.get(&world.facts.namespace, self.bundle.0);
        let text = map.and_then(|map| map.object["data"][self.bundle.1].as_str()).unwrap_or_default();
        certificate::all(text).into_iter().filter(|certificate| certificate.until > now).collect()
    }

    /// Time from which an authority may sign: when it has been published long enough, or at once if it is the
    /// only one. Never before it is published.
    pub(super) fn spread_until(&self, world: &World, authority: &Certificate, now: Timestamp) -> Timestamp {
        let known = self.published_authorities(world, now);
        let is_known = known.iter().any(|other| other.der == authority.der);
        match (is_known, known.len()) {
            (false, _) => Timestamp::MAX,
            (true, 1) => Timestamp::MIN,
            (true, _) => saturating_add(created_at(authority), self.spread),
        }
    }

    /// Makes known the authorities that hold, this one first. The text that others read.
    pub(super) fn publish(
        &self,
        world: &World,
        authority: &Certificate,
        now: Timestamp,
        plan: &mut Plan,
    ) -> String {
        let mut all = vec![authority.clone()];
        for other in self.published_authorities(world, now) {
            if all.len() < MOST && !all.iter().any(|known| known.der == other.der) {
                all.push(other);
            }
        }
        if let Some(end) = all.iter().map(|certificate| certificate.until).min() {
            plan.look_again(end);
        }
        let bundle: String = all.iter().map(pem).collect();
        let (name, field) = self.bundle;
        let namespace = &world.facts.namespace;
        match world.config_maps.get(namespace, name) {
            Some(map) => {
                let mut should = map.object.clone();
                should["data"][field] = json!(bundle);
                should["metadata"]["labels"][LABEL.0] = json!(LABEL.1);
                plan.update(Kind::ConfigMap, &map.meta, &map.object, &should, false);
            }
            None => plan.create(
                Key::new(Kind::ConfigMap, namespace, name),
                json!({
                    "apiVersion": Kind::ConfigMap.api_version(),
                    "kind": Kind::ConfigMap.name(),
                    "metadata": {"name": name, "namespace": namespace, "labels": {LABEL.0: LABEL.1}},
                    "data": {field: bundle},
                }),
            ),
        }
        bundle
    }

    /// Keeps a certificate that the authority signs up to date. Returns true if there is a valid one.
    pub(super) fn leaf(
        &self,
        world: &World,
        leaf: Leaf,
        authority: &Certificate,
        term: Term,
        now: Timestamp,
        plan: &mut Plan,
    ) -> bool {
        let (secret, certificate) = find_secret(world, leaf.secret);
        let certificate = certificate.filter(|_| secret.is_some_and(|secret| secret.has_key));
        let mut holds = false;
        if let Some(certificate) = certificate {
            holds = leaf.is_right(certificate, authority, now);
            let by_another = !holds
                && self
                    .published_authorities(world, now)
                    .iter()
                    .any(|other| leaf.is_right(certificate, other, now));
            let renew = match by_another {
                // The new authority has to be known everywhere first.
                true => saturating_add(created_at(authority), self.spread),
                false if holds => term.renew(certificate),
                false => Timestamp::MIN,
            };
            holds |= by_another;
            let paths =
                secret.filter(|_| leaf.has_paths).map(|secret| paths_due(world, secret, certificate, now));
            let renew =
                paths.map_or(renew, |due| due.min(renew)).max(saturating_add(created_at(certificate), PAUSE));
            if now < renew {
                plan.look_again(renew);
                return holds;
            }
        }
        plan.issue(Issue {
            key: Key::new(Kind::Secret, &world.facts.namespace, leaf.secret),
            version: version(secret),
            name: leaf.name,
            from: truncate_to_seconds(saturating_sub(now, BEHIND)).max(authority.from),
            until: truncate_to_seconds(saturating_add(now, term.length)).min(authority.until),
            signer: Some(Signer {
                key: self.key(world),
                name: authority.name.clone().unwrap_or_default(),
                hosts: leaf.hosts,
                usage: leaf.usage,
            }),
            has_paths: leaf.has_paths,
        });
        holds
    }
}

/// Time at which a Secret gets other path segments before its certificate is renewed. The previous version of
/// virt-api answers paths without a segment. So the first segments come when that version is gone, and a
/// while later plain paths are not answered any more.
fn paths_due(world: &World, secret: &Secret, certificate: &Certificate, now: Timestamp) -> Timestamp {
    match secret.paths.configured() {
        None if crate::installation::unready_components(world, &[API.program], &[]).is_some() => {
            saturating_add(now, PLAIN)
        }
        None => Timestamp::MIN,
        Some(_) if secret.paths.has_plain() => saturating_add(created_at(certificate), PLAIN),
        Some(_) => Timestamp::MAX,
    }
}

impl Leaf {
    /// True if a certificate has these names and this usage, comes from this authority, and is valid now.
    pub(super) fn is_right(
        &self,
        certificate: &Certificate,
        authority: &Certificate,
        now: Timestamp,
    ) -> bool {
        let is_named = self.usage.is_server() || certificate.name.as_deref() == Some(&*self.name);
        let is_server = match self.usage.is_server() {
            true => certificate.is_from(authority, &self.hosts, now),
            false => certificate.is_from(authority, &NO_HOSTS, now),
        };
        is_named
            && is_server == self.usage.is_server()
            && certificate.is_clients(authority, now) == self.usage.is_client()
    }
}
