//! Whether a program lives and is ready, for the kubelet: `/healthz` and `/readyz`; and what it measures, `/metrics`.

use crate::error::{Error, Result};
use crate::metrics;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

/// Where every program of ours answers, unless it is told another.
pub const PORT: u16 = 8080;
/// How long whoever measures may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A port of every address of this machine, of both families where it has both.
#[expect(clippy::disallowed_methods, reason = "asked of the kernel while the command line is read")]
pub fn everywhere(port: u16) -> SocketAddr {
    // A kernel may have been built, or begun, without IPv6.
    let both = Path::new("/proc/net/if_inet6").exists();
    let address: IpAddr = if both { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    SocketAddr::new(address, port)
}

/// Asks for a page of measures.
pub type Ask = oneshot::Sender<String>;

/// What is told.
#[derive(Clone, Debug, Default)]
pub struct Health {
    ready: Arc<AtomicBool>,
    measures: Arc<Mutex<Measures>>,
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

    /// It is about to end: no new work is to come.
    pub fn is_not_ready(&self) {
        self.ready.store(false, Ordering::Relaxed);
    }

    fn answer(&self, path: &str) -> (StatusCode, &'static str) {
        match path {
            "/healthz" => (StatusCode::OK, "ok\n"),
            "/readyz" if self.ready.load(Ordering::Relaxed) => (StatusCode::OK, "ok\n"),
            "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "the first lists have not come yet\n"),
            _ => (StatusCode::NOT_FOUND, "there are /healthz, /readyz and /metrics\n"),
        }
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

    async fn response(self, path: String) -> Response<String> {
        if path != "/metrics" {
            let (status, text) = self.answer(&path);
            let mut response = Response::new(text.to_owned());
            *response.status_mut() = status;
            return response;
        }
        let page = self.page().await;
        let is_there = page.is_some();
        let mut response = Response::new(page.unwrap_or_else(|| "nothing is measured now\n".to_owned()));
        if is_there {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
        } else {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        response
    }

    /// Answers on this address for ever.
    pub async fn serve(self, address: SocketAddr) -> Result<()> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|e| Error::setup(format!("cannot listen on {address}"), e))?;
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                let health = self.clone();
                let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    let response = health.clone().response(request.uri().path().to_owned());
                    async move { Ok::<_, std::convert::Infallible>(response.await) }
                });
                tokio::spawn(async move {
                    let mut http = hyper::server::conn::http1::Builder::new();
                    http.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(5));
                    // A client that breaks off is no concern of ours.
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lives_before_it_is_ready() {
        let health = Health::default();
        assert_eq!(health.answer("/healthz").0, StatusCode::OK);
        assert_eq!(health.answer("/readyz").0, StatusCode::SERVICE_UNAVAILABLE);
        health.is_ready();
        assert_eq!(health.answer("/readyz").0, StatusCode::OK);
        assert_eq!(health.answer("/").0, StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn measures_are_those_of_whoever_measures_now() {
        let health = Health::default();
        let get = || health.clone().response("/metrics".to_owned());
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
