//! ConfigMap: CA bundles, public keys of upload tokens, markers of a removed installation or CDI object,
//! registry and proxy settings of importer pods, labels of VMs that are exported as metrics, settings as older
//! guides have them, and the client CA of the API aggregator.

use super::secret::{AUTHORITY, certificates};
use crate::objects::about::kept;
use crate::objects::{About, ClusterObject, Selector, Use};
use crate::uploads::{CLIENT_SIGNER, SERVER_SIGNER, SIGNING_KEY};
use crate::worker::REGISTRIES;
use api::cdi::served::PROXY_AUTHORITIES;
use api::kubevirt::config_map;

/// The key of the ConfigMap [`AUTHORITY`] that holds the authorities.
pub const BUNDLE: &str = "ca-bundle";
/// The ConfigMap that marks the installation as removed.
pub const REMOVED: &str = "kubevirt-removed";
/// The ConfigMap that marks the CDI object as removed: no disk is filled then.
pub const CDI_REMOVED: &str = "cdi-removed";
/// The ConfigMap with the labels of VMs that are exported as metrics, by upstream's name. The administrator
/// creates it.
pub const VM_LABELS: &str = "kubevirt-vm-labels-config";
/// Namespace and name of the ConfigMap in which API servers publish the CA and the names of the client
/// certificate that they present to the servers of aggregated APIs, and the headers that carry the user.
pub const AGGREGATION: (&str, &str) = ("kube-system", "extension-apiserver-authentication");
/// The Role in that namespace that permits reading that ConfigMap alone. Every cluster has it.
const AGGREGATION_READER: &str = "extension-apiserver-authentication-reader";

pub(crate) const ABOUT: About = About {
    is_of_installation: true,
    kept: kept!(config_maps),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["create", "delete", "get", "patch"])],
        names: &[
            AUTHORITY,
            REMOVED,
            CDI_REMOVED,
            SERVER_SIGNER.1,
            CLIENT_SIGNER.1,
            SIGNING_KEY,
            REGISTRIES,
            PROXY_AUTHORITIES,
            VM_LABELS,
            config_map::NAME,
        ],
        ..Use::NONE
    },
    // CA bundles that verify virt-handler and the API server.
    api: Use {
        follows: &[Selector::ALL],
        names: &[AUTHORITY],
        elsewhere: &[ClusterObject {
            namespace: AGGREGATION.0,
            name: AGGREGATION.1,
            role: AGGREGATION_READER,
        }],
        ..Use::NONE
    },
    // CA bundle that verifies virt-api.
    handler: Use { follows: &[Selector::ALL], names: &[AUTHORITY], ..Use::NONE },
    // The installation may wait until the marker is deleted.
    touches: |world, key| match key.name.as_str() {
        REGISTRIES => super::data_volume::from_registries(world),
        PROXY_AUTHORITIES => super::cdi::disks(world).collect(),
        CDI_REMOVED => super::cdi::all(world).into_iter().chain(super::cdi::disks(world)).collect(),
        // The labels are read when metrics are scraped.
        VM_LABELS => Vec::new(),
        config_map::NAME => super::kubevirt::all(world),
        _ => super::kubevirt::all(world).into_iter().chain([certificates(world)]).collect(),
    },
    ..About::new("v1", "ConfigMap", "configmaps")
};
