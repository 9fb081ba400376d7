//! Boundaries on their way from a decoder to its consumer, which is some buffers behind.

use super::{Boundary, OnBoundary};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Boundaries closer than this to the last one are dropped, so that a stream of tiny members costs no memory.
const APART: u64 = 64 << 10;

/// The queue of boundaries. The decoder adds them ([`Marks::put`]); the consumer's side reports its position.
#[derive(Clone)]
pub(super) struct Marks {
    on_boundary: OnBoundary,
    waiting: Arc<Mutex<Waiting>>,
}

struct Waiting {
    queue: VecDeque<Boundary>,
    last: u64,
}

impl Marks {
    /// `start`: the output offset where decoding enters; it needs no boundary of its own.
    pub(super) fn new(on_boundary: OnBoundary, start: u64) -> Self {
        Marks { on_boundary, waiting: Arc::new(Mutex::new(Waiting { queue: VecDeque::new(), last: start })) }
    }

    /// Adds a boundary at the decoder's position.
    pub(super) fn put(&self, boundary: Boundary) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if boundary.output.saturating_sub(waiting.last) >= APART {
            waiting.last = boundary.output;
            waiting.queue.push_back(boundary);
        }
    }

    /// Reports the newest boundary that the consumer has passed: it has all bytes before the output offset
    /// `passed`.
    pub(super) fn passed(&self, passed: u64) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut newest = None;
        while waiting.queue.front().is_some_and(|b| b.output <= passed) {
            newest = waiting.queue.pop_front();
        }
        drop(waiting);
        if let Some(boundary) = newest {
            (self.on_boundary)(boundary);
        }
    }
}
