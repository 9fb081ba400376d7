//! Whether a program lives and is ready, for the kubelet: `/healthz` and `/readyz`.

use crate::error::{Error, Result};
use http::{Response, StatusCode};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

/// What is told.
#[derive(Clone, Debug, Default)]
pub struct Health {
    ready: Arc<AtomicBool>,
}

impl Health {
    /// It does its work.
    pub fn is_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    fn answer(&self, path: &str) -> (StatusCode, &'static str) {
        match path {
            "/healthz" => (StatusCode::OK, "ok\n"),
            "/readyz" if self.ready.load(Ordering::Relaxed) => (StatusCode::OK, "ok\n"),
            "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "the first lists have not come yet\n"),
            _ => (StatusCode::NOT_FOUND, "there are /healthz and /readyz\n"),
        }
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
                    let (status, text) = health.answer(request.uri().path());
                    let mut response = Response::new(text.to_owned());
                    *response.status_mut() = status;
                    async move { Ok::<_, std::convert::Infallible>(response) }
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
}
