//! A target without storage, for disks that are only read and checked.

use super::{Finished, Order, Target};
use crate::Result;

/// Accepts all bytes and keeps none.
#[derive(Debug)]
pub struct NullTarget;

impl Target for NullTarget {
    fn order(&self) -> Order {
        Order::Any
    }

    fn write(&self, _guest: u64, _data: &[u8]) -> Result<()> {
        Ok(())
    }

    fn zero(&self, _guest: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        Ok(Finished { allocated: 0 })
    }
}
