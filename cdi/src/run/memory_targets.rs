//! Targets for tests of the engine: they keep all bytes in memory.

use crate::Result;
use crate::target::{Finished, Order, Target};
use std::sync::Mutex;

/// Takes bytes in guest order.
#[derive(Default)]
pub(super) struct InOrder {
    pub(super) bytes: Mutex<Vec<u8>>,
    /// Ranges that were passed as zeros: offset and length.
    pub(super) zeros: Mutex<Vec<(u64, u64)>>,
    pub(super) announced: Mutex<Option<u64>>,
}

impl InOrder {
    fn append(&self, guest: u64, len: u64, fill: impl FnOnce(&mut [u8])) {
        let mut bytes = self.bytes.lock().unwrap();
        let end = bytes.len();
        assert_eq!(guest, end as u64);
        bytes.resize(end + len as usize, 0);
        fill(&mut bytes[end..]);
    }
}

impl Target for InOrder {
    fn order(&self) -> Order {
        Order::Guest
    }

    fn announce(&self, size: u64) -> Result<()> {
        *self.announced.lock().unwrap() = Some(size);
        Ok(())
    }

    fn write(&self, guest: u64, data: &[u8]) -> Result<()> {
        self.append(guest, data.len() as u64, |there| there.copy_from_slice(data));
        Ok(())
    }

    fn zero(&self, guest: u64, len: u64) -> Result<()> {
        self.zeros.lock().unwrap().push((guest, len));
        self.append(guest, len, |_| {});
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        Ok(Finished::default())
    }
}

/// Takes bytes in any order.
pub(super) struct AnyOrder(pub(super) Mutex<Vec<u8>>);

impl AnyOrder {
    /// Bytes that are neither written nor zeroed stay 0xAA.
    pub(super) fn of_size(size: usize) -> AnyOrder {
        AnyOrder(Mutex::new(vec![0xAA; size]))
    }
}

impl Target for AnyOrder {
    fn order(&self) -> Order {
        Order::Any
    }

    fn write(&self, guest: u64, data: &[u8]) -> Result<()> {
        self.0.lock().unwrap()[guest as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn zero(&self, guest: u64, len: u64) -> Result<()> {
        self.0.lock().unwrap()[guest as usize..][..len as usize].fill(0);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        Ok(Finished::default())
    }
}
