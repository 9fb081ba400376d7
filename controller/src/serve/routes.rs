//! What is answered where.
//!
//! ```text
//!  /healthz, /readyz   whether we live and are ready
//!  /…-mutate, /…-validate…   the webhooks, by their table
//! ```

use super::admission::hooks::Hook;
use super::admission::{Answer as Verdict, Request, review};
use super::http::{Answer, plain};
use super::live::Live;
use super::measures;
use crate::error::{Error, Kind as Wrong, Result, chain};
use crate::kind::{Key, Kind};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use rustls::crypto::SecureRandom;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the API server may take to say whether anything is left.
const PATIENCE: Duration = Duration::from_secs(5);
/// What keeps an installation, and how people call it.
const WORKLOADS: [(Kind, &str); 3] = [
    (Kind::Machine, "Virtual Machines"),
    (Kind::Instance, "Virtual Machine Instances"),
    (Kind::ReplicaSet, "Virtual Machine Instance Replica Sets"),
];

/// What is answered where.
pub struct Routes {
    live: Arc<Live>,
    client: kube::Client,
    random: &'static dyn SecureRandom,
}

impl Routes {
    /// Answers by what is known.
    pub fn new(live: Arc<Live>, client: kube::Client) -> Routes {
        Routes { live, client, random: rustls::crypto::ring::default_provider().secure_random }
    }

    /// The answer to one request.
    pub(super) async fn answer(&self, head: &Parts, body: &[u8]) -> Answer {
        match head.uri.path() {
            "/healthz" => plain(StatusCode::OK, "ok"),
            "/readyz" if self.live.is_ready() => plain(StatusCode::OK, "ok"),
            "/readyz" => plain(StatusCode::SERVICE_UNAVAILABLE, "the settings have not come yet"),
            path => match Hook::at(path) {
                Some(hook) => self.review(hook, head, body).await,
                None => plain(StatusCode::NOT_FOUND, "there is nothing here"),
            },
        }
    }

    async fn review(&self, hook: &Hook, head: &Parts, body: &[u8]) -> Answer {
        if head.method != Method::POST {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "an admission review is POSTed");
        }
        let kind =
            head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "an admission review is application/json");
        }
        let request = match Request::read(body) {
            Ok(request) => request,
            Err(why) => return plain(StatusCode::BAD_REQUEST, &why),
        };
        let began = Instant::now();
        let judged = self.judge(hook, &request).await;
        measures::judged(hook, &request, judged.as_ref().ok(), began);
        let verdict = match judged {
            Ok(verdict) => verdict,
            Err(error) => {
                tracing::warn!("{}: {}", hook.name, chain(&error));
                return plain(StatusCode::INTERNAL_SERVER_ERROR, &chain(&error));
            }
        };
        if !verdict.faults.is_empty() {
            let faults = verdict.faults.len();
            tracing::debug!(
                "{} says no to {} of {}: {faults} faults",
                hook.name,
                request.name,
                request.who.name
            );
        }
        let mut response =
            Response::new(Full::new(Bytes::from(review::write(&request, &verdict).to_string())));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    async fn judge(&self, hook: &Hook, request: &Request) -> Result<Verdict> {
        let mut around = (*self.live.around()).clone();
        around.random = (self.uuid()?, self.uuid()?);
        if hook.asks_what_is_left(request) {
            around.left = self.left().await?;
        }
        Ok(hook.judge(request, &around))
    }

    /// A uuid of version 4.
    fn uuid(&self) -> Result<String> {
        let mut bytes = [0; 16];
        self.random
            .fill(&mut bytes)
            .map_err(|_| Error::new(Wrong::Setup, "there is no randomness to be had"))?;
        Ok(api::uuid::of_chance(bytes))
    }

    /// A kind of which there still are objects.
    async fn left(&self) -> Result<Option<&'static str>> {
        for (kind, name) in WORKLOADS {
            let request = http::Request::get(format!("{}?limit=1", kind.collection(""))).body(Vec::new());
            let request = request.map_err(|e| Error::setup("a list makes no address", e))?;
            let key = Key::new(kind, "", "(all)");
            let began = Instant::now();
            let answer =
                tokio::time::timeout(PATIENCE, self.client.request::<serde_json::Value>(request)).await;
            crate::metrics::request("GET", began, answer.as_ref().ok().map(|answer| answer.as_ref()));
            let answer = answer.map_err(|_| {
                Error::new(Wrong::Unreachable, format!("cannot list {}: no answer within 5 s", kind.name()))
            })?;
            let list = answer.map_err(|error| Error::of_client("list", &key, error))?;
            if list["items"].as_array().is_some_and(|items| !items.is_empty()) {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}
