//! The certificates of uploads, with real ones: what a pod is made with is believed for as long as the pod may wait.

use super::*;
use crate::certificates::chain::{UPLOAD_CLIENTS, UPLOAD_SERVERS};
use crate::certificates::uploads::{Span, certificate_span};
use cluster_model::issue::{Holder, PodCertificateIssue};
use cluster_model::uploads::{self, CLIENT_CERTIFICATE, CLIENT_NAME, CLIENT_SIGNER, SERVER_SIGNER};
use serde_json::Map;

/// The longest that a pod waits for its upload.
const LONGEST: SignedDuration = SignedDuration::from_hours(12);
const NAMES: [&str; 2] = ["cdi-upload-disk.n.svc", "cdi-upload-disk"];

fn begin() -> Sim {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    sim
}

/// An upload pod: what it was made with.
struct Made {
    until: Timestamp,
    signer: Certificate,
    clients: Vec<Certificate>,
}

impl Made {
    fn now(sim: &Sim, span: Span) -> Made {
        Made {
            until: span.until.min(saturating_add(sim.now, LONGEST)),
            signer: of(sim, SERVER_SIGNER.0).unwrap(),
            clients: UPLOAD_CLIENTS.published_authorities(&sim.world, sim.now),
        }
    }

    /// cdi-uploadproxy and the pod believe each other.
    fn is_reached(&self, sim: &Sim) -> bool {
        let client = of(sim, CLIENT_CERTIFICATE).unwrap();
        self.signer.until > sim.now
            && UPLOAD_SERVERS.published_authorities(&sim.world, sim.now).contains(&self.signer)
            && self.clients.iter().any(|authority| client.is_clients(authority, sim.now))
    }
}

fn disk(span: Span) -> PodCertificateIssue {
    PodCertificateIssue {
        key: Key::new(Kind::Secret, "n", "cdi-upload-disk"),
        installation: "kubevirt".into(),
        owner: json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "disk", "uid": "u", "controller": true}),
        labels: Map::from_iter([("cdi.kubevirt.io".to_owned(), json!("cdi-upload-server"))]),
        holder: Holder::Server(NAMES.map(str::to_owned).to_vec()),
        from: span.from,
        until: span.until,
    }
}

fn issue(sim: &mut Sim, issue: PodCertificateIssue) -> cluster_client::PlanResult {
    let mut plan = Plan::default();
    plan.issue_for_pod(issue);
    crate::sim::door::carry_out(sim, plan)
}

/// A file of a Secret.
fn file(sim: &Sim, key: &Key, name: &str) -> String {
    use base64::Engine as _;
    let text = sim.get(key)["data"][name].as_str().unwrap();
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).unwrap()).unwrap()
}

#[test]
fn the_first_authorities_are_ready_at_once() {
    let mut sim = installed(&json!({}));
    assert_eq!(certificate_span(&sim.world, sim.now), None);
    settle(&mut sim);
    let span = certificate_span(&sim.world, sim.now).unwrap();
    assert!(span.from < sim.now && span.until > saturating_add(sim.now, LONGEST), "{span:?}");
    let [servers, clients] = [SERVER_SIGNER.0, CLIENT_SIGNER.0].map(|name| of(&sim, name).unwrap());
    assert_eq!(clients.until.duration_since(sim.now), SignedDuration::from_hours(48));
    // Neither believes what the other has signed, nor what signs for our programs.
    let client = of(&sim, CLIENT_CERTIFICATE).unwrap();
    assert_eq!(client.name.as_deref(), Some(CLIENT_NAME));
    assert_eq!(client.until.duration_since(sim.now), SignedDuration::from_hours(24));
    assert!(client.is_clients(&clients, sim.now));
    for other in [servers, of(&sim, AUTHORITY).unwrap()] {
        assert!(!client.is_clients(&other, sim.now));
    }
    assert!(!client.is_from(&clients, &[""; 0], sim.now), "no server shows it");
}

#[test]
fn a_pod_gets_the_certificate_of_a_server_and_the_authorities_of_its_client() {
    let mut sim = begin();
    let span = certificate_span(&sim.world, sim.now).unwrap();
    let done = issue(&mut sim, disk(span));
    assert!(done.failed.is_none() && done.answers.is_empty(), "nobody keeps what a tenant has: {done:?}");
    let key = disk(span).key;
    let shown = Certificate::from_pem(&file(&sim, &key, "tls.crt")).unwrap();
    let signer = of(&sim, SERVER_SIGNER.0).unwrap();
    assert!(shown.is_from(&signer, &NAMES, sim.now) && !shown.is_clients(&signer, sim.now));
    assert!(!shown.is_from(&signer, &["cdi-upload-other.n.svc"], sim.now));
    assert_eq!((shown.from, shown.until), (span.from, span.until));
    let bundle = Key::new(Kind::ConfigMap, "kubevirt", CLIENT_SIGNER.1);
    assert_eq!(sim.get(&bundle)["data"][uploads::BUNDLE], json!(file(&sim, &key, "ca.crt")));
    let secret = sim.get(&key);
    assert_eq!(secret["type"], "Opaque");
    assert_eq!(secret["metadata"]["labels"]["cdi.kubevirt.io"], "cdi-upload-server");
    assert_eq!(secret["metadata"]["ownerReferences"], json!([disk(span).owner]));
    // The next pod of the disk has another key.
    let old = file(&sim, &key, "tls.key");
    assert!(issue(&mut sim, disk(span)).failed.is_none());
    assert_ne!(file(&sim, &key, "tls.key"), old);
}

/// Between the decision and the step an authority was replaced: nobody knows the new one yet.
#[test]
fn nothing_is_signed_by_an_authority_that_was_not_looked_at() {
    let mut sim = begin();
    let span = certificate_span(&sim.world, sim.now).unwrap();
    for change in [
        PodCertificateIssue {
            until: saturating_add(span.until, SignedDuration::from_hours(48)),
            ..disk(span)
        },
        PodCertificateIssue { from: saturating_sub(span.from, SignedDuration::from_secs(1)), ..disk(span) },
    ] {
        let (_, error) = issue(&mut sim, change).failed.unwrap();
        assert!(error.to_string().ends_with("contains another CA by now"), "{error}");
    }
    sim.vanish(&disk(span).peer_bundle());
    assert!(issue(&mut sim, disk(span)).failed.is_some());
    assert!(!sim.objects.contains_key(&disk(span).key));
}

#[test]
fn for_weeks_every_pod_is_reached_for_as_long_as_it_waits() {
    let mut sim = begin();
    let mut pods = Vec::new();
    let mut waited = SignedDuration::ZERO;
    let end = saturating_add(sim.now, SignedDuration::from_hours(14 * 24));
    let mut authorities = std::collections::BTreeSet::new();
    while sim.now < end {
        match certificate_span(&sim.world, sim.now) {
            Some(span) => {
                // One that is made just before an authority is replaced waits an hour less.
                let least = saturating_add(sim.now, LONGEST - SignedDuration::from_hours(1));
                assert!(span.until >= least, "{span:?} at {}", sim.now);
                pods.push(Made::now(&sim, span));
            }
            None => waited += SignedDuration::from_secs(30),
        }
        for name in [SERVER_SIGNER.0, CLIENT_SIGNER.0] {
            authorities.insert(of(&sim, name).unwrap().name);
        }
        // Often, where something is about to happen; else in great steps.
        let again = decide(&sim.world, sim.now).again.unwrap();
        let step = if certificate_span(&sim.world, sim.now).is_some() {
            SignedDuration::from_mins(50)
        } else {
            SignedDuration::from_secs(30)
        };
        sim.now = again.min(saturating_add(sim.now, step));
        pods.retain(|pod| pod.until > sim.now);
        assert!(pods.iter().all(|pod| pod.is_reached(&sim)), "at {}", sim.now);
        settle(&mut sim);
        assert!(pods.iter().all(|pod| pod.is_reached(&sim)), "at {}", sim.now);
    }
    // One of each for each day; for two minutes of it nothing is signed.
    assert!((26..=32).contains(&authorities.len()), "{}", authorities.len());
    assert!(waited <= SignedDuration::from_mins(3) * 15, "{waited:?}");
}

/// What is missing or somebody else's is made again, and no pod is made meanwhile.
#[test]
fn what_is_spoilt_is_made_again() {
    let foreign = |sim: &Sim, from: &str| sim.get(&Key::new(Kind::Secret, "kubevirt", from))["data"].clone();
    for chain in [&UPLOAD_SERVERS, &UPLOAD_CLIENTS] {
        let mut sim = begin();
        let (old, data) = (of(&sim, chain.secret).unwrap(), foreign(&sim, AUTHORITY));
        sim.advance(60);
        sim.change(&Key::new(Kind::Secret, "kubevirt", chain.secret), json!({"data": data}));
        assert_eq!(certificate_span(&sim.world, sim.now), None, "{}", chain.secret);
        settle(&mut sim);
        let new = of(&sim, chain.secret).unwrap();
        assert_ne!(new, old);
        assert_eq!(chain.published_authorities(&sim.world, sim.now), [new, old]);
        // The one who shows what the old one signed is believed; who is to be believed by the new one waits.
        let waits = chain.secret == SERVER_SIGNER.0;
        assert_eq!(certificate_span(&sim.world, sim.now).is_none(), waits, "{}", chain.secret);
        sim.advance(120);
        settle(&mut sim);
        assert!(certificate_span(&sim.world, sim.now).is_some());
    }
    let mut sim = begin();
    for key in [
        Key::new(Kind::ConfigMap, "kubevirt", SERVER_SIGNER.1),
        Key::new(Kind::ConfigMap, "kubevirt", CLIENT_SIGNER.1),
        Key::new(Kind::Secret, "kubevirt", CLIENT_CERTIFICATE),
    ] {
        sim.vanish(&key);
        assert_eq!(certificate_span(&sim.world, sim.now), None, "{key}");
        settle(&mut sim);
        assert!(certificate_span(&sim.world, sim.now).is_some(), "{key}");
    }
    // The certificate of a server in the place of the client's.
    let data = foreign(&sim, cluster_model::servers::PROXY.secret);
    sim.advance(60);
    sim.change(&Key::new(Kind::Secret, "kubevirt", CLIENT_CERTIFICATE), json!({"data": data}));
    assert_eq!(certificate_span(&sim.world, sim.now), None);
    settle(&mut sim);
    assert_eq!(of(&sim, CLIENT_CERTIFICATE).unwrap().name.as_deref(), Some(CLIENT_NAME));
}
