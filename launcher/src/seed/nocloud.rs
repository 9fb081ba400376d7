//! The seed of cloud-init's datasource NoCloud.

use super::cloud_init::{CloudInitData, Identity};
use super::tree::Files;
use crate::error::Result;
use serde_json::{Map, Value};

/// The volume label by which cloud-init finds the seed.
pub const LABEL: &str = "cidata";

/// Files of the seed. `user-data` always exists: without it cloud-init does not recognise the image as a
/// seed.
pub fn files(identity: &Identity<'_>, given: &CloudInitData) -> Result<Files> {
    let mut meta = Map::new();
    meta.insert("instance-id".to_owned(), identity.uuid.into());
    meta.insert("local-hostname".to_owned(), identity.hostname.into());
    if let Some(keys) = given.numbered_keys() {
        meta.insert("public-keys".to_owned(), keys);
    }
    let mut files = Files::new();
    files.add("meta-data", Value::Object(meta).to_string())?;
    files.add("user-data", given.user_data.clone().unwrap_or_default())?;
    if let Some(network) = &given.network_data {
        files.add("network-config", network.clone())?;
    }
    Ok(files)
}
