//! Requests to the API server, one at a time, and errors made from its refusals. **Guarantees.** Every request ends
//! within [`PATIENCE`], its answer has at most [`MOST`] bytes, and none is sent twice. Messages of the server become
//! one line, in which control characters are escaped.

use super::connect::ConnectArgs;
use super::object::encoded;
use crate::error::{Error, ErrorKind, Result};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde_json::Value;
use std::error::Error as StdError;
use std::time::Duration;
use tokio::time::timeout;

/// Timeout of a request. The guest agent and a live node answer well within it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum size of an answer in bytes: a list of all events of a large namespace comes in pages.
const MOST: usize = 64 << 20;
/// Maximum number of objects in a list and in one page of it: a server could announce further pages for ever.
const MOST_LISTED: usize = 20_000;
const PAGE: usize = 1000;
const TOO_MANY: &str = "there are more than 20000, the most that are listed";

/// A cluster, and the namespace that requests are for.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: kube::Client,
    /// URL of the API server, for messages.
    address: String,
    namespace: String,
}

impl Cluster {
    /// The cluster that these flags choose. No request is sent yet.
    pub(crate) async fn from_args(args: &ConnectArgs) -> Result<Cluster> {
        // Another part of the program may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = args.config().await?;
        let address = format!(
            "{}://{}",
            config.cluster_url.scheme_str().unwrap_or("https"),
            config.cluster_url.authority().map_or("", |authority| authority.as_str())
        );
        let namespace = config.default_namespace.clone();
        let client = kube::Client::try_from(config).map_err(|e| {
            let kind = if matches!(e, kube::Error::Auth(_)) { ErrorKind::Auth } else { ErrorKind::Refused };
            Error::new(kind, format!("cannot talk to the API server {address} with this kubeconfig"))
                .because(e)
        })?;
        Ok(Cluster { client, address, namespace })
    }

    /// Namespace of the flags, or of the context.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The same cluster with another namespace.
    pub(crate) fn within(&self, namespace: &str) -> Cluster {
        Cluster { namespace: namespace.to_owned(), ..self.clone() }
    }

    /// URL of the API server, for messages.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Checks that the API server answers and accepts the user's credentials. No permission is needed for it.
    pub(crate) async fn is_there(&self) -> Result<(), Failure> {
        match self.get("/version").await {
            Err(failure) if failure.code() == 0 || failure.code() == 401 => Err(failure),
            _ => Ok(()),
        }
    }

    /// The object or document at this path.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        let bytes = self.bytes(path).await?;
        self.value(&bytes)
    }

    fn value(&self, bytes: &[u8]) -> Result<Value, Failure> {
        serde_json::from_slice(bytes).map_err(|e| Failure::Unreachable {
            kind: ErrorKind::Refused,
            message: format!("{} did not answer with JSON", self.address),
            cause: Some(e.into()),
        })
    }

    /// The object at this path; `None` for status 404.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        match self.get(path).await {
            Ok(object) => Ok(Some(object)),
            Err(Failure::Refused(refusal)) if refusal.is_absent() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The raw answer at this path.
    pub(crate) async fn bytes(&self, path: &str) -> Result<Vec<u8>, Failure> {
        self.ask(Method::GET, path, None).await
    }

    /// The objects of all pages at this path.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>, Failure> {
        let mut all = Vec::new();
        self.pages(path, |objects| all.extend(objects)).await?;
        Ok(all)
    }

    /// Passes the objects at this path to `take`, page by page. Returns the resourceVersion of the list.
    pub(crate) async fn pages(
        &self,
        path: &str,
        mut take: impl FnMut(Vec<Value>),
    ) -> Result<String, Failure> {
        let sign = match path {
            path if path.ends_with(['?', '&']) => "",
            path if path.contains('?') => "&",
            _ => "?",
        };
        let mut next = String::new();
        for _ in 0..MOST_LISTED / PAGE {
            let mut page = self.get(&format!("{path}{sign}limit={PAGE}{next}")).await?;
            if let Some(objects) = page.get_mut("items").and_then(Value::as_array_mut) {
                take(std::mem::take(objects));
            }
            let says = |field: &str| page["metadata"][field].as_str().unwrap_or_default();
            match says("continue") {
                "" => return Ok(says("resourceVersion").to_owned()),
                token => next = format!("&continue={}", encoded(token)),
            }
        }
        Err(Failure::TooMany)
    }

    /// Opens a watch at this path. Its response header arrives within [`PATIENCE`]; it has no bound itself.
    pub(crate) async fn watch(&self, path: &str) -> Result<Body, Failure> {
        let request = Request::get(path).header(header::ACCEPT, "application/json").body(Body::empty());
        let answer = async {
            let response = self.send(request).await?;
            let status = response.status();
            match status.is_success() {
                true => Ok(response.into_body()),
                false => Err(self.refusal(status, &self.read(response).await?)),
            }
        };
        timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(self.silent()))
    }

    /// Sends a PUT, which asks for an action.
    pub(crate) async fn put(&self, path: &str, body: Option<&Value>) -> Result<(), Failure> {
        self.ask(Method::PUT, path, body).await.map(drop)
    }

    /// Creates an object at this path.
    pub(crate) async fn post(&self, path: &str, object: &Value) -> Result<(), Failure> {
        self.ask(Method::POST, path, Some(object)).await.map(drop)
    }

    /// Changes the given fields of an object by a merge patch.
    pub(crate) async fn patch(&self, path: &str, changes: &Value) -> Result<(), Failure> {
        self.ask(Method::PATCH, path, Some(changes)).await.map(drop)
    }

    /// Sends a document, and returns the document in the answer.
    pub(crate) async fn answer(&self, method: Method, path: &str, body: &Value) -> Result<Value, Failure> {
        let bytes = self.ask(method, path, Some(body)).await?;
        self.value(&bytes)
    }

    /// Deletes the object at this path.
    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Result<(), Failure> {
        self.ask(Method::DELETE, path, Some(options)).await.map(drop)
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Vec<u8>, Failure> {
        let content = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(header::ACCEPT, "application/json, */*");
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, content);
        }
        let body = body.map_or_else(Body::empty, |value| Body::from(value.to_string().into_bytes()));
        let answer = async {
            let response = self.send(request.body(body)).await?;
            let status = response.status();
            let bytes = self.read(response).await?;
            match status.is_success() {
                true => Ok(bytes),
                false => Err(self.refusal(status, &bytes)),
            }
        };
        timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(self.silent()))
    }

    /// Sends a request, and receives the header of its response.
    pub(super) async fn send(
        &self,
        request: Result<Request<Body>, http::Error>,
    ) -> Result<Response<Body>, Failure> {
        let request = request.map_err(|e| Failure::Unreachable {
            kind: ErrorKind::Usage,
            message: "this is not a valid path of the API server".to_owned(),
            cause: Some(e.into()),
        })?;
        self.client.send(request).await.map_err(|e| self.unreachable(&e))
    }

    /// Receives the whole body of a response.
    pub(super) async fn read(&self, response: Response<Body>) -> Result<Vec<u8>, Failure> {
        let body = Limited::new(response.into_body(), MOST).collect().await;
        body.map(|body| body.to_bytes().to_vec()).map_err(|cause| Failure::Unreachable {
            kind: ErrorKind::Failed,
            message: format!("the answer of the API server {} broke off", self.address),
            cause: Some(cause),
        })
    }

    /// The failure in a response with this status and body. A web page has no message of an API server.
    pub(super) fn refusal(&self, status: StatusCode, body: &[u8]) -> Failure {
        if !body.trim_ascii_start().starts_with(b"<") {
            return Failure::Refused(Refusal::from_response(status, body));
        }
        let (address, code) = (&self.address, status.as_u16());
        let (kind, why) = match code {
            401 | 403 => (ErrorKind::Auth, "and is not an API server"),
            400..=499 => (ErrorKind::Refused, "and is not an API server"),
            _ => (ErrorKind::Failed, "and no API server behind it answers"),
        };
        let message = format!("{address} answered {code} with a web page, {why}");
        Failure::Unreachable { kind, message, cause: None }
    }

    /// The failure of a request that ran into the timeout.
    pub(super) fn silent(&self) -> Failure {
        Failure::Unreachable {
            kind: ErrorKind::Failed,
            message: format!(
                "the API server {} did not answer within {} s",
                self.address,
                PATIENCE.as_secs()
            ),
            cause: None,
        }
    }

    fn unreachable(&self, e: &kube::Error) -> Failure {
        let (kind, message) = match e {
            kube::Error::Auth(_) => {
                (ErrorKind::Auth, "the login of the kubeconfig cannot be used".to_owned())
            }
            _ => (ErrorKind::Failed, format!("the API server {} cannot be reached", self.address)),
        };
        Failure::Unreachable { kind, message, cause: Some(reason(e).into()) }
    }
}

/// Cause of a failed request, without the wrapper errors of the client libraries.
fn reason(e: &(dyn StdError + 'static)) -> String {
    let is_ours = |text: &str| !text.starts_with("ServiceError") && !text.starts_with("client error (");
    let all = std::iter::once(e).chain(error_core::causes(e));
    match all.into_iter().find(|cause| is_ours(&cause.to_string())) {
        Some(cause) => error_core::chain(cause),
        None => e.to_string(),
    }
}

/// Reason for the failure of a request.
pub(crate) enum Failure {
    /// The server refused the request.
    Refused(Refusal),
    /// The server could not be reached, or its answer could not be read.
    Unreachable { kind: ErrorKind, message: String, cause: Option<Box<dyn StdError + Send + Sync>> },
    /// A list has more than [`MOST_LISTED`] objects.
    TooMany,
}

impl Failure {
    /// The error of an action, which `doing` describes: "cannot start VM web".
    pub(crate) fn into_error(self, doing: &str) -> Error {
        match self {
            Failure::Refused(refusal) => refusal.of_doing(doing),
            Failure::TooMany => Error::refused(format!("{doing}: {TOO_MANY}")),
            Failure::Unreachable { kind, message, cause } => {
                let error = Error::new(kind, format!("{doing}: {message}"));
                match cause {
                    Some(cause) => error.because(cause),
                    None => error,
                }
            }
        }
    }

    /// Status of the response; 0 without a response.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Failure::Refused(refusal) => refusal.code,
            Failure::Unreachable { .. } | Failure::TooMany => 0,
        }
    }

    /// The message in one line.
    pub(crate) fn message(&self) -> &str {
        match self {
            Failure::Refused(refusal) => &refusal.message,
            Failure::Unreachable { message, .. } => message,
            Failure::TooMany => TOO_MANY,
        }
    }
}

/// A refusal of the server: `metav1.Status`, or the text of a proxy in front of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Status of the response.
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Refusal {
    /// The refusal in a response with this status and body.
    pub(super) fn from_response(status: StatusCode, body: &[u8]) -> Refusal {
        let object: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = match object["kind"] == "Status" {
            true => object["message"].as_str().unwrap_or_default().to_owned(),
            false => String::from_utf8_lossy(body).trim().to_owned(),
        };
        let message = match message.is_empty() {
            true => status.canonical_reason().unwrap_or("no reason given").to_owned(),
            false => printable::line(&message),
        };
        Refusal { code: status.as_u16(), message }
    }

    /// True if the object, or the path, does not exist.
    pub(crate) fn is_absent(&self) -> bool {
        self.code == 404
    }

    fn of_doing(&self, doing: &str) -> Error {
        let error = Error::new(self.kind(), format!("{doing}: {}", self.message));
        match self.hint() {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// virt-api answers 401 to a user whom it knows and does not permit. The API server answers 403, but so
    /// does virt-api to a request that no user may make. For requests to the guest it answers all refusals by
    /// text and 500, as upstream does, including a missing VMI.
    fn kind(&self) -> ErrorKind {
        match self.code {
            401 => ErrorKind::Auth,
            403 if self.message.contains(" cannot ") => ErrorKind::Auth,
            404 => ErrorKind::NotFound,
            409 | 429 => ErrorKind::Failed,
            400..=499 | 501 => ErrorKind::Refused,
            500 if self.message.ends_with("\" not found") => ErrorKind::NotFound,
            _ => ErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        let says = |message: &str| self.message.to_lowercase().contains(message);
        match self.code {
            401 => Some("log in again; 'kubectl auth whoami' shows as whom you are logged in"),
            403 if self.kind() == ErrorKind::Auth => {
                Some("ask for that right; 'kubectl auth can-i --list' shows those that you have")
            }
            404 if says("could not find the requested resource") || says("page not found") => Some(
                "is KubeVirt installed? 'kubectl get kubevirt -A' and \
                 'kubectl get apiservice v1.subresources.kubevirt.io' show it",
            ),
            503 if says("unavailable") || says("no endpoints") || says("currently unable") => Some(
                "virt-api does not answer; 'kubectl get apiservice v1.subresources.kubevirt.io' says why",
            ),
            _ if says("guest agent") => Some("install and start qemu-guest-agent in the guest"),
            _ => None,
        }
    }
}

#[cfg(test)]
impl Cluster {
    /// A cluster with an API server at this address.
    pub(crate) async fn at(server: &str) -> Cluster {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        std::fs::write(&path, "apiVersion: v1\nkind: Config\n").expect("a kubeconfig");
        let command = <ConnectArgs as clap::Args>::augment_args(clap::Command::new("").no_binary_name(true));
        let line = [format!("--kubeconfig={}", path.display()), format!("--server={server}")];
        let args = command.try_get_matches_from(line).expect("flags");
        let args = <ConnectArgs as clap::FromArgMatches>::from_arg_matches(&args).expect("flags");
        Cluster::from_args(&args).await.expect("a cluster")
    }

    /// A cluster whose API server does not answer. As long as the socket lives, nothing listens on its port,
    /// and no other process gets it.
    pub(crate) async fn dead() -> (Cluster, tokio::net::TcpSocket) {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
        let address = socket.local_addr().expect("a port");
        (Cluster::at(&format!("http://{address}")).await, socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virt::wait;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    fn refusal(code: u16, body: &str) -> Refusal {
        Refusal::from_response(StatusCode::from_u16(code).unwrap(), body.as_bytes())
    }

    fn status(message: &str, reason: &str) -> String {
        serde_json::json!({"kind": "Status", "status": "Failure", "message": message, "reason": reason})
            .to_string()
    }

    #[test]
    fn a_refusal_has_the_servers_words_and_a_kind_of_its_own() {
        for (code, body, kind, said) in [
            (
                409,
                status("VM is already running", "Conflict"),
                ErrorKind::Failed,
                "cannot start VM web: VM is already running",
            ),
            (
                404,
                status("virtualmachines.kubevirt.io \"web\" not found", "NotFound"),
                ErrorKind::NotFound,
                "\"web\" not found",
            ),
            (404, "404 page not found\n".to_owned(), ErrorKind::NotFound, "is KubeVirt installed?"),
            (
                500,
                "virtualmachineinstance.kubevirt.io \"web\" not found".to_owned(),
                ErrorKind::NotFound,
                "\"web\" not found",
            ),
            (
                403,
                status("virtualmachines \"web\" is forbidden: User \"me\" cannot update it", ""),
                ErrorKind::Auth,
                "ask for that right",
            ),
            (
                403,
                status("Pausing VMIs with a LivenessProbe is not supported", ""),
                ErrorKind::Refused,
                "not supported",
            ),
            (
                500,
                "VMI does not have guest agent connected".to_owned(),
                ErrorKind::Failed,
                "install and start qemu-guest-agent",
            ),
            (503, "service unavailable".to_owned(), ErrorKind::Failed, "virt-api does not answer"),
            (401, String::new(), ErrorKind::Auth, "cannot start VM web: Unauthorized; log in again"),
            (400, "a\u{1b}[2Jb".to_owned(), ErrorKind::Refused, "a [2Jb"),
        ] {
            let error = Failure::Refused(refusal(code, &body)).into_error("cannot start VM web");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_told_without_the_names_of_libraries() {
        wait(async {
            let (cluster, _socket) = Cluster::dead().await;
            let said = cluster.get("/version").await.unwrap_err().into_error("cannot stop VM web").chain();
            let wanted =
                format!("cannot stop VM web: the API server {} cannot be reached: ", cluster.address());
            assert!(said.starts_with(&wanted) && said.contains("refused"), "{said}");
            assert!(!said.contains("ServiceError") && !said.contains("client error"), "{said}");
            assert_eq!(cluster.is_there().await.unwrap_err().code(), 0);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_server_is_there_whatever_it_permits_to_whom_it_knows() {
        wait(async {
            for (status, is_there) in [("200 OK", true), ("403 Forbidden", true), ("401 Unauthorized", false)]
            {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let cluster = Cluster::at(&format!("http://{}", listener.local_addr().unwrap())).await;
                let serves = async {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let mut request = Vec::new();
                    while !request.ends_with(b"\r\n\r\n") {
                        request.push(stream.read_u8().await.unwrap());
                    }
                    assert!(request.starts_with(b"GET /version "));
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    stream
                };
                let (answer, _stream) = tokio::join!(cluster.is_there(), serves);
                assert_eq!(answer.is_ok(), is_there, "{status}");
            }
            Ok(())
        })
        .unwrap();
    }

    /// A server that says for ever that there are more, and one whose second page is the last.
    #[test]
    fn a_list_that_does_not_end_is_an_error_and_not_a_shorter_list() {
        wait(async {
            for pages in [usize::MAX, 2] {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let cluster = Cluster::at(&format!("http://{}", listener.local_addr().unwrap())).await;
                let serves = async {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    for page in 1_usize.. {
                        let mut request = Vec::new();
                        while !request.ends_with(b"\r\n\r\n") {
                            request.push(stream.read_u8().await.unwrap());
                        }
                        let request = String::from_utf8(request).unwrap();
                        let more = if page > 1 { "&continue=t%2Fk" } else { "" };
                        assert!(request.starts_with(&format!("GET /pods?limit=1000{more} ")), "{request}");
                        let token = if page < pages { "t/k" } else { "" };
                        let metadata = serde_json::json!({"continue": token, "resourceVersion": "7"});
                        let body =
                            serde_json::json!({"metadata": metadata, "items": [{"at": page}]}).to_string();
                        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                        stream.write_all((head + &body).as_bytes()).await.unwrap();
                    }
                };
                let listed = tokio::select! {
                    listed = cluster.list("/pods") => listed,
                    () = serves => unreachable!("it serves for ever"),
                };
                match pages {
                    2 => {
                        assert_eq!(listed.ok(), serde_json::json!([{"at": 1}, {"at": 2}]).as_array().cloned())
                    }
                    _ => {
                        let error = listed.unwrap_err().into_error("cannot list Pods");
                        assert_eq!(error.kind(), ErrorKind::Refused);
                        let wanted = format!("cannot list Pods: there are more than {MOST_LISTED}, the most");
                        assert!(error.to_string().starts_with(&wanted), "{error}");
                    }
                }
            }
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_web_page_is_not_taken_for_words_of_the_server() {
        let cluster = wait(async { Ok(Cluster::at("http://x.example").await) }).unwrap();
        for (code, kind, said) in [
            (
                404,
                ErrorKind::Refused,
                "http://x.example answered 404 with a web page, and is not an API server",
            ),
            (403, ErrorKind::Auth, "answered 403 with a web page, and is not an API server"),
            (502, ErrorKind::Failed, "answered 502 with a web page, and no API server behind it answers"),
        ] {
            let status = StatusCode::from_u16(code).unwrap();
            let failure = cluster.refusal(status, b"\n<!DOCTYPE html><p>nothing here");
            assert!(!matches!(&failure, Failure::Refused(_)));
            let error = failure.into_error("cannot start VM web");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().ends_with(said), "{error}");
        }
        assert!(matches!(cluster.refusal(StatusCode::NOT_FOUND, b"404 page not found"), Failure::Refused(_)));
    }

    #[test]
    fn what_is_in_front_of_the_server_is_named() {
        let failure = Failure::Unreachable {
            kind: ErrorKind::Failed,
            message: "the API server https://x cannot be reached".to_owned(),
            cause: Some("connection refused".into()),
        };
        assert_eq!((failure.code(), failure.message()), (0, "the API server https://x cannot be reached"));
        let error = failure.into_error("cannot stop VM web");
        assert_eq!(
            error.chain(),
            "cannot stop VM web: the API server https://x cannot be reached: connection refused"
        );
    }
}
