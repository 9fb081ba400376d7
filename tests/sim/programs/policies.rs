//! The installed objects, compared with the command lines of the programs: exactly the ports with a listener
//! can be reached.

use api::kubevirt::flags::{FLAGS, Flag};
use clap::CommandFactory as _;
use cluster_model::webhooks::{WebhookTarget, configuration};
use install::{InstallOptions, objects as installed};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

fn wishes() -> InstallOptions {
    InstallOptions {
        namespace: "kubevirt".into(),
        registry: "registry.example/coracle".into(),
        version: "1.2.3".into(),
        pull_policy: None,
        pull_secret: None,
    }
}

/// Ports, and for each whether all may come.
type Doors = BTreeMap<u64, bool>;

/// Pods that are installed: the name of their program, their labels, their spec.
fn pods() -> Vec<(String, Value, Value)> {
    let all = installed(&wishes()).into_iter().filter(|object| object["spec"]["template"].is_object());
    all.map(|object| {
        let template = &object["spec"]["template"];
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        (name, template["metadata"]["labels"].clone(), template["spec"].clone())
    })
    .collect()
}

/// The command line of a program.
fn command(program: &str) -> clap::Command {
    match program {
        "virt-controller" => virt_controller::args::Controller::command(),
        "virt-api" => admission::args::Api::command(),
        "virt-handler" => virt_handler::args::Args::command(),
        "cdi-uploadproxy" => cdi_uploadproxy::args::Proxy::command(),
        other => panic!("{other} is new here"),
    }
}

/// Ports on which the programs listen according to their command lines.
fn listens(program: &str) -> BTreeSet<u64> {
    let command = command(program);
    let defaults = command.get_arguments().flat_map(|argument| argument.get_default_values());
    defaults.filter_map(|value| Some(u64::from(value.to_str()?.parse::<SocketAddr>().ok()?.port()))).collect()
}

/// `customizeComponents.flags` of the KubeVirt object gives a program what it knows: what it does not know would end it.
#[test]
fn arguments_of_the_programs_are_those_that_the_settings_know() {
    for (_, program, flags) in FLAGS {
        let command = command(program);
        let known: BTreeSet<&str> = command
            .get_arguments()
            .filter(|argument| !argument.is_hide_set())
            .filter_map(|argument| argument.get_long())
            .filter(|long| !["help", "version"].contains(long))
            .collect();
        let ours: BTreeSet<&str> = flags.iter().map(|(name, _)| *name).collect();
        assert_eq!(known, ours, "{program}");
        let plain = flags.iter().filter(|(_, flag)| *flag == Flag::Plain);
        for (name, _) in plain {
            let argument =
                command.get_arguments().find(|argument| argument.get_long() == Some(*name)).unwrap();
            assert!(!argument.get_action().takes_values(), "{program} --{name} has a value");
        }
    }
}

fn takes(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let within = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.into_iter().all(|(key, value)| labels[key] == *value)
        && within.into_iter().all(|one| {
            assert_eq!(one["operator"], "In");
            one["values"].as_array().unwrap().contains(&labels[one["key"].as_str().unwrap()])
        })
}

/// The rules of the policies for a pod with these labels; nothing, if no policy is about it.
fn rules(labels: &Value) -> Option<Vec<Value>> {
    let policies = installed(&wishes()).into_iter().filter(|object| object["kind"] == "NetworkPolicy");
    let ours: Vec<Value> = policies.filter(|policy| takes(&policy["spec"]["podSelector"], labels)).collect();
    let rules = ours.iter().flat_map(|policy| policy["spec"]["ingress"].as_array().unwrap().clone());
    (!ours.is_empty()).then(|| rules.collect())
}

/// The doors of a pod with these labels, without ranges of ports; nothing, if no policy is about it, and all doors are open.
fn doors(labels: &Value) -> Option<Doors> {
    let mut doors = Doors::new();
    for rule in rules(labels)? {
        for port in rule["ports"].as_array().unwrap() {
            if port["endPort"].is_number() {
                continue;
            }
            assert_eq!(port["protocol"], "TCP");
            *doors.entry(port["port"].as_u64().unwrap()).or_default() |= rule["from"].is_null();
        }
    }
    Some(doors)
}

/// The target of a migration listens on ports that the kernel chooses. Its source is another virt-handler, and no other pod may
/// come.
#[test]
fn the_ports_of_migrations_are_open_between_virt_handlers_alone() {
    for (name, labels, _) in pods() {
        let rules = rules(&labels).unwrap();
        let ranges = rules.iter().filter(|rule| rule["ports"][0]["endPort"].is_number());
        let ranges: Vec<&Value> = ranges.collect();
        let handlers = json!({
            "from": [{"podSelector": {"matchLabels": {"kubevirt.io": "virt-handler"}}}],
            "ports": [{"port": 1024, "endPort": 65535, "protocol": "TCP"}],
        });
        let expected = if name == "virt-handler" { vec![&handlers] } else { vec![] };
        assert_eq!(ranges, expected, "{name}");
    }
}

#[test]
fn what_listens_can_be_reached_and_nothing_else() {
    let all = pods();
    assert_eq!(all.len(), 4);
    for (name, labels, spec) in all {
        assert!(spec["hostNetwork"].is_null(), "{name}: no policy holds what is on its node's network");
        let containers = spec["containers"].as_array().unwrap();
        let ports = containers.iter().flat_map(|one| one["ports"].as_array().unwrap());
        let said: BTreeSet<u64> = ports.map(|port| port["containerPort"].as_u64().unwrap()).collect();
        assert_eq!(said, listens(&name), "{name}: its pod says other ports than its command line");
        let doors = doors(&labels).unwrap_or_else(|| panic!("{name}: no policy is about it"));
        assert_eq!(doors.keys().copied().collect::<BTreeSet<_>>(), said, "{name}");
        let open: Vec<u64> = doors.into_iter().filter(|(_, all)| *all).map(|(port, _)| port).collect();
        let of_all: &[u64] = if ["virt-api", "cdi-uploadproxy"].contains(&&*name) { &[8443] } else { &[] };
        assert_eq!(open, of_all, "{name}: all may come there");
    }
    let launcher = json!({"kubevirt.io": "virt-launcher"});
    assert_eq!(doors(&launcher), None, "launchers are their owners'");
}

/// The API server goes by the webhook configuration to the service, and by that to a port of a pod.
#[test]
fn the_webhooks_lead_to_an_open_door() {
    let wishes = wishes();
    let target = WebhookTarget { namespace: &wishes.namespace, bundle: "", segment: None };
    let hooks = configuration(false, false, &target);
    let to = &hooks[0]["clientConfig"]["service"];
    let service = service(hooks[0]["clientConfig"]["service"]["name"].as_str().unwrap());
    assert_eq!(
        (&service["metadata"]["name"], &service["metadata"]["namespace"]),
        (&to["name"], &to["namespace"])
    );
    let port = &service["spec"]["ports"][0];
    assert_eq!(port["port"], to["port"]);
    let behind = behind(&service);
    assert_eq!(behind.len(), 1);
    let (_, labels, port) = &behind[0];
    assert!(doors(labels).unwrap()[port], "{port}");
}

/// Monitors look for this service, and for pods with its labels and a port of its name.
#[test]
fn monitors_find_every_program() {
    let service = service("kubevirt-prometheus-metrics");
    assert_eq!(service["metadata"]["labels"]["prometheus.kubevirt.io"], "true");
    assert_eq!(service["spec"]["selector"], json!({"prometheus.kubevirt.io": "true"}));
    let port = &service["spec"]["ports"][0];
    assert_eq!((&port["name"], &port["port"]), (&json!("metrics"), &json!(443)));
    let found: Vec<(String, u64)> =
        behind(&service).into_iter().map(|(name, _, port)| (name, port)).collect();
    let all = ["virt-controller", "virt-api", "cdi-uploadproxy", "virt-handler"]
        .map(|name| (name.to_owned(), 8443));
    assert_eq!(found, all);
}

/// The kubelet asks by TLS, where a program listens.
#[test]
fn probes_ask_where_a_program_listens() {
    for (name, _, spec) in pods() {
        let container = &spec["containers"][0];
        for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            let asks = &container[probe]["httpGet"];
            assert_eq!((&asks["scheme"], &asks["path"]), (&json!("HTTPS"), &json!(path)), "{name}");
            assert_eq!(asks["port"], container["ports"][0]["name"], "{name}");
        }
    }
}

fn service(name: &str) -> Value {
    let mut all = installed(&wishes()).into_iter().filter(|object| object["kind"] == "Service");
    all.find(|object| object["metadata"]["name"] == name).unwrap_or_else(|| panic!("no service {name}"))
}

/// The pods that a service leads to: their program, their labels, the port.
fn behind(service: &Value) -> Vec<(String, Value, u64)> {
    let selector = json!({"matchLabels": service["spec"]["selector"]});
    let to = &service["spec"]["ports"][0]["targetPort"];
    let found = pods().into_iter().filter(|(_, labels, _)| takes(&selector, labels));
    found
        .map(|(name, labels, spec)| {
            let ports = spec["containers"][0]["ports"].as_array().unwrap();
            let port = ports.iter().find(|one| one["name"] == *to).unwrap();
            (name, labels, port["containerPort"].as_u64().unwrap())
        })
        .collect()
}

/// A program that listens on another port must have a command-line flag for it, and an entry here.
#[test]
fn nobody_else_listens() {
    let calls = ["TcpListener::bind(", "TcpSocket::new", "UdpSocket::bind("];
    let found = crate::sources::that(|text| calls.iter().any(|call| text.contains(call)));
    // A client's socket, which UDP requires. It is connected to its guest, and then receives from no other
    // address.
    let client = "virt-api/subresources/src/ports.rs";
    let listens = "serve/src/transport/mod.rs";
    // For one source, with a certificate of its own.
    let migration = "virt-handler/src/migration/target.rs";
    assert_eq!(found, BTreeSet::from([client, listens, migration].map(str::to_owned)));
}
