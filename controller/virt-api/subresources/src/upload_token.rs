//! `upload.cdi.kubevirt.io`: a token for an upload to a PVC, for users who may create an UploadTokenRequest
//! in its namespace.
//!
//! ```text
//!  POST …/namespaces/NAMESPACE/uploadtokenrequests  spec.pvcName ─► serve::token ─► 200, the same with status.token
//!  GET  …/uploadtokenrequests/NAME                  404: nothing is stored, and `kubectl apply` goes on to create it
//!  all else                                         405
//! ```
//!
//! Authentication and authorization are those of all subresources. The PVC need not exist: a token is valid
//! only for the upload pod of the PVC of that name, in that namespace, for five minutes. While virt-api has
//! no signing key, the response is 503.

use crate::access::verb;
use crate::refusal::{Refusal, Result, with_json};
use crate::{body, query};
use api::cdi::{UPLOAD_GROUP, UPLOAD_VERSIONS};
use cluster_model::objects::names::is_name;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use serve::token::Signer;
use serve::transport::{HttpResponse, IncomingRequest};
use std::sync::Arc;

/// The resource in roles and paths.
pub(crate) const PLURAL: &str = "uploadtokenrequests";
const KIND: &str = "UploadTokenRequest";
/// Maximum request size: a request contains a name.
const LARGEST: usize = 64 << 10;

/// True if the path belongs to this group.
pub(crate) fn is_ours(path: &str) -> bool {
    let rest = path.strip_prefix("/apis/").and_then(|path| path.strip_prefix(UPLOAD_GROUP));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Target of a path: all requests of a namespace, or one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestPath {
    version: &'static str,
    namespace: String,
    /// Name of the request; empty for all.
    name: String,
}

impl RequestPath {
    /// The target of a path below the group, or a refusal with 404.
    pub(crate) fn of(path: &str) -> Result<RequestPath> {
        read(path).ok_or_else(Refusal::no_such_path)
    }

    /// Required right, as attributes of a SubjectAccessReview.
    pub(crate) fn attributes(&self, method: &Method) -> Result<Value> {
        Ok(json!({
            "group": UPLOAD_GROUP,
            "version": self.version,
            "verb": verb(method, &self.name)?,
            "namespace": self.namespace,
            "resource": PLURAL,
            "subresource": "",
            "name": self.name,
        }))
    }
}

fn read(path: &str) -> Option<RequestPath> {
    let path = path.strip_prefix("/apis/")?.strip_prefix(UPLOAD_GROUP)?.strip_prefix('/')?;
    let (version, path) = path.split_once("/namespaces/")?;
    let version = UPLOAD_VERSIONS.into_iter().find(|one| *one == version)?;
    let (namespace, path) = path.split_once('/')?;
    let (plural, name) = path.split_once('/').map_or((path, None), |(plural, name)| (plural, Some(name)));
    let is_good = is_name(namespace) && plural == PLURAL && name.is_none_or(is_name);
    is_good.then(|| RequestPath {
        version,
        namespace: namespace.to_owned(),
        name: name.unwrap_or_default().to_owned(),
    })
}

/// Handler of token requests.
pub(crate) struct Tokens {
    signer: Arc<Signer>,
}

impl Tokens {
    pub(crate) fn new(signer: Arc<Signer>) -> Tokens {
        Tokens { signer }
    }

    /// The response for an authorized user.
    pub(crate) async fn answer(&self, asked: IncomingRequest, place: &RequestPath) -> Result<HttpResponse> {
        match (&asked.head.method, place.name.as_str()) {
            (&Method::POST, "") => {}
            (&Method::GET, name) if !name.is_empty() => {
                return Err(Refusal::not_kept(UPLOAD_GROUP, PLURAL, name));
            }
            _ => return Err(Refusal::method("POST: an UploadTokenRequest is answered, and not stored")),
        }
        let is_dry = query::value(asked.head.uri.query(), "dryRun").is_some();
        let request = body::read::<Value>(asked, LARGEST).await?;
        let answer = self.answered(request, place, is_dry, Timestamp::now())?;
        Ok(with_json(StatusCode::OK, &answer))
    }

    /// The request with its token.
    fn answered(
        &self,
        mut request: Value,
        place: &RequestPath,
        is_dry: bool,
        now: Timestamp,
    ) -> Result<Value> {
        let pvc = pvc(&request, place)?;
        let token = self.signer.upload(&place.namespace, &pvc, now).map_err(|error| {
            tracing::warn!("cannot sign a token for PVC {}/{pvc}: {}", place.namespace, error.chain());
            Refusal::internal("the token cannot be signed")
        })?;
        let Some(token) = token else {
            return Err(Refusal::unavailable(
                "virt-api has no key to sign upload tokens yet (Secret cdi-api-signing-key); try again",
            ));
        };
        request["apiVersion"] = json!(format!("{UPLOAD_GROUP}/{}", place.version));
        request["kind"] = json!(KIND);
        request["metadata"]["namespace"] = json!(place.namespace);
        request["status"] = if is_dry { json!({}) } else { json!({"token": token}) };
        Ok(request)
    }
}

/// The PVC's name in a request that matches its path.
fn pvc(request: &Value, place: &RequestPath) -> Result<String> {
    let wrong = |field: &str, is: &Value, why: &str| {
        Err(Refusal::bad_request(format!("{KIND}: {field} is {is}, and {why}")))
    };
    if !request.is_object() {
        return Err(Refusal::bad_request(format!("{KIND}: the body is not an object")));
    }
    let (kind, metadata) = (&request["kind"], &request["metadata"]);
    if !kind.is_null() && kind != KIND {
        return wrong("kind", kind, &format!("must be {KIND}"));
    }
    if !(metadata.is_null() || metadata.is_object()) {
        return wrong("metadata", metadata, "must be an object");
    }
    let namespace = &metadata["namespace"];
    if !(namespace.is_null() || namespace == "" || *namespace == place.namespace) {
        return wrong("metadata.namespace", namespace, &format!("must be {:?}", place.namespace));
    }
    let name = &request["spec"]["pvcName"];
    match name.as_str() {
        Some(text) if is_name(text) => Ok(text.to_owned()),
        _ => wrong("spec.pvcName", name, "must be the name of a PVC"),
    }
}

// ── Discovery ───────────────────────────────────────────────────────────────────────────────────────────────────────

/// The APIGroup of the group.
pub(crate) fn group() -> Value {
    let version =
        |version: &str| json!({"groupVersion": format!("{UPLOAD_GROUP}/{version}"), "version": version});
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": UPLOAD_GROUP,
        "versions": UPLOAD_VERSIONS.map(version),
        "preferredVersion": version(UPLOAD_VERSIONS[0]),
    })
}

/// Paths of the group for RootPaths.
pub(crate) fn root_paths() -> Vec<String> {
    let of_group = [format!("/apis/{UPLOAD_GROUP}")];
    of_group
        .into_iter()
        .chain(UPLOAD_VERSIONS.map(|version| format!("/apis/{UPLOAD_GROUP}/{version}")))
        .collect()
}

/// The documents of the group, by path.
pub(crate) fn documents() -> Vec<(String, Value)> {
    let root = format!("/apis/{UPLOAD_GROUP}");
    let mut all = vec![(root.clone(), group())];
    for version in UPLOAD_VERSIONS {
        let resources = json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": format!("{UPLOAD_GROUP}/{version}"),
            "resources": [{
                "name": PLURAL,
                "singularName": "uploadtokenrequest",
                "namespaced": true,
                "kind": KIND,
                "verbs": ["create"],
                "shortNames": ["utr", "utrs"],
            }],
        });
        all.push((format!("{root}/{version}"), resources));
        let schema = json!({"type": "string"});
        let parameter = json!({"name": "namespace", "in": "path", "required": true, "schema": schema});
        let openapi = json!({
            "openapi": "3.0.0",
            "info": {"title": "Upload tokens of CDI", "version": version},
            "paths": paths(version, &parameter),
        });
        all.push((format!("/openapi/v3{root}/{version}"), openapi));
    }
    all
}

/// OpenAPI 3 documents for their index.
pub(crate) fn openapi_index() -> impl Iterator<Item = (String, Value)> {
    UPLOAD_VERSIONS.into_iter().map(|version| {
        let path = format!("apis/{UPLOAD_GROUP}/{version}");
        let url = format!("/openapi/v3/{path}");
        (path, json!({"serverRelativeURL": url}))
    })
}

/// Paths of the group for the OpenAPI 2 document.
pub(crate) fn swagger_paths() -> impl Iterator<Item = (String, Value)> {
    let parameter = json!({"name": "namespace", "in": "path", "required": true, "type": "string"});
    UPLOAD_VERSIONS.into_iter().flat_map(move |version| paths(version, &parameter))
}

fn paths(version: &str, parameter: &Value) -> Map<String, Value> {
    let operation = json!({
        "operationId": format!("create{version}{KIND}"),
        "tags": [UPLOAD_GROUP],
        "x-kubernetes-action": "post",
        "x-kubernetes-group-version-kind": {"group": UPLOAD_GROUP, "version": version, "kind": KIND},
        "responses": {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}},
    });
    let path = format!("/apis/{UPLOAD_GROUP}/{version}/namespaces/{{namespace}}/{PLURAL}");
    [(path, json!({"post": operation, "parameters": [parameter]}))].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::document;
    use serve::token::Verifier;

    const PRIVATE: &[u8] = include_bytes!("../../../serve/src/token/one.pem");
    const PUBLIC: &[u8] = include_bytes!("../../../serve/src/token/one.pub.pem");

    fn place(name: &str) -> RequestPath {
        RequestPath { version: "v1beta1", namespace: "n".into(), name: name.into() }
    }

    fn tokens() -> Tokens {
        let signer = Signer::default();
        signer.take(PRIVATE).unwrap();
        Tokens::new(Arc::new(signer))
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }

    #[test]
    fn a_path_is_read_whole_or_not_at_all() {
        let all = "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/n/uploadtokenrequests";
        assert_eq!(RequestPath::of(all), Ok(place("")));
        assert_eq!(RequestPath::of(&format!("{all}/token-for-virtctl-x")), Ok(place("token-for-virtctl-x")));
        let old = all.replace("v1beta1", "v1alpha1");
        assert_eq!(RequestPath::of(&old).map(|place| place.version), Ok("v1alpha1"));
        for path in [
            "/apis/upload.cdi.kubevirt.io/v1beta1/uploadtokenrequests",
            "/apis/upload.cdi.kubevirt.io/v1/namespaces/n/uploadtokenrequests",
            "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/n/uploadtokenrequests/",
            "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/n/uploadtokenrequests/a/status",
            "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/N/uploadtokenrequests",
            "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/../uploadtokenrequests",
            "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/n/pods",
        ] {
            assert!(is_ours(path));
            assert_eq!(RequestPath::of(path).unwrap_err().status, 404, "{path}");
        }
        assert!(!is_ours("/apis/upload.cdi.kubevirt.iox/v1") && !is_ours("/apis/cdi.kubevirt.io/v1beta1"));
        let attributes = place("a").attributes(&Method::GET).unwrap();
        assert_eq!((&attributes["verb"], &attributes["name"]), (&json!("get"), &json!("a")));
        assert_eq!(place("").attributes(&Method::POST).unwrap()["verb"], "create");
        assert_eq!(place("").attributes(&Method::GET).unwrap()["verb"], "list");
    }

    #[test]
    fn the_answer_is_the_request_with_a_token_for_that_pvc() {
        let request = json!({
            "metadata": {"generateName": "token-for-virtctl-", "labels": {"a": "b"}}, "spec": {"pvcName": "disk"},
        });
        let answer = tokens().answered(request, &place(""), false, now()).unwrap();
        assert_eq!(answer["apiVersion"], "upload.cdi.kubevirt.io/v1beta1");
        assert_eq!(answer["kind"], "UploadTokenRequest");
        let metadata = json!({"generateName": "token-for-virtctl-", "labels": {"a": "b"}, "namespace": "n"});
        assert_eq!((&answer["metadata"], &answer["spec"]), (&metadata, &json!({"pvcName": "disk"})));
        let verifier = Verifier::default();
        verifier.take(PUBLIC).unwrap();
        let claims = verifier.verify(answer["status"]["token"].as_str().unwrap(), now()).unwrap();
        assert_eq!((claims.namespace.as_str(), claims.name.as_str()), ("n", "disk"));
        // A dry run gets no usable token.
        let dry = tokens().answered(json!({"spec": {"pvcName": "disk"}}), &place(""), true, now()).unwrap();
        assert_eq!(dry["status"], json!({}));
    }

    #[test]
    fn what_names_no_pvc_of_this_namespace_gets_no_token() {
        let spec = json!({"pvcName": "disk"});
        for (request, field) in [
            (json!(null), "the body"),
            (json!([]), "the body"),
            (json!({}), "spec.pvcName is null"),
            (json!({"spec": {"pvcName": ""}}), "spec.pvcName is \"\""),
            (json!({"spec": {"pvcName": 5}}), "spec.pvcName is 5"),
            (json!({"spec": {"pvcName": "../a"}}), "spec.pvcName is \"../a\""),
            (json!({"kind": "Pod", "spec": spec}), "kind is \"Pod\""),
            (json!({"metadata": "a", "spec": spec}), "metadata is \"a\""),
            (json!({"metadata": {"namespace": "other"}, "spec": spec}), "metadata.namespace is \"other\""),
        ] {
            let refused = tokens().answered(request, &place(""), false, now()).unwrap_err();
            assert_eq!(refused.status, 400, "{field}");
            assert!(refused.message.contains(field), "{}", refused.message);
        }
        let without = Tokens::new(Arc::default());
        let refused = without.answered(json!({"spec": spec}), &place(""), false, now()).unwrap_err();
        assert_eq!(refused.status, 503, "there is no key yet");
    }

    #[test]
    fn the_documents_lead_to_the_resource() {
        let body = |path: &str| -> Value { serde_json::from_slice(document(path).unwrap().body()).unwrap() };
        let groups = &body("/apis")["groups"];
        assert_eq!(groups[1]["name"], UPLOAD_GROUP);
        let preferred = body(&format!("/apis/{UPLOAD_GROUP}"))["preferredVersion"]["groupVersion"].clone();
        assert_eq!(preferred, "upload.cdi.kubevirt.io/v1beta1");
        for version in UPLOAD_VERSIONS {
            let list = body(&format!("/apis/{UPLOAD_GROUP}/{version}"));
            assert_eq!(list["resources"][0]["kind"], KIND);
            let path = format!("/apis/{UPLOAD_GROUP}/{version}/namespaces/{{namespace}}/{PLURAL}");
            for document in [body("/openapi/v2"), body(&format!("/openapi/v3/apis/{UPLOAD_GROUP}/{version}"))]
            {
                assert!(document["paths"][&path]["post"].is_object(), "{version}");
            }
        }
    }
}
