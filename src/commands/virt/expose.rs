//! The verb `expose`.

use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::target::name;
use cluster_model::objects::{Kind, names};
use serde_json::{Map, Value, json};

/// Create a Service for a port of a VM, VMI or VMI replica set
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    coracle virt expose vm web --name web-ssh --port 22 --type NodePort")]
pub(super) struct Args {
    /// Type of the object: vm, vmi or vmirs
    #[arg(value_name = "TYPE")]
    kind: String,

    /// Name of the object
    #[arg(value_name = "NAME", value_parser = name)]
    object: String,

    /// Name of the Service
    #[arg(long = "name", value_name = "NAME", value_parser = name)]
    service: String,

    /// Port of the Service [default: the ports of the pod network]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Port of the guest, as a number or a name [default: that of the Service]
    #[arg(long, value_name = "PORT")]
    target_port: Option<String>,

    /// Name of the port
    #[arg(long, value_name = "NAME")]
    port_name: Option<String>,

    /// Protocol of the port: TCP or UDP
    #[arg(long, value_name = "PROTOCOL", default_value = "TCP", value_parser = protocol)]
    protocol: String,

    /// Type of the Service: ClusterIP, NodePort or LoadBalancer
    #[arg(long = "type", value_name = "TYPE", default_value = "ClusterIP", value_parser = service_type)]
    service_type: String,

    /// IP address of the Service; None for a headless Service [default: one
    /// of the cluster's choice]
    #[arg(long, value_name = "ADDRESS")]
    cluster_ip: Option<String>,

    /// External IP address that leads to the Service, too
    #[arg(long, value_name = "ADDRESS")]
    external_ip: Option<String>,

    /// IP families of the Service: IPv4, IPv6, or both, separated by a comma
    #[arg(long, value_name = "FAMILIES", value_delimiter = ',', value_parser = family)]
    ip_family: Vec<String>,

    /// IP family policy of the Service: SingleStack, PreferDualStack or
    /// RequireDualStack
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    ip_family_policy: Option<String>,
}

fn protocol(text: &str) -> Result<String, String> {
    word(text, &["TCP", "UDP"])
}

fn service_type(text: &str) -> Result<String, String> {
    word(text, &["ClusterIP", "NodePort", "LoadBalancer"])
}

fn family(text: &str) -> Result<String, String> {
    word(text, &["IPv4", "IPv6"])
}

fn policy(text: &str) -> Result<String, String> {
    word(text, &["SingleStack", "PreferDualStack", "RequireDualStack"])
}

/// Finds one of these words, whatever the case of its letters.
fn word(text: &str, words: &[&str]) -> Result<String, String> {
    let found = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    found.map(|word| (*word).to_owned()).ok_or_else(|| format!("say {}", words.join(" or ")))
}

pub(super) async fn run(args: &Args, cluster: &Cluster) -> Result<()> {
    let word = args.kind.to_lowercase();
    let kind = match word.as_str() {
        word if crate::virt::target::is_replica_set(word) => Kind::VirtualMachineInstanceReplicaSet,
        other => crate::virt::target::kind(other)
            .map_err(|_| Error::new(ErrorKind::Usage, format!("unsupported resource type: {word}")))?,
    };
    let what = super::args::doing("expose", kind, &args.object, cluster);
    let object = cluster.object(kind, &args.object, &what).await?;
    let service = service(args, kind, &object)?;
    let done = cluster.post(&Kind::Service.collection(cluster.namespace()), &service).await;
    done.map_err(|e| e.into_error(&format!("{what}: service creation failed")))?;
    ui::out(&format!("Service {} successfully created for {word} {}\n", args.service, args.object))
}

/// The Service. The object owns it, so that both are deleted together.
fn service(args: &Args, kind: Kind, object: &Value) -> Result<Value> {
    let refused = |what: &str| Error::refused(format!("cannot expose {kind} {}: {what}", args.object));
    let name = object["metadata"]["name"].as_str().unwrap_or(&args.object);
    let selector = match kind {
        Kind::VirtualMachineInstanceReplicaSet => {
            let selector = &object["spec"]["selector"];
            if selector["matchExpressions"].as_array().is_some_and(|list| !list.is_empty()) {
                return Err(refused("cannot expose VirtualMachineInstanceReplicaSet with match expressions"));
            }
            let labels = selector["matchLabels"].as_object().filter(|labels| !labels.is_empty());
            let labels = labels.ok_or_else(|| {
                refused("cannot expose VirtualMachineInstanceReplicaSet without any selector labels")
            })?;
            Value::Object(labels.clone())
        }
        _ => json!({"vmi.kubevirt.io/id": names::vmi_id(name)}),
    };
    let ports = match args.port {
        Some(port) => json!([port_of(args, port)]),
        None => {
            let spec = if kind == Kind::VirtualMachineInstance {
                &object["spec"]
            } else {
                &object["spec"]["template"]["spec"]
            };
            ports_of(spec).ok_or_else(|| {
                refused("couldn't find port via --port flag or introspection").with_hint("say --port")
            })?
        }
    };
    let mut spec = json!({"selector": selector, "ports": ports, "type": args.service_type});
    let mut set = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            spec[field] = value;
        }
    };
    set("clusterIP", args.cluster_ip.as_ref().map(|ip| json!(ip)));
    set("externalIPs", args.external_ip.as_ref().map(|ip| json!([ip])));
    set("ipFamilies", (!args.ip_family.is_empty()).then(|| json!(args.ip_family)));
    let both = (args.ip_family.len() > 1).then(|| "PreferDualStack".to_owned());
    set("ipFamilyPolicy", args.ip_family_policy.clone().or(both).map(|policy| json!(policy)));
    let owner = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "name": name,
        "uid": object["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": false,
    });
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": args.service, "ownerReferences": [owner]},
        "spec": spec,
    }))
}

fn port_of(args: &Args, port: u16) -> Value {
    let mut made = Map::new();
    made.insert("port".to_owned(), json!(port));
    made.insert("protocol".to_owned(), json!(args.protocol));
    if let Some(name) = &args.port_name {
        made.insert("name".to_owned(), json!(name));
    }
    if let Some(target) = &args.target_port {
        let number = target.parse::<u16>().map(|number| json!(number));
        made.insert("targetPort".to_owned(), number.unwrap_or_else(|_| json!(target)));
    }
    Value::Object(made)
}

/// Ports of the interface in the pod network.
fn ports_of(spec: &Value) -> Option<Value> {
    let network = spec["networks"].as_array()?.iter().find(|network| network["pod"].is_object())?;
    let interfaces = spec["domain"]["devices"]["interfaces"].as_array()?;
    let interface = interfaces.iter().find(|interface| interface["name"] == network["name"])?;
    let ports = interface["ports"].as_array().filter(|ports| !ports.is_empty())?;
    let made = ports.iter().enumerate().map(|(at, port)| {
        let protocol = port["protocol"].as_str().filter(|protocol| !protocol.is_empty());
        json!({"name": format!("port-{}", at + 1), "protocol": protocol.unwrap_or("TCP"), "port": port["port"]})
    });
    Some(made.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches as _};

    fn args(line: &str) -> Args {
        let command = Args::augment_args(clap::Command::new("expose"));
        Args::from_arg_matches(&command.get_matches_from(line.split_whitespace())).unwrap()
    }

    fn vm() -> Value {
        json!({
            "metadata": {"name": "web", "uid": "u1"},
            "spec": {"template": {"spec": {
                "networks": [{"name": "a", "multus": {}}, {"name": "b", "pod": {}}],
                "domain": {"devices": {"interfaces": [
                    {"name": "a", "ports": [{"port": 1}]},
                    {"name": "b", "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]},
                ]}},
            }}},
        })
    }

    #[test]
    fn a_port_that_is_named_is_exposed() {
        let line = "expose vm web --name s --port 80 --target-port http --protocol udp --type nodeport \
                    --ip-family ipv4,ipv6 --external-ip 192.0.2.1 --cluster-ip None --port-name p";
        let made = service(&args(line), Kind::VirtualMachine, &vm()).unwrap();
        assert_eq!(
            made,
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "s", "ownerReferences": [{
                    "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web", "uid": "u1",
                    "controller": true, "blockOwnerDeletion": false,
                }]},
                "spec": {
                    "selector": {"vmi.kubevirt.io/id": "web"},
                    "ports": [{"port": 80, "protocol": "UDP", "targetPort": "http", "name": "p"}],
                    "type": "NodePort", "clusterIP": "None", "externalIPs": ["192.0.2.1"],
                    "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack",
                },
            })
        );
        let number = service(
            &args("expose vm web --name s --port 80 --target-port 8080"),
            Kind::VirtualMachine,
            &vm(),
        );
        assert_eq!(
            number.unwrap()["spec"]["ports"],
            json!([{"port": 80, "protocol": "TCP", "targetPort": 8080}])
        );
    }

    #[test]
    fn without_a_port_those_of_the_pod_network_are() {
        let made = service(&args("expose vm web --name s"), Kind::VirtualMachine, &vm()).unwrap();
        let wanted = json!([
            {"name": "port-1", "protocol": "TCP", "port": 80},
            {"name": "port-2", "protocol": "UDP", "port": 53},
        ]);
        assert_eq!(made["spec"]["ports"], wanted);
        let none = service(&args("expose vm web --name s"), Kind::VirtualMachine, &json!({})).unwrap_err();
        assert!(none.to_string().contains("say --port"), "{none}");
    }

    #[test]
    fn a_replica_set_lends_its_labels() {
        let with = |selector: Value| json!({"metadata": {"name": "r"}, "spec": {"selector": selector}});
        let args = args("expose vmirs r --name s --port 80");
        let made =
            service(&args, Kind::VirtualMachineInstanceReplicaSet, &with(json!({"matchLabels": {"a": "b"}})))
                .unwrap();
        assert_eq!(made["spec"]["selector"], json!({"a": "b"}));
        assert!(service(&args, Kind::VirtualMachineInstanceReplicaSet, &with(json!({}))).is_err());
        let odd = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c"}]});
        assert!(service(&args, Kind::VirtualMachineInstanceReplicaSet, &with(odd)).is_err());
    }
}
