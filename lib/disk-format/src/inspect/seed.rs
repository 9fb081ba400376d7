//! Seeds of cloud-init: small disks from which a guest reads its configuration.

use super::tree::Tree;

/// A cloud-init seed and its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// The data source by cloud-init's name: `NoCloud` or `ConfigDrive`.
    pub source: &'static str,
    /// The seed's files that exist.
    pub files: Vec<String>,
}

const NO_CLOUD: &[&str] = &["user-data", "meta-data", "vendor-data", "network-config"];
const CONFIG_DRIVE: &[&str] = &[
    "openstack/latest/meta_data.json",
    "openstack/latest/user_data",
    "openstack/latest/vendor_data.json",
    "openstack/latest/network_data.json",
];

/// The seed in a filesystem. cloud-init recognises it by its label.
pub(crate) fn seed(label: Option<&str>, tree: &impl Tree) -> Option<Seed> {
    let (source, files) = match label?.to_ascii_lowercase().as_str() {
        "cidata" => ("NoCloud", NO_CLOUD),
        "config-2" => ("ConfigDrive", CONFIG_DRIVE),
        _ => return None,
    };
    let files = files.iter().filter(|path| tree.find(path).is_some()).map(ToString::to_string).collect();
    Some(Seed { source, files })
}
