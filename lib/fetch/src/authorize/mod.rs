//! Who asks: what a request to a server carries beside its own headers, and what follows a 401.
//!
//! | authorizer | says |
//! |---|---|
//! | [`Headers`] | nothing, or the same with each request: headers of the user's, basic authentication, a bearer token |
//! | [`RegistryToken`] | nothing until it is challenged, then user and password, or a token of the registry's token server |
//! | [`S3`] | a signature of each request for one object (SigV4) |
//! | [`ServiceAccount`] | a token that Google's token server gives for a signed word of the account |
//!
//! What an authorizer says goes to the server it is for and to no other origin; that is kept by [`crate::Client`].

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

/// Says who asks.
pub trait Authorizer: Send + Sync {
    /// What a request wants to do, where that decides what is said.
    type Scope: Sync + ?Sized;

    /// What goes with a request to the server.
    fn headers(
        &self,
        server: &Server<'_>,
        scope: &Self::Scope,
    ) -> impl Future<Output = Result<HeaderMap, Fault>> + Send;

    /// Whether an answer of the server may want to be told something else; an answer that is none stays what it is. As a rule
    /// that is 401.
    fn is_challenge(&self, status: StatusCode) -> bool {
        status == StatusCode::UNAUTHORIZED
    }

    /// Bytes of the text of such an answer that are read for it.
    fn excerpt(&self) -> usize {
        0
    }

    /// The server gave such an answer to a request that carried `used`: what is to go with the next try; nothing, where there
    /// is nothing else to say.
    fn challenged(
        &self,
        server: &Server<'_>,
        answer: &Answer<'_>,
        used: &HeaderMap,
        scope: &Self::Scope,
    ) -> impl Future<Output = Result<Option<HeaderMap>, Fault>> + Send;
}

/// An answer that may want to be told something else of who asks.
pub struct Answer<'a> {
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// The beginning of its text.
    pub excerpt: &'a [u8],
}

/// The server that is told who asks, and the way to it.
pub struct Server<'a> {
    /// Its address.
    pub origin: &'a Location,
    /// How it, and a token server, is connected to.
    pub connector: &'a Connector,
    /// How long nothing may come.
    pub idle: Duration,
}

/// Basic authentication.
fn basic(user: &str, password: &Secret) -> Result<HeaderValue> {
    if user.contains(':') {
        return Err(Error::usage("a user for basic authentication cannot hold a colon"));
    }
    let coded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{}", password.reveal()));
    secret(&format!("Basic {coded}"), "the user and password")
}

/// A value that no log shows.
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
