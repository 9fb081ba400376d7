//! Names used for uploads, shared by virt-controller, which creates an upload pod for each PVC; virt-api,
//! which signs tokens; and cdi-uploadproxy, which passes a client's bytes on to the pod.
//!
//! ```text
//!  client ──token──► cdi-uploadproxy ──client certificate──► upload pod of the PVC ──► disk
//!              ▲ signed by virt-api         ▲ signed by CLIENT_SIGNER    ▲ has a certificate signed by SERVER_SIGNER
//! ```

/// The value of the label `cdi.kubevirt.io` of an upload pod, its Service and its Secret.
pub const WORK: &str = "cdi-upload-server";
/// The container of an upload pod.
pub const CONTAINER: &str = "cdi-upload-server";
/// Name prefix of upload pods, their Services and their Secrets.
pub const UPLOADER: &str = "cdi-upload-";
/// The label with the uid of the PVC that an upload pod fills.
pub const TARGET_LABEL: &str = "cdi.kubevirt.io/uploadTarget";
/// The label by which the Service of an upload pod selects it: its value is the name of the Service.
pub const SERVICE_LABEL: &str = "service";
/// Mount path of an upload pod's certificate, its key, and the CA bundle of its clients.
pub const TLS_FOLDER: &str = "/etc/tls";
/// Common name of the client that upload pods accept.
pub const CLIENT_NAME: &str = "client.upload-server.cdi.kubevirt.io";

pub use api::cdi::annotations::{CONTENT_TYPE, POD_NAME, POD_PHASE, POD_READY, TARGET};

/// The Secret with the CA of the upload pods' certificates, and the ConfigMap with the valid CAs.
pub const SERVER_SIGNER: (&str, &str) = ("cdi-uploadserver-signer", "cdi-uploadserver-signer-bundle");
/// The Secret with the CA of the client certificate, and the ConfigMap with the valid CAs.
pub const CLIENT_SIGNER: (&str, &str) =
    ("cdi-uploadserver-client-signer", "cdi-uploadserver-client-signer-bundle");
/// The key of the CA bundle in these ConfigMaps.
pub const BUNDLE: &str = "ca-bundle.crt";
/// The Secret with the client certificate of cdi-uploadproxy.
pub const CLIENT_CERTIFICATE: &str = "cdi-uploadserver-client-cert";
/// The Secret with the server certificate of cdi-uploadproxy.
pub const PROXY_CERTIFICATE: &str = "cdi-uploadproxy-server-cert";
/// The name of the Deployment and of the Service of the proxy.
pub const PROXY: &str = "cdi-uploadproxy";
/// The Secret with the key that signs upload tokens, and the ConfigMap with the valid public keys.
pub const SIGNING_KEY: &str = "cdi-api-signing-key";
/// The private key, in PEM, in the Secret.
pub const PRIVATE_KEY: &str = "id_rsa";
/// The public key, in PEM. The Secret has that of the private key, the ConfigMap all valid ones.
pub const PUBLIC_KEY: &str = "id_rsa.pub";
/// Prefix of the Secret's keys for the next key pair, while its public key is distributed.
pub const NEXT: &str = "next.";
/// Annotation with a time: on the Secret, the start of signing with its key; on the ConfigMap, the
/// publication of its keys.
pub const SINCE: &str = "cdi.kubevirt.io/keys-since";
