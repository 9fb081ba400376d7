//! `virt-controller`: the machines of a cluster, from their objects to pods.

use clap::Parser as _;
use controller::args::Controller;
use controller::error::chain;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Controller::parse();
    controller::args::main(async { args.run().await.map_err(|e| chain(&e)) })
}
