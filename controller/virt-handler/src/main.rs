//! Program `virt-handler`, one per node.

use clap::Parser as _;
use std::process::ExitCode;
use virt_handler::args::{Args, run};

fn main() -> ExitCode {
    let args = Args::parse();
    serve::program::main(async { run(args).await.map_err(|e| e.chain()) })
}
