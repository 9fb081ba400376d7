//! What is looked at of a secret: the certificate in it. Its key is not kept.

use super::shelf::{Kept, meta};
use crate::cluster::certificates::Certificate;
use api::meta::ObjectMeta;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A secret.
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
