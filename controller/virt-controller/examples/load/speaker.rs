//! Whoever speaks to the API server: the administrator, or the account of a program of ours.

use crate::Result;
use http::{HeaderName, HeaderValue, Method, Request};
use serde_json::Value;

/// Where the VMIs of a namespace are.
pub(crate) fn vmis(space: &str) -> String {
    format!("/apis/kubevirt.io/v1/namespaces/{space}/virtualmachineinstances")
}

/// Where other objects of a namespace are.
pub(crate) fn core(space: &str, plural: &str) -> String {
    format!("/api/v1/namespaces/{space}/{plural}")
}

/// What kind of body is sent.
pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Somebody who speaks to the API server.
#[derive(Clone)]
pub(crate) struct Speaker(pub(crate) kube::Client);

impl Speaker {
    /// The administrator.
    pub(crate) async fn administrator() -> Result<Speaker> {
        Speaker::with(Vec::new()).await
    }

    /// virt-controller.
    pub(crate) async fn controller() -> Result<Speaker> {
        Speaker::with(headers("kubevirt-controller")).await
    }

    /// virt-handler on a node, which its token says.
    pub(crate) async fn handler(node: &str) -> Result<Speaker> {
        let mut headers = headers("kubevirt-handler");
        let node = ("impersonate-extra-authentication.kubernetes.io%2fnode-name", node.to_owned());
        headers.push(node);
        Speaker::with(headers).await
    }

    async fn with(headers: Vec<(&'static str, String)>) -> Result<Speaker> {
        let mut config = kube::Config::infer().await?;
        for (name, value) in headers {
            config.headers.push((HeaderName::from_static(name), HeaderValue::try_from(value)?));
        }
        Ok(Speaker(kube::Client::try_from(config)?))
    }

    /// Asks for something.
    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        Ok(self.0.request(Request::get(path).body(Vec::new())?).await?)
    }

    /// Writes something; the answer.
    pub(crate) async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> Result<Value> {
        let request = Request::builder().method(&method).uri(path).header(http::header::CONTENT_TYPE, kind);
        let answer = self.0.request(request.body(serde_json::to_vec(body)?)?).await;
        answer.map_err(|e| format!("{method} {path}: {e}").into())
    }

    /// Makes an object.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.send(Method::POST, path, JSON, object).await
    }
}

/// Speaks for an account of the installation.
fn headers(account: &str) -> Vec<(&'static str, String)> {
    let mut headers = vec![("impersonate-user", format!("system:serviceaccount:kubevirt:{account}"))];
    for group in ["system:serviceaccounts", "system:serviceaccounts:kubevirt", "system:authenticated"] {
        headers.push(("impersonate-group", group.to_owned()));
    }
    headers
}
