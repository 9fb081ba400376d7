//! A fixed number of reusable buffers: the memory bound of a run, and its back-pressure.

use crossbeam_channel::{Receiver, Sender, bounded};

/// Buffers of one kind. Taking waits until one comes back.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    back: Sender<T>,
    free: Receiver<T>,
}

impl<T> Clone for Pool<T> {
    fn clone(&self) -> Self {
        Pool { back: self.back.clone(), free: self.free.clone() }
    }
}

impl<T: Default> Pool<T> {
    pub(crate) fn new(count: usize) -> Self {
        let (back, free) = bounded(count);
        for _ in 0..count {
            // A fresh channel of this capacity takes them all.
            let _ = back.try_send(T::default());
        }
        Pool { back, free }
    }

    /// Waits for a buffer. Every taker returns it, also when it stops early, so this ends.
    pub(crate) fn take(&self) -> T {
        self.free.recv().unwrap_or_default()
    }

    pub(crate) fn give(&self, buffer: T) {
        let _ = self.back.try_send(buffer);
    }
}
