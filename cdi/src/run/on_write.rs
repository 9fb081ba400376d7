//! A target for tests of the engine: it keeps nothing, and calls a function at each write.

use crate::Result;
use crate::target::{Finished, Order, Target};

/// Takes bytes in any order. The function gets their offset in the guest's disk.
pub(super) struct OnWrite<F>(pub(super) F);

impl<F: Fn(u64) + Send + Sync> Target for OnWrite<F> {
    fn order(&self) -> Order {
        Order::Any
    }

    fn write(&self, guest: u64, _: &[u8]) -> Result<()> {
        (self.0)(guest);
        Ok(())
    }

    fn zero(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        Ok(Finished::default())
    }
}
