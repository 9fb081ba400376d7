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
//! | file | |
//! |---|---|
//! | [`chain`] | an authority, whom it is made known to, what it signs, and how each is replaced |
//! | [`uploads`] | two more authorities, between cdi-uploadproxy and the upload pods; and when a pod can be made |
//! | [`signing`] | the keys that sign upload tokens |
//! | [`config`] | the CDIConfig, in which clients look for cdi-uploadproxy |
//! | [`webhooks`] | what leads the API server to virt-api |
//! | [`terms`] | how long each holds |
//!
//! **Flow.** First an authority, then who is told of it, then the servers' certificates, then the webhooks and the
//! APIServices: nobody is sent to a server that has no certificate. Each is renewed a while before its end.
//! **How an authority is replaced.** The new one is added to the bundle, beside the old one; only a while later (its
//! [`chain`] says how long) are certificates signed by it. So whoever looks trusts both, whichever certificate it is shown. An authority
//! leaves the bundle when it ends.
//! **Why the webhooks are made here** and do not come with what is installed: they cannot be asked before there is a
//! certificate, and while they cannot be asked nothing can be written; and they must go before what answers them goes.
//! APIServices likewise: while nobody answers one, no namespace of the cluster can be deleted to its end. All are there while
//! there is a KubeVirt object, and go when it goes and no VM is left ([`webhooks_gone`]). Whether an APIService can be reached,
//! the API server writes into its status, which is not looked at here.
//! **Webhook paths** have a segment that nobody guesses ([`cluster_model::webhook_paths`]): virt-api answers no other caller. It stands in
//! the Secret of virt-api's certificate, and is exchanged with that.
//! **Guarantees.** What is decided is pure: keys are made when the step is carried out ([`cluster_client`]). No key is kept in the World.
//! **Caveats.** An authority that somebody else has put into the secret is replaced.

mod chain;
mod config;
mod signing;
mod terms;
#[cfg(test)]
mod tests;
pub(crate) mod uploads;
mod webhooks;

pub(crate) use webhooks::gone as webhooks_gone;

/// What becomes of the CDIConfig alone, without certificates.
#[cfg(test)]
pub(crate) fn config_for_tests(world: &World, plan: &mut Plan) {
    config::decide(world, "", plan);
}

use chain::{KUBEVIRT, Leaf};
use cluster_model::issue::Usage;
use cluster_model::objects::{Certificate, Secret, StoredObject as _, World};
use cluster_model::plan::Plan;
use cluster_model::servers::{API, MEASURES, SERVERS, Server};
use jiff::{SignedDuration, Timestamp};
use terms::Terms;

/// How long before now a certificate begins: clocks differ.
const BEHIND: SignedDuration = SignedDuration::from_mins(5);

/// What is to be done.
pub(crate) fn decide(world: &World, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(settings) = world.kubevirts.all().find(|object| object.meta().deletion_timestamp.is_none())
    else {
        webhooks::take_away(world, &mut plan);
        return plan;
    };
    let terms = Terms::of(&settings.object);
    servers(world, &terms, now, &mut plan);
    uploads::decide(world, now, &mut plan);
    signing::decide(world, now, &mut plan);
    plan
}

/// The certificates of our programs, and what leads to virt-api.
fn servers(world: &World, terms: &Terms, now: Timestamp, plan: &mut Plan) {
    let Some(authority) = KUBEVIRT.authority(world, terms.authority, now, plan) else { return };
    let bundle = KUBEVIRT.tell(world, &authority, now, plan);
    let mut is_led = false;
    for one in SERVERS {
        let leaf = leaf(&one, &world.facts.namespace);
        let is_served = KUBEVIRT.leaf(world, leaf, &authority, terms.server, now, plan);
        is_led |= is_served && one.secret == API.secret;
    }
    if is_led {
        webhooks::lead(world, &bundle, plan);
    }
    if crate::cdi::other_operator(world).is_none() {
        config::decide(world, &bundle, plan);
    }
}

/// The certificate of a server.
fn leaf(server: &Server, namespace: &str) -> Leaf {
    let hosts = hosts(server, namespace);
    let usage = if server.is_client { Usage::Both } else { Usage::Server };
    let has_paths = server.secret == API.secret;
    Leaf { secret: server.secret, name: hosts[0].clone(), hosts, usage, has_paths }
}

/// The secret of this name as it was looked at, and the certificate in it.
fn found<'a>(world: &'a World, name: &str) -> (Option<&'a Secret>, Option<&'a Certificate>) {
    let secret = world.secrets.get(&world.facts.namespace, name);
    (secret, secret.and_then(|secret| secret.certificate.as_ref()))
}

fn version(secret: Option<&Secret>) -> Option<String> {
    secret.and_then(|secret| secret.meta.resource_version.clone())
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

/// Certificates know whole seconds.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
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
