//! `virt-controller`: the VMs and VMIs of a cluster, from their objects to pods.

use clap::Parser as _;
use std::process::ExitCode;
use virt_controller::args::Controller;

fn main() -> ExitCode {
    let args = Controller::parse();
    serve::program::main(async { args.run().await.map_err(|e| e.chain()) })
}
