//! Authentication and authorization of a request by reviews of the API server, as in Kubernetes' own
//! programs.
//!
//! ```text
//!  Authorization: Bearer … ─► cache ─► TokenReview ─► SubjectAccessReview (get, /metrics) ─► 200
//!                               │           └ 401                └ 403
//!                               └ an answer of the last 10 s
//! ```
//!
//! A token is permitted if its user may `get` the path `/metrics` (`nonResourceURLs`). **Bounds.** A flood of
//! invented tokens must not become a flood of requests to the API server. So the number of concurrent reviews
//! is limited, two for each address, and answers are cached for a short time, refusals apart from the others
//! so that they push none of them out. Only the digest of a token is kept. If the API server does not answer,
//! the client is told to try again, and nothing is cached.

mod cache;

use crate::transport::{HttpResponse, Peer, busy, plain};
use cache::Cache;
use cluster_client::error::{Error, ErrorKind, Result};
use cluster_client::review;
use cluster_model::objects::Kind;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Time that an answer of the API server is cached; as in Kubernetes' own programs.
const HOLDS: Duration = Duration::from_secs(10);
/// Time limit of the API server, and of a request that waits for its review.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of concurrent reviews.
const AT_ONCE: usize = 4;
/// Concurrent reviews for one address, waiting ones included.
const OF_ONE: usize = 2;

/// Lets in the requests that the API server permits.
pub struct Gate {
    client: kube::Client,
    known: Mutex<Cache>,
    reviews: Semaphore,
    asking: Mutex<HashMap<Peer, usize>>,
}

/// Answer of the API server about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    /// No user has this token.
    Unknown,
    /// The token's user, which is not permitted.
    Denied(String),
}

impl Gate {
    /// Sends reviews by this client.
    pub fn new(client: kube::Client) -> Gate {
        Gate { client, known: Mutex::default(), reviews: Semaphore::new(AT_ONCE), asking: Mutex::default() }
    }

    /// Checks that the sender of this request may read its path. An error is the answer to a refused request.
    pub async fn check_access(&self, head: &Parts, peer: Peer) -> std::result::Result<(), HttpResponse> {
        if head.method != Method::GET {
            return Err(plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use GET"));
        }
        let path = head.uri.path();
        let Some(token) = bearer(head) else { return Err(unauthorized()) };
        let digest: [u8; 32] = Sha256::digest(format!("{path} {token}")).into();
        let known = self.known().get(&digest, Instant::now());
        let verdict = match known {
            Some(verdict) => verdict,
            None => {
                let Some(_place) = ReviewSlot::take(&self.asking, peer) else {
                    let said = "other requests of this address are being authorized; try again";
                    return Err(busy(StatusCode::TOO_MANY_REQUESTS, said));
                };
                let verdict = self.ask(path, token).await.map_err(|error| {
                    tracing::warn!("SubjectAccessReview for {path} failed: {}", error.chain());
                    busy(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "the API server did not authorize the request in time; try again",
                    )
                })?;
                self.known().put(digest, verdict.clone(), Instant::now());
                verdict
            }
        };
        match verdict {
            Verdict::Allowed => Ok(()),
            Verdict::Unknown => Err(unauthorized()),
            Verdict::Denied(name) => {
                let said = format!("user {name:?} may not get {path}");
                Err(plain(StatusCode::FORBIDDEN, &said))
            }
        }
    }

    async fn ask(&self, path: &str, token: &str) -> Result<Verdict> {
        let waits = tokio::time::timeout(PATIENCE, self.reviews.acquire()).await;
        let _turn = waits.map_err(|_| {
            Error::new(ErrorKind::Unreachable, format!("{AT_ONCE} other reviews have not ended within 5 s"))
        })?;
        let is = review(&self.client, Kind::TokenReview, &json!({"token": token})).await?;
        if is["authenticated"] != true {
            return Ok(Verdict::Unknown);
        }
        let user = &is["user"];
        let asked = json!({
            "user": user["username"],
            "uid": user["uid"],
            "groups": user["groups"],
            "extra": user["extra"],
            "nonResourceAttributes": {"path": path, "verb": "get"},
        });
        let may = review(&self.client, Kind::SubjectAccessReview, &asked).await?;
        Ok(match may["allowed"] == true {
            true => Verdict::Allowed,
            false => Verdict::Denied(user["username"].as_str().unwrap_or_default().to_owned()),
        })
    }

    fn known(&self) -> MutexGuard<'_, Cache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bearer token of a request.
fn bearer(head: &Parts) -> Option<&str> {
    let (kind, token) = head.headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (kind.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn unauthorized() -> HttpResponse {
    let mut answer =
        plain(StatusCode::UNAUTHORIZED, "send a token of the cluster: Authorization: Bearer TOKEN");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

/// Place of one of the reviews that an address may have at once.
struct ReviewSlot<'a> {
    all: &'a Mutex<HashMap<Peer, usize>>,
    peer: Peer,
}

impl<'a> ReviewSlot<'a> {
    fn take(all: &'a Mutex<HashMap<Peer, usize>>, peer: Peer) -> Option<ReviewSlot<'a>> {
        let mut counts = all.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(peer).or_default();
        (*count < OF_ONE).then(|| {
            *count += 1;
            ReviewSlot { all, peer }
        })
    }
}

impl Drop for ReviewSlot<'_> {
    fn drop(&mut self) {
        let mut counts = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests;
