//! Credentials for one registry: sent with each request (basic), or as a token of its token server.
//!
//! ```text
//!  request ─► 401, WWW-Authenticate ─► challenge.rs
//!                                       ├─ basic:  user and password with each request from now on
//!                                       └─ bearer: GET realm?service&scope      with user and password, or without a login
//!                                                  POST realm, refresh_token    with an identity token
//!                                                  └─► a token for these scopes, used until shortly before its end
//! ```
//!
//! A token is for a set of scopes: pulling, pushing, and pulling from the repository that a blob is mounted
//! from are requested together. The realm comes from the registry, so it is used only where it can do no
//! harm: it must speak TLS, or be as near as a registry that itself uses plain HTTP.

use super::challenge::{self, Bearer, Challenge};
use super::{Answer, Authorizer, Server, basic, secret};
use crate::body::{self, Wait};
use crate::host::is_inside;
use crate::retry::{self, within};
use crate::{Error, ErrorKind, Fault, FaultKind, Location, Result, Secret};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{RequestBuilder, StatusCode};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest accepted answer of a token server: a longer token fits in no header.
const MOST: usize = 64 << 10;

/// Tokens that are kept at once, so that a registry that names other scopes with each challenge fills no
/// memory.
const MOST_TOKENS: usize = 64;

/// Lifetime of a token whose server does not state it, by the specification.
const USUAL_LIFE: Duration = Duration::from_secs(60);
const LONGEST_LIFE: Duration = Duration::from_secs(86_400);

/// The scopes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes {
    /// The repository whose credentials are used.
    repository: String,
    list: Vec<String>,
}

impl Scopes {
    /// The scope to read a repository.
    pub fn pull(repository: &str) -> Scopes {
        Scopes { repository: repository.into(), list: vec![format!("repository:{repository}:pull")] }
    }

    /// The scope to read and write a repository.
    pub fn push(repository: &str) -> Scopes {
        Scopes { repository: repository.into(), list: vec![format!("repository:{repository}:pull,push")] }
    }

    /// The scopes to write `repository` and to read `from`, which a blob is mounted from.
    pub fn mount(repository: &str, from: &str) -> Scopes {
        let mut scopes = Scopes::push(repository);
        scopes.list.push(format!("repository:{from}:pull"));
        scopes
    }

    /// Adds the scopes that the registry itself names, since it may know the repository by another name. The
    /// result has one entry for each resource, as some token servers read the first one only.
    fn with(&self, named: &[String]) -> Vec<String> {
        let mut actions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (resource, more) in self.list.iter().chain(named).filter_map(|scope| scope.rsplit_once(':')) {
            let known = actions.entry(resource).or_default();
            known.extend(more.split(','));
            known.sort_unstable();
            known.dedup();
        }
        actions.into_iter().map(|(resource, actions)| format!("{resource}:{}", actions.join(","))).collect()
    }
}

/// A login to a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    Basic(String, Secret),
    /// An identity token of an OAuth login.
    Identity(Secret),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credential::Basic(..) => "user and password …",
            Credential::Identity(_) => "identity token …",
        })
    }
}

/// A source of credentials for one server.
pub trait Credentials: Send + Sync {
    /// The credential for a repository. It may start a credential helper, so it is called where blocking is
    /// allowed.
    fn find(&self, repository: &str) -> Result<Option<Credential>>;

    /// Advice on how to log in to the server of this address; it follows "log in, ".
    fn advice(&self, address: &str) -> String {
        format!("as with: docker login {address}")
    }
}

/// Authorization at one registry, by password or token.
pub struct RegistryToken {
    address: String,
    credentials: Arc<dyn Credentials>,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    credentials: HashMap<String, Option<Credential>>,
    /// Errors of a look-up ahead of time ([`RegistryToken::ready`]), reported when the credential is needed.
    unknown: HashMap<String, (ErrorKind, String)>,
    challenge: Option<Challenge>,
    /// The registry's own names for our scopes.
    named: HashMap<Vec<String>, Vec<String>>,
    tokens: HashMap<String, Token>,
}

impl State {
    /// Stores a token. Expired tokens are dropped, and if there are too many, the one that expires next.
    fn keep(&mut self, key: String, token: Token) {
        let now = Instant::now();
        self.tokens.retain(|_, token| now < token.until);
        while self.tokens.len() >= MOST_TOKENS && !self.tokens.contains_key(&key) {
            let next = self.tokens.iter().min_by_key(|(_, token)| token.until).map(|(key, _)| key.clone());
            let Some(next) = next else { break };
            self.tokens.remove(&next);
        }
        self.tokens.insert(key, token);
    }
}

struct Token {
    header: HeaderValue,
    until: Instant,
}

#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl RegistryToken {
    /// `address` is the server's name in messages. Nothing is requested yet.
    pub fn new(address: &str, credentials: Arc<dyn Credentials>) -> RegistryToken {
        RegistryToken { address: address.into(), credentials, state: Default::default() }
    }

    /// Looks the credentials up now. An error is reported only when they are needed, since many servers need
    /// none.
    pub fn ready(&self, repository: &str) {
        let mut state = self.state.blocking_lock();
        if state.credentials.contains_key(repository) {
            return;
        }
        match self.credentials.find(repository) {
            Ok(found) => drop(state.credentials.insert(repository.to_owned(), found)),
            Err(e) => {
                let cause =
                    std::error::Error::source(&e).map(|cause| format!(": {cause}")).unwrap_or_default();
                state.unknown.insert(repository.to_owned(), (e.kind(), format!("{e}{cause}")));
            }
        }
    }

    async fn answer_to(
        &self,
        to: &Server<'_>,
        headers: &HeaderMap,
        used: Option<&HeaderValue>,
        scopes: &Scopes,
    ) -> Result<HeaderValue, Fault> {
        let Some(mut challenge) = challenge::best(headers) else {
            return Err(
                self.denied("wants a login of a kind that is not known here (neither Basic nor Bearer)")
            );
        };
        let mut state = self.state.lock().await;
        if let Challenge::Bearer(bearer) = &mut challenge {
            state.named.insert(scopes.list.clone(), std::mem::take(&mut bearer.scopes));
        }
        state.challenge = Some(challenge.clone());
        // Another request may have fetched a newer token during the wait for the lock.
        state.tokens.retain(|_, token| Some(&token.header) != used);
        self.answer(&mut state, challenge, to, scopes).await
    }

    async fn answer(
        &self,
        state: &mut State,
        challenge: Challenge,
        to: &Server<'_>,
        scopes: &Scopes,
    ) -> Result<HeaderValue, Fault> {
        let bearer = match challenge {
            Challenge::Bearer(bearer) => bearer,
            Challenge::Basic => {
                let credential = self.credential(state, &scopes.repository).await?;
                return match credential {
                    Some(Credential::Basic(user, password)) => {
                        basic(&user, &password).map_err(|e| invalid_credential(&e))
                    }
                    Some(Credential::Identity(_)) => {
                        Err(self.denied("wants a user and a password, and an identity token is known"))
                    }
                    None => Err(self.denied("wants a user and a password")),
                };
            }
        };
        let wanted = scopes.with(state.named.get(&scopes.list).map_or(&[], Vec::as_slice));
        let key = wanted.join(" ");
        if let Some(token) = state.tokens.get(&key).filter(|token| Instant::now() < token.until) {
            return Ok(token.header.clone());
        }
        let credential = self.credential(state, &scopes.repository).await?;
        let token = self.fetch(to, &bearer, &wanted, credential.as_ref()).await?;
        let header = token.header.clone();
        state.keep(key, token);
        Ok(header)
    }

    async fn credential(&self, state: &mut State, repository: &str) -> Result<Option<Credential>, Fault> {
        if let Some(known) = state.credentials.get(repository) {
            return Ok(known.clone());
        }
        if let Some((kind, what)) = state.unknown.get(repository) {
            return Err(Fault::new(FaultKind::Denied, Error::new(*kind, what.clone())));
        }
        let (credentials, name) = (Arc::clone(&self.credentials), repository.to_owned());
        let found = tokio::task::spawn_blocking(move || credentials.find(&name)).await;
        let found = found
            .unwrap_or_else(|e| Err(Error::failed("the search for credentials did not end well").because(e)))
            .map_err(|e| Fault::new(FaultKind::Denied, e))?;
        state.credentials.insert(repository.to_owned(), found.clone());
        Ok(found)
    }

    async fn fetch(
        &self,
        to: &Server<'_>,
        bearer: &Bearer,
        scopes: &[String],
        credential: Option<&Credential>,
    ) -> Result<Token, Fault> {
        let realm = realm(&bearer.realm, to.origin).ok_or_else(|| {
            let what = "names a token server that is not asked: it must speak TLS, as the registry does";
            Fault::new(FaultKind::Denied, Error::refused(format!("{} {what}", self.address)))
        })?;
        let request = self.request(to, &realm, bearer, scopes, credential)?;
        let asked = Instant::now();
        let sent = within(to.idle, request.send()).await;
        let name = realm.shown();
        let mut response = match sent {
            Some(Ok(response)) => response,
            Some(Err(e)) => {
                let what = format!("{}: its token server {name} cannot be reached", self.address);
                let why = retry::kind_of_unanswered(&e);
                return Err(Fault::new(why, Error::failed(what).because(e.without_url())));
            }
            None => return Err(retry::silent(name, "a token", to.idle)),
        };
        let status = response.status();
        if !status.is_success() {
            return Err(self.no_token(name, status, retry::after(response.headers()), credential.is_some()));
        }
        let body = body::short(&mut response, MOST, Wait::with_idle(to.idle), name).await?;
        let bad =
            |why: &str| Fault::from_kind(FaultKind::Odd, format!("{name}: {why}; a token was expected"));
        // The parser's message is left out, since it would quote the token.
        let answer: TokenResponse =
            serde_json::from_slice(&body).map_err(|_| bad("answered with no JSON object"))?;
        let token = answer.token.or(answer.access_token).filter(|token| !token.is_empty());
        let token = Secret::new(token.ok_or_else(|| bad("answered without a token"))?);
        let life = answer.expires_in.map_or(USUAL_LIFE, Duration::from_secs).min(LONGEST_LIFE);
        // A request that begins shortly before the end would arrive after it.
        let until = asked + life.mul_f64(0.8);
        Ok(Token {
            header: secret(&format!("Bearer {}", token.reveal()), "the token")
                .map_err(|e| invalid_credential(&e))?,
            until,
        })
    }

    fn request(
        &self,
        to: &Server<'_>,
        realm: &Location,
        bearer: &Bearer,
        scopes: &[String],
        credential: Option<&Credential>,
    ) -> Result<RequestBuilder, Fault> {
        let own = to.origin.is_tls() == realm.is_tls() && to.origin.host() == realm.host();
        let client = to.connector.get(realm, own).map_err(|e| Fault::new(FaultKind::Odd, e))?;
        let service = bearer.service.iter().map(|service| ("service", service.clone()));
        if let Some(Credential::Identity(token)) = credential {
            let fields = [
                ("grant_type", "refresh_token".to_owned()),
                ("client_id", "coracle".to_owned()),
                ("refresh_token", token.reveal().to_owned()),
                ("scope", scopes.join(" ")),
            ];
            let form = form(fields.into_iter().chain(service));
            let form = client.post(realm.url().clone()).body(form).header(ACCEPT, "application/json");
            return Ok(form.header(CONTENT_TYPE, "application/x-www-form-urlencoded"));
        }
        let scopes = scopes.iter().map(|scope| ("scope", scope.clone()));
        let mut url = realm.url().clone();
        for (name, value) in service.chain(scopes) {
            url.query_pairs_mut().append_pair(name, &value);
        }
        let request = client.get(url).header(ACCEPT, "application/json");
        Ok(match credential {
            Some(Credential::Basic(user, password)) => {
                request.header(AUTHORIZATION, basic(user, password).map_err(|e| invalid_credential(&e))?)
            }
            _ => request,
        })
    }

    fn no_token(&self, realm: &str, status: StatusCode, after: Option<Duration>, known: bool) -> Fault {
        let what = format!("{realm} answered {status} when asked for a token for {}", self.address);
        let mut fault = match FaultKind::from_status(status) {
            why @ (FaultKind::Busy | FaultKind::Broken) => Fault::from_kind(why, what),
            _ if known => {
                Fault::from_kind(FaultKind::Denied, format!("{what}; log in to {} again", self.address))
            }
            _ => Fault::from_kind(FaultKind::Denied, format!("{what}; log in to {}", self.address)),
        };
        fault.retry_after = after;
        fault
    }

    fn denied(&self, what: &str) -> Fault {
        let address = &self.address;
        let advice = self.credentials.advice(address);
        Fault::from_kind(FaultKind::Denied, format!("{address} {what}; log in, {advice}"))
    }
}

impl Authorizer for RegistryToken {
    type Scope = Scopes;

    /// Headers for a request, once a challenge is known. A token near its end is replaced.
    async fn headers(&self, to: &Server<'_>, scopes: &Scopes) -> Result<HeaderMap, Fault> {
        let mut state = self.state.lock().await;
        match state.challenge.clone() {
            None => Ok(HeaderMap::new()),
            Some(challenge) => self.answer(&mut state, challenge, to, scopes).await.map(authorization),
        }
    }

    async fn challenged(
        &self,
        to: &Server<'_>,
        answer: &Answer<'_>,
        used: &HeaderMap,
        scopes: &Scopes,
    ) -> Result<Option<HeaderMap>, Fault> {
        self.answer_to(to, answer.headers, used.get(AUTHORIZATION), scopes)
            .await
            .map(|value| Some(authorization(value)))
    }
}

/// The fault for credentials that fit in no header.
fn invalid_credential(e: &Error) -> Fault {
    Fault::from_kind(FaultKind::Denied, e.to_string())
}

fn authorization(value: HeaderValue) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, value)])
}

/// The URL of the token server, if it may get our credentials.
fn realm(text: &str, registry: &Location) -> Option<Location> {
    let url = reqwest::Url::parse(text).ok()?;
    if !url.username().is_empty() || url.password().is_some() {
        return None;
    }
    let realm = Location::base(url.scheme(), url.host_str().map(|host| with_port(host, &url)).as_deref()?)?;
    let path = url.query().map_or(url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    // As with redirects: a registry outside must not send our login to a host inside, which it could not
    // reach itself.
    if is_inside(realm.host()) && !is_inside(registry.host()) {
        return None;
    }
    let near = realm.host() == registry.host() || realm.is_loopback() && registry.is_loopback();
    (realm.is_tls() || !registry.is_tls() && near).then(|| realm.at(&path))
}

fn with_port(host: &str, url: &reqwest::Url) -> String {
    url.port().map_or(host.to_owned(), |port| format!("{host}:{port}"))
}

/// Fields in the form `a=1&b=2`, escaped.
pub(super) fn form(fields: impl Iterator<Item = (&'static str, String)>) -> String {
    let Ok(mut url) = reqwest::Url::parse("http://form/") else { return String::new() };
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realm_is_asked_only_where_that_does_no_harm() {
        for (registry, realm_text, asked) in [
            ("https://h", "https://auth.example/token?x=1", true),
            ("https://registry.example", "https://10.0.0.5/any/path?x=y", false),
            ("https://registry.example", "https://localhost/token", false),
            ("https://10.0.0.2", "https://10.0.0.5/token", true),
            ("https://10.0.0.2", "https://auth.example/token", true),
            ("https://h", "http://h/token", false),
            ("https://h", "http://127.0.0.1/token", false),
            ("http://h", "https://auth.example/token", true),
            ("http://h:5000", "http://h:5001/token", true),
            ("http://h", "http://elsewhere/token", false),
            ("http://h", "http://127.0.0.1/token", false),
            ("http://127.0.0.1:1", "http://localhost:2/token", true),
            ("https://h", "https://u:p@auth/token", false),
            ("http://h", "ftp://h/token", false),
            ("http://h", "/token", false),
        ] {
            let registry =
                Location::base(registry.split("://").next().unwrap(), registry.split("://").nth(1).unwrap());
            let found = realm(realm_text, &registry.unwrap());
            assert_eq!(found.as_ref().map(|l| l.url().as_str()), asked.then_some(realm_text));
        }
    }

    #[test]
    fn scopes_of_one_resource_are_one_scope() {
        let named = ["repository:a/b:pull".to_owned(), "registry:catalog:*".to_owned()];
        let mounted = Scopes::mount("a/b", "c");
        assert_eq!(
            mounted.with(&named),
            ["registry:catalog:*", "repository:a/b:pull,push", "repository:c:pull"]
        );
        assert_eq!(Scopes::pull("a").with(&[]), ["repository:a:pull"]);
        assert_eq!(Scopes::mount("a", "a").with(&[]), ["repository:a:pull,push"]);
    }

    struct Nobody;

    impl Credentials for Nobody {
        fn find(&self, _: &str) -> Result<Option<Credential>> {
            Ok(None)
        }
    }

    /// A registry whose token server answers so; what comes of challenges for these scopes.
    fn challenged(answer: String, scopes: &[String]) -> (RegistryToken, Vec<Result<HeaderValue, Fault>>) {
        let server = ::tests::http::Server::start(answer, ::tests::http::Behaviour::default());
        let origin = Location::parse(&server.url("/v2/")).unwrap().0;
        let timeout = Duration::from_secs(20);
        let connector = crate::Connector::new(crate::Connect {
            ca: vec![],
            identity: None,
            is_private: false,
            unchecked: crate::Unchecked::None,
            timeout,
            addresses: crate::Addresses::Any,
            kept: 1,
            hint: "",
        });
        let to = Server { origin: &origin, connector: &connector, idle: timeout };
        let token = RegistryToken::new("registry", Arc::new(Nobody));
        let answers = scopes.iter().map(|scope| {
            let challenge = format!("Bearer realm=\"{}\",scope=\"{scope}\"", server.url("/token"));
            let headers = HeaderMap::from_iter([(
                reqwest::header::WWW_AUTHENTICATE,
                HeaderValue::try_from(challenge).unwrap(),
            )]);
            crate::runtime().unwrap().block_on(token.answer_to(&to, &headers, None, &Scopes::pull("a")))
        });
        let answers = answers.collect();
        (token, answers)
    }

    #[test]
    fn a_registry_that_changes_its_mind_fills_no_memory() {
        let scopes: Vec<String> = (0..200).map(|i| format!("repository:a{i}:pull")).collect();
        let (token, answers) = challenged("{\"token\":\"t\"}".into(), &scopes);
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|value| value == "Bearer t")));
        let state = token.state.try_lock().unwrap();
        assert!(state.tokens.len() <= 64, "{} tokens", state.tokens.len());
        assert!(state.tokens.contains_key("repository:a:pull repository:a199:pull"), "the last one is kept");
    }

    #[test]
    fn a_token_is_no_longer_than_64_kib() {
        let long = |len: usize| format!("{{\"token\":\"{}\"}}", "t".repeat(len));
        let scope = ["repository:a:pull".to_owned()];
        let (_, answers) = challenged(long(60 << 10), &scope);
        assert!(answers[0].is_ok());
        let (_, answers) = challenged(long(64 << 10), &scope);
        let fault = answers[0].as_ref().unwrap_err();
        assert_eq!(fault.kind, FaultKind::Wrong);
        assert!(fault.error.to_string().contains("the answer is longer than 64 KiB"), "{}", fault.error);
    }

    #[test]
    fn forms_are_escaped() {
        assert_eq!(
            form([("a", "x y&z".to_owned()), ("b", "é=".into())].into_iter()),
            "a=x+y%26z&b=%C3%A9%3D"
        );
    }
}
