//! The version of the KubeVirt object that a program keeps to: what `/healthz` answers.

use hyper::body::Bytes;
use serde_json::{Value, json};
use std::sync::{PoisonError, RwLock};

/// The version of the KubeVirt object that a program keeps to, as its `/healthz` answers it: tools wait for it after they have
/// changed the object.
#[derive(Debug)]
pub struct SettingsVersion(RwLock<Bytes>);

impl Default for SettingsVersion {
    fn default() -> SettingsVersion {
        SettingsVersion(RwLock::new(SettingsVersion::answer_of("")))
    }
}

impl SettingsVersion {
    /// The answer of `/healthz`, in KubeVirt's words. The program lives while the API server is away, and so that is always
    /// "ok": the kubelet must not end it for that.
    pub fn answer(&self) -> Bytes {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn take(&self, object: &Value) {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = SettingsVersion::answer_of(version);
    }

    fn answer_of(version: &str) -> Bytes {
        json!({"apiserver": {"connectivity": "ok"}, "config-resource-version": version}).to_string().into()
    }
}
