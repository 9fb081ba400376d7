//! The seed of cloud-init's datasource ConfigDrive, in OpenStack's form.

use super::cloud_init::{CloudInitData, Identity};
use super::tree::Files;
use crate::error::Result;
use serde_json::{Map, Value};

/// The volume label by which cloud-init finds the seed.
pub const LABEL: &str = "config-2";

/// Files of the seed.
pub fn files(identity: &Identity<'_>, given: &CloudInitData) -> Result<Files> {
    let mut meta = Map::new();
    for (key, value) in [
        ("instance_id", format!("{}.{}", identity.name, identity.namespace)),
        ("local_hostname", identity.hostname.to_owned()),
        ("hostname", identity.hostname.to_owned()),
        ("uuid", identity.uuid.to_owned()),
    ] {
        meta.insert(key.to_owned(), value.into());
    }
    if let Some(keys) = given.numbered_keys() {
        meta.insert("public_keys".to_owned(), keys);
    }
    if !identity.devices.is_empty() {
        meta.insert("devices".to_owned(), Value::Array(identity.devices.to_vec()));
    }
    let mut files = Files::new();
    files.add("openstack/latest/meta_data.json", Value::Object(meta).to_string())?;
    if let Some(user) = &given.user_data {
        files.add("openstack/latest/user_data", user.clone())?;
    }
    if let Some(network) = &given.network_data {
        files.add("openstack/latest/network_data.json", network.clone())?;
    }
    Ok(files)
}
