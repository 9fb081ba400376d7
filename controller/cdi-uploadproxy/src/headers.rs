//! Headers that are passed on, and those that let a browser page of another site upload (CORS).
//!
//! The pod receives only headers that an upload server reads: no token, no cookie, nothing about the
//! connection. The client receives all headers of the pod except those about the connection.

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use hyper::body::Bytes;
use serve::transport::HttpResponse;

/// Headers that are passed on to the pod, besides those with a prefix of [`TUS`].
const GO_ON: [&str; 3] = ["content-encoding", "content-type", "user-agent"];
/// Prefixes of the headers of resumable uploads.
const TUS: [&str; 2] = ["tus-", "upload-"];
/// Headers about the connection (RFC 9110, 7.6.1), which are not passed on, and the length, which is set
/// anew.
const OF_CONNECTION: [&str; 9] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Response headers that a browser page may read.
const SHOWN: &str = "Location, Retry-After, Tus-Extension, Tus-Max-Size, Tus-Resumable, Tus-Version, Upload-Length, Upload-Offset, \
                     Upload-Refused, WWW-Authenticate";

/// Client headers that are passed on to the pod.
pub(crate) fn onward(headers: &HeaderMap) -> HeaderMap {
    let goes_on = |name: &HeaderName| {
        GO_ON.contains(&name.as_str()) || TUS.iter().any(|begin| name.as_str().starts_with(begin))
    };
    let all = headers.iter().filter(|(name, _)| goes_on(name));
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Pod headers that are passed back to the client.
pub(crate) fn back(headers: &HeaderMap) -> HeaderMap {
    // A header that `Connection` names is about the connection as well.
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<String> =
        named.flat_map(|names| names.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect();
    let stays = |name: &HeaderName| {
        OF_CONNECTION.contains(&name.as_str()) || named.iter().any(|other| other == name.as_str())
    };
    let all = headers.iter().filter(|(name, _)| !stays(name));
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The answer to a CORS preflight request. Pages of any site may upload if they have a token. `None` if the
/// request is not a preflight.
pub(crate) fn preflight(head: &Parts) -> Option<HttpResponse> {
    let method = head.headers.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
    if head.method != Method::OPTIONS || !head.headers.contains_key(header::ORIGIN) {
        return None;
    }
    let mut answer = Response::new(Bytes::new());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let headers = answer.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    if let Some(wanted) = head.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";
    headers.insert(header::VARY, HeaderValue::from_static(vary));
    allow(headers);
    Some(answer)
}

/// Lets pages of any site read the answer.
pub(crate) fn allow(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(SHOWN));
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap())
        };
        all.iter().map(header).collect()
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn no_token_and_nothing_about_the_connection_goes_on() {
        let of_client = headers(&[
            ("authorization", "Bearer a.b.c"),
            ("cookie", "a=b"),
            ("connection", "upload-offset"),
            ("content-length", "5"),
            ("content-type", "application/octet-stream"),
            ("expect", "100-continue"),
            ("host", "proxy"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("tus-resumable", "1.0.0"),
            ("upload-offset", "7"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-http-method-override", "DELETE"),
        ]);
        assert_eq!(names(&onward(&of_client)), ["content-type", "tus-resumable", "upload-offset"]);
    }

    #[test]
    fn the_pods_headers_go_back_but_those_about_its_connection() {
        let of_pod = headers(&[
            ("connection", "close, X-Hop"),
            ("content-length", "5"),
            ("content-type", "text/plain"),
            ("keep-alive", "timeout=5"),
            ("location", "/v1beta1/upload-tus/5.a"),
            ("transfer-encoding", "chunked"),
            ("upload-offset", "7"),
            ("x-hop", "1"),
        ]);
        assert_eq!(names(&back(&of_pod)), ["content-type", "location", "upload-offset"]);
    }

    #[test]
    fn a_browser_is_told_that_any_page_may_upload() {
        let asks = |method: &str, all: &[(&str, &str)]| {
            let mut head = Request::builder().method(method).body(()).unwrap().into_parts().0;
            head.headers = headers(all);
            preflight(&head)
        };
        let origin = ("origin", "https://console.example");
        let wants = ("access-control-request-method", "POST");
        let all = [origin, wants, ("access-control-request-headers", "authorization")];
        let answer = asks("OPTIONS", &all).unwrap();
        let said = |name: HeaderName| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(answer.status(), 204);
        assert_eq!(said(header::ACCESS_CONTROL_ALLOW_ORIGIN), "*");
        assert_eq!(said(header::ACCESS_CONTROL_ALLOW_METHODS), "POST");
        assert_eq!(said(header::ACCESS_CONTROL_ALLOW_HEADERS), "authorization");
        // An OPTIONS request without both headers is a tus request, and a POST is never a preflight.
        assert!(asks("OPTIONS", &[origin]).is_none() && asks("OPTIONS", &[wants]).is_none());
        assert!(asks("POST", &[origin, wants]).is_none());
    }
}
