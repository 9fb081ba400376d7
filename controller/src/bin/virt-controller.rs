//! `virt-controller`: the VMs and VMIs of a cluster, from their objects to pods.

use clap::Parser as _;
use cluster::args::Controller;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Controller::parse();
    serve::program::main(async { args.run().await.map_err(|e| e.chain()) })
}
