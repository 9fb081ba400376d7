//! Credentials for a file on a web server: a user, a signature for an object store, or a service account.

use crate::source::options::{Options, Store};
use fetch::authorize::{Answer, Authorizer, Headers, Login, S3, Server, ServiceAccount};
use fetch::{Error, Fault, Location, Result, Secret, UserInfo};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

/// The host that serves the objects of Google Cloud Storage; names below it are those of buckets.
const GOOGLE: &str = "storage.googleapis.com";

/// Credentials for the requests for one file.
pub(super) enum FileCredentials {
    /// Headers that go with each request; possibly none.
    Headers(Headers),
    /// An access key of an S3 store.
    S3(Box<S3>),
    /// A service account of Google Cloud.
    Account(Box<ServiceAccount>),
}

impl FileCredentials {
    /// The credentials for the file at this URL; false if there are none.
    pub(super) fn of(
        options: &Options,
        file: &Location,
        user_info: Option<UserInfo>,
    ) -> Result<(FileCredentials, bool)> {
        match &options.store {
            Some(Store::S3 { id, key }) => {
                let s3 = S3::new(id, Secret::new(key), file.clone())?;
                Ok((FileCredentials::S3(Box::new(s3)), true))
            }
            Some(Store::Account { key_file }) => {
                takes_tokens(file)?;
                Ok((FileCredentials::Account(Box::new(ServiceAccount::from_key_file(key_file)?)), true))
            }
            None => {
                let login = login(options, user_info);
                let is_somebody = login.is_some() || !options.headers.is_empty();
                Ok((FileCredentials::Headers(Headers::new(&options.headers, login.as_ref())?), is_somebody))
            }
        }
    }
}

impl Authorizer for FileCredentials {
    type Scope = ();

    async fn headers(&self, server: &Server<'_>, (): &()) -> Result<HeaderMap, Fault> {
        match self {
            FileCredentials::Headers(who) => who.headers(server, &()).await,
            FileCredentials::S3(who) => who.headers(server, &()).await,
            FileCredentials::Account(who) => who.headers(server, &()).await,
        }
    }

    fn is_challenge(&self, status: StatusCode) -> bool {
        match self {
            FileCredentials::Headers(who) => who.is_challenge(status),
            FileCredentials::S3(who) => who.is_challenge(status),
            FileCredentials::Account(who) => who.is_challenge(status),
        }
    }

    fn excerpt(&self) -> usize {
        match self {
            FileCredentials::Headers(who) => who.excerpt(),
            FileCredentials::S3(who) => who.excerpt(),
            FileCredentials::Account(who) => who.excerpt(),
        }
    }

    async fn challenged(
        &self,
        server: &Server<'_>,
        answer: &Answer<'_>,
        used: &HeaderMap,
        (): &(),
    ) -> Result<Option<HeaderMap>, Fault> {
        match self {
            FileCredentials::Headers(who) => who.challenged(server, answer, used, &()).await,
            FileCredentials::S3(who) => who.challenged(server, answer, used, &()).await,
            FileCredentials::Account(who) => who.challenged(server, answer, used, &()).await,
        }
    }
}

/// Refuses servers that must not get a token of the account: with it they could read everything that the
/// account may.
fn takes_tokens(file: &Location) -> Result<()> {
    if file.is_loopback() {
        return Ok(());
    }
    let below = file.host().strip_suffix(GOOGLE);
    if file.is_tls() && below.is_some_and(|below| below.is_empty() || below.ends_with('.')) {
        return Ok(());
    }
    let what = format!(
        "{}: the token of a service account goes to {GOOGLE} by https alone; write gs://BUCKET/OBJECT, or leave the \
         Secret of the account out",
        file.shown()
    );
    Err(Error::usage(what))
}

/// A token, or a user; options override the URL.
fn login(options: &Options, from_url: Option<UserInfo>) -> Option<Login> {
    if let Some(token) = &options.bearer {
        return Some(Login::Bearer(Secret::new(token)));
    }
    match (&options.user, from_url) {
        (Some(user), _) => {
            let password = options.password.as_deref().unwrap_or_default();
            Some(Login::Basic(user.clone(), Secret::new(password)))
        }
        (None, Some(UserInfo { user, password })) => Some(Login::Basic(user, Secret::new(password))),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_before_a_user_and_what_is_given_before_the_address() {
        let user = || Some(UserInfo { user: "u".into(), password: "p".into() });
        let given = Options { user: Some("me".into()), ..Options::default() };
        let bearer = Options { bearer: Some("t".into()), ..given.clone() };
        assert!(matches!(login(&bearer, user()), Some(Login::Bearer(_))));
        assert!(matches!(login(&given, user()), Some(Login::Basic(me, _)) if me == "me"));
        assert!(matches!(login(&Options::default(), user()), Some(Login::Basic(u, _)) if u == "u"));
        assert!(login(&Options::default(), None).is_none());
    }

    #[test]
    fn the_token_of_an_account_goes_to_google_by_tls_and_to_this_host() {
        let of = |address: &str| {
            let file = Location::parse(address).unwrap().0;
            let store = Some(Store::Account { key_file: b"{}".to_vec() });
            let told = FileCredentials::of(&Options { store, ..Options::default() }, &file, None).err();
            told.expect("its key file is empty").to_string()
        };
        for address in [
            "https://storage.googleapis.com/b/x",
            "https://STORAGE.googleapis.com:443/b/x",
            "https://b.storage.googleapis.com/x",
            "http://127.0.0.1:8080/b/x",
            "http://[::1]/b/x",
            "http://localhost/b/x",
        ] {
            assert!(of(address).contains("key file"), "{address}: {}", of(address));
        }
        for address in [
            "http://storage.googleapis.com/b/x",
            "http://b.storage.googleapis.com/x",
            "https://images.example/b/x",
            "https://notstorage.googleapis.com/b/x",
            "https://storage.googleapis.com.images.example/b/x",
            "https://storage.googleapis.com@images.example/b/x",
            "http://10.0.0.1/b/x",
        ] {
            let told = of(address);
            assert!(told.contains("goes to storage.googleapis.com by https alone"), "{address}: {told}");
        }
    }

    #[test]
    fn a_store_is_asked_as_itself_and_by_no_user() {
        let file = Location::parse("https://me:pw@s3.example/bucket/x").unwrap().0;
        let store = Some(Store::S3 { id: "AKID".into(), key: "s3cret".into() });
        let options = Options { store, user: Some("me".into()), ..Options::default() };
        assert!(matches!(FileCredentials::of(&options, &file, None), Ok((FileCredentials::S3(_), true))));
        assert!(matches!(
            FileCredentials::of(&Options::default(), &file, None),
            Ok((FileCredentials::Headers(_), false))
        ));
    }
}
