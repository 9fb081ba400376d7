//! A service account of Google Cloud. A JWT signed with its key (RS256) is exchanged for a token, which goes
//! with each request until shortly before its end.
//!
//! ```text
//!  key file ─► JWT {iss, scope, aud, iat, exp} ── POST token_uri ──► access_token ──► Authorization: Bearer …
//! ```
//!
//! The key file names the token server, and comes from the user. Its server is used if it speaks TLS or is on
//! this host.

use super::token::form;
use super::{Answer, Authorizer, Server, secret};
use crate::body::{self, Wait};
use crate::retry::{self, within};
use crate::{Error, Fault, FaultKind, Location, Result, Secret};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use std::time::{Duration, Instant};

/// The scope of the token: read objects.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_only";
const TOKEN_SERVER: &str = "https://oauth2.googleapis.com/token";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Lifetime of a JWT in seconds; token servers accept no more.
const LIFE: i64 = 3600;
/// Lifetime of a token whose server does not state it.
const USUAL_LIFE: u64 = 300;
/// Longest accepted answer of a token server.
const MOST: usize = 64 << 10;

/// A service account, for one server.
pub struct ServiceAccount {
    email: String,
    key: RsaKeyPair,
    key_id: Option<String>,
    token_server: Location,
    token: tokio::sync::Mutex<Option<Token>>,
}

struct Token {
    header: HeaderValue,
    until: Instant,
}

#[derive(Deserialize)]
struct KeyFile {
    r#type: String,
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    token_uri: Option<String>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: Option<u64>,
}

impl ServiceAccount {
    /// The account of a key file (JSON).
    pub fn from_key_file(bytes: &[u8]) -> Result<ServiceAccount> {
        let odd = |what: &str| Error::usage(format!("the key file of the service account {what}"));
        // The parser's message is left out, since it would quote the key file.
        let file: KeyFile = serde_json::from_slice(bytes)
            .map_err(|_| odd("is not JSON with type, client_email and private_key"))?;
        if file.r#type != "service_account" {
            return Err(odd("is of another type than service_account, the only supported one"));
        }
        let der = pem(&file.private_key).ok_or_else(|| odd("holds a private_key that is not PEM"))?;
        let key = RsaKeyPair::from_pkcs8(&der)
            .map_err(|_| odd("holds a private_key that is not an RSA key of 2048 bits or more in PKCS#8"))?;
        let address = file.token_uri.as_deref().unwrap_or(TOKEN_SERVER);
        let token_server =
            Location::parse(address).map_err(|_| odd("names a token_uri that is not a URL"))?.0;
        if !token_server.is_tls() && !token_server.is_loopback() {
            return Err(odd("names a token_uri without TLS: it must be an https:// URL"));
        }
        let token = tokio::sync::Mutex::default();
        let (email, key_id) = (file.client_email, file.private_key_id);
        Ok(ServiceAccount { email, key, key_id, token_server, token })
    }

    /// The request for a token: a JWT, signed with the key of the service account.
    fn jwt(&self, now: Timestamp) -> Result<String> {
        let mut head = serde_json::json!({"alg": "RS256", "typ": "JWT"});
        if let Some(id) = &self.key_id {
            head["kid"] = serde_json::json!(id);
        }
        let now = now.as_second();
        let claims = serde_json::json!({
            "iss": self.email,
            "scope": SCOPE,
            "aud": self.token_server.url().as_str(),
            "iat": now,
            "exp": now + LIFE,
        });
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&head), part(&claims));
        let mut signature = vec![0; self.key.public().modulus_len()];
        let signed = self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
        signed.map_err(|_| Error::failed("the key of the service account does not sign"))?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The cached token, or a new one if that is `old` or near its end.
    async fn token(&self, to: &Server<'_>, old: Option<&HeaderValue>) -> Result<HeaderMap, Fault> {
        let mut kept = self.token.lock().await;
        let good = kept.as_ref().filter(|token| Some(&token.header) != old && Instant::now() < token.until);
        let header = match good {
            Some(token) => token.header.clone(),
            None => {
                let token = self.fetch(to).await?;
                kept.insert(token).header.clone()
            }
        };
        Ok(HeaderMap::from_iter([(AUTHORIZATION, header)]))
    }

    async fn fetch(&self, to: &Server<'_>) -> Result<Token, Fault> {
        let name = self.token_server.shown();
        let client =
            to.connector.get(&self.token_server, false).map_err(|e| Fault::new(FaultKind::Tls, e))?;
        let fields = [("grant_type", GRANT.to_owned()), ("assertion", self.jwt(Timestamp::now())?)];
        let request = client
            .post(self.token_server.url().clone())
            .body(form(fields.into_iter()))
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let asked = Instant::now();
        let mut response = match within(to.idle, request.send()).await {
            Some(Ok(response)) => response,
            Some(Err(e)) => {
                let what = format!("the token server {name} of the service account cannot be reached");
                let why = retry::kind_of_unanswered(&e);
                return Err(Fault::new(why, Error::failed(what).because(e.without_url())));
            }
            None => return Err(retry::silent(name, "a token", to.idle)),
        };
        let status = response.status();
        if !status.is_success() {
            let what = format!("{name} answered {status} when asked for a token for the service account");
            return Err(match FaultKind::from_status(status) {
                why @ (FaultKind::Busy | FaultKind::Broken) => Fault::from_kind(why, what),
                _ => Fault::from_kind(
                    FaultKind::Denied,
                    format!("{what}; check its key file, and this host's clock"),
                ),
            });
        }
        let body = body::short(&mut response, MOST, Wait::with_idle(to.idle), name).await?;
        let answer: TokenAnswer = serde_json::from_slice(&body)
            .map_err(|_| Fault::from_kind(FaultKind::Odd, format!("{name} answered without a token")))?;
        let token = Secret::new(answer.access_token);
        let header = secret(&format!("Bearer {}", token.reveal()), "the token")
            .map_err(|e| Fault::from_kind(FaultKind::Denied, e.to_string()))?;
        // A request that begins shortly before the end would arrive after it.
        let life = Duration::from_secs(answer.expires_in.unwrap_or(USUAL_LIFE).min(LIFE.unsigned_abs()));
        Ok(Token { header, until: asked + life.mul_f64(0.8) })
    }
}

impl Authorizer for ServiceAccount {
    type Scope = ();

    async fn headers(&self, to: &Server<'_>, (): &()) -> Result<HeaderMap, Fault> {
        self.token(to, None).await
    }

    async fn challenged(
        &self,
        to: &Server<'_>,
        _: &Answer<'_>,
        used: &HeaderMap,
        (): &(),
    ) -> Result<Option<HeaderMap>, Fault> {
        self.token(to, used.get(AUTHORIZATION)).await.map(Some)
    }
}

/// The bytes of a PEM file with one block.
fn pem(text: &str) -> Option<Vec<u8>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let inner: String = lines.filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(inner).ok().filter(|der| !der.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    #[test]
    fn the_word_is_signed_by_the_key_and_says_what_is_asked_of_whom() {
        let file = serde_json::json!({
            "type": "service_account",
            "client_email": "reader@project.example",
            "private_key": include_str!("test-account.pem"),
            "private_key_id": "k1",
            "project_id": "more than is used",
        });
        let account = ServiceAccount::from_key_file(file.to_string().as_bytes()).unwrap();
        let word = account.jwt(Timestamp::from_second(1_700_000_000).unwrap()).unwrap();
        let (text, signature) = word.rsplit_once('.').unwrap();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, account.key.public_key().as_ref());
        public.verify(text.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        let read = |part: &str| -> serde_json::Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        let (head, claims) = text.split_once('.').unwrap();
        assert_eq!(read(head), serde_json::json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
        let expected = serde_json::json!({
            "iss": "reader@project.example", "scope": SCOPE, "aud": TOKEN_SERVER, "iat": 1_700_000_000, "exp": 1_700_003_600,
        });
        assert_eq!(read(claims), expected);
    }

    #[test]
    fn a_key_file_that_makes_no_sense_is_refused_without_a_word_of_it() {
        for (text, what) in [
            ("s3cret", "is not JSON"),
            (r#"{"type": "service_account", "client_email": "s3cret"}"#, "is not JSON with"),
            (
                r#"{"type": "authorized_user", "client_email": "s3cret", "private_key": "s3cret"}"#,
                "another type",
            ),
            (r#"{"type": "service_account", "client_email": "s3cret", "private_key": "-"}"#, "not PEM"),
            (r#"{"type": "service_account", "client_email": "s3cret", "private_key": "czNjcmV0"}"#, "PKCS#8"),
        ] {
            let e = ServiceAccount::from_key_file(text.as_bytes()).err().expect("it is refused");
            assert!(e.to_string().contains(what), "{e}");
            assert!(!format!("{e:?}").contains("s3cret"), "{e:?}");
        }
    }
}
