//! Secret: the certificates of the installation. No private key is kept.

use crate::objects::about::kept;
use crate::objects::store::{Kept, meta};
use crate::objects::{About, Certificate, Key, Kind, Selector, Use, World};
use api::meta::ObjectMeta;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The Secret with our authority and its key, and the ConfigMap with the authorities that are valid.
pub const AUTHORITY: &str = "kubevirt-ca";
/// The Secret with the certificate of virt-api.
pub const API_CERTIFICATE: &str = "kubevirt-virt-api-certs";
/// The Secret with the certificate of virt-controller.
pub const CONTROLLER_CERTIFICATE: &str = "kubevirt-controller-certs";
/// The Secret with the certificate of virt-handler.
pub const HANDLER_CERTIFICATE: &str = "kubevirt-virt-handler-server-certs";

pub(crate) const ABOUT: About = About {
    is_of_installation: true,
    kept: kept!(secrets),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["create", "get", "patch"])],
        names: &[AUTHORITY, API_CERTIFICATE, CONTROLLER_CERTIFICATE, HANDLER_CERTIFICATE],
        ..Use::NONE
    },
    // The program's own certificate, and no other secret of the namespace: the authority's key is among them.
    api: Use { follows: &[Selector::ALL], names: &[API_CERTIFICATE], ..Use::NONE },
    handler: Use { follows: &[Selector::ALL], names: &[HANDLER_CERTIFICATE], ..Use::NONE },
    touches: |world, _| vec![certificates(world)],
    // They are made where there are none.
    listed: |world| vec![certificates(world)],
    ..About::named("v1", "Secret", "secrets")
};

/// The key under which all certificates, the webhooks and the APIServices are decided on.
pub fn certificates(world: &World) -> Key {
    Key::new(Kind::Secret, world.facts.namespace.clone(), AUTHORITY)
}

/// The part of a Secret that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Secret {
    /// Its name and the like.
    pub meta: ObjectMeta,
    /// The certificate in it.
    pub certificate: Option<Certificate>,
    /// There is something where its key should be.
    pub has_key: bool,
}

impl Kept for Secret {
    fn take(object: Value) -> Option<Self> {
        let text = |name: &str| object["data"][name].as_str().unwrap_or_default();
        let pem = STANDARD.decode(text("tls.crt")).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        Some(Secret {
            meta: meta(&object)?,
            certificate: pem.and_then(|pem| Certificate::first(&pem)),
            has_key: !text("tls.key").is_empty(),
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}
