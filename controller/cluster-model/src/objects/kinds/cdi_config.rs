//! CDIConfig: settings of imports and uploads, and the URL of cdi-uploadproxy for clients. There is one
//! object; it is stored whole.

use super::secret::certificates;
use crate::objects::about::kept;
use crate::objects::{About, Selector, Use};
use api::cdi::CONFIG;

pub(crate) const ABOUT: About = About {
    kept: kept!(cdi_configs),
    controller: Use {
        follows: &[Selector::ALL],
        // The status is not a subresource.
        verbs: &[(None, &["create", "get", "patch"])],
        names: &[CONFIG],
        ..Use::NONE
    },
    // Contains whether PVCs get defaults, and the overhead of file systems.
    api: Use { follows: &[Selector::ALL], names: &[CONFIG], ..Use::NONE },
    put: |world, _, _| world.read_disk_settings(),
    removed: |world, _| world.read_disk_settings(),
    // Contains the CA of cdi-uploadproxy's certificate and the registries that may be contacted without TLS.
    touches: |world, _| {
        let more = super::cdi::all(world).into_iter().chain(super::data_volume::from_registries(world));
        more.chain([certificates(world)]).collect()
    },
    ..About::new("cdi.kubevirt.io/v1beta1", "CDIConfig", "cdiconfigs")
};
