//! Steps of a [`Plan`](crate::plan::Plan) that issue certificates and keys, as virt-controller decides them.
//!
//! ```text
//!  Issue     an authority, or a certificate that one of our authorities signs ──► a Secret of the installation
//!  ForPod    the certificate of an upload pod, and of each end of a clone ────► a Secret in the namespace of its PVC, written
//!                                                                                and never read
//!  IssueKey  the key that signs upload tokens ──────────────────────────────► a Secret of the installation
//! ```
//!
//! The key is generated when the step is carried out: neither plans nor the cache that they are decided on
//! contain private keys.

use crate::objects::{Key, Kind};
use crate::uploads::{CLIENT_SIGNER, SERVER_SIGNER};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// Label of all objects of the installation.
pub const LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "virt-controller");
/// The type of the Secret of an upload pod.
pub const OPAQUE: &str = "Opaque";

/// A certificate to issue, with a new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Secret for the certificate.
    pub key: Key,
    /// Resource version of the secret that the decision was made on; `None` if it does not exist yet.
    pub version: Option<String>,
    /// Common name of the subject.
    pub name: String,
    /// Start of the validity period.
    pub from: Timestamp,
    /// End of the validity period.
    pub until: Timestamp,
    /// The signer; `None` for a CA, which signs itself.
    pub signer: Option<Signer>,
    /// The Secret also has the segments of virt-api's webhook paths. They are rotated with the certificate.
    pub has_paths: bool,
}

/// Signer and purpose of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// Secret of the CA.
    pub key: Key,
    /// Common name of the CA that the decision was made on.
    pub name: String,
    /// DNS names of the server.
    pub hosts: Vec<String>,
    /// Permitted usage of the certificate.
    pub usage: Usage,
}

/// Extended key usage of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    Server,
    Client,
    /// Server, and client in requests to our other programs.
    Both,
}

impl Usage {
    /// True for a server certificate.
    pub const fn is_server(self) -> bool {
        matches!(self, Usage::Server | Usage::Both)
    }

    /// True for a client certificate.
    pub const fn is_client(self) -> bool {
        matches!(self, Usage::Client | Usage::Both)
    }
}

/// A certificate of a worker pod to issue, with a new key. [`SERVER_SIGNER`] signs that of a server,
/// [`CLIENT_SIGNER`] that of a client. Its Secret also has the CA bundle of the other end. An existing Secret
/// of that name gets new data, and its old data is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCertificateIssue {
    /// The Secret that takes the certificate, in the namespace of the PVC.
    pub key: Key,
    /// The namespace of the installation, which has the authorities.
    pub installation: String,
    /// The owner reference of the Secret: the PVC.
    pub owner: Value,
    /// The labels of the Secret.
    pub labels: Map<String, Value>,
    /// Purpose and names of the certificate.
    pub holder: Holder,
    /// The time from which on the certificate is valid.
    pub from: Timestamp,
    /// The time until which the certificate is valid.
    pub until: Timestamp,
}

/// Purpose and names of a worker pod's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A server with these DNS names. The first one is also the common name.
    Server(Vec<String>),
    /// A client with this common name.
    Client(String),
}

impl Holder {
    /// Common name of the certificate: of a server, its first DNS name.
    pub fn name(&self) -> &str {
        match self {
            Holder::Server(hosts) => hosts.first().map(String::as_str).unwrap_or_default(),
            Holder::Client(name) => name,
        }
    }

    /// DNS names of a server.
    pub fn hosts(&self) -> Vec<String> {
        match self {
            Holder::Server(hosts) => hosts.clone(),
            Holder::Client(_) => Vec::new(),
        }
    }
}

impl PodCertificateIssue {
    /// The Secret with the authority that signs the certificate.
    pub fn signer(&self) -> Key {
        let name = match self.holder {
            Holder::Server(_) => SERVER_SIGNER.0,
            Holder::Client(_) => CLIENT_SIGNER.0,
        };
        Key::new(Kind::Secret, &*self.installation, name)
    }

    /// The ConfigMap with the CA bundle of the other end.
    pub fn peer_bundle(&self) -> Key {
        let name = match self.holder {
            Holder::Server(_) => CLIENT_SIGNER.1,
            Holder::Client(_) => SERVER_SIGNER.1,
        };
        Key::new(Kind::ConfigMap, &*self.installation, name)
    }
}

/// A change of the key pair that signs upload tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueKey {
    /// The Secret that keeps the key pair.
    pub key: Key,
    /// Resource version of the Secret that the decision was made on; `None` if it does not exist yet.
    pub version: Option<String>,
    /// The change to make.
    pub change: KeyChange,
    /// Time for the annotation of the Secret.
    pub at: Timestamp,
}

/// A change of the key pair that signs upload tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// Creates the first key pair, which signs at once.
    First,
    /// Creates a key pair next to the present one, to sign later.
    Next,
    /// Replaces the present key pair by the one created with [`KeyChange::Next`].
    Promote,
}
