//! Routes of virt-api.
//!
//! ```text
//!  /healthz, /readyz, /metrics   probes and metrics ([`serve::health`])
//!  /SEGMENT/…-mutate, …      the webhooks, by their table, for callers that know the segment ([`cluster_model::webhook_paths`])
//!  /apis/…, /openapi/…       the aggregated API (package `subresources`)
//! ```
//!
//! A body is read by its route, after the head was checked. A large one is parsed and decided on a separate
//! thread, so that other requests do not wait for it.

use super::clones::{CloneCheck, Clones};
use super::evictions::Evictions;
use super::live::Live;
use super::measures;
use super::migrations::Migrations;
use super::rules::clone::{self, CloneResult};
use super::rules::eviction::reduced;
use super::rules::migration;
use super::rules::{
    AdmissionResponse, Request, RequestContext, check_failed, judge, needs_workloads, review,
};
use super::workloads::Workloads;
use cluster_client::error::{Error, ErrorKind, Result};
use cluster_model::objects::Program;
use cluster_model::webhooks::{Question, Webhook};
use http::{Method, StatusCode, header};
use jiff::Timestamp;
use rustls::crypto::SecureRandom;
use serve::authentication::Gate;
use serve::health::Health;
use serve::pace::on_behalf_of;
use serve::token::{CloneSourceKind, Cloned};
use serve::transport::{Answers, HttpResponse, IncomingRequest, Peer, plain, response};
use std::sync::Arc;
use std::time::Instant;

/// Maximum size of a review: an object may have 3 MiB, and an update contains the old object too.
const REVIEW: usize = 8 << 20;
/// Maximum size of an eviction review: it is small, and many of them may wait for the API server.
const EVICTION: usize = 64 << 10;

/// Handler of all requests.
pub struct Routes {
    live: Arc<Live>,
    health: Health,
    gate: Gate,
    workloads: Workloads,
    evictions: Evictions,
    migrations: Migrations,
    clones: Clones,
    subresources: subresources::Routes,
    random: &'static dyn SecureRandom,
}

impl Answers for Routes {
    async fn answer(&self, asked: IncomingRequest) -> HttpResponse {
        if let Some(answer) = self.health.answer(&asked.head, asked.peer, &self.gate).await {
            return answer;
        }
        let path = asked.head.uri.path();
        match self.live.webhook(path) {
            Some(hook) => self.review(hook, asked).await,
            None if subresources::is_ours(path) => self.subresources.answer(asked).await,
            None => plain(StatusCode::NOT_FOUND, "there is nothing here"),
        }
    }

    fn without_memory(&self, path: &str) -> Option<HttpResponse> {
        self.health.probed(path)
    }
}

impl Routes {
    /// A handler on this state. Webhooks use a client of their own.
    pub fn new(live: Arc<Live>, health: Health, client: kube::Client, webhooks: kube::Client) -> Routes {
        let random = rustls::crypto::ring::default_provider().secure_random;
        let (aggregation, handlers) = (Arc::clone(&live.aggregation), Arc::clone(&live.handlers));
        let (signer, settings) = (Arc::clone(&live.signer), Arc::clone(&live.dials.version));
        Routes {
            live,
            health,
            gate: Gate::new(client.clone()),
            workloads: Workloads::new(webhooks.clone()),
            evictions: Evictions::new(webhooks.clone()),
            migrations: Migrations::new(webhooks.clone()),
            clones: Clones::new(webhooks),
            subresources: subresources::Routes::new(client, aggregation, handlers, signer, settings),
            random,
        }
    }

    async fn review(&self, hook: &'static Webhook, mut asked: IncomingRequest) -> HttpResponse {
        let head = &asked.head;
        if head.method != Method::POST {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "an admission review is POSTed");
        }
        let kind =
            head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "an admission review is application/json");
        }
        asked.drop_head();
        let most = if hook.question == Question::Eviction { EVICTION } else { REVIEW };
        let body = match asked.body.whole(most).await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        let is_large = body.is_large();
        self.answer_to(hook, asked.peer, body, is_large).await
    }

    /// The answer to a review.
    pub(super) async fn answer_to(
        &self,
        hook: &'static Webhook,
        peer: Peer,
        body: impl AsRef<[u8]> + Send + 'static,
        is_large: bool,
    ) -> HttpResponse {
        let (request, body) = match aside(is_large, move || (Request::read(body.as_ref()), body)).await {
            Ok((Ok(request), body)) if hook.question == Question::Eviction => {
                (Arc::new(reduced(request)), body)
            }
            Ok((Ok(request), body)) => (Arc::new(request), body),
            Ok((Err(why), _)) => return plain(StatusCode::BAD_REQUEST, &why),
            Err(error) => return failed(hook, &error),
        };
        let began = Instant::now();
        let judging = self.judge(hook, peer, &request, body, is_large);
        let judged = on_behalf_of(&request.who.name, judging).await;
        measures::judged(hook, &request, judged.as_ref().ok(), began);
        let verdict = match judged {
            Ok(verdict) => verdict,
            Err(error) => return failed(hook, &error),
        };
        if !verdict.faults.is_empty() {
            let faults = verdict.faults.len();
            tracing::debug!("{} denied {} of {}: {faults} faults", hook.name, request.name, request.who.name);
        }
        response(StatusCode::OK, "application/json", review::write(&request, &verdict).to_string())
    }

    /// Decides a review. Its body is kept meanwhile: as long as it exists, no other large body is processed.
    async fn judge(
        &self,
        hook: &'static Webhook,
        peer: Peer,
        request: &Arc<Request>,
        body: impl Send + 'static,
        is_large: bool,
    ) -> Result<AdmissionResponse> {
        let mut context = (*self.live.context()).clone();
        context.random = (self.uuid()?, self.uuid()?);
        context.storage = self.live.storage();
        context.sizes = self.live.sizes(hook.question, request);
        context.presets = self.live.presets(hook.question, request);
        if hook.question == Question::Eviction {
            // An eviction may wait for the API server, and holds no memory meanwhile.
            drop(body);
            // On the heap: the future holds a pod and a VMI, and each review would be as large.
            return Ok(Box::pin(self.evictions.answer(hook, request, context, peer)).await);
        }
        if needs_workloads(hook, request) {
            context.left = match self.workloads.left(hook.question).await {
                Err(error) if error.kind() == ErrorKind::Unreachable => {
                    return Ok(check_failed(&error.chain()));
                }
                left => left?,
            };
        }
        if hook.question == Question::NewMigration
            && let Some(vmi) = migration::vmi_of(request, &context)
        {
            // On the heap, as for an eviction.
            match Box::pin(self.migrations.facts(&vmi, peer)).await {
                Ok(facts) => context.migration = Some(facts),
                Err(error) => {
                    tracing::warn!("{}: {}", hook.name, error.chain());
                    return Ok(migration::deferred_unread(request, &error.chain()));
                }
            }
        }
        self.check_clones(hook, peer, request, &mut context).await?;
        let request = Arc::clone(request);
        aside(is_large, move || {
            let verdict = judge(hook, &request, &context);
            drop(body);
            verdict
        })
        .await
    }

    /// Checks the permissions of the clones in a request, and signs the token.
    async fn check_clones(
        &self,
        hook: &'static Webhook,
        peer: Peer,
        request: &Request,
        context: &mut RequestContext,
    ) -> Result<()> {
        let wanted = clone::wanted(hook.question, request);
        if wanted.is_empty() {
            return Ok(());
        }
        let controller = context.accounts.user(Program::Controller);
        let whose = clone::whose(hook.question, request, &controller);
        let subject = &request.who.subject;
        let asked = CloneCheck { wanted: &wanted, namespace: &request.namespace, whose, subject };
        context.clones = self.clones.found(&asked, peer).await?;
        // A dry run gets no token.
        let named = match context.clones.first() {
            Some(Some(CloneResult::Permitted(namespace, name))) => {
                Some((CloneSourceKind::Claim, namespace, name))
            }
            Some(Some(CloneResult::PermittedLater(namespace, name))) => {
                Some((CloneSourceKind::DataSource, namespace, name))
            }
            _ => None,
        };
        if let (Some((named, namespace, name)), Question::FillDataVolume, false) =
            (named, hook.question, request.dry_run)
        {
            let meta = &request.object["metadata"];
            let text = |field: &str| meta[field].as_str().unwrap_or_default();
            let clone = Cloned {
                source: (namespace, name),
                target: (&request.namespace, text("name")),
                generated: text("generateName"),
            };
            let token = self.live.signer.cloning(named, clone, Timestamp::now())?;
            let none = || {
                let what =
                    "virt-api has no key to sign clone tokens yet (Secret cdi-api-signing-key); try again";
                Error::new(ErrorKind::Unreachable, what)
            };
            context.token = Some(token.ok_or_else(none)?);
        }
        Ok(())
    }

    /// A random UUID (version 4).
    fn uuid(&self) -> Result<String> {
        let mut bytes = [0; 16];
        self.random
            .fill(&mut bytes)
            .map_err(|_| Error::new(ErrorKind::Setup, "the system's random number generator failed"))?;
        Ok(api::uuid::from_random(bytes))
    }
}

/// Runs a function here, or on a separate thread if it takes long.
#[expect(
    clippy::disallowed_methods,
    reason = "it computes and waits for nothing, and a large body has the only place that there is for them"
)]
async fn aside<T: Send + 'static>(is_large: bool, does: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    if !is_large {
        return Ok(does());
    }
    tokio::task::spawn_blocking(does)
        .await
        .map_err(|e| Error::setup("the task for a large review panicked", e))
}

fn failed(hook: &Webhook, error: &Error) -> HttpResponse {
    tracing::warn!("{}: {}", hook.name, error.chain());
    plain(StatusCode::INTERNAL_SERVER_ERROR, &error.chain())
}
