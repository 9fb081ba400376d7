//! One upload, from its path to its answer.
//!
//! ```text
//!  route ─► bearer ─► limits ─► claim ─► pod ───► answer
//!   404     400, 401   503       503    502, 504  the pod's own
//! ```
//!
//! To a request with a body the pod is asked whether it wants it (`Expect: 100-continue`), whatever the client has said:
//! what the pod refuses at once (another upload runs, the disk is whole) is answered before the body was read.

use crate::body::{GoAhead, Passed, Passing};
use crate::limits::Limits;
use crate::measures::{Measures, Running};
use crate::pod::{Pods, host};
use crate::route::Route;
use crate::{bearer, claim, headers};
use cluster_client::Writer;
use cluster_model::servers::PORT;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::{Body as _, Bytes};
use jiff::Timestamp;
use serve::token::{Claims, Verifier};
use serve::transport::{Asked, HttpResponse, Pieces, busy, plain};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Silence of a client after which it has broken off, as upload pods have it.
const SILENCE: Duration = Duration::from_secs(10 * 60);
/// The time for the pod to say that it wants a body, after which it is sent nevertheless (RFC 9110, 10.1.1).
const CONTINUE: Duration = Duration::from_secs(5);
/// The time for the answer to a request without a body.
const SHORT: Duration = Duration::from_secs(60);

/// Passes uploads on.
pub(crate) struct Uploads {
    verifier: Arc<Verifier>,
    api: Writer,
    pods: Arc<Pods>,
    limits: Limits,
    /// The time for the pod to answer behind the last byte of a body.
    patience: Duration,
    measures: Arc<Measures>,
}

/// What is kept of a request once its head was looked at.
struct Wanted<'a> {
    route: Route<'a>,
    method: Method,
    headers: HeaderMap,
    claims: Claims,
}

impl Uploads {
    pub(crate) fn new(
        verifier: Arc<Verifier>,
        api: Writer,
        pods: Arc<Pods>,
        patience: Duration,
        measures: Arc<Measures>,
    ) -> Uploads {
        Uploads { verifier, api, pods, limits: Limits::default(), patience, measures }
    }

    /// The answer to a request.
    pub(crate) async fn answer(&self, asked: Asked) -> HttpResponse {
        if let Some(answer) = headers::preflight(&asked.head) {
            return answer;
        }
        let is_of_page = asked.head.headers.contains_key(header::ORIGIN);
        let mut answer = self.looked_at(asked).await;
        if is_of_page {
            headers::allow(answer.headers_mut());
        }
        answer
    }

    async fn looked_at(&self, mut asked: Asked) -> HttpResponse {
        let (path, method) = (asked.head.uri.path().to_owned(), asked.head.method.clone());
        let of_client = &asked.head.headers;
        let expects = of_client.contains_key(header::EXPECT);
        let route = Route::of(&method, &path);
        let claims = match route {
            Route::Nowhere => Err(plain(StatusCode::NOT_FOUND, "there is nothing here")),
            _ => bearer::claims(of_client, &self.verifier, Timestamp::now()),
        };
        let headers = headers::onward(of_client);
        // From here on there may be long to wait.
        asked.drop_head();
        // Whatever is answered, the client comes to read it: what is dropped is drained.
        let body = asked.body.pieces(expects, SILENCE);
        match claims {
            Err(answer) => answer,
            Ok(claims) => self.upload(Wanted { route, method, headers, claims }, body).await,
        }
    }

    async fn upload(&self, wanted: Wanted<'_>, body: Pieces) -> HttpResponse {
        let Claims { namespace, name, .. } = &wanted.claims;
        let _place = match self.limits.take(namespace, name) {
            Ok(place) => place,
            Err(why) => return busy(StatusCode::SERVICE_UNAVAILABLE, &why),
        };
        let passed = Arc::<AtomicU64>::default();
        let running = Running::begin(&self.measures, Arc::clone(&passed));
        let answer = self.passed_on(&wanted, body, passed).await;
        running.ends(answer.status());
        let told = format!("{} to PVC {namespace}/{name}: {}", wanted.method, answer.status());
        match answer.status().is_server_error() {
            true => tracing::warn!("{told}: {}", String::from_utf8_lossy(answer.body()).trim()),
            false => tracing::info!("{told}"),
        }
        answer
    }

    async fn passed_on(&self, wanted: &Wanted<'_>, body: Pieces, passed: Arc<AtomicU64>) -> HttpResponse {
        let Claims { namespace, name, .. } = &wanted.claims;
        let claim::Ready { name: filled, content } = match claim::ready(&self.api, namespace, name).await {
            Ok(ready) => ready,
            Err(why) => return said(StatusCode::SERVICE_UNAVAILABLE, escaped(&why)),
        };
        let Some(path) = wanted.route.at_pod(content) else {
            let what = "an archive has no resumable upload: send it to /v1beta1/upload";
            return plain(StatusCode::NOT_FOUND, what);
        };
        let host = host(namespace, &filled);
        let has_body = !body.is_end_stream();
        let (body, is_passed, go_ahead) = awaited(body, has_body, passed);
        let request = Request::builder().method(wanted.method.clone()).uri(path);
        let mut request = match request.body(body) {
            Ok(request) => request,
            Err(error) => return failed(StatusCode::BAD_GATEWAY, &error.to_string()),
        };
        *request.headers_mut() = wanted.headers.clone();
        if let Ok(value) = HeaderValue::try_from(format!("{host}:{PORT}")) {
            request.headers_mut().insert(header::HOST, value);
        }
        if has_body {
            request.headers_mut().insert(header::EXPECT, HeaderValue::from_static("100-continue"));
            hyper::ext::on_informational(&mut request, move |answer| {
                if answer.status() == StatusCode::CONTINUE {
                    go_ahead.send_replace(true);
                }
            });
        }
        let asks = async {
            match self.pods.connect(&host).await {
                Ok(pod) => pod.asks(request).await,
                Err(why) => {
                    // Addresses and causes are nothing for clients.
                    tracing::warn!("the upload pod of PVC {namespace}/{name} cannot be reached: {why}");
                    Err(format!("the upload pod of PVC {name} cannot be reached; try again"))
                }
            }
        };
        let asks = async {
            match has_body {
                true => asks.await,
                false => timeout(SHORT, asks)
                    .await
                    .unwrap_or_else(|_| Err(format!("{host} did not answer within {} s", SHORT.as_secs()))),
            }
        };
        match in_time(asks, is_passed, self.patience).await {
            Some(Ok(mut answer)) => {
                *answer.headers_mut() = headers::back(answer.headers());
                answer
            }
            Some(Err(why)) => failed(StatusCode::BAD_GATEWAY, &why),
            None => {
                let seconds = self.patience.as_secs();
                let why = format!(
                    "the upload pod of PVC {name} did not answer within {seconds} s after the whole body was passed on; see \
                     whether the upload has succeeded before you try again"
                );
                failed(StatusCode::GATEWAY_TIMEOUT, &why)
            }
        }
    }
}

/// The end of `asks`; nothing where it has not come when `patience` is over, from the end of the body on.
async fn in_time<T>(asks: impl Future<Output = T>, is_passed: Passed, patience: Duration) -> Option<T> {
    let too_late = async {
        // It is told by going.
        let _ = is_passed.await;
        sleep(patience).await;
    };
    tokio::select! {
        biased;
        answer = asks => Some(answer),
        () = too_late => None,
    }
}

/// A body that goes on when the pod says so, what tells its end, and whom the pod is to say it to.
fn awaited(body: Pieces, has_body: bool, passed: Arc<AtomicU64>) -> (Passing, Passed, watch::Sender<bool>) {
    let (go_ahead, mut goes) = watch::channel(!has_body);
    let waits: GoAhead = Box::pin(async move {
        // The sender goes with the request's head where the pod answers at once: then nobody asks for the body.
        let said = async { goes.wait_for(|goes| *goes).await.is_ok() };
        tokio::select! {
            is_said = said => if !is_said { std::future::pending::<()>().await },
            () = sleep(CONTINUE) => {}
        }
    });
    let (body, is_passed) = Passing::new(body, waits, passed);
    (body, is_passed, go_ahead)
}

/// The connection to the pod did not come to an answer.
fn failed(status: StatusCode, why: &str) -> HttpResponse {
    said(status, format!("error in upload-proxy: {why}"))
}

/// A sentence without the end of a line, as CDI writes it.
fn said(status: StatusCode, text: String) -> HttpResponse {
    let mut answer = Response::new(Bytes::from(text));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// A text whose signs mean nothing in a page of HTML, as Go's `html.EscapeString` makes it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '\'' => escaped.push_str("&#39;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&#34;"),
            sign => escaped.push(sign),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_escaped_as_cdi_escapes_it() {
        assert_eq!(
            escaped("rejecting Upload Request for PVC <a> that doesn't exist & \"b\""),
            "rejecting Upload Request for PVC &lt;a&gt; that doesn&#39;t exist &amp; &#34;b&#34;"
        );
        assert_eq!(failed(StatusCode::BAD_GATEWAY, "x").body(), "error in upload-proxy: x");
    }

    #[tokio::test]
    async fn the_time_for_an_answer_begins_with_the_end_of_the_body() {
        let (end, is_passed) = tokio::sync::oneshot::channel();
        // The body is under way: no time is over.
        let asks = sleep(Duration::from_millis(20));
        assert_eq!(in_time(asks, is_passed, Duration::ZERO).await, Some(()));
        drop(end);
        let (end, is_passed) = tokio::sync::oneshot::channel();
        drop(end);
        assert_eq!(in_time(std::future::pending::<()>(), is_passed, Duration::from_millis(1)).await, None);
    }
}
