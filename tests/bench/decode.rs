//! Reference for `make bench`: decodes the compression layers of a file and drops the content, to measure
//! what a conversion adds to that. Usage: `decode FILE`

use std::error::Error;
use std::fs::File;

use cdi::filter::Budget;
use cdi::filter::stack::{Options, stack};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: decode FILE")?;
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let budget = Budget { threads, memory: 256 << 20, beside: 0 };
    let options = Options { budget, limit: u64::MAX, on_boundary: None, decoded: Default::default() };
    std::io::copy(&mut stack(Box::new(File::open(file)?), &options)?.reader, &mut std::io::sink())?;
    Ok(())
}
