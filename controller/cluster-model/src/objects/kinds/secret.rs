//! Secret: the certificates of the installation, and the keys that sign upload tokens. Private keys are not
//! kept. The certificates of upload pods are written and never read.

use crate::clones::{CLIENT, SOURCE};
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, meta};
use crate::objects::{About, Certificate, Key, Kind, Selector, Use, World, WritableByPrefix, public_keys};
use crate::uploads::{
    CLIENT_CERTIFICATE, CLIENT_SIGNER, NEXT, PRIVATE_KEY, PROXY_CERTIFICATE, PUBLIC_KEY, SERVER_SIGNER,
    SIGNING_KEY, UPLOADER,
};
use crate::webhook_paths::{self, PathSegments};
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
        names: &[
            AUTHORITY,
            API_CERTIFICATE,
            CONTROLLER_CERTIFICATE,
            HANDLER_CERTIFICATE,
            PROXY_CERTIFICATE,
            SERVER_SIGNER.0,
            CLIENT_SIGNER.0,
            CLIENT_CERTIFICATE,
            SIGNING_KEY,
        ],
        // Certificates of upload pods and of both ends of a clone, each in the namespace of its PVC.
        beyond: Some(WritableByPrefix {
            prefixes: &[UPLOADER, SOURCE, CLIENT],
            verbs: &["create", "delete", "patch"],
        }),
        ..Use::NONE
    },
    // Only the program's own certificate: the key of the CA is in the same namespace.
    api: Use { follows: &[Selector::ALL], names: &[API_CERTIFICATE], ..Use::NONE },
    handler: Use { follows: &[Selector::ALL], names: &[HANDLER_CERTIFICATE], ..Use::NONE },
    proxy: Use { follows: &[Selector::ALL], names: &[PROXY_CERTIFICATE], ..Use::NONE },
    touches: |world, _| vec![certificates(world)],
    // They are created if missing.
    listed: |world| vec![certificates(world)],
    ..About::new("v1", "Secret", "secrets")
};

/// The key under which all certificates, webhooks and APIServices are decided.
pub fn certificates(world: &World) -> Key {
    Key::new(Kind::Secret, world.facts.namespace.clone(), AUTHORITY)
}

/// The part of a Secret that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Secret {
    pub meta: ObjectMeta,
    pub certificate: Option<Certificate>,
    /// The field of the private key is not empty.
    pub has_key: bool,
    /// The public key, in PEM, of the key pair that signs upload tokens.
    pub signs: Option<String>,
    /// The public key, in PEM, of the key pair that signs them next.
    pub signs_next: Option<String>,
    /// The segments of virt-api's webhook paths, where the Secret is that of virt-api's certificate.
    pub paths: PathSegments,
}

impl StoredObject for Secret {
    fn parse(object: Value) -> Option<Self> {
        let text = |name: &str| object["data"][name].as_str().unwrap_or_default();
        let file =
            |name: &str| STANDARD.decode(text(name)).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pem = file("tls.crt");
        let public = |prefix: &str| {
            let is_whole = !text(&format!("{prefix}{PRIVATE_KEY}")).is_empty();
            let keys = file(&format!("{prefix}{PUBLIC_KEY}")).filter(|_| is_whole);
            keys.and_then(|keys| public_keys::all(&keys).into_iter().next())
        };
        Some(Secret {
            meta: meta(&object)?,
            certificate: pem.and_then(|pem| Certificate::from_pem(&pem)),
            has_key: !text("tls.key").is_empty(),
            signs: public(""),
            signs_next: public(NEXT),
            paths: PathSegments::read(&file(webhook_paths::FIELD).unwrap_or_default()),
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}
