//! Credentials that are the same for each request: the user's headers, basic authentication, a bearer token.

use super::{Answer, Authorizer, Server, basic, secret};
use crate::{Error, Fault, Result, Secret};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName};

/// Headers for the transfer itself, which the client sets for each request.
const OURS: [&str; 8] = [
    "range",
    "if-range",
    "accept-encoding",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
];

/// Headers that go with each request to a server. Without any, requests carry no credentials.
#[derive(Debug, Default)]
pub struct Headers(HeaderMap);

/// A login to a web server.
#[derive(Debug, Clone)]
pub enum Login {
    Basic(String, Secret),
    Bearer(Secret),
}

impl Headers {
    /// The headers, each name and value, and a login.
    pub fn new(given: &[(String, String)], login: Option<&Login>) -> Result<Headers> {
        let mut map = HeaderMap::new();
        for (name, value) in given {
            let header = HeaderName::try_from(name.as_str());
            let header = header
                .map_err(|e| Error::usage(format!("\"{name}\" is not the name of a header")).because(e))?;
            if OURS.contains(&header.as_str()) {
                let what = format!("the header \"{name}\" cannot be given: it is set for each request");
                return Err(Error::usage(what));
            }
            map.append(header, secret(value, &format!("the value of the header \"{name}\""))?);
        }
        let value = match login {
            None => return Ok(Headers(map)),
            Some(Login::Basic(user, password)) => basic(user, password)?,
            Some(Login::Bearer(token)) => secret(&format!("Bearer {}", token.reveal()), "the bearer token")?,
        };
        map.insert(AUTHORIZATION, value);
        Ok(Headers(map))
    }
}

impl Authorizer for Headers {
    type Scope = ();

    async fn headers(&self, _: &Server<'_>, (): &()) -> Result<HeaderMap, Fault> {
        Ok(self.0.clone())
    }

    async fn challenged(
        &self,
        _: &Server<'_>,
        _: &Answer<'_>,
        _: &HeaderMap,
        (): &(),
    ) -> Result<Option<HeaderMap>, Fault> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn given_headers_are_checked_and_their_values_kept_secret() {
        let with = |name: &str, value: &str| Headers::new(&[(name.into(), value.into())], None);
        assert_eq!(with("X-Key", "v").unwrap().0["x-key"], "v");
        assert!(with("X-Key", "v").unwrap().0["x-key"].is_sensitive());
        for (name, value) in [("Range", "bytes=0-1"), ("no name", "v"), ("X-Key", "topsecret\n")] {
            let error = with(name, value).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(!format!("{error:?}").contains("topsecret"), "{error:?}");
        }
    }

    #[test]
    fn a_login_stands_for_a_header_that_was_given() {
        let given = [("Authorization".to_owned(), "mine".to_owned())];
        let bearer = Login::Bearer(Secret::new("t0ken"));
        let headers = Headers::new(&given, Some(&bearer)).unwrap();
        assert_eq!(headers.0.get_all(AUTHORIZATION).iter().collect::<Vec<_>>(), ["Bearer t0ken"]);
        assert!(!format!("{headers:?} {bearer:?}").contains("t0ken"));
        assert!(Headers::new(&[], None).unwrap().0.is_empty());
    }
}
