//! Random numbers.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::Read as _;

/// A random UUID.
pub(crate) fn uuid() -> Result<String> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|e| Error::io("cannot make a random number from /dev/urandom", e))?;
    Ok(api::uuid::from_random(bytes))
}
