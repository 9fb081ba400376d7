//! Certificates and keys that are to be made, as virt-controller decides them: steps of a [`Plan`](crate::plan::Plan).
//!
//! ```text
//!  Issue     an authority, or a certificate that one of our authorities signs ──► a Secret of the installation
//!  ForPod    the certificate of an upload pod, and of each end of a clone ────► a Secret in the namespace of its PVC, written
//!                                                                                and never read
//!  IssueKey  the key that signs upload tokens ──────────────────────────────► a Secret of the installation
//! ```
//!
//! Whoever carries out such a step makes the key: no plan has one, and neither has the picture that a plan is decided on.

use crate::objects::{Key, Kind};
use crate::uploads::{CLIENT_SIGNER, SERVER_SIGNER};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// What is ours has this label.
pub const LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "virt-controller");
/// The type of the Secret of an upload pod.
pub const OPAQUE: &str = "Opaque";

/// A certificate that is to be made, with a new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The secret that takes it.
    pub key: Key,
    /// The version of the secret that was looked at; nothing where there is none yet.
    pub version: Option<String>,
    /// The name of what it is for.
    pub name: String,
    /// From when on it holds.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// Who signs it; nothing for an authority, which signs itself.
    pub signer: Option<Signer>,
    /// The Secret has the segments of virt-api's webhook paths, too; they are exchanged with the certificate.
    pub has_paths: bool,
}

/// Who signs a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The secret with the authority.
    pub key: Key,
    /// The name of the authority that was looked at.
    pub name: String,
    /// The names of the server.
    pub hosts: Vec<String>,
    /// Who may show the certificate.
    pub usage: Usage,
}

/// Who may show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// A server.
    Server,
    /// A client.
    Client,
    /// A server, and the same program as a client.
    Both,
}

impl Usage {
    /// A server may show it.
    pub const fn is_server(self) -> bool {
        matches!(self, Usage::Server | Usage::Both)
    }

    /// A client may show it.
    pub const fn is_client(self) -> bool {
        matches!(self, Usage::Client | Usage::Both)
    }
}

/// The certificate of a worker pod, with a new key: that of a server is signed by [`SERVER_SIGNER`], that of a client by
/// [`CLIENT_SIGNER`]. The Secret that takes it has the authorities of the other end beside. A Secret of that name that is there
/// already gets new data, and nobody reads what it had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForPod {
    /// The Secret that takes the certificate, in the namespace of the PVC.
    pub key: Key,
    /// The namespace of the installation, which has the authorities.
    pub installation: String,
    /// The owner reference of the Secret: the PVC.
    pub owner: Value,
    /// The labels of the Secret.
    pub labels: Map<String, Value>,
    /// Who shows the certificate.
    pub holder: Holder,
    /// The time from which on the certificate is valid.
    pub from: Timestamp,
    /// The time until which the certificate is valid.
    pub until: Timestamp,
}

/// Who shows the certificate of a worker pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A server of these DNS names; the first one is the common name too.
    Server(Vec<String>),
    /// A client of this common name.
    Client(String),
}

impl Holder {
    /// The common name.
    pub fn name(&self) -> &str {
        match self {
            Holder::Server(hosts) => hosts.first().map(String::as_str).unwrap_or_default(),
            Holder::Client(name) => name,
        }
    }

    /// The names of a server.
    pub fn hosts(&self) -> Vec<String> {
        match self {
            Holder::Server(hosts) => hosts.clone(),
            Holder::Client(_) => Vec::new(),
        }
    }
}

impl ForPod {
    /// The Secret with the authority that signs the certificate.
    pub fn signer(&self) -> Key {
        let name = match self.holder {
            Holder::Server(_) => SERVER_SIGNER.0,
            Holder::Client(_) => CLIENT_SIGNER.0,
        };
        Key::new(Kind::Secret, &*self.installation, name)
    }

    /// The ConfigMap with the authorities of the other end.
    pub fn others(&self) -> Key {
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
    /// The version of the Secret that was looked at; nothing where there is none yet.
    pub version: Option<String>,
    /// What is done.
    pub change: KeyChange,
    /// The time that the Secret says of the change.
    pub at: Timestamp,
}

/// A change of the key pair that signs upload tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// A new key pair, which signs at once: there is none to go on with.
    First,
    /// A new key pair beside the present one, which signs later.
    Next,
    /// The key pair that was made beside takes the place of the present one.
    Promote,
}
