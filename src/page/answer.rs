//! HTTP responses: the page, its files, JSON, and errors as one sentence.

use super::assets::{Asset, INDEX};
use crate::error::{Error, ErrorKind};
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::Bytes;
use serde_json::{Value, json};

/// Body of a response.
pub(super) type Body = transport::AnswerBody;

const JSON: &str = "application/json";

/// An error response: its status, and a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) sentence: String,
}

impl Refusal {
    /// A refusal with this status.
    pub(super) fn new(status: StatusCode, sentence: impl Into<String>) -> Refusal {
        Refusal { status, sentence: sentence.into() }
    }

    /// The refusal as JSON response.
    pub(super) fn answer(&self) -> Response<Body> {
        whole(self.status, JSON, json!({ "error": self.sentence }).to_string())
    }
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Refusal {
        let status = match e.kind() {
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Usage | ErrorKind::Refused => StatusCode::UNPROCESSABLE_ENTITY,
            // 403 stands for a request without a session.
            ErrorKind::Auth | ErrorKind::Failed | ErrorKind::Interrupted => StatusCode::BAD_GATEWAY,
        };
        Refusal::new(status, e.chain())
    }
}

/// A response with these bytes.
fn whole(status: StatusCode, media_type: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    transport::response(status, media_type, Body::whole(bytes))
}

/// A value as JSON.
pub(super) fn value(value: &Value) -> Response<Body> {
    whole(StatusCode::OK, JSON, value.to_string())
}

/// A response without a body, with a number in a header.
pub(super) fn at(status: StatusCode, name: &HeaderName, number: u64) -> Response<Body> {
    let mut response = Response::new(Body::default());
    *response.status_mut() = status;
    response.headers_mut().insert(name, HeaderValue::from(number));
    response
}

/// A file of the page.
pub(super) fn asset(asset: &'static Asset) -> Response<Body> {
    whole(StatusCode::OK, asset.media_type(), asset.bytes)
}

/// Values for a page that was opened by the token.
#[derive(Debug)]
pub(super) struct Welcome {
    /// Session key in base64url.
    pub(super) session: String,
    /// Path that the page begins at. Namespaces and names need no HTML escaping.
    pub(super) beginning: String,
}

/// The page. `word` is the nonce of the policy: only styles of the page's own scripts have it.
pub(super) fn page(port: u16, word: &str, welcome: Option<&Welcome>) -> Response<Body> {
    let given = |of: fn(&Welcome) -> &String| welcome.map_or("", |welcome| of(welcome).as_str());
    let index = INDEX.replace("NONCE", word);
    let index = index.replace("SESSION", given(|welcome| &welcome.session));
    let index = index.replace("BEGINNING", given(|welcome| &welcome.beginning));
    let mut response = whole(StatusCode::OK, "text/html; charset=utf-8", index.into_bytes());
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{word}'; style-src-attr 'unsafe-inline'; \
         img-src 'self' data:; connect-src 'self' ws://127.0.0.1:{port}; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Adds security headers: no caching, framing, MIME sniffing, foreign content or referrer.
pub(super) fn secured(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    for (name, text) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(text));
    }
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(nothing);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_may_be_kept_framed_or_load_anything() {
        let refusal = Refusal::new(StatusCode::NOT_FOUND, "no");
        for response in [refusal.answer(), value(&json!([])), page(1, "w", None)] {
            let response = secured(response);
            let says = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
            assert_eq!(says("cache-control"), "no-store");
            assert_eq!(says("x-content-type-options"), "nosniff");
            assert!(!response.headers().contains_key("set-cookie"));
            let policy = says("content-security-policy");
            assert!(policy.starts_with("default-src 'none'; ") && policy.contains("frame-ancestors 'none'"));
        }
    }

    #[test]
    fn the_page_lets_in_nothing_but_itself() {
        let response = page(4000, "word", None);
        let policy = response.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("connect-src 'self' ws://127.0.0.1:4000;"), "{policy}");
        assert!(policy.contains("script-src 'self';") && policy.contains("style-src 'self' 'nonce-word';"));
        // Terminals need styles of elements; scripts must be the page's own files.
        assert_eq!(policy.matches("unsafe").count(), 1);
        for elsewhere in ["http:", "https:", "*", "blob:"] {
            assert!(!policy.contains(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn errors_are_sentences_with_a_status() {
        let refusal = Refusal::from(Error::new(ErrorKind::NotFound, "no VM web").with_hint("look again"));
        assert_eq!((refusal.status.as_u16(), refusal.sentence.as_str()), (404, "no VM web; look again"));
        assert_eq!(Refusal::from(Error::failed("x")).status.as_u16(), 502);
        assert_eq!(refusal.answer().headers()["content-type"], JSON);
    }
}
