//! Servers of our programs: Services, the port, and the Secrets with their certificates.
//!
//! virt-controller issues the certificates and registers virt-api with the API server ([`api_service`], and
//! [`webhooks`](crate::webhooks)), each program presents its own certificate, and the installed Services
//! point to them.

use crate::objects::{API_CERTIFICATE, CONTROLLER_CERTIFICATE, HANDLER_CERTIFICATE};
use crate::uploads;
use serde_json::{Value, json};

/// Port of each program, for clients, the API server, the kubelet and Prometheus.
pub const PORT: u16 = 8443;
/// The Service of virt-api, and its port.
pub const SERVICE: (&str, u16) = ("virt-api", 443);
/// The headless Service of virt-handler. virt-api finds the virt-handler of a node in its EndpointSlices.
pub const HANDLERS: &str = "virt-handler";

/// A program with a server certificate.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// Name in the certificate, which for virt-api is the name of its Service.
    pub program: &'static str,
    /// Secret with the certificate and its key. Each program has its own, so that none can use another's key.
    pub secret: &'static str,
    /// The certificate is also a client certificate, for requests to our other programs.
    pub is_client: bool,
    /// Our other programs connect to it, and present their client certificate.
    pub is_asked_by_us: bool,
}

/// virt-api, which the API server connects to.
pub const API: Server =
    Server { program: SERVICE.0, secret: API_CERTIFICATE, is_client: true, is_asked_by_us: false };
pub const CONTROLLER: Server = Server {
    program: "virt-controller",
    secret: CONTROLLER_CERTIFICATE,
    is_client: false,
    is_asked_by_us: false,
};
/// virt-handler. All nodes share one certificate, so it must not grant access to the virt-handler of another
/// node.
pub const HANDLER: Server =
    Server { program: "virt-handler", secret: HANDLER_CERTIFICATE, is_client: false, is_asked_by_us: true };
/// cdi-uploadproxy. As a client of upload pods it presents another certificate, of another CA.
pub const PROXY: Server = Server {
    program: uploads::PROXY,
    secret: uploads::PROXY_CERTIFICATE,
    is_client: false,
    is_asked_by_us: false,
};
pub const SERVERS: [Server; 4] = [API, CONTROLLER, HANDLER, PROXY];
/// The Service by which Prometheus finds all programs.
pub const MEASURES: &str = "kubevirt-prometheus-metrics";

/// The spec of the APIService for a version of a group. `namespace` is that of the installation, and `bundle`
/// the CA bundle of virt-api. Defaults are written out, so that the API server stores the spec unchanged.
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
