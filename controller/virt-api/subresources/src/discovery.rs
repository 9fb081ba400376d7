//! Discovery documents of this API, readable without authentication. They are made from the table in
//! `cluster_model::subresources`.
//!
//! | path | document |
//! |---|---|
//! | `/` | RootPaths |
//! | `/apis`, `/apis/GROUP` | APIGroupList, APIGroup; its name is upstream's, without an `s` |
//! | `/apis/GROUP/VERSION` | APIResourceList |
//! | `/apis/GROUP/VERSION/version`, `…/guestfs`, `…/healthz` | about this program |
//! | `/openapi/v2`, `/openapi/v3`, `/openapi/v3/apis/GROUP/VERSION` | OpenAPI |
//!
//! [`upload_token`] answers for `upload.cdi.kubevirt.io`.

use crate::refusal::with_json_text;
use crate::upload_token;
use api::architecture::go_name;
use cluster_model::subresources::{Action, GROUP, Method, Parent, SUBRESOURCES, Subresource, VERSIONS};
use http::StatusCode;
use hyper::body::Bytes;
use serde_json::{Map, Value, json};
use serve::transport::HttpResponse;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The documents by path, serialized once: they never change while the program runs, and unauthenticated
/// clients may request them often.
static DOCUMENTS: LazyLock<BTreeMap<String, Bytes>> = LazyLock::new(|| {
    let root = format!("/apis/{GROUP}");
    let mut all = vec![
        ("/".to_owned(), root_paths()),
        (
            "/apis".to_owned(),
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group(), upload_token::group()]}),
        ),
        (root.clone(), group()),
        ("/openapi/v2".to_owned(), swagger()),
        ("/openapi/v3".to_owned(), index()),
    ];
    for version in VERSIONS {
        all.push((format!("{root}/{version}"), resources(version)));
        all.push((format!("/openapi/v3{root}/{version}"), openapi(version)));
    }
    all.extend(upload_token::documents());
    all.into_iter().map(|(path, document)| (path, document.to_string().into())).collect()
});

/// The document of a path.
pub(crate) fn document(path: &str) -> Option<HttpResponse> {
    DOCUMENTS.get(path).map(|document| with_json_text(StatusCode::OK, document.clone()))
}

/// Version information of this program, in upstream's fields.
pub(crate) fn version_info() -> Value {
    let of = |text: &str| json!(text);
    json!({
        "gitVersion": format!("v{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": of(""),
        "gitTreeState": of("clean"),
        "buildDate": of(""),
        "goVersion": of(""),
        "compiler": of("rustc"),
        "platform": format!("{}/{}", std::env::consts::OS, go_name(std::env::consts::ARCH)),
    })
}

fn root_paths() -> Value {
    let mut paths = vec!["/apis".to_owned(), format!("/apis/{GROUP}")];
    paths.extend(VERSIONS.iter().map(|version| format!("/apis/{GROUP}/{version}")));
    paths.extend(upload_token::root_paths());
    paths.extend(["/healthz", "/openapi/v2", "/openapi/v3"].map(str::to_owned));
    json!({"paths": paths})
}

fn group() -> Value {
    let version = |version: &str| json!({"groupVersion": format!("{GROUP}/{version}"), "version": version});
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        // Upstream's spelling, which clients depend on.
        "name": "subresource.kubevirt.io",
        "versions": VERSIONS.map(version),
        "preferredVersion": version(VERSIONS[0]),
    })
}

fn resources(version: &str) -> Value {
    let listed = SUBRESOURCES.iter().filter(|one| one.is_listed);
    let resources: Vec<Value> = listed
        .map(|one| {
            json!({
                "name": one.resource(),
                "singularName": "",
                "namespaced": true,
                "kind": kind(one),
                "verbs": [one.method.verb()],
            })
        })
        .collect();
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{version}"),
        "resources": resources,
    })
}

fn kind(one: &Subresource) -> &'static str {
    match one.parent {
        Parent::VirtualMachine => "VirtualMachine",
        Parent::VirtualMachineInstance => "VirtualMachineInstance",
        Parent::Group => "",
    }
}

// ── OpenAPI ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/// The index of OpenAPI 3 documents.
fn index() -> Value {
    let paths: Map<String, Value> = VERSIONS
        .iter()
        .map(|version| {
            let path = format!("apis/{GROUP}/{version}");
            let url = format!("/openapi/v3/{path}");
            (path, json!({"serverRelativeURL": url}))
        })
        .chain(upload_token::openapi_index())
        .collect();
    json!({"paths": paths})
}

fn openapi(version: &str) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "KubeVirt subresources", "version": version},
        "paths": paths(version, &|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})),
    })
}

fn swagger() -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true, "type": "string"});
    let all =
        VERSIONS.iter().flat_map(|version| paths(version, &parameter)).chain(upload_token::swagger_paths());
    json!({
        "swagger": "2.0",
        "info": {"title": "KubeVirt subresources", "version": VERSIONS[0]},
        "paths": all.collect::<Map<String, Value>>(),
    })
}

fn paths(version: &str, parameter: &impl Fn(&str) -> Value) -> Map<String, Value> {
    SUBRESOURCES.iter().map(|one| path(version, one, parameter)).collect()
}

fn path(version: &str, one: &Subresource, parameter: &impl Fn(&str) -> Value) -> (String, Value) {
    let mut path = format!("/apis/{GROUP}/{version}");
    let mut parameters = Vec::new();
    if one.is_namespaced() {
        path.push_str("/namespaces/{namespace}");
        parameters.push(parameter("namespace"));
    }
    if let Some(plural) = one.parent.plural() {
        path.push_str(&format!("/{plural}/{{name}}"));
        parameters.push(parameter("name"));
    }
    path.push_str(&format!("/{}", one.path));
    if one.action == Action::PortForward {
        path.push_str("/{port}");
        parameters.push(parameter("port"));
    }
    let method = if one.method == Method::Put { "put" } else { "get" };
    let id = format!("{version}{}{:?}", kind(one), one.action);
    let operation = json!({
        "operationId": id,
        "tags": [GROUP],
        "responses": {"200": {"description": "OK"}, "401": {"description": "Unauthorized"}},
    });
    (path, json!({method: operation, "parameters": parameters}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn body(path: &str) -> Value {
        serde_json::from_slice(document(path).unwrap().body()).unwrap()
    }

    #[test]
    fn the_documents_lead_from_one_to_the_next() {
        assert_eq!(body("/apis")["groups"][0]["name"], "subresource.kubevirt.io");
        let preferred = &body("/apis/subresources.kubevirt.io")["preferredVersion"]["groupVersion"];
        assert_eq!(preferred, "subresources.kubevirt.io/v1");
        for version in VERSIONS {
            let list = body(&format!("/apis/{GROUP}/{version}"));
            assert_eq!(list["resources"].as_array().unwrap().len(), 32);
            let url = &body("/openapi/v3")["paths"][format!("apis/{GROUP}/{version}")]["serverRelativeURL"];
            assert_eq!(body(url.as_str().unwrap())["info"]["version"], version);
        }
        assert!(document("/apis/subresources.kubevirt.io/v2").is_none());
        assert!(document("/apis/apps").is_none());
    }

    #[test]
    fn no_two_operations_have_one_name() {
        let swagger = body("/openapi/v2");
        let ids: Vec<&Value> = swagger["paths"]
            .as_object()
            .unwrap()
            .values()
            .flat_map(|path| [&path["get"]["operationId"], &path["put"]["operationId"]])
            .filter(|id| !id.is_null())
            .collect();
        let distinct: BTreeSet<String> = ids.iter().map(ToString::to_string).collect();
        assert_eq!((ids.len(), distinct.len()), (SUBRESOURCES.len() * 2, SUBRESOURCES.len() * 2));
    }
}
