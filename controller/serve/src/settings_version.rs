//! Version of the KubeVirt object that a program has applied: the answer of `/healthz`.

use hyper::body::Bytes;
use serde_json::{Value, json};
use std::sync::{PoisonError, RwLock};

/// Version of the KubeVirt object that a program has applied, as `/healthz` reports it. Tools wait for it
/// after they have changed the object.
#[derive(Debug)]
pub struct SettingsVersion(RwLock<Bytes>);

impl Default for SettingsVersion {
    fn default() -> SettingsVersion {
        SettingsVersion(RwLock::new(SettingsVersion::answer_of("")))
    }
}

impl SettingsVersion {
    /// Answer of `/healthz`, in KubeVirt's format. The state of the API server is always "ok": the kubelet
    /// must not end a program because the API server is away.
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
