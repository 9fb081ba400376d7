//! Loads a cluster for `make bench`: many VMIs at once, and the same writes without virt-controller.
//!
//! ```text
//!  load product SPACE COUNT SAMPLE          makes COUNT VMIs. virt-controller makes their pods, kwok runs those, and
//!                                           virt-handler of kwok's nodes is played here: until all is told
//!  load plain SPACE COUNT SAMPLE WRITES     makes WRITES ({"virt-controller patch pods/status": 1000, …}) for COUNT
//!                                           VMIs, as quickly as it can: until all pods run
//!  load clear SPACE                         takes VMIs and pods away, whoever holds them
//! ```
//!
//! `product` leaves a VMI and its pod in the file SAMPLE, and `plain` makes its own from them. Both print their
//! seconds as JSON. SPACE is a namespace that is there; KUBECONFIG that of an administrator, who speaks for the accounts of
//! our programs where they would write: then the same webhooks are asked.
#![allow(clippy::disallowed_methods)] // It serves nobody.
#![allow(clippy::print_stdout)] // A program for `make bench`, not part of the product.

mod clear;
mod plain;
mod product;
mod speaker;

use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

/// What goes wrong ends the program.
pub(crate) type Fault = Box<dyn Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// Requests on their way at once, as many as virt-controller has.
pub(crate) const AT_ONCE: usize = 16;

const USAGE: &str =
    "usage: load product SPACE COUNT SAMPLE | load plain SPACE COUNT SAMPLE WRITES | load clear SPACE";

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    rustls::crypto::ring::default_provider().install_default().map_err(|_| "TLS has a provider already")?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = match args[..] {
        ["product", space, count, sample] => product::run(space, count.parse()?, Path::new(sample)).await?,
        ["plain", space, count, sample, writes] => {
            let sample: Value = serde_json::from_slice(&std::fs::read(sample)?)?;
            let writes: BTreeMap<String, usize> = serde_json::from_str(writes)?;
            plain::run(space, count.parse()?, sample, writes).await?
        }
        ["clear", space] => clear::run(space).await?,
        _ => return Err(USAGE.into()),
    };
    println!("{said}");
    Ok(())
}
