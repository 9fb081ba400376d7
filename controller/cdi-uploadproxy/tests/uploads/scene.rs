//! Environment of cdi-uploadproxy, and a well-behaved client.

use crate::authority::{Authority, Identity};
use crate::client::{Client, PROXY, head};
use crate::pod::{PODS, Pod};
use crate::program::Program;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_model::servers;
use cluster_model::uploads::{BUNDLE, CLIENT_NAME, CONTENT_TYPE, POD_PHASE, POD_READY, PUBLIC_KEY, TARGET};
use jiff::{SignedDuration, Timestamp};
use kit::ApiServer;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use serde_json::{Value, json};
use serve::token::{Claims, Pair, sign};

pub(crate) const KEY: &[u8] = include_bytes!("../../../serve/src/token/one.pem");
pub(crate) const PUBLIC: &[u8] = include_bytes!("../../../serve/src/token/one.pub.pem");
pub(crate) const OTHER_KEY: &[u8] = include_bytes!("../../../serve/src/token/other.pem");
pub(crate) const OTHER_PUBLIC: &[u8] = include_bytes!("../../../serve/src/token/other.pub.pem");

pub(crate) struct Scene {
    pub(crate) api: ApiServer,
    pub(crate) pod: Pod,
    pub(crate) program: Program,
    pub(crate) client: Client,
}

/// Certificate authorities.
pub(crate) struct Authorities {
    /// Authority of our programs.
    pub(crate) ours: Authority,
    /// Authority of upload pods.
    pub(crate) pods: Authority,
    /// Authority of the clients of upload pods.
    pub(crate) clients: Authority,
}

impl Authorities {
    pub(crate) fn new() -> Authorities {
        Authorities { ours: Authority::new(), pods: Authority::new(), clients: Authority::new() }
    }
}

impl Scene {
    /// Starts with a PVC `disk` in namespace `n` that accepts an upload. The pod keeps the bodies.
    pub(crate) async fn begin() -> Scene {
        Scene::keeping(true).await
    }

    pub(crate) async fn keeping(keeps: bool) -> Scene {
        Scene::saying(keeps, &[]).await
    }

    /// Starts with further arguments of the proxy.
    pub(crate) async fn saying(keeps: bool, more: &[&str]) -> Scene {
        let all = Authorities::new();
        let pod = Pod::begin(&all.pods.signs(PODS, &[ServerAuth]), &all.clients, keeps).await;
        Scene::with_words(&all, pod, more).await
    }

    pub(crate) async fn with(all: &Authorities, pod: Pod) -> Scene {
        Scene::with_words(all, pod, &[]).await
    }

    async fn with_words(all: &Authorities, pod: Pod, more: &[&str]) -> Scene {
        let api = ApiServer::default();
        let certificate = format!("/api/v1/namespaces/kubevirt/secrets/{}", servers::PROXY.secret);
        api.put(&certificate, all.ours.signs(PROXY, &[ServerAuth]).secret());
        let shows = all.clients.signs(CLIENT_NAME, &[ClientAuth]);
        let files = vec![
            ("keys", PUBLIC_KEY, PUBLIC.to_vec()),
            ("client", "tls.crt", pem(&shows, "tls.crt")),
            ("client", "tls.key", pem(&shows, "tls.key")),
            ("authorities", BUNDLE, all.pods.pem.clone().into_bytes()),
        ];
        let program = Program::begin(&api.listen().await, pod.address, files, all.ours.roots(), more).await;
        let client = Client::new(program.address, all.ours.roots());
        let scene = Scene { api, pod, program, client };
        scene.pvc("disk", &[(POD_READY, "true"), (POD_PHASE, "Running")]);
        scene
    }

    /// Adds a PVC of this name that is the target of an upload, with these annotations.
    pub(crate) fn pvc(&self, name: &str, annotations: &[(&str, &str)]) {
        let mut all = json!({TARGET: "", CONTENT_TYPE: "kubevirt"});
        for (key, value) in annotations {
            all[*key] = json!(value);
        }
        self.has(name, &all);
    }

    /// Adds a PVC with these annotations alone.
    pub(crate) fn has(&self, name: &str, annotations: &Value) {
        let path = format!("/api/v1/namespaces/n/persistentvolumeclaims/{name}");
        self.api.put(&path, json!({"metadata": {"annotations": annotations}}));
    }

    /// Head of a request for the PVC `disk`.
    pub(crate) fn head(&self, method: &str, path: &str, more: &str) -> String {
        head(method, path, &token("disk"), more)
    }
}

/// A token for a PVC in namespace `n`.
pub(crate) fn token(pvc: &str) -> String {
    by(KEY, &Claims::upload("n", pvc, Timestamp::now()))
}

/// A token with these claims, signed by this key.
pub(crate) fn by(key: &[u8], claims: &Claims) -> String {
    sign(&Pair::read(key).unwrap(), claims).unwrap()
}

/// Time of this many seconds ago.
pub(crate) fn ago(seconds: i64) -> Timestamp {
    Timestamp::now().checked_sub(SignedDuration::from_secs(seconds)).unwrap()
}

/// Bytes that differ from offset to offset.
pub(crate) fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

fn pem(identity: &Identity, name: &str) -> Vec<u8> {
    STANDARD.decode(identity.secret()["data"][name].as_str().unwrap()).unwrap()
}
