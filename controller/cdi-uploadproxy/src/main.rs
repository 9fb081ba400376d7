//! Program `cdi-uploadproxy`: passes uploads on to the pods that fill PVCs.

use cdi_uploadproxy::args::Proxy;
use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Proxy::parse();
    serve::program::main(async { args.run().await.map_err(|e| e.chain()) })
}
