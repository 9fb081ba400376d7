//! How our programs are reached: the services, the port, and the secret with the certificate that each shows.
//!
//! virt-controller makes the certificates and leads the API server to virt-api ([`api_service`], and
//! [`webhooks`](crate::webhooks)), each program shows its own certificate, and what is installed leads to them.

use crate::objects::{API_CERTIFICATE, CONTROLLER_CERTIFICATE, HANDLER_CERTIFICATE};
use crate::uploads;
use serde_json::{Value, json};

/// Where each program listens: one port for whoever asks, the API server, the kubelet and monitors.
pub const PORT: u16 = 8443;
/// The service that leads the API server to virt-api, and its port.
pub const SERVICE: (&str, u16) = ("virt-api", 443);
/// The headless service of virt-handler: by its EndpointSlices virt-api finds the virt-handler of a node.
pub const HANDLERS: &str = "virt-handler";

/// A program that shows a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// Its name, which its certificate has too: for virt-api that is the name of its service.
    pub program: &'static str,
    /// The secret with its certificate and the key: one for each, so that none has another's.
    pub secret: &'static str,
    /// Whether its certificate is one for clients too: it asks other programs of ours.
    pub is_client: bool,
    /// Whether other programs of ours ask it, and show their certificate.
    pub is_asked_by_us: bool,
}

/// virt-api, which the API server asks.
pub const API: Server =
    Server { program: SERVICE.0, secret: API_CERTIFICATE, is_client: true, is_asked_by_us: false };
/// virt-controller.
pub const CONTROLLER: Server = Server {
    program: "virt-controller",
    secret: CONTROLLER_CERTIFICATE,
    is_client: false,
    is_asked_by_us: false,
};
/// virt-handler: the same on every node, so that its certificate must open no door to another node's.
pub const HANDLER: Server =
    Server { program: "virt-handler", secret: HANDLER_CERTIFICATE, is_client: false, is_asked_by_us: true };
/// cdi-uploadproxy. As a client of upload pods it shows another certificate, of another authority.
pub const PROXY: Server = Server {
    program: uploads::PROXY,
    secret: uploads::PROXY_CERTIFICATE,
    is_client: false,
    is_asked_by_us: false,
};
/// All of them.
pub const SERVERS: [Server; 4] = [API, CONTROLLER, HANDLER, PROXY];
/// The service by which monitors find all programs.
pub const MEASURES: &str = "kubevirt-prometheus-metrics";

/// The spec of the APIService for a version of a group, of an installation in `namespace` whose certificate `bundle`
/// vouches for. What the API server would fill in is written out, so that what it keeps is what was written.
pub fn api_service(group: &str, version: &str, namespace: &str, bundle: &str) -> Value {
    json!({
        "group": group,
        "version": version,
        "service": {"namespace": namespace, "name": SERVICE.0, "port": SERVICE.1},
        "caBundle": bundle,
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_service_leads_to_virt_api_and_believes_nobody_else() {
        let spec = api_service("subresources.kubevirt.io", "v1", "here", "QQ==");
        assert_eq!((&spec["group"], &spec["version"]), (&json!("subresources.kubevirt.io"), &json!("v1")));
        assert_eq!(spec["service"], json!({"namespace": "here", "name": "virt-api", "port": 443}));
        assert_eq!((&spec["caBundle"], &spec["insecureSkipTLSVerify"]), (&json!("QQ=="), &Value::Null));
        assert_eq!(
            (&spec["groupPriorityMinimum"], &spec["versionPriority"]),
            (&json!(1000), &json!(15)),
            "as upstream has them"
        );
    }
}
