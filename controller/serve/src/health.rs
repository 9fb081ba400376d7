//! Whether a program lives and is ready, for the kubelet: `/healthz` and `/readyz`, which are open to all; and what it
//! measures: `/metrics`, for whom the API server lets read it. Whatever else a program answers, it answers beside these.

use crate::authentication::Gate;
use crate::certificate;
use crate::settings_version::SettingsVersion;
use crate::transport::tls::{self, Shown, Terms};
use crate::transport::{Answers, Asked, Authorities, HttpResponse, Limits, Peer, Transport, listen, plain};
use cluster_client::error::Result;
use cluster_client::metrics;
use cluster_model::servers::Server;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use hyper::body::Bytes;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// How often is looked whether a program has become ready.
const LOOK: Duration = Duration::from_millis(100);
/// How long whoever measures may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks for a page of measures.
pub type Ask = oneshot::Sender<String>;

/// What is told.
#[derive(Clone, Debug, Default)]
pub struct Health {
    ready: Arc<AtomicBool>,
    measures: Arc<Mutex<Measures>>,
    /// Of a program of KubeVirt; others say a word.
    settings: Arc<OnceLock<Arc<SettingsVersion>>>,
}

/// Who measures.
#[derive(Clone, Debug, Default)]
enum Measures {
    /// Nobody.
    #[default]
    None,
    /// It is always the same.
    Plain(fn() -> String),
    /// A task that is asked.
    Asked(mpsc::Sender<Ask>),
}

impl Health {
    /// It does its work.
    pub fn is_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// It does its work as soon as this is so.
    pub async fn is_ready_when(self, so: impl Fn() -> bool) {
        while !so() {
            tokio::time::sleep(LOOK).await;
        }
        tracing::info!("ready");
        self.is_ready();
    }

    /// What is measured while nobody else does.
    pub fn measures_plainly(&self, page: fn() -> String) {
        *self.measures.lock().unwrap_or_else(PoisonError::into_inner) = Measures::Plain(page);
    }

    /// Who measures from now on: each question wants one page.
    pub fn measures(&self) -> mpsc::Receiver<Ask> {
        let (ask, asked) = mpsc::channel(4);
        *self.measures.lock().unwrap_or_else(PoisonError::into_inner) = Measures::Asked(ask);
        asked
    }

    /// `/healthz` answers as JSON which version of the KubeVirt object holds, as that of KubeVirt's programs.
    pub fn tells(&self, settings: &Arc<SettingsVersion>) {
        self.settings.get_or_init(|| Arc::clone(settings));
    }

    /// It is about to end: no new work is to come.
    pub fn is_not_ready(&self) {
        self.ready.store(false, Ordering::Relaxed);
    }

    /// The answer, where this path is one of ours.
    pub async fn answer(&self, head: &Parts, peer: Peer, gate: &Gate) -> Option<HttpResponse> {
        match head.uri.path() {
            "/metrics" => Some(match gate.may_read(head, peer).await {
                Ok(()) => self.measured().await,
                Err(answer) => answer,
            }),
            path => self.probed(path),
        }
    }

    /// The answer to the kubelet, where it asks by this path. It takes no memory, and is given even where there is none
    /// ([`Answers::without_memory`]): a program that a flood keeps busy is not to be ended for it.
    pub fn probed(&self, path: &str) -> Option<HttpResponse> {
        Some(match path {
            "/healthz" => match self.settings.get() {
                Some(settings) => {
                    let mut response = Response::new(settings.answer());
                    let kind = HeaderValue::from_static("application/json");
                    response.headers_mut().insert(CONTENT_TYPE, kind);
                    response
                }
                None => plain(StatusCode::OK, "ok"),
            },
            "/readyz" if self.ready.load(Ordering::Relaxed) => plain(StatusCode::OK, "ok"),
            "/readyz" => plain(StatusCode::SERVICE_UNAVAILABLE, "the first lists have not come yet"),
            _ => return None,
        })
    }

    /// Answers on this address as long as the program runs; what is neither health nor measures, by `others`.
    pub async fn serve(
        self,
        address: SocketAddr,
        client: kube::Client,
        namespace: &str,
        server: Server,
        terms: Arc<Terms>,
        others: Arc<impl Answers>,
    ) -> Result<()> {
        let shown = Arc::new(Shown::own(server.program)?);
        let authorities = server.is_asked_by_us.then(Arc::<Authorities>::default);
        let (listener, config) =
            (listen(address).await?, tls::config(Arc::clone(&shown), authorities.clone(), terms)?);
        let answers = Arc::new(All { health: self, gate: Gate::new(client.clone()), others });
        let namespace = namespace.to_owned();
        tokio::spawn(async move {
            // Nobody ends it but the program's own end.
            let (_never, ends) = watch::channel(false);
            let transport = Transport::new(Limits::of_program());
            tokio::join!(
                transport.serve(listener, config, answers, ends),
                certificate::follow(client.clone(), &namespace, server.secret, shown),
                async {
                    if let Some(authorities) = authorities {
                        certificate::follow_authorities(client, &namespace, authorities).await;
                    }
                },
            )
        });
        Ok(())
    }

    async fn measured(&self) -> HttpResponse {
        let Some(page) = self.page().await else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "nothing is measured now");
        };
        let mut response = Response::new(Bytes::from(page));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
        response
    }

    async fn page(&self) -> Option<String> {
        let measures = self.measures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match measures {
            Measures::None => None,
            Measures::Plain(page) => Some(page()),
            Measures::Asked(ask) => {
                let (tell, told) = oneshot::channel();
                let asked = async { ask.send(tell).await.ok().map(|()| told)?.await.ok() };
                tokio::time::timeout(PATIENCE, asked).await.ok()?
            }
        }
    }
}

/// All that a program answers.
struct All<A> {
    health: Health,
    gate: Gate,
    others: Arc<A>,
}

impl<A: Answers> Answers for All<A> {
    async fn answer(&self, asked: Asked) -> HttpResponse {
        let answer = self.health.answer(&asked.head, asked.peer, &self.gate).await;
        match answer {
            Some(answer) => answer,
            None => self.others.answer(asked).await,
        }
    }

    fn without_memory(&self, path: &str) -> Option<HttpResponse> {
        self.health.probed(path)
    }
}

/// The answers of a program that has no others.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Answers for Nothing {
    async fn answer(&self, _: Asked) -> HttpResponse {
        plain(StatusCode::NOT_FOUND, "there are /healthz, /readyz and /metrics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_kubevirt_tells_the_version_of_its_settings() {
        let health = Health::default();
        assert_eq!(health.probed("/healthz").unwrap().body(), "ok\n");
        health.tells(&Arc::default());
        let answer = health.probed("/healthz").unwrap();
        assert_eq!(
            (answer.status(), &answer.headers()[CONTENT_TYPE]),
            (StatusCode::OK, &HeaderValue::from_static("application/json"))
        );
        let body: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(body["config-resource-version"], "");
    }

    #[tokio::test]
    async fn measures_are_those_of_whoever_measures_now() {
        let health = Health::default();
        let get = || health.measured();
        assert_eq!(get().await.status(), StatusCode::SERVICE_UNAVAILABLE);
        health.measures_plainly(|| "up 0\n".to_owned());
        assert_eq!(get().await.body(), "up 0\n");
        let mut asked = health.measures();
        let task = tokio::spawn(async move {
            let tell: Ask = asked.recv().await.unwrap();
            tell.send("up 1\n".to_owned()).unwrap();
        });
        let response = get().await;
        assert_eq!(response.body(), "up 1\n");
        assert_eq!(response.headers()[CONTENT_TYPE], metrics::CONTENT_TYPE);
        task.await.unwrap();
        // Who measured is gone.
        assert_eq!(get().await.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
