//! `virt-handler`, one per node.

use clap::Parser as _;
use node::args::{Args, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    serve::program::main(async { run(args).await.map_err(|e| e.chain()) })
}
