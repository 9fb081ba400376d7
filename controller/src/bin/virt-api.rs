//! `virt-api`: what may be written of machines, and what is filled in first.

use clap::Parser as _;
use controller::error::chain;
use controller::serve::args::Api;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Api::parse();
    controller::args::main(async { args.run().await.map_err(|e| chain(&e)) })
}
