//! `WWW-Authenticate`: the login that a registry asks for. The header is foreign, so parsing must end for any
//! input.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// The longest header that is parsed: more than any honest one has.
const LONGEST: usize = 8 << 10;
const MOST_SCOPES: usize = 16;

/// A scheme of authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User and password with each request.
    Basic,
    /// A token of a token server.
    Bearer(Bearer),
}

/// The token server, and the token that it is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bearer {
    pub(super) realm: String,
    pub(super) service: Option<String>,
    /// Scopes of the token: `repository:NAME:pull,push`.
    pub(super) scopes: Vec<String>,
}

/// The best scheme that the answer offers: a token where one is possible.
pub(super) fn best(headers: &HeaderMap) -> Option<Challenge> {
    let texts = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let mut basic = None;
    for challenge in texts.filter(|text| text.len() <= LONGEST).flat_map(parse) {
        match challenge {
            Challenge::Bearer(_) => return Some(challenge),
            Challenge::Basic => basic = Some(challenge),
        }
    }
    basic
}

fn parse(text: &str) -> Vec<Challenge> {
    let mut found: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (word, after) = rest.split_at(rest.find([' ', '\t', ',', '=', '"']).unwrap_or(rest.len()));
        let value = after.trim_start().strip_prefix('=').map(str::trim_start);
        match (value, found.last_mut()) {
            _ if word.is_empty() => break,
            // A name and a value belong to the scheme before them.
            (Some(value), Some((_, parameters))) => {
                let Some((value, after)) = self::value(value) else { break };
                parameters.push((word.to_ascii_lowercase(), value));
                rest = after;
            }
            (Some(_), None) => break,
            (None, _) => {
                found.push((word.to_ascii_lowercase(), vec![]));
                rest = after;
            }
        }
    }
    found.into_iter().filter_map(|(scheme, parameters)| challenge(&scheme, parameters)).collect()
}

/// A word or a quoted string, and the text behind it.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (word, after) = text.split_at(text.find([' ', '\t', ',']).unwrap_or(text.len()));
        return Some((word.to_owned(), after));
    };
    let mut out = String::new();
    let mut chars = quoted.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((out, quoted.get(at + 1..)?)),
            (_, '\\') => out.push(chars.next()?.1),
            (_, c) => out.push(c),
        }
    }
}

fn challenge(scheme: &str, parameters: Vec<(String, String)>) -> Option<Challenge> {
    if scheme == "basic" {
        return Some(Challenge::Basic);
    }
    let mut bearer = Bearer::default();
    for (name, value) in parameters {
        match name.as_str() {
            "realm" => bearer.realm = value,
            "service" => bearer.service = Some(value),
            "scope" => bearer.scopes = value.split(' ').filter(|s| is_scope(s)).map(str::to_owned).collect(),
            _ => {}
        }
    }
    bearer.scopes.truncate(MOST_SCOPES);
    (scheme == "bearer" && !bearer.realm.is_empty()).then_some(Challenge::Bearer(bearer))
}

fn is_scope(text: &str) -> bool {
    text.split(':').count() >= 3 && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn of(values: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        best(&headers)
    }

    fn bearer(realm: &str, service: Option<&str>, scopes: &[&str]) -> Option<Challenge> {
        let scopes = scopes.iter().map(|s| s.to_string()).collect();
        Some(Challenge::Bearer(Bearer { realm: realm.into(), service: service.map(Into::into), scopes }))
    }

    #[test]
    fn what_registries_send_is_understood() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull""#;
        let from = "https://auth.docker.io/token";
        for (values, found) in [
            (&[hub][..], bearer(from, Some("registry.docker.io"), &["repository:a/b:pull"])),
            (&["Basic realm=\"x\""], Some(Challenge::Basic)),
            (&["basic"], Some(Challenge::Basic)),
            (
                &["Basic realm=\"x, Bearer\", bearer Realm=https://r , service = \"s\""],
                bearer("https://r", Some("s"), &[]),
            ),
            (&["Negotiate abc==", "Basic realm=x"], Some(Challenge::Basic)),
            (&["Bearer realm=\"a\\\"b\""], bearer("a\"b", None, &[])),
            (
                &["Bearer realm=\"r\",scope=\"repository:a:pull,push repository:b:pull\""],
                bearer("r", None, &["repository:a:pull,push", "repository:b:pull"]),
            ),
        ] {
            assert_eq!(of(values), found, "{values:?}");
        }
    }

    #[test]
    fn hostile_ones_end_in_nothing() {
        let long = format!("Bearer realm=\"{}\"", "x".repeat(LONGEST));
        let many = format!("Bearer realm=\"r\",scope=\"{}\"", "repository:a:pull ".repeat(400));
        for text in [
            "",
            ",,,",
            "=",
            "=\"\"",
            "Bearer",
            "Bearer realm=",
            "Bearer realm=\"",
            "Bearer realm=\"\\",
            &long,
        ] {
            assert_eq!(of(&[text]), None, "{text}");
        }
        let Some(Challenge::Bearer(found)) = of(&[&many]) else { panic!("a bearer") };
        assert_eq!(found.scopes.len(), MOST_SCOPES);
        assert_eq!(
            of(&["Bearer realm=\"r\",scope=\"x \u{e9} a:b\""]),
            None,
            "such a header is not read at all"
        );
        assert_eq!(of(&["Bearer realm=\"r\",scope=\"x a:b\""]), bearer("r", None, &[]));
    }
}
