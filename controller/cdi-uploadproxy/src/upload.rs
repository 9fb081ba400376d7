//! Handling of one upload, from its path to its answer.
//!
//! ```text
//!  route ─► bearer ─► limits ─► claim ─► pod ───► answer
//!   404     400, 401   503       503    502, 504  the pod's own
//! ```
//!
//! Each request with a body is announced to the pod with `Expect: 100-continue`, whether or not the client
//! did so. If the pod refuses at once (another upload runs, the disk is complete), the answer is returned
//! before the body is read.

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
use serve::transport::{HttpResponse, IncomingRequest, Pieces, busy, plain};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Time after which a client that sends nothing has broken off; as in upload pods.
const SILENCE: Duration = Duration::from_secs(10 * 60);
/// Time limit for the pod's `100 Continue`. After it the body is sent nevertheless (RFC 9110, 10.1.1).
const CONTINUE: Duration = Duration::from_secs(5);
/// Time limit for the answer to a request without a body.
const SHORT: Duration = Duration::from_secs(60);

/// Handler of uploads: checks the token, and forwards the bytes to the upload pod of the PVC.
pub(crate) struct Uploads {
    verifier: Arc<Verifier>,
    api: Writer,
    pods: Arc<Pods>,
    limits: Limits,
    /// Time limit for the pod to answer after the last byte of a body.
    patience: Duration,
    measures: Arc<Measures>,
}

/// Parts of a request that are kept after its head was read.
struct AuthorizedRequest<'a> {
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

    /// Answers one request, with headers for cross-origin requests if a page sent it.
    pub(crate) async fn answer(&self, asked: IncomingRequest) -> HttpResponse {
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

    async fn looked_at(&self, mut asked: IncomingRequest) -> HttpResponse {
        let (path, method) = (asked.head.uri.path().to_owned(), asked.head.method.clone());
        let of_client = &asked.head.headers;
        let expects = of_client.contains_key(header::EXPECT);
        let route = Route::of(&method, &path);
        let claims = match route {
            Route::Nowhere => Err(plain(StatusCode::NOT_FOUND, "unknown path; upload to /v1beta1/upload")),
            _ => bearer::claims(of_client, &self.verifier, Timestamp::now()),
        };
        let headers = headers::onward(of_client);
        // Waiting may take long from here on, so the memory of the head is freed.
        asked.drop_head();
        // Every answer reaches the client: `Pieces` drains the body when it is dropped.
        let body = asked.body.pieces(expects, SILENCE);
        match claims {
            Err(answer) => answer,
            Ok(claims) => self.upload(AuthorizedRequest { route, method, headers, claims }, body).await,
        }
    }

    async fn upload(&self, wanted: AuthorizedRequest<'_>, body: Pieces) -> HttpResponse {
        let Claims { namespace, name, .. } = &wanted.claims;
        let _place = match self.limits.take(namespace, name) {
            Ok(place) => place,
            Err(why) => return busy(StatusCode::SERVICE_UNAVAILABLE, &why),
        };
        let passed = Arc::<AtomicU64>::default();
        let running = Running::begin(&self.measures, Arc::clone(&passed));
        let answer = self.passed_on(&wanted, body, passed).await;
        running.finish(answer.status());
        let told = format!("{} to PVC {namespace}/{name}: {}", wanted.method, answer.status());
        match answer.status().is_server_error() {
            true => tracing::warn!("{told}: {}", String::from_utf8_lossy(answer.body()).trim()),
            false => tracing::info!("{told}"),
        }
        answer
    }

    async fn passed_on(
        &self,
        wanted: &AuthorizedRequest<'_>,
        body: Pieces,
        passed: Arc<AtomicU64>,
    ) -> HttpResponse {
        let Claims { namespace, name, .. } = &wanted.claims;
        let claim::Ready { name: filled, content } = match claim::ready(&self.api, namespace, name).await {
            Ok(ready) => ready,
            Err(why) => return said(StatusCode::SERVICE_UNAVAILABLE, escaped(&why)),
        };
        let Some(path) = wanted.route.at_pod(content) else {
            let what = "archives do not support resumable uploads; send the archive to /v1beta1/upload";
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
                    // Addresses and causes are not for clients.
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

/// Result of `asks`; `None` if it takes longer than `patience` after the end of the body.
async fn in_time<T>(asks: impl Future<Output = T>, is_passed: Passed, patience: Duration) -> Option<T> {
    let too_late = async {
        // The end of the body is signalled by the drop of the sender.
        let _ = is_passed.await;
        sleep(patience).await;
    };
    tokio::select! {
        biased;
        answer = asks => Some(answer),
        () = too_late => None,
    }
}

/// Body that is sent once the pod wants it, with the signal of its end, and the sender by which the pod's
/// `100 Continue` is reported.
fn awaited(body: Pieces, has_body: bool, passed: Arc<AtomicU64>) -> (Passing, Passed, watch::Sender<bool>) {
    let (go_ahead, mut goes) = watch::channel(!has_body);
    let waits: GoAhead = Box::pin(async move {
        // The sender is dropped with the request's head if the pod answers at once. Then the body is not
        // read.
        let said = async { goes.wait_for(|goes| *goes).await.is_ok() };
        tokio::select! {
            is_said = said => if !is_said { std::future::pending::<()>().await },
            () = sleep(CONTINUE) => {}
        }
    });
    let (body, is_passed) = Passing::new(body, waits, passed);
    (body, is_passed, go_ahead)
}

/// The answer for a failed connection or request to the pod.
fn failed(status: StatusCode, why: &str) -> HttpResponse {
    said(status, format!("error in upload-proxy: {why}"))
}

/// Plain text without a line end, as CDI writes it.
fn said(status: StatusCode, text: String) -> HttpResponse {
    let mut answer = Response::new(Bytes::from(text));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// HTML-escapes a text as Go's `html.EscapeString` does.
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
        // The body is still being sent: the time has not begun.
        let asks = sleep(Duration::from_millis(20));
        assert_eq!(in_time(asks, is_passed, Duration::ZERO).await, Some(()));
        drop(end);
        let (end, is_passed) = tokio::sync::oneshot::channel();
        drop(end);
        assert_eq!(in_time(std::future::pending::<()>(), is_passed, Duration::from_millis(1)).await, None);
    }
}
