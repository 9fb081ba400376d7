//! Requests to the API server, one at a time, and errors made from its refusals. **Guarantees.** Every request ends
//! within [`PATIENCE`], its answer has at most [`MOST`] bytes, and none is sent twice. Messages of the server become
//! one line, in which control characters are escaped.

use super::connect::ConnectArgs;
use super::failure::Failure;
use crate::error::{Error, ErrorKind, Result};
use cluster_model::answer::BoundedObject;
use cluster_model::objects::{Kind, escaped, is_whole};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde::de::DeserializeOwned;
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
    pub(crate) async fn check_server(&self) -> Result<(), Failure> {
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

    fn value<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, Failure> {
        serde_json::from_slice(bytes).map_err(|e| {
            Failure::new(ErrorKind::Refused, format!("{} did not answer with JSON", self.address)).because(e)
        })
    }

    /// The object of this name in the namespace. `doing` describes the action: "cannot start VM web".
    pub(crate) async fn object(&self, kind: Kind, name: &str, doing: &str) -> Result<Value> {
        let found = self.get(&kind.object(&self.namespace, name)).await;
        found.map_err(|failure| failure.into_error(doing))
    }

    /// The object at this path; `None` for status 404.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        match self.get(path).await {
            Ok(object) => Ok(Some(object)),
            Err(failure) if failure.code() == 404 => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The raw answer at this path.
    pub(crate) async fn bytes(&self, path: &str) -> Result<Vec<u8>, Failure> {
        self.ask(Method::GET, path, None).await
    }

    /// The objects of all pages at this path. Of an object that is nested too deep or has too many values, the
    /// metadata alone are read ([`is_whole`]).
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>, Failure> {
        let mut all = Vec::new();
        self.pages(path, |objects| all.extend(objects)).await?;
        Ok(all)
    }

    /// The same for a caller who needs more than the metadata of each object.
    pub(crate) async fn list_whole(&self, path: &str) -> Result<Vec<Value>, Failure> {
        let all = self.list(path).await?;
        let Some(partial) = all.iter().find(|object| !is_whole(object)) else { return Ok(all) };
        let name = partial["metadata"]["name"].as_str().unwrap_or_default();
        let what = printable::line(&format!("{name} is nested too deep, or has too many values"));
        Err(Failure::new(ErrorKind::Refused, what))
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
            let bytes = self.bytes(&format!("{path}{sign}limit={PAGE}{next}")).await?;
            // Some servers store and return invalid UTF-8 unchanged.
            let BoundedObject(mut page) = self.value(String::from_utf8_lossy(&bytes).as_bytes())?;
            if let Some(objects) = page.get_mut("items").and_then(Value::as_array_mut) {
                take(std::mem::take(objects));
            }
            let says = |field: &str| page["metadata"][field].as_str().unwrap_or_default();
            match says("continue") {
                "" => return Ok(says("resourceVersion").to_owned()),
                token => next = format!("&continue={}", escaped(token)),
            }
        }
        Err(Failure::too_many())
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

    /// Changes an object: the given fields by a merge patch, or by a JSON patch, which is a list.
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
        let content = match (&method, body) {
            (&Method::PATCH, Some(Value::Array(_))) => "application/json-patch+json",
            (&Method::PATCH, _) => "application/merge-patch+json",
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
        let request = request.map_err(|e| {
            Failure::new(ErrorKind::Usage, "this is not a valid path of the API server").because(e)
        })?;
        self.client.send(request).await.map_err(|e| self.unreachable(&e))
    }

    /// Receives the whole body of a response.
    pub(super) async fn read(&self, response: Response<Body>) -> Result<Vec<u8>, Failure> {
        let body = Limited::new(response.into_body(), MOST).collect().await;
        body.map(|body| body.to_bytes().to_vec()).map_err(|cause| {
            let what = format!("the answer of the API server {} broke off", self.address);
            Failure::new(ErrorKind::Failed, what).because(cause)
        })
    }

    /// The failure in a response with this status and body. A web page has no message of an API server.
    pub(super) fn refusal(&self, status: StatusCode, body: &[u8]) -> Failure {
        if !body.trim_ascii_start().starts_with(b"<") {
            return Failure::from_response(status, body);
        }
        let (address, code) = (&self.address, status.as_u16());
        let (kind, why) = match code {
            401 | 403 => (ErrorKind::Auth, "and is not an API server"),
            400..=499 => (ErrorKind::Refused, "and is not an API server"),
            _ => (ErrorKind::Failed, "and no API server behind it answers"),
        };
        Failure::new(kind, format!("{address} answered {code} with a web page, {why}"))
    }

    /// The failure of a request that ran into the timeout.
    pub(super) fn silent(&self) -> Failure {
        let (address, seconds) = (&self.address, PATIENCE.as_secs());
        let what = format!("the API server {address} did not answer within {seconds} s");
        Failure::new(ErrorKind::Failed, what)
    }

    fn unreachable(&self, e: &kube::Error) -> Failure {
        let failure = match e {
            kube::Error::Auth(_) => {
                Failure::new(ErrorKind::Auth, "the login of the kubeconfig cannot be used")
            }
            _ => {
                let what = format!("the API server {} cannot be reached", self.address);
                Failure::new(ErrorKind::Failed, what)
            }
        };
        failure.because(reason(e))
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

    #[test]
    fn a_server_that_is_not_there_is_told_without_the_names_of_libraries() {
        wait(async {
            let (cluster, _socket) = Cluster::dead().await;
            let said = cluster.get("/version").await.unwrap_err().into_error("cannot stop VM web").chain();
            let wanted =
                format!("cannot stop VM web: the API server {} cannot be reached: ", cluster.address());
            assert!(said.starts_with(&wanted) && said.contains("refused"), "{said}");
            assert!(!said.contains("ServiceError") && !said.contains("client error"), "{said}");
            assert_eq!(cluster.check_server().await.unwrap_err().code(), 0);
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
                let (answer, _stream) = tokio::join!(cluster.check_server(), serves);
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
    fn an_object_that_is_too_deep_leaves_the_list_as_it_is() {
        wait(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let cluster = Cluster::at(&format!("http://{}", listener.local_addr().unwrap())).await;
            let deep = format!("{}0{}", "[".repeat(200), "]".repeat(200));
            let body = format!(
                r#"{{"items":[{{"metadata":{{"name":"a"}},"spec":1}},{{"metadata":{{"name":"b"}},"spec":{deep}}}]}}"#
            );
            let serves = async {
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let _ = stream.read(&mut [0; 4096]).await.unwrap();
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    stream.write_all((head + &body).as_bytes()).await.unwrap();
                }
            };
            let lists = async { (cluster.list("/a").await, cluster.list_whole("/a").await) };
            let (listed, whole) = tokio::select! {
                lists = lists => lists,
                () = serves => unreachable!("it serves for ever"),
            };
            let listed = listed.map_err(|failure| failure.into_error("cannot list"))?;
            assert_eq!(listed[0], serde_json::json!({"metadata": {"name": "a"}, "spec": 1}));
            assert_eq!(listed[1]["metadata"]["name"], "b");
            assert!(is_whole(&listed[0]) && !is_whole(&listed[1]) && listed.len() == 2);
            let error = whole.unwrap_err().into_error("cannot read As");
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert_eq!(error.to_string(), "cannot read As: b is nested too deep, or has too many values");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn the_form_of_a_patch_is_that_of_its_changes() {
        wait(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let cluster = Cluster::at(&format!("http://{}", listener.local_addr().unwrap())).await;
            for (changes, wanted) in [
                (serde_json::json!({"spec": null}), "content-type: application/merge-patch+json\r\n"),
                (serde_json::json!([]), "content-type: application/json-patch+json\r\n"),
            ] {
                let serves = async {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let mut request = vec![0; 4096];
                    let length = stream.read(&mut request).await.unwrap();
                    let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
                    stream.write_all(answer).await.unwrap();
                    String::from_utf8(request[..length].to_vec()).unwrap()
                };
                let (done, request) = tokio::join!(cluster.patch("/a", &changes), serves);
                assert!(done.is_ok() && request.contains(wanted), "{request}");
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
            assert_eq!(failure.code(), 0);
            let error = failure.into_error("cannot start VM web");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().ends_with(said), "{error}");
        }
        assert_eq!(cluster.refusal(StatusCode::NOT_FOUND, b"404 page not found").code(), 404);
    }
}
