//! Health of a program for the kubelet, open to all: `/healthz` and `/readyz`; and `/metrics`, for clients
//! that the API server permits. A program's own paths are answered beside these.

use crate::authentication::Gate;
use crate::certificate;
use crate::settings_version::SettingsVersion;
use crate::transport::tls::{self, CurrentCertificate, Terms};
use crate::transport::{
    Answers, Authorities, HttpResponse, IncomingRequest, Limits, Peer, Transport, listen, plain, response,
};
use cluster_client::error::Result;
use cluster_client::metrics;
use cluster_model::servers::Server;
use http::StatusCode;
use http::request::Parts;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Time between two checks of the readiness.
const LOOK: Duration = Duration::from_millis(100);
/// Time limit for rendering the metrics page.
const PATIENCE: Duration = Duration::from_secs(5);

/// Request for a metrics page.
pub type Ask = oneshot::Sender<String>;

/// Health and metrics of a program.
#[derive(Clone, Debug, Default)]
pub struct Health {
    ready: Arc<AtomicBool>,
    measures: Arc<Mutex<Measures>>,
    /// KubeVirt version report of `/healthz`, for programs that follow the KubeVirt object; others answer
    /// "ok".
    settings: Arc<OnceLock<Arc<SettingsVersion>>>,
}

/// Source of the metrics page.
#[derive(Clone, Debug, Default)]
enum Measures {
    #[default]
    None,
    /// A function that needs no state.
    Plain(fn() -> String),
    /// A task that renders the page on request.
    IncomingRequest(mpsc::Sender<Ask>),
}

impl Health {
    /// Sets the program ready.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Sets the program ready once `so` returns true.
    pub async fn set_ready_when(self, so: impl Fn() -> bool) {
        while !so() {
            tokio::time::sleep(LOOK).await;
        }
        tracing::info!("ready");
        self.set_ready();
    }

    /// Renders the metrics page by this function, unless a task does it.
    pub fn measures_plainly(&self, page: fn() -> String) {
        *self.measures.lock().unwrap_or_else(PoisonError::into_inner) = Measures::Plain(page);
    }

    /// Lets a task render the metrics page: each [`Ask`] wants one page.
    pub fn measures(&self) -> mpsc::Receiver<Ask> {
        let (ask, asked) = mpsc::channel(4);
        *self.measures.lock().unwrap_or_else(PoisonError::into_inner) = Measures::IncomingRequest(ask);
        asked
    }

    /// Lets `/healthz` answer with the version of the KubeVirt object in JSON, as KubeVirt's programs do.
    pub fn tells(&self, settings: &Arc<SettingsVersion>) {
        self.settings.get_or_init(|| Arc::clone(settings));
    }

    /// Sets the program not ready, before it ends.
    pub fn set_not_ready(&self) {
        self.ready.store(false, Ordering::Relaxed);
    }

    /// Answers a request for `/healthz`, `/readyz` or `/metrics`; `None` for other paths.
    pub async fn answer(&self, head: &Parts, peer: Peer, gate: &Gate) -> Option<HttpResponse> {
        match head.uri.path() {
            "/metrics" => Some(match gate.check_access(head, peer).await {
                Ok(()) => self.measured().await,
                Err(answer) => answer,
            }),
            path => self.probed(path),
        }
    }

    /// Answers a probe of the kubelet; `None` for other paths. A probe takes no memory of requests, and so is
    /// answered even if there is none ([`Answers::without_memory`]): the kubelet must not end a program
    /// because a flood keeps it busy.
    pub fn probed(&self, path: &str) -> Option<HttpResponse> {
        Some(match path {
            "/healthz" => match self.settings.get() {
                Some(settings) => response(StatusCode::OK, "application/json", settings.answer()),
                None => plain(StatusCode::OK, "ok"),
            },
            "/readyz" if self.ready.load(Ordering::Relaxed) => plain(StatusCode::OK, "ok"),
            "/readyz" => plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "not ready: the first lists from the API server are not complete",
            ),
            _ => return None,
        })
    }

    /// Answers on this address as long as the program runs. Other paths than health and metrics are answered
    /// by `others`.
    pub async fn serve(
        self,
        address: SocketAddr,
        client: kube::Client,
        namespace: &str,
        server: Server,
        terms: Arc<Terms>,
        others: Arc<impl Answers>,
    ) -> Result<()> {
        let shown = Arc::new(CurrentCertificate::own(server.program)?);
        let authorities = server.is_asked_by_us.then(Arc::<Authorities>::default);
        let (listener, config) =
            (listen(address).await?, tls::config(Arc::clone(&shown), authorities.clone(), terms)?);
        let answers = Arc::new(All { health: self, gate: Gate::new(client.clone()), others });
        let namespace = namespace.to_owned();
        tokio::spawn(async move {
            // The server ends with the program only.
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
            return plain(StatusCode::SERVICE_UNAVAILABLE, "metrics are not available now");
        };
        response(StatusCode::OK, metrics::CONTENT_TYPE, page)
    }

    async fn page(&self) -> Option<String> {
        let measures = self.measures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match measures {
            Measures::None => None,
            Measures::Plain(page) => Some(page()),
            Measures::IncomingRequest(ask) => {
                let (tell, told) = oneshot::channel();
                let asked = async { ask.send(tell).await.ok().map(|()| told)?.await.ok() };
                tokio::time::timeout(PATIENCE, asked).await.ok()?
            }
        }
    }
}

/// Handler of health, metrics and the program's own paths.
struct All<A> {
    health: Health,
    gate: Gate,
    others: Arc<A>,
}

impl<A: Answers> Answers for All<A> {
    async fn answer(&self, asked: IncomingRequest) -> HttpResponse {
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

/// Handler for programs without further paths.
#[derive(Clone, Copy, Debug)]
pub struct NoRoutes;

impl Answers for NoRoutes {
    async fn answer(&self, _: IncomingRequest) -> HttpResponse {
        plain(StatusCode::NOT_FOUND, "unknown path; known are /healthz, /readyz and /metrics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::CONTENT_TYPE;

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
        // The task that rendered the page is gone.
        assert_eq!(get().await.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
