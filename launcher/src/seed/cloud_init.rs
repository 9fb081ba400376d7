//! cloud-init's inputs: the identity of the VM, the two texts, and SSH keys.

use super::folder::Folder;
use crate::error::{Error, ErrorKind, Result};
use api::launcher::Resolved;
use api::machine::volume::Text;
use api::machine::{CloudInit, Credential, KeyDelivery, Machine};

/// The size limit of a text in a secret: no secret holds more.
pub const LONGEST_TEXT: u64 = 1 << 20;

const USER_DATA: &[&str] = &["userdata", "userData"];
const NETWORK_DATA: &[&str] = &["networkdata", "networkData"];

/// The form of the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedFormat {
    /// `cloudInitNoCloud`.
    NoCloud,
    /// `cloudInitConfigDrive`.
    ConfigDrive,
}

/// The identity of the VM.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The uuid that its firmware shows.
    pub uuid: &'a str,
    /// The hostname of the guest.
    pub hostname: &'a str,
    /// Its devices that have tags.
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

/// The texts and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// User data.
    pub user_data: Option<Vec<u8>>,
    /// Network data.
    pub network_data: Option<Vec<u8>>,
    /// SSH public keys, a line each.
    pub keys: Vec<String>,
}

impl Given {
    /// Reads the texts and keys in secrets.
    pub fn gather(
        credentials: &[Credential],
        texts: &CloudInit,
        kind: SeedFormat,
        resolved: &Resolved,
    ) -> Result<Given> {
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
        Ok(Given {
            user_data: text(&texts.user_data, "user data", USER_DATA)?,
            network_data: text(&texts.network_data, "network data", NETWORK_DATA)?,
            keys,
        })
    }

    /// The keys as cloud-init reads them from a seed: by number.
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

/// All keys of a secret. A key of the secret may hold several, a line each.
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
