//! ConfigMap: the bundle of authorities, and the note that the installation was removed.

use super::secret::{AUTHORITY, certificates};
use crate::objects::about::kept;
use crate::objects::{About, Selector, Use};

/// The key of the ConfigMap [`AUTHORITY`] that holds the authorities.
pub const BUNDLE: &str = "ca-bundle";
/// The ConfigMap that says that the installation was removed.
pub const REMOVED: &str = "kubevirt-removed";

pub(crate) const ABOUT: About = About {
    is_of_installation: true,
    kept: kept!(config_maps),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["create", "delete", "get", "patch"])],
        names: &[AUTHORITY, REMOVED],
    },
    // The authorities by which it knows virt-api.
    handler: Use { follows: &[Selector::ALL], verbs: &[], names: &[AUTHORITY] },
    // The installation may wait for the note to go.
    touches: |world, _| super::kubevirt::all(world).into_iter().chain([certificates(world)]).collect(),
    ..About::named("v1", "ConfigMap", "configmaps")
};
