//! The environment of virt-api, and the honest user.

use crate::authority::Authority;
use crate::client::{Answer, Client, Connection, VIRT_API, answer, head, say};
use crate::program::Program;
use crate::virt_handler::{HANDLER, VirtHandler};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_model::objects::{AGGREGATION, AUTHORITY, BUNDLE};
use cluster_model::servers::API;
use cluster_model::webhook_paths::FIELD;
use kit::ApiServer;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use serde_json::json;
use std::time::Instant;

/// The user with all rights.
pub(crate) const ANN: &str = "ann";
pub(crate) const SUBRESOURCES: &str = "/apis/subresources.kubevirt.io/v1/namespaces/n";
pub(crate) const VM: &str = "/apis/kubevirt.io/v1/namespaces/n/virtualmachines/web";
/// Segments of webhook paths: the next one, the used one, and the former one.
pub(crate) const SEGMENTS: [&str; 3] = [
    "00000000000000000000000000000aaa",
    "00000000000000000000000000000bbb",
    "00000000000000000000000000000ccc",
];
/// Common name in the aggregator's certificate.
pub(crate) const AGGREGATOR: &str = "front-proxy-client";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/kubevirt/endpointslices/virt-handler-1";

pub(crate) struct Scene {
    pub(crate) api: ApiServer,
    /// CA of our own programs.
    pub(crate) ours: Authority,
    /// CA of the aggregator.
    pub(crate) front: Authority,
    pub(crate) handler: VirtHandler,
    pub(crate) program: Program,
}

impl Scene {
    pub(crate) async fn begin() -> Scene {
        serve::transport::raise().unwrap();
        let (ours, front) = (Authority::new(), Authority::new());
        let api = ApiServer::default();
        api.permits(|spec| spec["user"] == ANN);
        let handler = VirtHandler::begin(&ours, &ours.signs(HANDLER, &[ServerAuth])).await;
        shows(&api, &ours);
        api.put(&bundle(), json!({"data": {BUNDLE: ours.pem}}));
        believes(&api, &front);
        api.put(
            SLICE,
            json!({
                "metadata": {"labels": {"kubernetes.io/service-name": "virt-handler"}},
                "ports": [{"name": "https", "port": handler.port, "protocol": "TCP"}],
                "endpoints": [{"addresses": ["127.0.0.1"], "nodeName": "node1", "conditions": {"ready": true}}],
            }),
        );
        let program = Program::begin(&api.listen().await, ours.roots()).await;
        Scene { api, ours, front, handler, program }
    }

    /// The API server's aggregator as a client.
    pub(crate) fn aggregator(&self) -> Client {
        Client::new(self.program.address, self.ours.roots(), Some(&self.front.client(AGGREGATOR)))
    }

    /// A client without a certificate.
    pub(crate) fn stranger(&self) -> Client {
        Client::new(self.program.address, self.ours.roots(), None)
    }

    /// Creates a running VMI of this name.
    pub(crate) fn runs(&self, name: &str) {
        let vmi = json!({
            "metadata": {"uid": format!("uid-of-{name}")},
            "spec": {"domain": {"devices": {}}},
            "status": {"phase": "Running", "nodeName": "node1"},
        });
        self.api.put(&format!("/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstances/{name}"), vmi);
    }

    /// The same, with a guest at this address.
    pub(crate) fn runs_at(&self, name: &str, address: std::net::IpAddr) {
        let vmi = json!({
            "metadata": {"uid": format!("uid-of-{name}")},
            "spec": {"domain": {"devices": {"interfaces": [{"name": "default", "masquerade": {}}]}}},
            "status": {
                "phase": "Running", "nodeName": "node1",
                "interfaces": [{"name": "default", "ipAddress": address.to_string()}],
            },
        });
        self.api.put(&format!("/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstances/{name}"), vmi);
    }

    /// Creates a halted VM.
    pub(crate) fn halts(&self) {
        self.api.put(VM, json!({"spec": {"runStrategy": "Halted", "template": {"spec": {"domain": {}}}}}));
    }

    /// Starts a VM as an honest user, and asserts the effect. Prints the occasion and the time that it took.
    pub(crate) async fn start(&self, among: &str) {
        self.halts();
        let since = Instant::now();
        let text = head("PUT", &format!("{SUBRESOURCES}/virtualmachines/web/start"), ANN, "");
        let (answer, _) = self.aggregator().says(&text).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""), "among {among}");
        eprintln!(
            "among {among}: start was answered within {:.1} ms",
            since.elapsed().as_secs_f64() * 1000.0
        );
        assert_eq!(self.api.object(VM).unwrap()["spec"]["runStrategy"], "Always");
    }

    /// Sends this as the aggregator, on a new connection.
    pub(crate) async fn says(&self, text: &str) -> Answer {
        self.aggregator().says(text).await.0
    }

    /// Sends this as the aggregator, as far as it is accepted. Returns the response, or the bytes until the
    /// end of the connection.
    pub(crate) async fn sends(&self, bytes: &[u8]) -> (Option<Answer>, Connection) {
        let mut connection = self.aggregator().connect().await;
        let _ = say(&mut connection, bytes).await;
        (answer(&mut connection).await.ok(), connection)
    }
}

pub(crate) fn bundle() -> String {
    format!("/api/v1/namespaces/kubevirt/configmaps/{AUTHORITY}")
}

/// Gives virt-api a certificate of this CA.
pub(crate) fn shows(api: &ApiServer, authority: &Authority) {
    let path = format!("/api/v1/namespaces/kubevirt/secrets/{}", API.secret);
    let mut secret = authority.signs(VIRT_API, &[ServerAuth, ClientAuth]).secret();
    secret["data"][FIELD] = json!(STANDARD.encode(SEGMENTS.join("\n")));
    api.put(&path, secret);
}

/// Gives the aggregator a certificate of this CA.
pub(crate) fn believes(api: &ApiServer, authority: &Authority) {
    let (namespace, name) = AGGREGATION;
    let list = |names: &[&str]| json!(names).to_string();
    let data = json!({
        "requestheader-client-ca-file": authority.pem,
        "requestheader-allowed-names": list(&[AGGREGATOR]),
        "requestheader-username-headers": list(&["X-Remote-User"]),
        "requestheader-group-headers": list(&["X-Remote-Group"]),
        "requestheader-uid-headers": list(&["X-Remote-Uid"]),
        "requestheader-extra-headers-prefix": list(&["X-Remote-Extra-"]),
    });
    api.put(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}"), json!({"data": data}));
}
