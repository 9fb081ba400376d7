//! ConfigMap: the bundles of authorities, the public keys of upload tokens, the notes that the installation or its CDI object was
//! removed, what importer pods are told about registries and about the proxy, which labels of VMs are measured, and how the API server shows itself to the servers of aggregated APIs.

use super::secret::{AUTHORITY, certificates};
use crate::objects::about::kept;
use crate::objects::{About, Elsewhere, Selector, Use};
use crate::uploads::{CLIENT_SIGNER, SERVER_SIGNER, SIGNING_KEY};
use crate::worker::REGISTRIES;
use api::cdi::served::PROXY_AUTHORITIES;

/// The key of the ConfigMap [`AUTHORITY`] that holds the authorities.
pub const BUNDLE: &str = "ca-bundle";
/// The ConfigMap that says that the installation was removed.
pub const REMOVED: &str = "kubevirt-removed";
/// The ConfigMap that says that the CDI object was removed: no disk is filled.
pub const CDI_REMOVED: &str = "cdi-removed";
/// The ConfigMap that says which labels of VMs are told to whoever measures, by upstream's name. The administrator makes it.
pub const VM_LABELS: &str = "kubevirt-vm-labels-config";
/// The namespace and the name of the ConfigMap in which every API server says by which authority and names it shows itself
/// to the servers of aggregated APIs, and in which headers it names the user.
pub const AGGREGATION: (&str, &str) = ("kube-system", "extension-apiserver-authentication");
/// The Role that every cluster has there, and that permits to read that ConfigMap alone.
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
        ],
        ..Use::NONE
    },
    // The authorities by which it knows virt-handler, and those by which it knows the API server.
    api: Use {
        follows: &[Selector::ALL],
        names: &[AUTHORITY],
        elsewhere: &[Elsewhere { namespace: AGGREGATION.0, name: AGGREGATION.1, role: AGGREGATION_READER }],
        ..Use::NONE
    },
    // The authorities by which it knows virt-api.
    handler: Use { follows: &[Selector::ALL], names: &[AUTHORITY], ..Use::NONE },
    // The installation may wait for the note to go.
    touches: |world, key| match key.name.as_str() {
        REGISTRIES => super::data_volume::from_registries(world),
        PROXY_AUTHORITIES => super::cdi::disks(world).collect(),
        CDI_REMOVED => super::cdi::all(world).into_iter().chain(super::cdi::disks(world)).collect(),
        // It is read when somebody measures.
        VM_LABELS => Vec::new(),
        _ => super::kubevirt::all(world).into_iter().chain([certificates(world)]).collect(),
    },
    ..About::named("v1", "ConfigMap", "configmaps")
};
