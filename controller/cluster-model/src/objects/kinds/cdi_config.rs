//! CDIConfig: the settings of imports and uploads, and where clients find cdi-uploadproxy. There is one; it is kept as it is.

use super::secret::certificates;
use crate::objects::about::kept;
use crate::objects::{About, Selector, Use};
use api::cdi::CONFIG;

pub(crate) const ABOUT: About = About {
    kept: kept!(cdi_configs),
    controller: Use {
        follows: &[Selector::ALL],
        // The status has no path of its own.
        verbs: &[(None, &["create", "get", "patch"])],
        names: &[CONFIG],
        ..Use::NONE
    },
    // Whether PVCs are filled in, and what a file system keeps for itself.
    api: Use { follows: &[Selector::ALL], names: &[CONFIG], ..Use::NONE },
    // It says by whom the certificate of cdi-uploadproxy is signed, and which registries may be asked without TLS.
    touches: |world, _| {
        let more = super::cdi::all(world).into_iter().chain(super::data_volume::from_registries(world));
        more.chain([certificates(world)]).collect()
    },
    ..About::named("cdi.kubevirt.io/v1beta1", "CDIConfig", "cdiconfigs")
};
