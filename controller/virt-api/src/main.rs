//! `virt-api`: admission of VMs and VMIs.

use admission::args::Api;
use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Api::parse();
    serve::program::main(async { args.run().await.map_err(|e| e.chain()) })
}
