//! What every program of ours is around its work: its log, its runtime, TLS, its client of the API server.

use super::health::Health;
use super::transport;
use api_server::error::{Error, Result};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// All that a program here is around what it does, whose fault is one sentence.
pub fn main(does: impl Future<Output = std::result::Result<(), String>>) -> ExitCode {
    let done = begin()
        .and_then(|()| {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .map_err(|e| Error::setup("cannot start threads", e))
        })
        .map_err(|e| e.chain())
        .and_then(|runtime| runtime.block_on(does));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// What every program here does first: its words go to the standard error, TLS has its provider, and there may be as many
/// connections as the surroundings allow.
fn begin() -> Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CORACLE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    // Only the first call sets it; a second would find it set, and nobody else is here.
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| Error::new(api_server::error::ErrorKind::Setup, "TLS has a provider already"))?;
    if let Err(error) = transport::raise() {
        // Fewer will do.
        tracing::warn!("{}", error.chain());
    }
    Ok(())
}

/// A client by the pod's service account, or by KUBECONFIG.
pub async fn client() -> Result<kube::Client> {
    kube::Client::try_default()
        .await
        .map_err(|e| Error::setup("no API server is configured (service account, KUBECONFIG)", e))
}

/// Comes to its end when somebody asks the program to end (SIGTERM, SIGINT). From this call on neither ends it by itself.
pub fn asked_to_end() -> Result<impl Future<Output = ()> + Send> {
    let ends = |kind| signal(kind).map_err(|e| Error::setup("cannot wait for signals", e));
    let (mut term, mut interrupt) = (ends(SignalKind::terminate())?, ends(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// What a server watches: once the program is asked to end it is not ready any more, and then this becomes true.
pub fn ends_after(asked: impl Future<Output = ()> + Send + 'static, health: Health) -> watch::Receiver<bool> {
    let (end, ended) = watch::channel(false);
    tokio::spawn(async move {
        asked.await;
        health.is_not_ready();
        let _ = end.send(true);
    });
    ended
}
