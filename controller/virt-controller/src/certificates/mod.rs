//! The certificates of our programs: that of virt-api for the API server, and those of all programs for the
//! clients that scrape their metrics. Also the webhooks and APIServices that point to virt-api.
//!
//! ```text
//!  Secret kubevirt-ca ───────────► ConfigMap kubevirt-ca ──────────► webhook configurations, APIServices
//!  our authority, with its key     the authorities that hold: the    caBundle and service of virt-api
//!        │                         one now, and the one before it
//!        └─ signs ─► a Secret for each of [`SERVERS`] ──► the program shows it, without a restart
//! ```
//!
//! | file | |
//! |---|---|
//! | [`chain`] | an authority, its publication, the certificates it signs, and how each is replaced |
//! | [`uploads`] | two more authorities, between cdi-uploadproxy and the upload pods; and when a pod can be created |
//! | [`signing`] | the keys that sign upload tokens |
//! | [`config`] | the CDIConfig, in which clients look for cdi-uploadproxy |
//! | [`webhooks`] | webhook configurations and APIServices that point to virt-api |
//! | [`terms`] | validity and renewal times |
//!
//! **Flow.** First an authority, then its publication, then the servers' certificates, then the webhooks and
//! the APIServices. So no client is directed to a server that has no certificate. Each is renewed a while
//! before its end.
//! **Replacement of an authority.** The new one is added to the bundle, beside the old one; only a while
//! later ([`chain`] says how long) are certificates signed by it. So a client that reads the bundle trusts
//! the certificates of both. An authority leaves the bundle when it ends.
//! **Why the webhooks are created here** and are not part of the manifests: they cannot be called before
//! there is a certificate, and while they cannot be called, writes to our kinds fail. They must also go
//! before the server that answers them. The same holds for APIServices: while one is not answered, no
//! namespace of the cluster can be deleted completely. All exist while there is a KubeVirt object, and are
//! deleted when it is deleted and no VM is left ([`webhooks_gone`]). The API server writes into the status of
//! an APIService if it can be reached, which is not read here.
//! **Webhook paths** have a random segment ([`cluster_model::webhook_paths`]): virt-api answers only callers
//! that know it. It is stored in the Secret of virt-api's certificate, and is replaced with that.
//! **Guarantees.** Decisions are pure: keys are generated when the step is carried out ([`cluster_client`]).
//! No key is kept in the World.
//! **Caveats.** An authority that another program has written into the Secret is replaced.

mod chain;
mod config;
mod signing;
mod terms;
#[cfg(test)]
mod tests;
pub(crate) mod uploads;
mod webhooks;

pub(crate) use webhooks::are_deleted as webhooks_gone;

/// The steps for the CDIConfig alone, without certificates.
#[cfg(test)]
pub(crate) fn config_for_tests(world: &World, plan: &mut Plan) {
    config::decide(world, "", plan);
}

use crate::installation;
use chain::{KUBEVIRT, Leaf};
use cluster_model::issue::Usage;
use cluster_model::objects::{Certificate, Secret, World};
use cluster_model::plan::Plan;
use cluster_model::servers::{API, MEASURES, SERVERS, Server};
use jiff::{SignedDuration, Timestamp};
use terms::Terms;

/// Start of a certificate's validity before its creation, because clocks differ.
const BEHIND: SignedDuration = SignedDuration::from_mins(5);

/// Plan for all certificates, webhooks and APIServices.
pub(crate) fn decide(world: &World, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(settings) = installation::settings(world) else {
        webhooks::take_away(world, &mut plan);
        return plan;
    };
    let terms = Terms::from_kubevirt(&settings.object);
    servers(world, &terms, now, &mut plan);
    uploads::decide(world, now, &mut plan);
    signing::decide(world, now, &mut plan);
    plan
}

/// The certificates of our programs, and the configurations that point to virt-api.
fn servers(world: &World, terms: &Terms, now: Timestamp, plan: &mut Plan) {
    let Some(authority) = KUBEVIRT.authority(world, terms.authority, now, plan) else { return };
    let bundle = KUBEVIRT.publish(world, &authority, now, plan);
    let mut is_led = false;
    for one in SERVERS {
        let leaf = leaf(&one, &world.facts.namespace);
        let is_served = KUBEVIRT.leaf(world, leaf, &authority, terms.server, now, plan);
        is_led |= is_served && one.secret == API.secret;
    }
    if is_led {
        webhooks::plan_configurations(world, &bundle, plan);
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

/// The Secret of this name, and the certificate in it.
fn find_secret<'a>(world: &'a World, name: &str) -> (Option<&'a Secret>, Option<&'a Certificate>) {
    let secret = world.secrets.get(&world.facts.namespace, name);
    (secret, secret.and_then(|secret| secret.certificate.as_ref()))
}

fn version(secret: Option<&Secret>) -> Option<String> {
    secret.and_then(|secret| secret.meta.resource_version.clone())
}

fn saturating_add(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

fn saturating_sub(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_sub(span).unwrap_or(Timestamp::MIN)
}

/// Creation time of a certificate.
fn created_at(certificate: &Certificate) -> Timestamp {
    saturating_add(certificate.from, BEHIND)
}

/// Certificates know whole seconds.
fn truncate_to_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Host names of a server: its own, by which our other programs tell it from the rest, and that of the
/// service by which monitoring finds all of them.
fn hosts(server: &Server, namespace: &str) -> Vec<String> {
    let names = [server.program, MEASURES].map(|name| {
        let whole = [".svc", ".svc.cluster.local", ""].map(|end| format!("{name}.{namespace}{end}"));
        whole.into_iter().chain([name.to_owned()])
    });
    names.into_iter().flatten().collect()
}
