//! HTTP server of the page: connections, limits, and dispatch of requests.

use super::answer::{self, Body, Refusal, Welcome};
use super::authentication::{Authenticator, Verdict, secret};
use super::bridge::{self, Target};
use super::route::{Route, Step, VmName};
use super::uploads::{self, Begin, Uploads};
use super::{changes, details};
use crate::error::{Error, Result};
use crate::relay::is_ours;
use crate::virt::client::Cluster;
use crate::virt::upload::ProxySettings;
use cluster_model::objects::{Kind, escaped};
use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Bytes, Incoming};
use serde_json::{Value, json};
use std::fmt;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use transport::{Http1, LocalServer};

/// Maximum number of connections, and of the bytes and fields of a head. A browser opens six connections for a
/// page, and streams beside them.
const SERVER: LocalServer =
    LocalServer { connections: 64, http: Http1 { buffer: 32 << 10, fields: 64, head: Some(PATIENCE) } };
/// Maximum number of open consoles and screens.
const STREAMS: usize = 32;
/// Timeout of a request's header or body, and of an idle connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum size of a request body in bytes: only the form of an upload has a body.
const BODY: usize = 4 << 10;
/// Maximum size of a file's front in bytes.
const FRONT: usize = 64 << 10;

/// Selection of VMs that the page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A single VM, whose screen is shown first.
    One { namespace: String, name: String },
    /// All VMs of a namespace.
    Namespace(String),
    /// All VMs of the cluster.
    All,
}

impl Scope {
    /// Path that lists the objects of a kind, with a query.
    pub(super) fn path(&self, kind: Kind, query: &str) -> String {
        match self {
            Scope::One { namespace, name } => {
                let selector = escaped(&format!("metadata.name={name}"));
                format!("{}?fieldSelector={selector}&{query}", kind.collection(namespace))
            }
            Scope::Namespace(namespace) => format!("{}?{query}", kind.collection(namespace)),
            Scope::All => format!("{}?{query}", kind.collection("")),
        }
    }

    /// The namespace, unless the scope is all namespaces.
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Scope::One { namespace, .. } | Scope::Namespace(namespace) => Some(namespace),
            Scope::All => None,
        }
    }

    /// True if the page may show this VM.
    fn has(&self, place: &VmName) -> bool {
        self.namespace().is_none_or(|namespace| namespace == place.namespace)
            && !matches!(self, Scope::One { name, .. } if *name != place.name)
    }

    /// Path that the page begins at.
    fn beginning(&self) -> String {
        match self {
            Scope::One { namespace, name } => format!("/#/{namespace}/{name}/screen"),
            _ => "/".to_owned(),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::One { namespace, name } => write!(f, "VM {name} in namespace {namespace}"),
            Scope::Namespace(namespace) => write!(f, "namespace {namespace}"),
            Scope::All => f.write_str("all namespaces"),
        }
    }
}

/// State that all requests share.
struct Site {
    cluster: Cluster,
    scope: Scope,
    authenticator: Authenticator,
    port: u16,
    streams: Arc<Semaphore>,
    uploads: Uploads,
}

/// The server, once it listens.
pub(crate) struct Server {
    listener: TcpListener,
    site: Arc<Site>,
    token: String,
}

impl Server {
    /// Listens on this port of 127.0.0.1, or on any free one for 0. Uploads go to the upload proxy `at`.
    pub(crate) async fn listen(
        cluster: Cluster,
        scope: Scope,
        port: u16,
        at: ProxySettings,
    ) -> Result<Server> {
        let cannot = |e| {
            let error = Error::io(format!("cannot listen on port {port} of 127.0.0.1"), e);
            error.with_hint("say another --port, or none")
        };
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        let (authenticator, token) = Authenticator::new(port)?;
        let streams = Arc::new(Semaphore::new(STREAMS));
        let uploads = Uploads::new(at);
        let site = Arc::new(Site { cluster, scope, authenticator, port, streams, uploads });
        Ok(Server { listener, site, token })
    }

    /// Address with the token, which is good once.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.site.port, self.token)
    }

    /// Serves the page until the program ends.
    pub(crate) async fn serve(self) -> Result<()> {
        let site = self.site;
        let handler = move |request| {
            let site = site.clone();
            async move { answer(&site, request).await }
        };
        SERVER.serve(|| self.listener.accept(), admit, handler).await;
        Ok(())
    }
}

/// Admits programs of the same user. A browser of another user would have no session, and must not even learn
/// that this page exists.
fn admit(stream: &TcpStream) -> Result<(), String> {
    // Keys must be sent at once, without Nagle's algorithm.
    let _ = stream.set_nodelay(true);
    match stream.as_fd().try_clone_to_owned().is_ok_and(|socket| is_ours(&socket.into())) {
        true => Ok(()),
        false => Err("a connection was refused: its program belongs to another user".to_owned()),
    }
}

async fn answer(site: &Site, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let response = match site.authenticator.authenticate(&head) {
        Verdict::Refused(sentence) => {
            let mut response = Refusal::new(StatusCode::FORBIDDEN, sentence).answer();
            // Another site in the user's browser could hold all connections by refused requests.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
        Verdict::Welcome(session) => {
            let beginning = site.scope.beginning();
            page(site, Some(&Welcome { session, beginning })).unwrap_or_else(|refusal| refusal.answer())
        }
        Verdict::Anyone(sentence) => {
            let route = Route::parse(&head.method, head.uri.path(), head.uri.query().unwrap_or_default());
            let answered = match route {
                Ok(Route::Page) => page(site, None),
                Ok(Route::File(asset)) => Ok(answer::asset(asset)),
                _ => Err(Refusal::new(StatusCode::FORBIDDEN, sentence)),
            };
            answered.unwrap_or_else(|refusal| {
                let mut response = refusal.answer();
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                response
            })
        }
        Verdict::Known => {
            let known = known(site, Request::from_parts(head, body)).await;
            known.unwrap_or_else(|refusal| refusal.answer())
        }
    };
    answer::secured(response)
}

/// The page, with a session if it was opened by the token.
fn page(site: &Site, welcome: Option<&Welcome>) -> Result<Response<Body>, Refusal> {
    Ok(answer::page(site.port, &secret()?, welcome))
}

/// Answers a request with a session.
async fn known(site: &Site, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    let uri = request.uri();
    let route = Route::parse(request.method(), uri.path(), uri.query().unwrap_or_default())?;
    let Site { cluster, scope, .. } = site;
    let answer = match route {
        Route::Page => page(site, None)?,
        Route::File(asset) => answer::asset(asset),
        Route::List => {
            let all = changes::list(cluster, scope).await?;
            answer::value(&changes::shown(&all, cluster, scope))
        }
        Route::Changes => changes::stream(cluster.clone(), scope.clone()),
        Route::Vm(place) => answer::value(&details::vm(cluster, site.within(&place)?).await?),
        Route::Why(place) => answer::value(&details::why(cluster, site.within(&place)?).await?),
        Route::Events(place) => answer::value(&details::events(cluster, site.within(&place)?).await?),
        Route::Power(verb, place) => {
            site.within(&place)?;
            small(request.into_body(), BODY).await?;
            verb.ask(cluster, &place).await?;
            answer::value(&json!({"asked": verb.word()}))
        }
        Route::Classes => answer::value(&classes(cluster).await?),
        Route::Inspect => {
            let length = request.headers().get("upload-length").and_then(|value| value.to_str().ok());
            let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
            let front = small(request.into_body(), FRONT).await?;
            answer::value(&uploads::inspect_file(front, length).await?)
        }
        Route::Uploads => answer::value(&site.uploads.shown()),
        Route::Upload(step, place) => {
            site.within(&place)?;
            match step {
                Step::Begin => {
                    let form = small(request.into_body(), BODY).await?;
                    site.uploads.begin(cluster, &place, Begin::parse(&form)?)?;
                    answer::value(&json!({"begun": true}))
                }
                Step::Part => {
                    let (head, body) = request.into_parts();
                    site.uploads.take(&place, &head.headers, body).await?
                }
                Step::End => {
                    site.uploads.forget(&place)?;
                    answer::value(&json!({"ended": true}))
                }
            }
        }
        Route::Console(mode, place) => site.bridge(request, Target::console(site.within(&place)?, mode))?,
        Route::Screen(mode, place) => site.bridge(request, Target::screen(site.within(&place)?, mode))?,
    };
    Ok(answer)
}

/// Receives a body of at most `most` bytes.
async fn small(body: Incoming, most: usize) -> Result<Bytes, Refusal> {
    let is_small = hyper::body::Body::size_hint(&body).lower() <= most as u64;
    if is_small && let Ok(Ok(body)) = timeout(PATIENCE, Limited::new(body, most).collect()).await {
        return Ok(body.to_bytes());
    }
    let sentence = format!("the body of this request has {most} bytes at most");
    Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, sentence))
}

/// Names of the storage classes for the form of an upload; empty if the user may not list them.
async fn classes(cluster: &Cluster) -> Result<Value, Refusal> {
    let all = match cluster.list(&Kind::StorageClass.collection("")).await {
        Ok(all) => all,
        Err(failure) if matches!(failure.code(), 401 | 403 | 404) => Vec::new(),
        Err(failure) => return Err(failure.into_error("cannot list StorageClasses").into()),
    };
    Ok(json!(all.iter().filter_map(|class| class["metadata"]["name"].as_str()).collect::<Vec<_>>()))
}

impl Site {
    /// The VM, if the page may show it.
    fn within<'a>(&self, place: &'a VmName) -> Result<&'a VmName, Refusal> {
        if self.scope.has(place) {
            return Ok(place);
        }
        let sentence = format!(
            "this page is about {}; 'coracle ui -n {}' shows VM {}, 'coracle ui -A' all VMs",
            self.scope, place.namespace, place.name
        );
        Err(Refusal::new(StatusCode::NOT_FOUND, sentence))
    }

    fn bridge(&self, request: Request<Incoming>, target: Target) -> Result<Response<Body>, Refusal> {
        let permit = self.streams.clone().try_acquire_owned().map_err(|_| {
            let sentence = format!("{STREAMS} consoles and screens are open: close some of them");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, sentence)
        })?;
        bridge::open(request, self.cluster.clone(), target, permit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_a_path_and_a_phrase() {
        let blue = Scope::Namespace("blue".to_owned());
        let kind = Kind::VirtualMachine;
        assert_eq!(blue.path(kind, "a=b"), "/apis/kubevirt.io/v1/namespaces/blue/virtualmachines?a=b");
        assert_eq!(Scope::All.path(kind, "a=b"), "/apis/kubevirt.io/v1/virtualmachines?a=b");
        assert_eq!((blue.to_string().as_str(), blue.namespace()), ("namespace blue", Some("blue")));
        let one = Scope::One { namespace: "blue".to_owned(), name: "web".to_owned() };
        assert_eq!(
            one.path(kind, "a=b"),
            "/apis/kubevirt.io/v1/namespaces/blue/virtualmachines?fieldSelector=metadata.name%3Dweb&a=b"
        );
        assert_eq!((one.beginning().as_str(), blue.beginning().as_str()), ("/#/blue/web/screen", "/"));
        let place =
            |namespace: &str, name: &str| VmName { namespace: namespace.to_owned(), name: name.to_owned() };
        assert!(one.has(&place("blue", "web")) && !one.has(&place("blue", "db")));
        assert!(
            blue.has(&place("blue", "db"))
                && !blue.has(&place("red", "web"))
                && !one.has(&place("red", "web"))
        );
        assert_eq!((Scope::All.to_string().as_str(), Scope::All.namespace()), ("all namespaces", None));
    }
}
