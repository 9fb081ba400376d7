//! The certificates by which our programs are known: virt-api to the API server, all of them to whoever reads what they
//! measure; and the webhooks and the APIServices that lead to virt-api.
//!
//! ```text
//!  Secret kubevirt-ca ───────────► ConfigMap kubevirt-ca ──────────► webhook configurations, APIServices
//!  our authority, with its key     the authorities that hold: the    caBundle; where the API server asks
//!        │                         one now, and the one before it
//!        └─ signs ─► a Secret for each of [`SERVERS`] ──► the program shows it, without a restart
//! ```
//!
//! **Flow.** First an authority, then who is told of it, then the servers' certificates, then the webhooks and the
//! APIServices: nobody is sent to a server that has no certificate. Each is renewed a while before its end.
//! **How an authority is replaced.** The new one is added to the bundle, beside the old one; only `SPREAD` later is the
//! servers' certificates signed by it. So whoever looks trusts both, whichever certificate it is shown. An authority
//! leaves the bundle when it ends.
//! **Why the webhooks are made here** and do not come with what is installed: they cannot be asked before there is a
//! certificate, and while they cannot be asked nothing can be written; and they must go before what answers them goes.
//! APIServices likewise: while nobody answers one, no namespace of the cluster can be deleted to its end. All are there while
//! there is a KubeVirt object, and go when it goes and no VM is left ([`webhooks_gone`]). Whether an APIService can be reached,
//! the API server writes into its status, which is not looked at here.
//! **Guarantees.** What is decided is pure: keys are made when the step is carried out ([`api_server`]). No key is kept in the World.
//! **Caveats.** An authority that somebody else has put into the secret is replaced.

mod terms;
#[cfg(test)]
mod tests;
mod webhooks;

pub(crate) use webhooks::gone as webhooks_gone;

use jiff::{SignedDuration, Timestamp};
use kubernetes::issue::{Issue, LABEL, Signer};
use kubernetes::objects::certificate::{self, pem};
use kubernetes::objects::{
    AUTHORITY, BUNDLE, Certificate, Kept as _, Key, Kind, Secret, World, certificates,
};
use kubernetes::plan::Plan;
use kubernetes::servers::{API, MEASURES, SERVERS, Server};
use serde_json::json;
use terms::Terms;

/// How long before now a certificate begins: clocks differ.
const BEHIND: SignedDuration = SignedDuration::from_mins(5);
/// How long a new authority is known before something is signed by it.
const SPREAD: SignedDuration = SignedDuration::from_secs(30);
/// A certificate that is wrong is not made anew more often than this.
const PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// The most authorities in a bundle.
const MOST: usize = 8;

/// What is to be done.
pub(crate) fn decide(world: &World, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(settings) = world.kubevirts.all().find(|object| object.meta().deletion_timestamp.is_none())
    else {
        webhooks::take_away(world, &mut plan);
        return plan;
    };
    let terms = Terms::of(&settings.object);
    let Some(authority) = authority(world, &terms, now, &mut plan) else { return plan };
    let Some(bundle) = bundle(world, &authority, now, &mut plan) else { return plan };
    let mut is_led = false;
    for one in SERVERS {
        let is_served = server(world, &one, &authority, &terms, now, &mut plan);
        is_led |= is_served && one.secret == API.secret;
    }
    if is_led {
        webhooks::lead(world, &bundle, &mut plan);
    }
    plan
}

/// The secret of this name as it was looked at, and the certificate in it.
fn found<'a>(world: &'a World, name: &str) -> (Option<&'a Secret>, Option<&'a Certificate>) {
    let secret = world.secrets.get(&world.facts.namespace, name);
    (secret, secret.and_then(|secret| secret.certificate.as_ref()))
}

fn version(secret: Option<&Secret>) -> Option<String> {
    secret.and_then(|secret| secret.meta.resource_version.clone())
}

/// What an authority is called that was made then.
fn name_of(from: Timestamp) -> String {
    format!("kubevirt.io@{}", from.as_second())
}

fn after(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

fn before(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_sub(span).unwrap_or(Timestamp::MIN)
}

/// When a certificate was made.
fn made(certificate: &Certificate) -> Timestamp {
    after(certificate.from, BEHIND)
}

/// The authority, if there is one that holds; else it is made.
fn authority(world: &World, terms: &Terms, now: Timestamp, plan: &mut Plan) -> Option<Certificate> {
    let (secret, certificate) = found(world, AUTHORITY);
    let ours =
        certificate.filter(|certificate| certificate.name.as_deref() == Some(&name_of(certificate.from)));
    if let Some(certificate) =
        ours.filter(|certificate| secret.is_some_and(|secret| secret.has_key) && now < certificate.until)
    {
        let renew = terms.authority.renew(certificate);
        if now < renew || now < after(made(certificate), PAUSE) {
            plan.look_again(renew.max(after(made(certificate), PAUSE)));
            return Some(certificate.clone());
        }
    }
    let from = whole(before(now, BEHIND));
    plan.issue(Issue {
        key: certificates(world),
        version: version(secret),
        name: name_of(from),
        from,
        until: whole(after(now, terms.authority.length)),
        signer: None,
    });
    None
}

/// Certificates know whole seconds.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The authorities that hold, this one first; whoever wants to know reads them in a config map.
fn bundle(world: &World, authority: &Certificate, now: Timestamp, plan: &mut Plan) -> Option<String> {
    let namespace = world.facts.namespace.clone();
    let old = world.config_maps.get(&namespace, AUTHORITY);
    let text = old.and_then(|map| map.object["data"][BUNDLE].as_str()).unwrap_or_default();
    let mut all = vec![authority.clone()];
    for other in certificate::all(text).into_iter().filter(|other| other.until > now) {
        if all.len() < MOST && !all.iter().any(|known| known.der == other.der) {
            all.push(other);
        }
    }
    if let Some(end) = all.iter().map(|certificate| certificate.until).min() {
        plan.look_again(end);
    }
    let bundle: String = all.iter().map(pem).collect();
    match old {
        Some(map) => {
            let mut should = map.object.clone();
            should["data"][BUNDLE] = json!(bundle);
            should["metadata"]["labels"][LABEL.0] = json!(LABEL.1);
            plan.update(Kind::ConfigMap, &map.meta, &map.object, &should, false);
        }
        None => plan.create(
            Key::new(Kind::ConfigMap, namespace.clone(), AUTHORITY),
            json!({
                "apiVersion": Kind::ConfigMap.api_version(),
                "kind": Kind::ConfigMap.name(),
                "metadata": {"name": AUTHORITY, "namespace": namespace, "labels": {LABEL.0: LABEL.1}},
                "data": {BUNDLE: bundle},
            }),
        ),
    }
    Some(bundle)
}

/// The names of a server: its own, by which other programs of ours tell it from the rest, and that of the service by which
/// monitors find all.
fn hosts(server: &Server, namespace: &str) -> Vec<String> {
    let names = [server.program, MEASURES].map(|name| {
        let whole = [".svc", ".svc.cluster.local", ""].map(|end| format!("{name}.{namespace}{end}"));
        whole.into_iter().chain([name.to_owned()])
    });
    names.into_iter().flatten().collect()
}

/// Sees to a server's certificate. Whether there is one that holds.
fn server(
    world: &World,
    server: &Server,
    authority: &Certificate,
    terms: &Terms,
    now: Timestamp,
    plan: &mut Plan,
) -> bool {
    let namespace = &world.facts.namespace;
    let hosts = hosts(server, namespace);
    let (secret, certificate) = found(world, server.secret);
    let certificate = certificate.filter(|_| secret.is_some_and(|secret| secret.has_key));
    let mut holds = false;
    if let Some(certificate) = certificate {
        holds = is_right(certificate, server, &hosts, authority, now);
        let by_another =
            !holds && known(world, now).iter().any(|other| is_right(certificate, server, &hosts, other, now));
        let renew = match by_another {
            // The new authority has to be known everywhere first.
            true => after(made(authority), SPREAD),
            false if holds => terms.server.renew(certificate),
            false => Timestamp::MIN,
        };
        holds |= by_another;
        let renew = renew.max(after(made(certificate), PAUSE));
        if now < renew {
            plan.look_again(renew);
            return holds;
        }
    }
    plan.issue(Issue {
        key: Key::new(Kind::Secret, namespace.clone(), server.secret),
        version: version(secret),
        name: hosts[0].clone(),
        from: whole(before(now, BEHIND)).max(authority.from),
        until: whole(after(now, terms.server.length)).min(authority.until),
        signer: Some(Signer {
            key: certificates(world),
            name: authority.name.clone().unwrap_or_default(),
            hosts,
            is_client: server.is_client,
        }),
    });
    holds
}

/// Whether a certificate has these names, is for clients where its program is one, and comes from this authority.
fn is_right(
    certificate: &Certificate,
    server: &Server,
    hosts: &[String],
    authority: &Certificate,
    now: Timestamp,
) -> bool {
    certificate.is_from(authority, hosts, now) && certificate.is_clients(authority, now) == server.is_client
}

/// The authorities that others know of.
fn known(world: &World, now: Timestamp) -> Vec<Certificate> {
    let map = world.config_maps.get(&world.facts.namespace, AUTHORITY);
    let text = map.and_then(|map| map.object["data"][BUNDLE].as_str()).unwrap_or_default();
    certificate::all(text).into_iter().filter(|certificate| certificate.until > now).collect()
}
