//! Where a request goes, and how that is shown: no user, no password, no query (it may hold a signature or a token).

use container_disk::Digest;
use container_disk::registry::{RedirectTerms, anonymous, redirect};
use fetch::{Error, Kind, Result};
use reqwest::Url;

/// An address with nothing secret in its shown form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    url: Url,
    shown: String,
}

/// User and password as they stood in a URL.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct UserInfo {
    pub(super) user: String,
    pub(super) password: String,
}

impl Location {
    /// Reads what the user typed.
    pub(super) fn parse(text: &str) -> Result<(Location, Option<UserInfo>)> {
        // The text is not repeated: what does not parse may still hold a password.
        let url = Url::parse(text).map_err(|e| Error::new(Kind::Usage, "this is not a URL").because(e))?;
        let user_info = user_info(&url);
        Ok((Location::new(url)?, user_info))
    }

    /// Follows a `Location` header, by the rule that registries keep, too. A user in it is not used: who we are is the
    /// user's word, not the server's.
    pub(super) fn follow(&self, target: &str, terms: RedirectTerms) -> Result<Location> {
        let url = redirect(&self.url, target, terms).map_err(|why| {
            let hint = match why.ends_with("from TLS to plain HTTP") {
                true => "; use an address that keeps to https, or allow it with --insecure",
                false => "",
            };
            let what = format!("{}: the server redirects to {why}; that is not followed{hint}", self.shown);
            Error::failed(what)
        })?;
        Location::new(url)
            .map_err(|e| Error::failed(format!("{}: a redirect is not followed", self.shown)).because(e))
    }

    fn new(url: Url) -> Result<Location> {
        let (url, shown) = anonymous(url).map_err(|scheme| {
            Error::new(Kind::Usage, format!("the scheme \"{scheme}:\" is not one of http: and https:"))
        })?;
        Ok(Location { url, shown })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// A digest of the full name, query included, that can be kept on disk. A user and a password are no part of it:
    /// from a digest a weak password could be guessed.
    pub(super) fn digest(&self) -> String {
        Digest::of(self.url.as_str().as_bytes()).to_string()
    }

    /// The name for people.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether credentials meant for `self` may be sent to `other`: same scheme, host and port.
    pub(super) fn same_origin(&self, other: &Location) -> bool {
        self.url.origin() == other.url.origin()
    }

    pub(super) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }
}

fn user_info(url: &Url) -> Option<UserInfo> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let password = url.password().map(percent_decode).unwrap_or_default();
    Some(UserInfo { user: percent_decode(url.username()), password })
}

fn percent_decode(text: &str) -> String {
    let mut rest = text.as_bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|hex| byte == b'%' && hex.iter().all(u8::is_ascii_hexdigit));
        let decoded = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        out.push(decoded.unwrap_or(byte));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Location {
        Location::parse(text).unwrap().0
    }

    #[test]
    fn secrets_are_not_shown() {
        let (location, user) =
            Location::parse("https://me:p%40ss%2@host:8443/a/b.qcow2?sig=xyz#frag").unwrap();
        assert_eq!(location.shown(), "https://host:8443/a/b.qcow2?…");
        assert_eq!(location.url().as_str(), "https://host:8443/a/b.qcow2?sig=xyz");
        let user = user.unwrap();
        assert_eq!((user.user.as_str(), user.password.as_str()), ("me", "p@ss%2"));
        let error = Location::parse("https://me:topsecret@ho st/").err().unwrap();
        assert!(!format!("{error:?}").contains("topsecret"), "{error:?}");
    }

    #[test]
    fn a_digest_tells_queries_apart_and_holds_no_password() {
        let plain = parse("https://host/a?sig=1").digest();
        assert_ne!(plain, parse("https://host/a?sig=2").digest());
        assert_ne!(plain, parse("https://host/a").digest());
        assert_eq!(plain, parse("https://me:pw@host/a?sig=1#frag").digest());
    }

    #[test]
    fn only_http_is_spoken() {
        assert_eq!(Location::parse("ftp://host/x").err().unwrap().kind(), Kind::Usage);
    }

    #[test]
    fn redirects_keep_the_rule_of_registries() {
        let follow = |from: &str, to: &str, terms| parse(from).follow(to, terms);
        let none = RedirectTerms::default();
        let who = RedirectTerms { authorized: true, ..none };
        let plain = RedirectTerms { may_leave_tls: true, ..none };
        assert_eq!(follow("http://h/x?a", "/y?b", none).unwrap().url().as_str(), "http://h/y?b");
        assert_eq!(follow("https://h/x", "http://h/y", plain).unwrap().url().as_str(), "http://h/y");
        assert_eq!(follow("http://h/x", "https://u:p@i/y", who).unwrap().url().as_str(), "https://i/y");
        for (from, to, terms, why) in [
            ("http://h/x", "file:///etc/passwd", plain, "the scheme \"file\""),
            ("http://h/x", "ftp://h/x", plain, "the scheme \"ftp\""),
            ("http://h/x", "http://[bad", plain, "no URL"),
            (
                "https://h/x",
                "http://h/y?sig=s3cret",
                none,
                "https://h/x: the server redirects to http://h/y?…, from TLS",
            ),
            ("https://h/x", "http://h/y", who, "--insecure"),
            ("http://h/x", "http://169.254.169.254/latest", who, "a private address"),
        ] {
            let e = follow(from, to, terms).unwrap_err();
            assert!(e.kind() == Kind::Failed && e.to_string().contains(why), "{from} to {to}: {e}");
            assert!(!e.to_string().contains("s3cret"), "{e}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let here = parse("http://h/x");
        assert!(here.same_origin(&parse("http://h:80/y")));
        for other in ["https://h/x", "http://h:81/x", "http://i/x"] {
            assert!(!here.same_origin(&parse(other)), "{other}");
        }
    }
}
