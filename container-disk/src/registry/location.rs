//! Where a request goes, how that is shown (no user, no query: it may hold a signature), and where a server may send us.

use super::config::{host_of, is_loopback};
use super::redirect::{Terms, redirect};
use crate::Error;
use fetch::{Fault, Why};
use reqwest::Url;

/// An address without a user, and how it is shown: without its query, which may hold a signature or a token. The
/// error is a scheme that is neither `http` nor `https`.
pub fn anonymous(mut url: Url) -> Result<(Url, String), String> {
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
    Ok((url, shown))
}

/// An address with nothing secret in its shown form.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Location {
    url: Url,
    shown: String,
}

impl Location {
    /// `scheme://address/`.
    pub(super) fn base(scheme: &str, address: &str) -> Option<Location> {
        Location::new(Url::parse(&format!("{scheme}://{address}/")).ok()?).ok()
    }

    /// A path of the same server.
    pub(super) fn at(&self, path: &str) -> Location {
        let mut url = self.url.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(path);
        url.set_query(query);
        Location::new(url).unwrap_or_else(|_| self.clone())
    }

    /// With one more parameter.
    pub(super) fn with(&self, name: &str, value: &str) -> Location {
        let mut url = self.url.clone();
        url.query_pairs_mut().append_pair(name, value);
        Location::new(url).unwrap_or_else(|_| self.clone())
    }

    /// Where a `Location` of an answer leads. `authorized` is whether the request said who we are: that is never said
    /// to another origin, and an outside server does not get to point such a request at an address inside.
    pub(super) fn follow(&self, target: &str, authorized: bool) -> Result<Location, Fault> {
        let no = |why: &str| {
            let what = format!("{}: leads to {why}; that is not followed", self.shown);
            Fault::new(Why::Odd, Error::refused(what))
        };
        let terms = Terms { authorized, may_leave_tls: false };
        let url = redirect(&self.url, target, terms).map_err(|why| no(&why))?;
        let user = !url.username().is_empty() || url.password().is_some();
        let next = Location::new(url).map_err(|scheme| no(&format!("the scheme {scheme:?}")))?;
        if user {
            return Err(no(&format!("{} with a user of its own", next.shown)));
        }
        Ok(next)
    }

    /// Where an upload goes on. A registry behind a TLS proxy may believe that it is spoken to in plain; it is still
    /// the one we speak TLS to.
    pub(super) fn upload(&self, target: &str) -> Result<Location, Fault> {
        let joined = self.url.join(target).ok();
        let misled =
            joined.filter(|url| self.is_tls() && url.scheme() == "http" && url.host() == self.url.host());
        match misled {
            Some(url) => self.follow(&format!("{}?{}", url.path(), url.query().unwrap_or_default()), true),
            None => self.follow(target, true),
        }
    }

    fn new(url: Url) -> Result<Location, String> {
        let (url, shown) = anonymous(url)?;
        Ok(Location { url, shown })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// The name for people.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Whether credentials meant for `self` may be sent to `other`.
    pub(super) fn same_origin(&self, other: &Location) -> bool {
        self.url.origin() == other.url.origin()
    }

    pub(super) fn host(&self) -> &str {
        host_of(self.url.host_str().unwrap_or_default())
    }

    /// Whether bytes for it stay on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        is_loopback(self.url.host_str().unwrap_or_default())
    }
}

impl std::fmt::Debug for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str) -> Location {
        Location::new(Url::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn what_is_secret_is_not_shown() {
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
    fn redirects_follow_the_rules() {
        let inside = "a private address, for a request with credentials";
        for (from, to, authorized, refused) in [
            ("https://h/a", "https://s3.example/b?sig", true, None),
            ("https://h/a", "/b", true, None),
            ("http://h/a", "https://h/a", true, None),
            ("https://h/a", "http://h/a", false, Some("from TLS to plain HTTP")),
            ("https://h/a", "http://s3.example/a", true, Some("from TLS to plain HTTP")),
            ("https://h/a", "ftp://h/a", false, Some("the scheme \"ftp\"")),
            ("http://h/a", "file:///etc/passwd", false, Some("the scheme \"file\"")),
            ("https://h/a", "https://u:p@h/a", false, Some("with a user of its own")),
            ("https://h/a", "https://[", false, Some("no URL")),
            ("https://h/a", "https://10.0.0.1/a", true, Some(inside)),
            ("https://h/a", "https://10.0.0.1/a", false, None),
            ("https://h/a", "https://169.254.169.254/latest", true, Some(inside)),
            ("http://h/a", "http://127.0.0.1:9/a", true, Some(inside)),
            ("http://h/a", "http://localhost:9/a", true, Some(inside)),
            ("http://h/a", "http://[::ffff:192.168.0.1]/a", true, Some(inside)),
            ("http://h/a", "http://[fd00::1]/a", true, Some(inside)),
            ("http://h/a", "http://2130706433/a", true, Some(inside)),
            ("http://10.0.0.1/a", "http://10.0.0.2/a", true, None),
            ("http://127.0.0.1:5000/a", "http://127.0.0.1:6000/a", true, None),
        ] {
            match (location(from).follow(to, authorized), refused) {
                (Ok(_), None) => {}
                (Err(fault), Some(why)) => {
                    assert_eq!(fault.error.kind(), crate::Kind::Refused);
                    assert!(fault.error.to_string().contains(why), "{to}: {}", fault.error);
                }
                (found, _) => panic!("{from} to {to}: {found:?}"),
            }
        }
    }

    #[test]
    fn an_upload_stays_with_tls() {
        let here = location("https://h:5000/v2/a/blobs/uploads/");
        for (target, goes) in [
            ("/v2/x?_state=1", "https://h:5000/v2/x?_state=1"),
            ("http://h/v2/x?_state=1", "https://h:5000/v2/x?_state=1"),
            ("https://other/x", "https://other/x"),
        ] {
            assert_eq!(here.upload(target).unwrap().url().as_str(), goes);
        }
        assert!(here.upload("http://other/x").is_err());
    }
}
