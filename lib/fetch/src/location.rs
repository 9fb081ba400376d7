//! The URL of a request, and its printable form without user, password and query (which may hold a signature
//! or a token).

use crate::host::{host_of, is_loopback};
use crate::{Error, Result};
use percent_encoding::percent_decode_str;
use reqwest::Url;
use std::fmt;

/// A URL whose printable form holds no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    url: Url,
    shown: String,
}

/// User and password of a URL.
#[derive(Clone, PartialEq, Eq)]
pub struct UserInfo {
    pub user: String,
    /// The password; empty if the URL has none.
    pub password: String,
}

impl Location {
    /// Parses a URL that the user typed.
    pub fn parse(text: &str) -> Result<(Location, Option<UserInfo>)> {
        // The text is not quoted: text that does not parse may still hold a password.
        let url = Url::parse(text).map_err(|e| Error::usage("this is not a URL").because(e))?;
        let user_info = user_info(&url);
        let location = Location::new(url).map_err(|scheme| {
            Error::usage(format!("the scheme \"{scheme}:\" is not one of http: and https:"))
        })?;
        Ok((location, user_info))
    }

    /// The root of a server: `scheme://address/`. `None` if the text is not a URL of http or https.
    pub fn base(scheme: &str, address: &str) -> Option<Location> {
        Location::new(Url::parse(&format!("{scheme}://{address}/")).ok()?).ok()
    }

    /// Another path on the same server; `path` may have a query.
    pub fn at(&self, path: &str) -> Location {
        let mut url = self.url.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(path);
        url.set_query(query);
        Location::new(url).unwrap_or_else(|_| self.clone())
    }

    /// The same URL with one more query parameter.
    pub fn with(&self, name: &str, value: &str) -> Location {
        let mut url = self.url.clone();
        url.query_pairs_mut().append_pair(name, value);
        Location::new(url).unwrap_or_else(|_| self.clone())
    }

    /// A location without the user and the fragment (`#…`). The error is a scheme that is neither `http` nor
    /// `https`.
    pub(crate) fn new(mut url: Url) -> Result<Location, String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(url.scheme().to_owned());
        }
        // Both setters only fail for URLs without a host, which http never is.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        let mut bare = url.clone();
        bare.set_query(None);
        let shown = if url.query().is_some() { format!("{bare}?…") } else { bare.to_string() };
        // A redirect may be as long as a header.
        let shown = printable::line(&shown);
        Ok(Location { url, shown })
    }

    /// The whole URL, secrets too, for the request.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The printable form, without secrets.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// True if the scheme is `https`.
    pub fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// True if credentials meant for `self` may be sent to `other`: same scheme, host and port.
    pub fn same_origin(&self, other: &Location) -> bool {
        self.url.origin() == other.url.origin()
    }

    /// The host, an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        host_of(self.url.host_str().unwrap_or_default())
    }

    /// True if bytes for it stay on this host.
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.url.host_str().unwrap_or_default())
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

fn user_info(url: &Url) -> Option<UserInfo> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some(UserInfo {
        user: decoded(url.username()),
        password: url.password().map(decoded).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn location(text: &str) -> Location {
        Location::parse(text).unwrap().0
    }

    #[test]
    fn secrets_are_not_shown() {
        let (found, user) = Location::parse("https://me:p%40ss%2@host:8443/a/b.qcow2?sig=xyz#frag").unwrap();
        assert_eq!(found.shown(), "https://host:8443/a/b.qcow2?…");
        assert_eq!(format!("{found:?}"), "https://host:8443/a/b.qcow2?…");
        assert_eq!(found.url().as_str(), "https://host:8443/a/b.qcow2?sig=xyz");
        let user = user.unwrap();
        assert_eq!((user.user.as_str(), user.password.as_str()), ("me", "p@ss%2"));
        let error = Location::parse("https://me:topsecret@ho st/").err().unwrap();
        assert!(!format!("{error:?}").contains("topsecret"), "{error:?}");
    }

    #[test]
    fn paths_and_parameters_are_added() {
        let location = location("https://me:pw@h:5000/v2/?sig=topsecret#x");
        assert_eq!(location.shown(), "https://h:5000/v2/?…");
        assert_eq!(format!("{location:?}"), "https://h:5000/v2/?…");
        assert_eq!(
            location.with("digest", "sha256:0").url().query(),
            Some("sig=topsecret&digest=sha256%3A0")
        );
        let base = Location::base("http", "[::1]:5000").unwrap();
        assert_eq!(base.at("/v2/a/b?x=1").url().as_str(), "http://[::1]:5000/v2/a/b?x=1");
        assert!(base.is_loopback());
    }

    #[test]
    fn only_http_is_spoken() {
        assert_eq!(Location::parse("ftp://host/x").err().unwrap().kind(), ErrorKind::Usage);
        assert!(Location::base("ftp", "host").is_none());
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let here = location("http://h/x");
        assert!(here.same_origin(&location("http://h:80/y")));
        for other in ["https://h/x", "http://h:81/x", "http://i/x"] {
            assert!(!here.same_origin(&location(other)), "{other}");
        }
    }
}
