//! The rule for redirect targets, for disks on web servers and for registries.
//!
//! | from → to | |
//! |---|---|
//! | a scheme other than `http` and `https` | never |
//! | TLS → plain HTTP | never, unless the user switched certificate checks off: any host on the way could answer |
//! | outside → an address inside, for a request with credentials | never, nor by way of other servers ([`Trail`]): a server outside must not choose the hosts that we contact inside |
//! | an address with a user in it | by policy: refused, or followed without that user |
//!
//! Credentials and the user's own headers are sent to the first origin alone; [`crate::Client`] ensures that.

use crate::Location;
use crate::host::is_inside;
use reqwest::{StatusCode, Url};
use std::fmt;

/// The most redirects in a row: more than any server needs, and few enough to end a loop soon.
pub const MOST: usize = 10;

/// Exceptions from the rule.
#[derive(Debug, Clone, Copy, Default)]
pub struct Policy {
    /// A redirect from TLS to plain HTTP is followed.
    pub may_leave_tls: bool,
    /// A user in the target's URL is removed, and the target is followed.
    pub may_name_users: bool,
}

/// Servers of a redirect chain. If one of them got credentials, the rule for requests with credentials
/// applies to all later redirects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trail {
    /// Some server on the way got credentials.
    pub authorized: bool,
    /// Some server on the way is outside.
    pub outside: bool,
}

impl Trail {
    /// Adds a server to the trail; `authorized` is true if it got credentials.
    pub fn passes(&mut self, place: &Location, authorized: bool) {
        self.authorized |= authorized;
        self.outside |= !is_inside(place.host());
    }
}

/// A redirect that is not followed. `Display` is a sentence with both ends of it, and without secrets.
#[derive(Debug)]
pub struct ForbiddenRedirect {
    from: String,
    to: String,
    /// True for a redirect from TLS to plain HTTP.
    pub leaves_tls: bool,
}

/// True for a redirect: 300 to 303, 307, 308. A 304 answers a condition that no request here sends.
pub fn is_redirect(status: StatusCode) -> bool {
    status.is_redirection() && status != StatusCode::NOT_MODIFIED
}

impl Policy {
    /// The URL that `target`, the `Location` of an answer from `from`, leads to. `trail` has passed `from`.
    pub fn follow(&self, from: &Location, target: &str, trail: Trail) -> Result<Location, ForbiddenRedirect> {
        self.check(from, from.url().join(target).map_err(|_| not_a_url(from))?, trail)
    }

    /// The URL where an upload goes on. A registry behind a TLS proxy may believe that its clients use plain
    /// HTTP; its path is then taken as one of the TLS server, unchanged.
    pub fn follow_upload(&self, from: &Location, target: &str) -> Result<Location, ForbiddenRedirect> {
        let mut url = from.url().join(target).map_err(|_| not_a_url(from))?;
        if from.is_tls() && url.scheme() == "http" && url.host() == from.url().host() {
            let mut ours = from.url().clone();
            ours.set_path(url.path());
            ours.set_query(url.query());
            url = ours;
        }
        let mut trail = Trail::default();
        trail.passes(from, true);
        self.check(from, url, trail)
    }

    fn check(&self, from: &Location, url: Url, trail: Trail) -> Result<Location, ForbiddenRedirect> {
        let refused = |to: String| ForbiddenRedirect { from: from.shown().to_owned(), to, leaves_tls: false };
        let user = !url.username().is_empty() || url.password().is_some();
        let next = Location::new(url)
            .map_err(|scheme| refused(format!("the scheme {:?}", printable::text(&scheme, 80))))?;
        let shown = next.shown();
        if from.is_tls() && !next.is_tls() && !self.may_leave_tls {
            return Err(ForbiddenRedirect {
                leaves_tls: true,
                ..refused(format!("{shown}, from TLS to plain HTTP"))
            });
        }
        if trail.authorized && trail.outside && is_inside(next.host()) {
            return Err(refused(format!("{shown}, a private address, for a request with credentials")));
        }
        if user && !self.may_name_users {
            return Err(refused(format!("{shown} with a user of its own")));
        }
        Ok(next)
    }
}

fn not_a_url(from: &Location) -> ForbiddenRedirect {
    ForbiddenRedirect {
        from: from.shown().to_owned(),
        to: "something that is not a URL".into(),
        leaves_tls: false,
    }
}

impl fmt::Display for ForbiddenRedirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: the server redirects to {}; that is not followed", self.from, self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Policy = Policy { may_leave_tls: false, may_name_users: false };
    const LOOSE: Policy = Policy { may_leave_tls: true, may_name_users: true };

    fn location(text: &str) -> Location {
        Location::parse(text).unwrap().0
    }

    fn trail(from: &str, authorized: bool) -> Trail {
        let mut trail = Trail::default();
        trail.passes(&location(from), authorized);
        trail
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
            ("https://h/a", "https://[", false, Some("not a URL")),
            ("https://h/a", "https://10.0.0.1/a", true, Some(inside)),
            ("https://h/a", "https://10.0.0.1/a", false, None),
            ("https://h/a", "https://169.254.169.254/latest", true, Some(inside)),
            ("http://h/a", "http://127.0.0.1:9/a", true, Some(inside)),
            ("http://h/a", "http://localhost:9/a", true, Some(inside)),
            ("http://h/a", "http://[::ffff:192.168.0.1]/a", true, Some(inside)),
            ("http://h/a", "http://[fd00::1]/a", true, Some(inside)),
            ("http://h/a", "http://2130706433/a", true, Some(inside)),
            ("http://h/a", "http://localhost.:9/a", true, Some(inside)),
            ("http://h/a", "http://a.localhost./a", true, Some(inside)),
            ("http://h/a", "http://0.1.2.3/a", true, Some(inside)),
            ("http://h/a", "http://192.0.0.8/a", true, Some(inside)),
            ("http://h/a", "http://[::127.0.0.1]/a", true, Some(inside)),
            ("http://h/a", "http://[64:ff9b::10.0.0.1]/a", true, Some(inside)),
            ("http://h/a", "http://[64:ff9b:1::1]/a", true, Some(inside)),
            ("http://h/a", "http://[2002:a00:1::]/a", true, Some(inside)),
            ("http://h/a", "http://[fec0::1]/a", true, Some(inside)),
            ("http://h/a", "http://[64:ff9b::93.184.216.34]/a", true, None),
            ("http://h/a", "http://[2001:db8::1]/a", true, None),
            ("http://h/a", "http://192.0.1.1/a", true, None),
            ("http://10.0.0.1/a", "http://10.0.0.2/a", true, None),
            ("http://127.0.0.1:5000/a", "http://127.0.0.1:6000/a", true, None),
        ] {
            match (STRICT.follow(&location(from), to, trail(from, authorized)), refused) {
                (Ok(_), None) => {}
                (Err(found), Some(why)) => {
                    assert!(found.to_string().contains(why), "{to}: {found}");
                    assert_eq!(found.leaves_tls, why.ends_with("plain HTTP"), "{to}");
                }
                (found, _) => panic!("{from} to {to}: {found:?}"),
            }
        }
    }

    #[test]
    fn what_a_policy_allows_goes_no_further() {
        let follow =
            |from: &str, to: &str, authorized| LOOSE.follow(&location(from), to, trail(from, authorized));
        let url = |from: &str, to: &str, authorized| {
            follow(from, to, authorized).unwrap().url().as_str().to_owned()
        };
        assert_eq!(url("http://h/x?a", "/y?b", false), "http://h/y?b");
        assert_eq!(url("https://h/x", "http://h/y", false), "http://h/y");
        assert_eq!(url("http://h/x", "https://u:p@i/y", true), "https://i/y");
        for (from, to, authorized, why) in [
            ("http://h/x", "file:///etc/passwd", false, "the scheme \"file\""),
            ("http://h/x", "ftp://h/x", false, "the scheme \"ftp\""),
            ("http://h/x", "http://[bad", false, "not a URL"),
            ("http://h/x", "http://169.254.169.254/latest", true, "a private address"),
        ] {
            let refused = follow(from, to, authorized).unwrap_err().to_string();
            assert!(refused.contains(why), "{from} to {to}: {refused}");
        }
    }

    #[test]
    fn what_was_told_on_the_way_is_not_forgotten() {
        // Each server of a chain, and true if it got credentials; the last one redirects to an address
        // inside.
        for (chain, allowed) in [
            (&[("http://h/a", true), ("http://i/a", false)][..], false),
            (&[("http://h/a", true), ("http://10.0.0.1/a", false)], false),
            (&[("http://10.0.0.1/a", true), ("http://i/a", false)], false),
            (&[("http://10.0.0.1/a", true), ("http://10.0.0.2/a", false)], true),
            (&[("http://h/a", false), ("http://i/a", false)], true),
        ] {
            let mut trail = Trail::default();
            for (place, authorized) in chain {
                trail.passes(&location(place), *authorized);
            }
            let last = location(chain.last().unwrap().0);
            let found = STRICT.follow(&last, "http://127.0.0.1/secret", trail);
            assert_eq!(found.is_ok(), allowed, "{chain:?}: {found:?}");
        }
    }

    #[test]
    fn a_refusal_holds_no_secret() {
        let refused = STRICT.follow(
            &location("https://h/x?a=s3cret"),
            "http://u:s3cret@h/y?sig=s3cret",
            Trail::default(),
        );
        assert_eq!(
            refused.unwrap_err().to_string(),
            "https://h/x?…: the server redirects to http://h/y?…, from TLS to plain HTTP; that is not followed"
        );
    }

    #[test]
    fn an_upload_stays_with_tls() {
        let here = location("https://h:5000/v2/a/blobs/uploads/");
        for (target, goes) in [
            ("/v2/x?_state=1", "https://h:5000/v2/x?_state=1"),
            ("http://h/v2/x?_state=1", "https://h:5000/v2/x?_state=1"),
            ("https://other/x", "https://other/x"),
            ("http://h:5000//other/x", "https://h:5000//other/x"),
            ("http://h/v2/x", "https://h:5000/v2/x"),
            ("http://h:8080/v2/%2e%2e%2fx?a=%20#f", "https://h:5000/v2/%2e%2e%2fx?a=%20"),
        ] {
            assert_eq!(STRICT.follow_upload(&here, target).unwrap().url().as_str(), goes);
        }
        assert!(STRICT.follow_upload(&here, "http://other/x").is_err());
    }

    #[test]
    fn not_modified_leads_nowhere() {
        for (status, leads) in
            [(301, true), (302, true), (308, true), (304, false), (200, false), (404, false)]
        {
            assert_eq!(is_redirect(StatusCode::from_u16(status).unwrap()), leads, "{status}");
        }
    }
}
