//! The user of a request, from the headers of the API server's aggregator, which are trusted only with a
//! client certificate of the aggregator.
//!
//! ```text
//!  ConfigMap kube-system/extension-apiserver-authentication ── watched ──► Aggregation
//!     requestheader-client-ca-file      the authority of the aggregator's certificate   (checked in the handshake)
//!     requestheader-allowed-names       its common names; none means any                (checked for each request)
//!     requestheader-username-headers, …group…, …uid…, …extra-headers-prefix             (read for each request)
//! ```
//!
//! The API server removes such headers of a client before it adds its own, with one user and one uid: a
//! request with two users is refused. A certificate of the right authority with another name is refused
//! (CVE-2025-64434).

use crate::refusal::{Refusal, Result};
use cluster_client::watch::{self, WatchMessage};
use cluster_model::objects::certificate::Certificate;
use cluster_model::objects::{AGGREGATION, Kind, WatchTarget};
use http::HeaderMap;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use serve::transport::{Authorities, Client};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::mpsc;

/// Maximum number of a user's groups, and of extra values. A request beyond it is refused.
const MOST: usize = 1024;

/// Certificates and header names of the aggregator, from its ConfigMap. Before the ConfigMap was read, no
/// user is trusted.
#[derive(Debug, Default)]
pub struct Aggregation {
    /// CAs that are accepted in the TLS handshake.
    pub authorities: Arc<Authorities>,
    terms: RwLock<Option<Arc<Terms>>>,
}

/// Permitted names and header names of the aggregator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Terms {
    names: Vec<String>,
    users: Vec<String>,
    groups: Vec<String>,
    uids: Vec<String>,
    extras: Vec<String>,
}

/// The user of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requester {
    pub(crate) user: String,
    uid: Option<String>,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Aggregation {
    /// Watches the ConfigMap for ever.
    pub async fn keep(&self, client: kube::Client) {
        let (to, mut seen) = mpsc::channel(4);
        let which = WatchTarget::for_object(Kind::ConfigMap, AGGREGATION.0, AGGREGATION.1);
        tokio::join!(watch::follow(client, which, to), async {
            while let Some(event) = seen.recv().await {
                if let WatchMessage::Only(_, Some(object)) | WatchMessage::Changed(_, object) = event {
                    self.take(&object["data"]);
                }
            }
        });
    }

    /// True once the ConfigMap was read.
    pub fn is_known(&self) -> bool {
        self.terms.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn take(&self, data: &Value) {
        let authority = data["requestheader-client-ca-file"].as_str().unwrap_or_default();
        if let Err(error) = self.authorities.take(authority) {
            tracing::warn!(
                "requestheader-client-ca-file of {}/{} is invalid, so that users cannot be authenticated: {}",
                AGGREGATION.0,
                AGGREGATION.1,
                error.chain()
            );
            return;
        }
        let terms = Arc::new(Terms::read(data));
        *self.terms.write().unwrap_or_else(PoisonError::into_inner) = Some(terms);
    }

    /// The user in the aggregator's headers.
    pub(crate) fn requester(&self, head: &Parts, client: Option<&Client>) -> Result<Requester> {
        let terms = self.terms.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(terms) = terms else {
            return Err(Refusal::unavailable(
                "the API server's aggregation settings (kube-system/extension-apiserver-authentication) are not known yet",
            ));
        };
        let Some(client) = client else {
            return Err(Refusal::unauthorized(
                "request is not authenticated: only the API server may make requests here, with its client certificate",
            ));
        };
        let name = Certificate::from_der(client.der()).and_then(|certificate| certificate.name);
        if !terms.permits(name.as_deref()) {
            let name = name.unwrap_or_else(|| "(none)".to_owned());
            return Err(Refusal::unauthorized(format!(
                "request is not authenticated: the certificate's common name {name:?} is not among requestheader-allowed-names"
            )));
        }
        terms.requester(&head.headers)
    }
}

impl Terms {
    fn read(data: &Value) -> Terms {
        let list = |key: &str| -> Vec<String> {
            let text = data[key].as_str().unwrap_or_default();
            serde_json::from_str(text).unwrap_or_default()
        };
        let lower = |key: &str| list(key).iter().map(|name| name.to_ascii_lowercase()).collect::<Vec<_>>();
        Terms {
            names: list("requestheader-allowed-names"),
            users: lower("requestheader-username-headers"),
            groups: lower("requestheader-group-headers"),
            uids: lower("requestheader-uid-headers"),
            extras: lower("requestheader-extra-headers-prefix"),
        }
    }

    fn permits(&self, name: Option<&str>) -> bool {
        self.names.is_empty() || name.is_some_and(|name| self.names.iter().any(|one| one == name))
    }

    fn requester(&self, headers: &HeaderMap) -> Result<Requester> {
        let texts = |name: &str| -> Result<Vec<String>> {
            let all = headers.get_all(name).iter().map(|value| {
                let text = value.to_str().map(str::to_owned);
                text.map_err(|_| Refusal::unauthorized(format!("the header {name} is not text")))
            });
            all.collect()
        };
        let only = |names: &[String]| -> Result<Option<String>> {
            for name in names {
                let mut values = texts(name)?;
                if values.len() > 1 {
                    let said =
                        format!("request is not authenticated: it has the header {name} more than once");
                    return Err(Refusal::unauthorized(said));
                }
                if let Some(value) = values.pop().filter(|value| !value.is_empty()) {
                    return Ok(Some(value));
                }
            }
            Ok(None)
        };
        let Some(user) = only(&self.users)? else {
            return Err(Refusal::unauthorized("request is not authenticated: it names no user"));
        };
        let mut groups = Vec::new();
        for name in &self.groups {
            groups.extend(texts(name)?);
        }
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in headers.keys() {
            let key = self.extras.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()));
            if let Some(key) = key.filter(|key| !key.is_empty()) {
                let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                extra.entry(key).or_default().extend(texts(name.as_str())?);
            }
        }
        if groups.len() + extra.values().map(Vec::len).sum::<usize>() > MOST {
            return Err(Refusal::unauthorized("the request names too many groups"));
        }
        Ok(Requester { user, uid: only(&self.uids)?, groups, extra })
    }
}

impl Requester {
    /// The user in the spec of a SubjectAccessReview.
    pub(crate) fn spec(&self) -> Value {
        json!({"user": self.user, "uid": self.uid, "groups": self.groups, "extra": self.extra})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn terms() -> Terms {
        Terms::read(&json!({
            "requestheader-allowed-names": "[\"front-proxy-client\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        }))
    }

    #[test]
    fn a_user_is_read_whole() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "ann"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "system:authenticated"),
            ("x-remote-extra-authentication.kubernetes.io%2fnode-name", "node1"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let is = terms().requester(&headers).unwrap();
        assert_eq!(
            is.spec(),
            json!({
                "user": "ann",
                "uid": "7",
                "groups": ["dev", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/node-name": ["node1"]},
            })
        );
    }

    #[test]
    fn without_a_user_or_with_too_much_nobody_is_known() {
        let mut headers = HeaderMap::new();
        headers.append("x-remote-group", HeaderValue::from_static("system:masters"));
        assert_eq!(terms().requester(&headers).unwrap_err().status, 401);
        headers.append("x-remote-user", HeaderValue::from_static("ann"));
        for _ in 0..MOST {
            headers.append("x-remote-group", HeaderValue::from_static("g"));
        }
        assert_eq!(terms().requester(&headers).unwrap_err().status, 401);
        headers.insert("x-remote-group", HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(terms().requester(&headers).unwrap_err().status, 401);
    }

    #[test]
    fn a_certificate_of_another_name_is_not_the_aggregators() {
        let terms = terms();
        assert!(terms.permits(Some("front-proxy-client")));
        assert!(!terms.permits(Some("kubelet")) && !terms.permits(None));
        assert!(Terms::default().permits(None), "an empty list permits every name of the authority");
    }
}
