//! Common parts of our programs: log, runtime, TLS provider, client of the API server.

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

/// Runs a program until `does` ends. An error is one sentence, which is logged.
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

/// Common start of every program: log on standard error, TLS provider, and the highest permitted number of
/// open files.
fn begin() -> Result<()> {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter(None))
        .with_writer(|| printable::Entries(std::io::stderr()))
        .with_ansi(false)
        // An entry that cannot be written is lost: reporting that on the same file would end the thread.
        .log_internal_errors(false)
        .with_filter_reloading();
    let handle = log.reload_handle();
    log.init();
    let change = move |verbosity| {
        if let Err(error) = handle.reload(filter(verbosity)) {
            tracing::warn!("cannot change the log level: {error}");
        }
    };
    // The first call sets it, and there is only one.
    let _ = LOG.set(Box::new(change));
    // The first call sets it. No program makes a second call, which would fail.
    rustls::crypto::ring::default_provider().install_default().map_err(|_| {
        Error::new(cluster_client::error::ErrorKind::Setup, "a TLS provider is installed already")
    })?;
    if let Err(error) = transport::raise() {
        // The program works with fewer files too.
        tracing::warn!("{error}");
    }
    Ok(())
}

/// Setter of the log level.
static LOG: OnceLock<Box<dyn Fn(Option<i64>) + Send + Sync>> = OnceLock::new();

/// Sets the log level; `None` means the level of `CORACLE_LOG`.
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

/// Filter of the log: the level applies to our packages only. Libraries stay at `info`, since they would
/// print request heads with tokens.
fn words(verbosity: i64) -> String {
    let level = log_level(verbosity);
    let ours = OURS.map(|package| format!(",{package}={level}"));
    format!("info{}", ours.concat())
}

/// Packages of our programs.
const OURS: [&str; 14] = [
    "admission",
    "api",
    "cdi_uploadproxy",
    "cluster_client",
    "cluster_model",
    "container_disk",
    "fetch",
    "launcher_client",
    "serve",
    "subresources",
    "transport",
    "virt_api",
    "virt_controller",
    "virt_handler",
];

/// Client of the API server by the pod's service account, or by KUBECONFIG, with this rate limiter.
pub async fn client(pace: &Arc<Pace>) -> Result<kube::Client> {
    kube::Client::try_default()
        .await
        .map(|client| paced(client, Arc::clone(pace)))
        .map_err(|e| Error::setup("no API server is configured (service account, KUBECONFIG)", e))
}

/// Waits for SIGTERM or SIGINT. From this call on, neither signal ends the program by itself.
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

/// Channel that a server watches: after `asked` completes, the program is set not ready, and then the value
/// becomes true.
pub fn ends_after(asked: impl Future<Output = ()> + Send + 'static, health: Health) -> watch::Receiver<bool> {
    let (end, ended) = watch::channel(false);
    tokio::spawn(async move {
        asked.await;
        health.set_not_ready();
        let _ = end.send(true);
    });
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_our_programs_are_those_of_the_workspace() {
        let workspace = include_str!("../../../Cargo.toml");
        let members: Vec<_> = workspace.split(['"', '/', '\n']).collect();
        let unknown: Vec<_> =
            OURS.iter().filter(|name| !members.contains(&name.replace('_', "-").as_str())).collect();
        assert_eq!(unknown, Vec::<&&str>::new(), "their log level cannot be set");
    }

    #[test]
    fn a_verbose_log_has_our_words_and_not_those_of_libraries() {
        assert!(words(9).starts_with("info,admission=trace,"), "{}", words(9));
        assert!(words(3).contains(",serve=debug") && !words(2).contains("debug"));
        // A filter drops directives that it cannot parse.
        assert_eq!(EnvFilter::new(words(9)).to_string().split(',').count(), OURS.len() + 1);
    }
}
