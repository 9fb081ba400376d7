//! A certificate that is to be made, as virt-controller decides it: a step of a [`Plan`](crate::plan::Plan).

use crate::objects::Key;
use jiff::Timestamp;

/// What is ours has this label.
pub const LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "virt-controller");

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
}

/// Who signs a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The secret with the authority.
    pub key: Key,
    /// The name of the authority that was looked at.
    pub name: String,
    /// The names of the server.
    pub hosts: Vec<String>,
    /// Whether the server shows its certificate as a client too.
    pub is_client: bool,
}
