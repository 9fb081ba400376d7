//! Authorization: credentials that a request to a server carries, and the reaction to a 401.
//!
//! | authorizer | sends |
//! |---|---|
//! | [`Headers`] | nothing, or the same with each request: the user's headers, basic authentication, a bearer token |
//! | [`RegistryToken`] | nothing until it is challenged, then user and password, or a token of the registry's token server |
//! | [`S3`] | a signature of each request for one object (SigV4) |
//! | [`ServiceAccount`] | a token that Google's token server gives for a JWT that the account's key signs |
//!
//! Credentials go to the server they are for and to no other origin; [`crate::Client`] ensures that.

mod challenge;
mod headers;
mod s3;
mod service_account;
mod token;

pub use headers::{Headers, Login};
pub use s3::S3;
pub use service_account::ServiceAccount;
pub use token::{Credential, Credentials, RegistryToken, Scopes};

use crate::{Connector, Error, Fault, Location, Result, Secret};
use base64::Engine;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderValue};
use std::time::Duration;

/// Credentials for the requests to one server.
pub trait Authorizer: Send + Sync {
    /// The purpose of a request, where the credentials depend on it.
    type Scope: Sync + ?Sized;

    /// Headers for a request to the server.
    fn headers(
        &self,
        server: &Server<'_>,
        scope: &Self::Scope,
    ) -> impl Future<Output = Result<HeaderMap, Fault>> + Send;

    /// True if an answer with this status may ask for other credentials; usually 401. An answer with another
    /// status is handled as it is.
    fn is_challenge(&self, status: StatusCode) -> bool {
        status == StatusCode::UNAUTHORIZED
    }

    /// Bytes of the body of such an answer that are read for [`Self::challenged`].
    fn excerpt(&self) -> usize {
        0
    }

    /// New headers for the next try, after the server gave such an answer to a request that carried `used`;
    /// `None` if there are no other credentials.
    fn challenged(
        &self,
        server: &Server<'_>,
        answer: &Answer<'_>,
        used: &HeaderMap,
        scope: &Self::Scope,
    ) -> impl Future<Output = Result<Option<HeaderMap>, Fault>> + Send;
}

/// An answer that may ask for other credentials.
pub struct Answer<'a> {
    pub headers: &'a HeaderMap,
    /// The beginning of the body.
    pub excerpt: &'a [u8],
}

/// The server that gets the credentials, and the way to it.
pub struct Server<'a> {
    /// The URL of the server.
    pub origin: &'a Location,
    /// The connector for it and for its token server.
    pub connector: &'a Connector,
    /// Longest time without a byte.
    pub idle: Duration,
}

/// The header of basic authentication.
fn basic(user: &str, password: &Secret) -> Result<HeaderValue> {
    if user.contains(':') {
        return Err(Error::usage("a user for basic authentication cannot hold a colon"));
    }
    let coded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{}", password.reveal()));
    secret(&format!("Basic {coded}"), "the user and password")
}

/// A header value that is left out of logs.
fn secret(value: &str, what: &str) -> Result<HeaderValue> {
    let value = HeaderValue::try_from(value);
    let mut value =
        value.map_err(|_| Error::usage(format!("{what} holds a character that no header may carry")))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn basic_authentication_is_the_usual_one() {
        for (user, password, coded) in
            [("", "", "Og=="), ("f", "", "Zjo="), ("user", "p\u{e4}", "dXNlcjpww6Q=")]
        {
            let value = basic(user, &Secret::new(password)).unwrap();
            assert_eq!(value, format!("Basic {coded}"));
            assert!(value.is_sensitive());
        }
        // The server would split it elsewhere, and try a part of the user's name as the password.
        let error = basic("a:b", &Secret::new("topsecret")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(!format!("{error:?}").contains("topsecret"));
    }
}
