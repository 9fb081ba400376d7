//! How our programs are reached: the services, the port, and the secret with the certificate that each shows.
//!
//! virt-controller makes the certificates, each program shows its own, and what is installed leads to them.

use crate::objects::{API_CERTIFICATE, CONTROLLER_CERTIFICATE, HANDLER_CERTIFICATE};

/// Where each program listens: one port for whoever asks, the API server, the kubelet and monitors.
pub const PORT: u16 = 8443;
/// The service that leads the API server to virt-api, and its port.
pub const SERVICE: (&str, u16) = ("virt-api", 443);

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
/// All of them.
pub const SERVERS: [Server; 3] = [API, CONTROLLER, HANDLER];
/// The service by which monitors find all programs.
pub const MEASURES: &str = "kubevirt-prometheus-metrics";
