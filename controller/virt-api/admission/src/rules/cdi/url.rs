//! URLs, as far as validation needs them. Programs that fetch from one validate it again.

/// The scheme of a URL, in lower case; empty if it has none. `None` for an invalid URL.
pub(super) fn scheme(text: &str) -> Option<String> {
    let is_whole = !text.bytes().any(|byte| byte < b' ' || byte == 0x7f) && escapes_are_whole(text);
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let Some((scheme, rest)) = text[..end].split_once(':').filter(|_| is_whole) else {
        return is_whole.then(String::new);
    };
    let mut letters = scheme.chars();
    let is_scheme = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|one| one.is_ascii_alphanumeric() || "+-.".contains(one));
    let after = &text[scheme.len() + 1..];
    let host = after.strip_prefix("//").map(|after| after.split(['/', '?', '#']).next().unwrap_or_default());
    let is_host = host.is_none_or(|host| !host.contains([' ', '<', '>', '"']) && rest.is_empty());
    (is_scheme && is_host).then(|| scheme.to_ascii_lowercase())
}

/// A URL without parts that may be secret: a user, a password, a signature.
pub(super) fn shown(text: &str) -> String {
    let bare = text.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = bare.split_once("//") else { return bare.to_owned() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}//{host}{path}")
}

/// True if two hexadecimal digits follow each `%`.
fn escapes_are_whole(text: &str) -> bool {
    let is_whole =
        |after: &str| after.len() >= 2 && after.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    text.split('%').skip(1).all(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_or_none_and_what_is_no_address_is_found() {
        for (text, expected) in [
            ("docker://host:5000/a/b:1", Some("docker")),
            ("HTTPS://host/a%20b?c=d:e", Some("https")),
            ("docker:host", Some("docker")),
            ("host/path", Some("")),
            ("", Some("")),
            ("/a:b", Some("")),
            ("://host", None),
            ("1a://host", None),
            ("docker://a b/c", None),
            ("docker://host/\u{7f}", None),
            ("docker://host/a%2", None),
            ("docker://host/é%zz", None),
        ] {
            assert_eq!(scheme(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_may_be_secret_is_not_said_again() {
        for (text, expected) in [
            ("ftp://user:pass@host:21/a@b", "ftp://host:21/a@b"),
            ("ftp://host/a?signature=s", "ftp://host/a"),
            ("ftp://host#s", "ftp://host"),
            ("a/b", "a/b"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
