//! The bearer token of a request, and the refusal of a request without a valid one.
//!
//! | token | answer |
//! |---|---|
//! | none, or a header of another form | 400, without a body, as CDI answers |
//! | unknown signature, or expired | 401, without a body; `WWW-Authenticate` gives the reason (RFC 6750) |
//! | valid, but not for an upload to a PVC | 400, without a body |

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::body::Bytes;
use jiff::Timestamp;
use serve::token::{Claims, TokenError, Verifier};
use serve::transport::HttpResponse;

/// Returns the claims of the token in these headers, or the refusal of a request without a valid token.
#[allow(clippy::result_large_err, reason = "an answer is as large as an answer, and this is asked once")]
pub(crate) fn claims(
    headers: &HeaderMap,
    verifier: &Verifier,
    now: Timestamp,
) -> Result<Claims, HttpResponse> {
    let Some(token) = token(headers) else {
        return Err(answer(
            StatusCode::BAD_REQUEST,
            "an upload needs the header Authorization: Bearer TOKEN",
        ));
    };
    verifier.verify(token, now).map_err(|refused| {
        tracing::info!("refused an upload: {refused}");
        let status = match refused {
            TokenError::OtherPurpose => StatusCode::BAD_REQUEST,
            _ => StatusCode::UNAUTHORIZED,
        };
        answer(status, &refused.to_string())
    })
}

/// Returns the token if exactly one `Authorization` header has the form `Bearer TOKEN`.
fn token(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    let (kind, token) = only.to_str().ok()?.split_once([' ', '\t'])?;
    let token = token.trim_start_matches([' ', '\t']);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    let is_token = !token.is_empty() && token.bytes().all(is_plain);
    (kind.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
}

fn answer(status: StatusCode, why: &str) -> HttpResponse {
    let mut answer = Response::new(Bytes::new());
    *answer.status_mut() = status;
    let error = if status == StatusCode::UNAUTHORIZED { "invalid_token" } else { "invalid_request" };
    if let Ok(value) = HeaderValue::try_from(format!("Bearer error=\"{error}\", error_description=\"{why}\""))
    {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, value);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[&str]) -> HeaderMap {
        let all = values.iter().map(|value| (header::AUTHORIZATION, HeaderValue::from_str(value).unwrap()));
        all.collect()
    }

    #[test]
    fn one_header_has_the_token() {
        for good in ["Bearer a.b.c", "bearer a.b.c", "BEARER   a.b.c", "Bearer\ta.b.c"] {
            assert_eq!(token(&with(&[good])), Some("a.b.c"), "{good}");
        }
        for bad in ["", "Bearer", "Bearer ", "Basic a.b.c", "Bearer a b", "Bearer a=", "Bearera.b.c", "a.b.c"]
        {
            assert_eq!(token(&with(&[bad])), None, "{bad}");
        }
        assert_eq!(token(&with(&["Bearer a.b.c", "Bearer a.b.c"])), None, "which of them?");
        assert_eq!(token(&HeaderMap::new()), None);
    }

    #[test]
    fn without_a_good_token_the_body_is_empty_and_a_header_says_why() {
        let verifier = Verifier::default();
        for (headers, status, error) in
            [(with(&[]), 400, "invalid_request"), (with(&["Bearer a.b.c"]), 401, "invalid_token")]
        {
            let answer = claims(&headers, &verifier, Timestamp::UNIX_EPOCH).unwrap_err();
            assert_eq!((answer.status().as_u16(), answer.body().len()), (status, 0));
            let said = answer.headers()[header::WWW_AUTHENTICATE].to_str().unwrap();
            assert!(said.contains(error) && said.contains("error_description=\""), "{said}");
        }
    }
}
