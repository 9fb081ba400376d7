//! `virt-api`: what may be written of machines, and what is filled in first.

use clap::Parser as _;
use controller::args;
use controller::serve::args::Api;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Api::parse();
    let done = args::begin().and_then(|()| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| controller::error::Error::setup("cannot start threads", e))?
            .block_on(args.run())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{}", controller::error::chain(&e));
            ExitCode::FAILURE
        }
    }
}
