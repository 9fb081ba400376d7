//! A request: its verb, its kind and name, and the objects that it selects.

use cluster_model::objects::Kind;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use serde_json::Value;

/// A request, as it was recorded.
#[derive(Clone, Debug)]
pub struct Request {
    /// Verb of the right that the request takes, such as `list`.
    pub verb: &'static str,
    /// Method and target, such as `GET /api/v1/nodes?limit=1`.
    pub line: String,
    pub path: String,
    /// Body as JSON; `null` for none.
    pub body: Value,
    query: String,
    /// The media type of the body.
    form: String,
    /// The accepted media type of the answer.
    accepts: String,
    place: Option<Place>,
}

/// Kind, name and subresource of a path.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) kind: Kind,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) part: Option<&'static str>,
}

/// Form of a patch.
pub(super) enum PatchForm {
    Merge,
    /// Merge patch that replaces conditions by their types.
    Strategic,
    Json,
}

impl Request {
    pub(super) async fn read<B: Body>(request: http::Request<B>) -> Request {
        let (head, body) = request.into_parts();
        // A client that goes away in the middle has sent nothing.
        let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let header = |name: &str| {
            let value = head.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let place = Place::of(head.uri.path());
        let is_of_one = place.as_ref().is_some_and(|place| place.name.is_some());
        let query = head.uri.query().unwrap_or_default().to_owned();
        let verb = match head.method {
            Method::GET if is_of_one || place.is_none() => "get",
            Method::GET if query.contains("watch=true") => "watch",
            Method::GET => "list",
            Method::POST => "create",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "update",
        };
        let target = head.uri.path_and_query().map_or("", |target| target.as_str());
        Request {
            verb,
            line: format!("{} {target}", head.method),
            path: head.uri.path().to_owned(),
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            query,
            form: header("content-type"),
            accepts: header("accept"),
            place,
        }
    }

    /// Kind, name and subresource; `None` for a path that is not of a kind of ours.
    pub(super) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Path of the object, without its subresource.
    pub(super) fn object(&self) -> &str {
        let part = self.place.as_ref().and_then(|place| place.part);
        part.map_or(&self.path, |part| self.path.trim_end_matches(part).trim_end_matches('/'))
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.parameter(name)?.parse().ok()
    }

    /// Name of the only object that is selected.
    pub(super) fn selected_name(&self) -> Option<String> {
        let place = self.place.as_ref()?;
        let selected = self.selected("fieldSelector").into_iter().find(|(name, _)| name == "metadata.name");
        place.name.clone().or(selected.map(|(_, value)| value))
    }

    /// Names and values of a selector.
    fn selected(&self, parameter: &str) -> Vec<(String, String)> {
        let text = self.parameter(parameter).unwrap_or_default();
        let text = text.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/");
        let pairs = text.split(',').filter_map(|term| term.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    pub(super) fn is_dry(&self) -> bool {
        self.query.contains("dryRun")
    }

    /// True if the client asks for the metadata of objects alone.
    pub(super) fn is_of_metadata(&self) -> bool {
        self.accepts.contains("PartialObjectMetadata")
    }

    pub(super) fn patch_form(&self) -> PatchForm {
        match self.form.as_str() {
            "application/json-patch+json" => PatchForm::Json,
            "application/strategic-merge-patch+json" => PatchForm::Strategic,
            _ => PatchForm::Merge,
        }
    }

    /// Objects of a list or a watch.
    pub(super) fn selection(&self, place: &Place) -> Selection {
        Selection {
            kind: place.kind,
            namespace: place.namespace.clone(),
            labels: self.selected("labelSelector"),
            fields: self.selected("fieldSelector"),
        }
    }
}

impl Place {
    pub(super) fn of(path: &str) -> Option<Place> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let is_it = |kind: &Kind| kind.api_version() == version && Some(&kind.plural()) == rest.first();
        let kind = Kind::ALL.iter().copied().find(is_it)?;
        let part = match rest.get(2) {
            None => None,
            Some(&"status") => Some("status"),
            Some(&"eviction") => Some("eviction"),
            Some(_) => return None,
        };
        Some(Place { kind, namespace, name: rest.get(1).map(|name| (*name).to_owned()), part })
    }
}

/// Selection of objects of a list or a watch.
pub(super) struct Selection {
    kind: Kind,
    namespace: Option<String>,
    labels: Vec<(String, String)>,
    fields: Vec<(String, String)>,
}

impl Selection {
    pub(super) fn takes(&self, kind: Kind, object: &Value) -> bool {
        let meta = &object["metadata"];
        let field = |name: &str| object.pointer(&format!("/{}", name.replace('.', "/"))).cloned();
        kind == self.kind
            && self.namespace.as_ref().is_none_or(|namespace| meta["namespace"] == namespace.as_str())
            && self.labels.iter().all(|(name, value)| meta["labels"][name] == value.as_str())
            && self.fields.iter().all(|(name, value)| field(name).is_some_and(|is| is == value.as_str()))
    }
}
