//! The names by which uploads are known: to virt-controller, which makes an upload pod for each PVC; to virt-api, which signs
//! tokens; and to cdi-uploadproxy, which passes a client's bytes on to the pod.
//!
//! ```text
//!  client ──token──► cdi-uploadproxy ──client certificate──► upload pod of the PVC ──► disk
//!              ▲ signed by virt-api         ▲ signed by CLIENT_SIGNER    ▲ shows a certificate signed by SERVER_SIGNER
//! ```

/// The value of the label `cdi.kubevirt.io` of an upload pod, its Service and its Secret.
pub const WORK: &str = "cdi-upload-server";
/// The container of an upload pod.
pub const CONTAINER: &str = "cdi-upload-server";
/// How the names of upload pods, their Services and their Secrets begin.
pub const UPLOADER: &str = "cdi-upload-";
/// The label that says which PVC an upload pod fills: its value is the uid of the PVC.
pub const TARGET_LABEL: &str = "cdi.kubevirt.io/uploadTarget";
/// The label by which the Service of an upload pod selects it: its value is the name of the Service.
pub const SERVICE_LABEL: &str = "service";
/// Where an upload pod finds its certificate, its key, and the authorities of its clients.
pub const TLS_FOLDER: &str = "/etc/tls";
/// The name of the client that upload pods serve.
pub const CLIENT_NAME: &str = "client.upload-server.cdi.kubevirt.io";

pub use api::cdi::annotations::{CONTENT_TYPE, POD_NAME, POD_PHASE, POD_READY, TARGET};

/// The Secret with the authority of the upload pods' certificates, and the ConfigMap with those that hold.
pub const SERVER_SIGNER: (&str, &str) = ("cdi-uploadserver-signer", "cdi-uploadserver-signer-bundle");
/// The Secret with the authority of the client certificate, and the ConfigMap with those that hold.
pub const CLIENT_SIGNER: (&str, &str) =
    ("cdi-uploadserver-client-signer", "cdi-uploadserver-client-signer-bundle");
/// The key of a ConfigMap of authorities.
pub const BUNDLE: &str = "ca-bundle.crt";
/// The Secret with the client certificate of cdi-uploadproxy.
pub const CLIENT_CERTIFICATE: &str = "cdi-uploadserver-client-cert";
/// The Secret with the server certificate of cdi-uploadproxy.
pub const PROXY_CERTIFICATE: &str = "cdi-uploadproxy-server-cert";
/// The name of the Deployment and of the Service of the proxy.
pub const PROXY: &str = "cdi-uploadproxy";
/// The Secret with the key that signs upload tokens, and the ConfigMap with the public keys that hold.
pub const SIGNING_KEY: &str = "cdi-api-signing-key";
/// The private key, in PEM, in the Secret.
pub const PRIVATE_KEY: &str = "id_rsa";
/// The public key, in PEM: in the Secret that of the private key, in the ConfigMap all that hold.
pub const PUBLIC_KEY: &str = "id_rsa.pub";
/// How the keys of the Secret begin that have the key pair which signs next, while it is made known.
pub const NEXT: &str = "next.";
/// The annotation with the time: of the Secret, since when its key signs; of the ConfigMap, since when its keys are known.
pub const SINCE: &str = "cdi.kubevirt.io/keys-since";
