//! `virt-handler`: the agent of a node.

use clap::Parser as _;
use controller::node::args::{Args, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    let log = tracing_subscriber::EnvFilter::try_from_env("CORACLE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(log).with_writer(std::io::stderr).with_ansi(false).init();
    // Only fails where somebody has chosen another before, and nobody has.
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(args)).map_err(|e| e.chain()),
        Err(e) => Err(format!("cannot begin: {e}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{e}");
            ExitCode::FAILURE
        }
    }
}
