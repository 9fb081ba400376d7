//! What every program of ours is around its work: its log, its runtime, TLS, its client of the API server.

use super::health::Health;
use super::pace::{Pace, paced};
use super::transport;
use cluster_client::error::{Error, Result};
use cluster_model::config::program::log_level;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

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
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter(None))
        .with_writer(|| printable::Entries(std::io::stderr()))
        .with_ansi(false)
        // An entry that cannot be written is lost: to tell that on the same file would end the thread.
        .log_internal_errors(false)
        .with_filter_reloading();
    let handle = log.reload_handle();
    log.init();
    let change = move |verbosity| {
        if let Err(error) = handle.reload(filter(verbosity)) {
            tracing::warn!("the log stays as it is: {error}");
        }
    };
    // Only the first call sets it, and there is one.
    let _ = LOG.set(Box::new(change));
    // Only the first call sets it; a second would find it set, and nobody else is here.
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| Error::new(cluster_client::error::ErrorKind::Setup, "TLS has a provider already"))?;
    if let Err(error) = transport::raise() {
        // Fewer will do.
        tracing::warn!("{}", error.chain());
    }
    Ok(())
}

/// What changes the words of the log.
static LOG: OnceLock<Box<dyn Fn(Option<i64>) + Send + Sync>> = OnceLock::new();

/// The log has so many words from now on; as many as `CORACLE_LOG` says where the cluster says nothing.
pub fn log(verbosity: Option<i64>) {
    if let Some(change) = LOG.get() {
        change(verbosity);
    }
}

fn filter(verbosity: Option<i64>) -> EnvFilter {
    match verbosity {
        Some(verbosity) => EnvFilter::new(words(verbosity)),
        None => EnvFilter::try_from_env("CORACLE_LOG").unwrap_or_else(|_| EnvFilter::new("info")),
    }
}

/// What is logged: more of our own words, and no more of those that libraries have, which print heads of requests with the
/// tokens in them.
fn words(verbosity: i64) -> String {
    let level = log_level(verbosity);
    let ours = OURS.map(|package| format!(",{package}={level}"));
    format!("info{}", ours.concat())
}

/// The packages that our programs are made of.
const OURS: [&str; 12] = [
    "admission",
    "api",
    "api_server",
    "cluster",
    "container_disk",
    "fetch",
    "kubernetes",
    "launcher_client",
    "node",
    "serve",
    "subresources",
    "uploadproxy",
];

/// A client by the pod's service account, or by KUBECONFIG, which keeps this pace.
pub async fn client(pace: &Arc<Pace>) -> Result<kube::Client> {
    kube::Client::try_default()
        .await
        .map(|client| paced(client, Arc::clone(pace)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verbose_log_has_our_words_and_not_those_of_libraries() {
        assert!(words(9).starts_with("info,admission=trace,"), "{}", words(9));
        assert!(words(3).contains(",serve=debug") && !words(2).contains("debug"));
        // A filter drops what it cannot read.
        assert_eq!(EnvFilter::new(words(9)).to_string().split(',').count(), OURS.len() + 1);
    }
}
