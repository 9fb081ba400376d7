//! The virt-handler of each node: its address, and a connection to it by mutual TLS.
//!
//! ```text
//!  EndpointSlices of the Service virt-handler ── followed ──► node ─► address and port
//!                                                               └─ open(): TCP ─► TLS, both sides show a certificate
//! ```
//!
//! virt-handler verifies virt-api's client certificate. virt-api verifies virt-handler by the name
//! `virt-handler.NAMESPACE.svc` and our own CA. A node that cannot be reached is named with its address: a
//! network policy or a firewall between the two is the usual reason.

use crate::refusal::{Refusal, Result};
use api::vmi::VirtualMachineInstance;
use cluster_client::watch::{self, WatchMessage};
use cluster_model::objects::{Kind, WatchTarget};
use cluster_model::servers::{HANDLER, PORT};
use futures_util::future::BoxFuture;
use launcher_client::{Cause, Client, Connector, Open};
use rustls::pki_types::ServerName;
use serde_json::Value;
use serve::certificate;
use serve::transport::Authorities;
use serve::transport::tls::{self, CurrentCertificate};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

/// The label of a slice with the name of its Service.
const OF_SERVICE: &str = "kubernetes.io/service-name";
/// Time-out of a connection with its TLS handshake.
const PATIENCE: Duration = Duration::from_secs(5);
/// Capacity of the queue of watch events.
const WAITING: usize = 64;

/// The addresses of all virt-handlers.
pub struct Handlers {
    namespace: String,
    shown: Arc<CurrentCertificate>,
    authorities: Arc<Authorities>,
    /// Addresses by node, for each slice.
    slices: RwLock<BTreeMap<String, BTreeMap<String, SocketAddr>>>,
}

impl Handlers {
    /// No addresses yet; `shown` is the certificate presented to virt-handlers.
    pub fn new(namespace: &str, shown: Arc<CurrentCertificate>) -> Handlers {
        Handlers {
            namespace: namespace.to_owned(),
            shown,
            authorities: Arc::default(),
            slices: RwLock::default(),
        }
    }

    /// Watches the addresses, and the CAs of the virt-handlers' certificates, for ever.
    pub async fn keep(&self, client: kube::Client) {
        let (to, mut seen) = mpsc::channel(WAITING);
        let which = WatchTarget {
            namespace: self.namespace.clone(),
            ..WatchTarget::all(Kind::EndpointSlice, Some(&format!("{OF_SERVICE}={}", HANDLER.program)))
        };
        tokio::join!(
            watch::follow(client.clone(), which, to),
            certificate::follow_authorities(client, &self.namespace, Arc::clone(&self.authorities)),
            async {
                while let Some(event) = seen.recv().await {
                    self.see(event);
                }
            },
        );
    }

    fn see(&self, event: WatchMessage) {
        let mut slices = self.slices.write().unwrap_or_else(PoisonError::into_inner);
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match event {
            WatchMessage::Listed(_, all) => {
                *slices = all.iter().map(|one| (name(one), addresses(one))).collect()
            }
            WatchMessage::Changed(_, one) => drop(slices.insert(name(&one), addresses(&one))),
            WatchMessage::Gone(key, _) => drop(slices.remove(&key.name)),
            // The watch selects no single slice by name.
            WatchMessage::Only(..) => {}
        }
    }

    fn address(&self, node: &str) -> Option<SocketAddr> {
        let slices = self.slices.read().unwrap_or_else(PoisonError::into_inner);
        slices.values().find_map(|nodes| nodes.get(node).copied())
    }

    /// A client of a VMI's launcher, through the virt-handler of its node.
    pub(crate) fn launcher_of(&self, vmi: &VirtualMachineInstance) -> Result<Client> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let node = vmi.status.as_ref().and_then(|status| status.node_name.clone()).unwrap_or_default();
        let Some(address) = self.address(&node) else {
            let why = format!(
                "no virt-handler of node {node:?} is ready: the Service {} in namespace {} has no endpoint there",
                HANDLER.program, self.namespace
            );
            return Err(Refusal::internal(&why));
        };
        let config = tls::client_config(Arc::clone(&self.shown), &self.authorities)
            .map_err(|error| Refusal::internal(&error.chain()))?;
        let name = format!("{}.{}.svc", HANDLER.program, self.namespace);
        let name = ServerName::try_from(name).map_err(|error| Refusal::internal(&error.to_string()))?;
        let door = HandlerDoor { node, address, connector: TlsConnector::from(config), name };
        let meta = &vmi.metadata;
        let (namespace, vmi, uid) = (text(&meta.namespace), text(&meta.name), text(&meta.uid));
        let path = launcher_client::vmi_path(&namespace, &vmi, &uid);
        Ok(Client::new(format!("the launcher of {namespace}/{vmi}"), Arc::new(door)).below(path))
    }
}

/// The ready addresses of a slice, by node, with the port of the Service.
fn addresses(slice: &Value) -> BTreeMap<String, SocketAddr> {
    let ports = slice["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let port = ports.iter().find(|port| port["name"] == "https").and_then(|port| port["port"].as_u64());
    let port = port.and_then(|port| u16::try_from(port).ok()).unwrap_or(PORT);
    let endpoints = slice["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] != false);
    ready
        .filter_map(|endpoint| {
            let node = endpoint["nodeName"].as_str()?;
            let address: IpAddr = endpoint["addresses"][0].as_str()?.parse().ok()?;
            Some((node.to_owned(), SocketAddr::new(address, port)))
        })
        .collect()
}

/// Connector to a virt-handler.
struct HandlerDoor {
    node: String,
    address: SocketAddr,
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Connector for HandlerDoor {
    fn open(&self) -> BoxFuture<'_, std::result::Result<Open, Cause>> {
        Box::pin(async {
            let who = format!("virt-handler of node {} at {}", self.node, self.address);
            let dialled = tokio::time::timeout(PATIENCE, TcpStream::connect(self.address)).await;
            let socket = match dialled {
                Ok(Ok(socket)) => socket,
                Ok(Err(error)) => return Err(format!("cannot reach {who}: {error}").into()),
                Err(_) => {
                    let why =
                        "no answer within 5 s; does a NetworkPolicy or a firewall let virt-api through?";
                    return Err(format!("cannot reach {who}: {why}").into());
                }
            };
            // Key presses are small packets, which Nagle's algorithm would delay.
            socket.set_nodelay(true)?;
            let shaken =
                tokio::time::timeout(PATIENCE, self.connector.connect(self.name.clone(), socket)).await;
            match shaken {
                Ok(Ok(stream)) => Ok(Open { stream: Box::new(stream).into(), peer: () }),
                Ok(Err(error)) => Err(format!("{who} and virt-api do not trust each other: {error}").into()),
                Err(_) => Err(format!("{who} did not finish the TLS handshake within 5 s").into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::objects::Key;
    use serde_json::json;

    fn slice(name: &str, node: &str, address: &str, ready: bool) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "kubevirt"},
            "endpoints": [{"addresses": [address], "nodeName": node, "conditions": {"ready": ready}}],
        })
    }

    fn at(address: &str) -> Option<SocketAddr> {
        address.parse().ok()
    }

    #[test]
    fn the_address_of_a_node_is_the_one_of_its_ready_endpoint() {
        let handlers = Handlers::new("kubevirt", Arc::default());
        let (kind, key) = (Kind::EndpointSlice, Key::new(Kind::EndpointSlice, "kubevirt", "a"));
        handlers.see(WatchMessage::Listed(
            kind,
            vec![slice("a", "node1", "10.0.0.1", true), slice("b", "node2", "fd00::2", false)],
        ));
        assert_eq!(handlers.address("node1"), at("10.0.0.1:8443"));
        assert_eq!(handlers.address("node2"), None);
        handlers.see(WatchMessage::Changed(kind, slice("b", "node2", "fd00::2", true)));
        assert_eq!(handlers.address("node2"), at("[fd00::2]:8443"));
        let mut other = slice("b", "node2", "10.0.0.2", true);
        other["ports"] = json!([{"name": "http", "port": 80}, {"name": "https", "port": 9443}]);
        handlers.see(WatchMessage::Changed(kind, other));
        assert_eq!(handlers.address("node2"), at("10.0.0.2:9443"), "as the Service leads to it");
        handlers.see(WatchMessage::Gone(key, String::new()));
        assert_eq!(handlers.address("node1"), None);
    }

    #[test]
    fn a_node_without_virt_handler_is_named() {
        let handlers = Handlers::new("kubevirt", Arc::default());
        let vmi = api::wire::read(
            json!({"metadata": {"name": "web"}, "spec": {}, "status": {"nodeName": "node9"}}),
        );
        let refused = handlers.launcher_of(&vmi.unwrap()).unwrap_err();
        assert!(
            refused.message.contains("no virt-handler of node \"node9\" is ready"),
            "{}",
            refused.message
        );
    }
}
