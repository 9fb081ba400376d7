//! The life of certificates, with real ones: every step is carried out by a small server in memory.

mod config;
mod paths;
mod signing;
mod uploads;

use super::*;
use crate::sim::Sim;
use cluster_model::issue::{Issue, Signer};
use cluster_model::objects::{AUTHORITY, Key, Kind, certificate, certificates};
use cluster_model::plan::Step;
use cluster_model::servers::CONTROLLER;
use cluster_model::webhooks::Webhook;
use serde_json::{Value, json};

/// The secret of virt-api.
const SERVER: &str = API.secret;
const HOST: [&str; 1] = ["virt-api.kubevirt.svc"];

/// An installation that says this of its certificates.
fn installed(said: &Value) -> Sim {
    let mut sim = Sim::empty();
    sim.put(
        Kind::KubeVirt,
        json!({
            "metadata": {"namespace": "kubevirt", "name": "kubevirt"},
            "spec": {"certificateRotateStrategy": {"selfSigned": said}},
        }),
    );
    sim
}

/// Decides until there is nothing to do. How often that was.
fn settle(sim: &mut Sim) -> usize {
    for round in 0..10 {
        let plan = decide(&sim.world, sim.now);
        if plan.is_empty() {
            answered(sim);
            return round;
        }
        sim.apply(plan);
        check(sim);
    }
    panic!("it never settles: {:?}", decide(&sim.world, sim.now));
}

fn of(sim: &Sim, name: &str) -> Option<Certificate> {
    sim.world.secrets.get("kubevirt", name)?.certificate.clone()
}

fn trusted(sim: &Sim) -> Vec<Certificate> {
    KUBEVIRT.published_authorities(&sim.world, sim.now)
}

/// What must be so at any time: where the API server is led, it is shown a certificate that it trusts.
fn check(sim: &Sim) {
    let trusts = |bundle: &Value| {
        use base64::Engine as _;
        let server = of(sim, SERVER).expect("a certificate before the API server is led to virt-api");
        let bundle = base64::engine::general_purpose::STANDARD.decode(bundle.as_str().unwrap()).unwrap();
        let bundle = certificate::all(std::str::from_utf8(&bundle).unwrap());
        bundle.iter().any(|authority| server.is_from(authority, &HOST, sim.now))
    };
    for store in [&sim.world.mutating_webhooks, &sim.world.validating_webhooks] {
        for hooks in store.all() {
            for hook in hooks.object["webhooks"].as_array().unwrap() {
                assert!(trusts(&hook["clientConfig"]["caBundle"]), "{hook}");
            }
        }
    }
    for service in sim.world.api_services.all() {
        assert!(trusts(&service.object["spec"]["caBundle"]), "{}", service.object);
    }
}

/// Where the API server is led, it is answered.
fn answered(sim: &Sim) {
    for store in [&sim.world.mutating_webhooks, &sim.world.validating_webhooks] {
        for hook in store.all().flat_map(|hooks| hooks.object["webhooks"].as_array().unwrap()) {
            let path = hook["clientConfig"]["service"]["path"].as_str().unwrap();
            let paths = &sim.world.secrets.get("kubevirt", SERVER).unwrap().paths;
            assert!(
                paths
                    .strip_segment(path)
                    .and_then(Webhook::find_by_path)
                    .is_some_and(|found| found.name == hook["name"]),
                "{hook}"
            );
        }
    }
}

/// The APIServices, of the subresources and of upload tokens.
fn api_services() -> [Key; 4] {
    [
        "v1.subresources.kubevirt.io",
        "v1alpha3.subresources.kubevirt.io",
        "v1beta1.upload.cdi.kubevirt.io",
        "v1alpha1.upload.cdi.kubevirt.io",
    ]
    .map(|name| Key::new(Kind::APIService, "", name))
}

#[test]
fn an_installation_gets_them_in_order_and_then_there_is_silence() {
    let mut sim = installed(&json!({}));
    assert_eq!(
        settle(&mut sim),
        3,
        "the authority; who is told and the server's; the webhooks and APIServices"
    );
    assert!(of(&sim, SERVER).unwrap().is_from(&of(&sim, AUTHORITY).unwrap(), &HOST, sim.now));
    assert_eq!(trusted(&sim), [of(&sim, AUTHORITY).unwrap()]);
    let hooks = sim.get(&Key::new(Kind::ValidatingWebhookConfiguration, "", "virt-api-validator"));
    assert!(hooks["webhooks"].as_array().unwrap().len() >= 6);
    for key in api_services() {
        let spec = &sim.get(&key)["spec"];
        let (version, group) = key.name.split_once('.').unwrap();
        assert_eq!((&spec["group"], &spec["version"]), (&json!(group), &json!(version)));
        assert_eq!(spec["service"], json!({"namespace": "kubevirt", "name": "virt-api", "port": 443}));
    }
    let writes = sim.writes;
    sim.advance(3600);
    assert_eq!((settle(&mut sim), sim.writes), (0, writes));
}

#[test]
fn for_months_each_is_renewed_in_time_and_trusted_at_any_time() {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    let (mut authorities, mut servers) = (vec![of(&sim, AUTHORITY)], vec![of(&sim, SERVER)]);
    let end = saturating_add(sim.now, SignedDuration::from_hours(60 * 24));
    while sim.now < end {
        let again = decide(&sim.world, sim.now).again.expect("it is looked again");
        assert!(again > sim.now);
        sim.now = again;
        check(&sim);
        settle(&mut sim);
        assert!(trusted(&sim).len() <= 2);
        for (name, all) in [(AUTHORITY, &mut authorities), (SERVER, &mut servers)] {
            let is = of(&sim, name);
            if all.last() != Some(&is) {
                all.push(is);
            }
        }
    }
    // 60 days of 5.6 days each, of 19.2 hours each; a server's is made anew with its authority.
    assert!((11..=13).contains(&authorities.len()), "{}", authorities.len());
    assert!((75..=100).contains(&servers.len()), "{}", servers.len());
}

#[test]
fn each_program_has_a_secret_of_its_own_and_is_found_by_its_services() {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    let authority = of(&sim, AUTHORITY).unwrap();
    let monitored = "kubevirt-prometheus-metrics.kubevirt.svc";
    for server in SERVERS {
        let certificate = of(&sim, server.secret).unwrap_or_else(|| panic!("{} has none", server.program));
        assert!(certificate.is_from(&authority, &[monitored], sim.now), "{}", server.program);
        // By its own name each is told from the others: virt-api dials virt-handler and nobody in its place.
        for other in SERVERS {
            let host = format!("{}.kubevirt.svc", other.program);
            let is_its_own = other.program == server.program;
            assert_eq!(certificate.is_from(&authority, &[host], sim.now), is_its_own, "{}", server.program);
        }
    }
    // virt-api alone can show its own as a client: virt-handler's is on every node.
    for server in SERVERS {
        let is_clients = of(&sim, server.secret).unwrap().is_clients(&authority, sim.now);
        assert_eq!(is_clients, server.program == "virt-api", "{}", server.program);
    }
    // What was made when a server had fewer names is made anew.
    let key = Key::new(Kind::Secret, "kubevirt", API.secret);
    let old = of(&sim, CONTROLLER.secret).unwrap();
    let data = sim.get(&Key::new(Kind::Secret, "kubevirt", CONTROLLER.secret))["data"].clone();
    sim.advance(60);
    sim.change(&key, json!({"data": data}));
    assert_eq!(of(&sim, API.secret), Some(old));
    settle(&mut sim);
    assert!(of(&sim, API.secret).unwrap().is_from(&authority, &HOST, sim.now));
    // And what was made when virt-api was no client: the certificate of a server, of the same names.
    let old = made_for_servers_alone(&mut sim);
    assert!(old.is_from(&authority, &HOST, sim.now) && !old.is_clients(&authority, sim.now));
    settle(&mut sim);
    assert!(of(&sim, API.secret).unwrap().is_clients(&authority, sim.now));
}

/// virt-api's certificate as an older version has made it.
fn made_for_servers_alone(sim: &mut Sim) -> Certificate {
    let key = Key::new(Kind::Secret, "kubevirt", API.secret);
    sim.advance(60);
    let issue = Issue {
        key: key.clone(),
        version: None,
        name: "virt-api".into(),
        from: of(sim, AUTHORITY).unwrap().from,
        until: of(sim, AUTHORITY).unwrap().until,
        signer: Some(Signer {
            key: certificates(&sim.world),
            name: of(sim, AUTHORITY).unwrap().name.unwrap(),
            hosts: hosts(&API, "kubevirt"),
            usage: Usage::Server,
        }),
        has_paths: false,
    };
    let authority = sim.get(&certificates(&sim.world)).clone();
    let made = cluster_client::certificate::secret(&issue, Some(&authority), None).unwrap();
    sim.change(&key, json!({"data": made["data"]}));
    of(sim, API.secret).unwrap()
}

#[test]
fn what_is_taken_away_or_spoilt_is_made_again() {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    for key in [
        Key::new(Kind::Secret, "kubevirt", SERVER),
        Key::new(Kind::ConfigMap, "kubevirt", AUTHORITY),
        Key::new(Kind::MutatingWebhookConfiguration, "", "virt-api-mutator"),
        Key::new(Kind::APIService, "", "v1alpha3.subresources.kubevirt.io"),
    ] {
        sim.vanish(&key);
        settle(&mut sim);
        assert!(sim.objects.contains_key(&key), "{key}");
    }
    // The authority with its key: what was signed by the old one is trusted while the new one spreads.
    let old = of(&sim, AUTHORITY).unwrap();
    sim.vanish(&Key::new(Kind::Secret, "kubevirt", AUTHORITY));
    settle(&mut sim);
    assert_eq!(trusted(&sim).len(), 2);
    assert!(of(&sim, SERVER).unwrap().is_from(&old, &HOST, sim.now));
    sim.advance(60);
    settle(&mut sim);
    assert!(of(&sim, SERVER).unwrap().is_from(&of(&sim, AUTHORITY).unwrap(), &HOST, sim.now));
    // Nonsense in the place of a certificate, and one of somebody else.
    sim.advance(60);
    let key = Key::new(Kind::Secret, "kubevirt", SERVER);
    sim.change(&key, json!({"data": {"tls.crt": "bm9uZQ=="}}));
    settle(&mut sim);
    assert!(of(&sim, SERVER).is_some());
    let foreign = sim.get(&Key::new(Kind::Secret, "kubevirt", AUTHORITY))["data"].clone();
    sim.advance(60);
    sim.change(&key, json!({"data": foreign}));
    settle(&mut sim);
    assert!(of(&sim, SERVER).unwrap().is_from(&of(&sim, AUTHORITY).unwrap(), &HOST, sim.now));
}

/// The API server says in the status of an APIService whether virt-api can be reached: that is no reason to write, and is
/// not written over.
#[test]
fn the_status_of_an_api_service_is_left_to_the_api_server() {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    let key = &api_services()[0];
    for value in ["False", "True"] {
        let conditions = json!([{"type": "Available", "status": value, "reason": "Word"}]);
        sim.change(key, json!({"status": {"conditions": conditions}}));
        let writes = sim.writes;
        assert_eq!((settle(&mut sim), sim.writes), (0, writes), "{value}");
    }
    // Where somebody leads it elsewhere, the spec alone is set right.
    let said = sim.get(key)["status"].clone();
    sim.change(key, json!({"spec": {"service": {"name": "another"}, "insecureSkipTLSVerify": true}}));
    let steps = decide(&sim.world, sim.now).steps;
    let [Step::Patch { key: patched, change, part: None, .. }] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(patched, key);
    let expected = json!({"spec": {"service": {"name": "virt-api"}, "insecureSkipTLSVerify": null}});
    assert_eq!(change["spec"], expected["spec"]);
    assert!(change["status"].is_null(), "{change}");
    settle(&mut sim);
    assert_eq!(sim.get(key)["spec"]["service"]["name"], "virt-api");
    assert_eq!(sim.get(key)["status"], said);
}

#[test]
fn the_webhooks_go_when_the_installation_goes_and_nothing_is_left() {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    let vm = sim.put(Kind::VirtualMachine, crate::sim::vm("web", "Halted"));
    let settings = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
    sim.change(&settings, json!({"metadata": {"finalizers": ["ours"]}}));
    sim.delete(&settings);
    settle(&mut sim);
    assert!(!webhooks_gone(&sim.world), "a VM is left");
    sim.vanish(&vm);
    let steps = decide(&sim.world, sim.now).steps;
    assert!(steps.len() == 8 && steps.iter().all(|step| matches!(step, Step::Delete { .. })), "{steps:?}");
    // The removal waits for the APIServices as well: while one is left that nobody answers, no namespace can be deleted.
    for step in steps.iter().take(7) {
        let Step::Delete { key, .. } = step else { panic!("{step:?}") };
        sim.vanish(key);
        assert!(!webhooks_gone(&sim.world), "{key} is not the last");
    }
    settle(&mut sim);
    assert!(webhooks_gone(&sim.world));
}

#[test]
fn new_terms_hold_for_what_is_there() {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    let old = of(&sim, AUTHORITY);
    sim.advance(3600);
    let settings = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
    let said = json!({"ca": {"duration": "1h"}, "server": {"duration": "30m"}});
    sim.change(&settings, json!({"spec": {"certificateRotateStrategy": {"selfSigned": said}}}));
    settle(&mut sim);
    assert_ne!(of(&sim, AUTHORITY), old);
    sim.advance(60);
    settle(&mut sim);
    let server = of(&sim, SERVER).unwrap();
    assert_eq!(server.until, saturating_add(sim.now, SignedDuration::from_mins(30)));
    assert!(decide(&sim.world, sim.now).again.is_some_and(|again| again < server.until));
}

#[test]
fn without_an_installation_nothing_is_made() {
    let sim = Sim::empty();
    assert_eq!(decide(&sim.world, sim.now), Plan::default());
}
