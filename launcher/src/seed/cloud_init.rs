//! The inputs of cloud-init: identity of the VM, user data, network data, and SSH keys.

use super::folder::Folder;
use crate::error::{Error, ErrorKind, Result};
use api::launcher::Resolved;
use api::machine::volume::Text;
use api::machine::{CloudInit, Credential, KeyDelivery, Machine};

/// Size limit of a text in a Secret; a Secret cannot be larger.
pub const LONGEST_TEXT: u64 = 1 << 20;

const USER_DATA: &[&str] = &["userdata", "userData"];
const NETWORK_DATA: &[&str] = &["networkdata", "networkData"];

/// Format of the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedFormat {
    /// Data source NoCloud (`cloudInitNoCloud`).
    NoCloud,
    /// Data source ConfigDrive (`cloudInitConfigDrive`).
    ConfigDrive,
}

/// The identity of the VM.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    /// UUID of the firmware.
    pub uuid: &'a str,
    /// The hostname of the guest.
    pub hostname: &'a str,
    /// Devices that have tags, as entries of `devices` in the metadata of a config drive.
    pub devices: &'a [serde_json::Value],
}

impl<'a> Identity<'a> {
    /// The identity of a VM.
    pub fn of(machine: &'a Machine) -> Identity<'a> {
        Identity {
            name: &machine.name,
            namespace: &machine.namespace,
            uuid: &machine.firmware.uuid,
            hostname: &machine.hostname,
            devices: &[],
        }
    }
}

/// Texts and keys for cloud-init.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudInitData {
    pub user_data: Option<Vec<u8>>,
    pub network_data: Option<Vec<u8>>,
    /// SSH public keys, one a line.
    pub keys: Vec<String>,
}

impl CloudInitData {
    /// Reads the texts and keys from the spec and from Secrets.
    pub fn gather(
        credentials: &[Credential],
        texts: &CloudInit,
        kind: SeedFormat,
        resolved: &Resolved,
    ) -> Result<CloudInitData> {
        let text = |text: &Option<Text>, what, keys| {
            text.as_ref().map(|text| read(text, what, keys, resolved)).transpose()
        };
        let mut keys = Vec::new();
        for credential in credentials {
            let Credential::SshKeys { secret, delivery } = credential else { continue };
            let ours = match delivery {
                KeyDelivery::NoCloud => kind == SeedFormat::NoCloud,
                KeyDelivery::ConfigDrive => kind == SeedFormat::ConfigDrive,
                KeyDelivery::Agent { .. } => false,
            };
            if ours {
                keys.extend(ssh_keys(secret, resolved)?);
            }
        }
        Ok(CloudInitData {
            user_data: text(&texts.user_data, "user data", USER_DATA)?,
            network_data: text(&texts.network_data, "network data", NETWORK_DATA)?,
            keys,
        })
    }

    /// The keys in the form that cloud-init reads from a seed: by number.
    pub(crate) fn numbered_keys(&self) -> Option<serde_json::Value> {
        let numbered =
            self.keys.iter().enumerate().map(|(number, key)| (number.to_string(), key.as_str().into()));
        (!self.keys.is_empty()).then(|| serde_json::Value::Object(numbered.collect()))
    }
}

fn read(text: &Text, what: &str, keys: &[&str], resolved: &Resolved) -> Result<Vec<u8>> {
    match text {
        Text::Inline(bytes) => Ok(bytes.clone()),
        Text::Secret(name) => secret(name, resolved)?.text(keys, LONGEST_TEXT)?.ok_or_else(|| {
            let keys = keys.join(" or ");
            Error::new(
                ErrorKind::NotFound,
                format!("the secret {name:?} has no {what}: it needs a key {keys}"),
            )
        }),
    }
}

/// All keys of a Secret. One entry of the Secret may hold several, one a line.
pub(crate) fn ssh_keys(name: &str, resolved: &Resolved) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    for (key, text) in secret(name, resolved)?.texts(LONGEST_TEXT)? {
        let Ok(text) = String::from_utf8(text) else {
            return Err(Error::refused(format!(
                "the key {key:?} of the secret {name:?} is not text: it should hold SSH public keys"
            )));
        };
        let lines = text.lines().map(str::trim);
        keys.extend(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned));
    }
    Ok(keys)
}

/// The folder of a secret.
pub(crate) fn secret(name: &str, resolved: &Resolved) -> Result<Folder> {
    match resolved.secrets.get(name) {
        Some(path) => Folder::open(path),
        None => Err(Error::new(ErrorKind::NotFound, format!("the secret {name:?} is not there"))),
    }
}
