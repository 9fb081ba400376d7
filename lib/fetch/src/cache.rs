//! A cache for small reads (tables of an image, headers, signatures): one fetch serves all threads that need
//! the same block, and reads that go forward fetch further ahead each time. Large reads bypass it.

use crate::ranged::on_this_thread;
use crate::{PartSink, Permit, Ranged, Result};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Reads up to this size are cached.
pub(crate) const SMALL: usize = 64 << 10;

const BLOCK: u64 = 64 << 10;
/// 2 MiB in total.
const MOST_BLOCKS: usize = 32;
/// The longest fetch: 1 MiB.
const MOST_AHEAD: u64 = 16;

/// A cache of blocks of one file.
#[derive(Default)]
pub(crate) struct Cache {
    state: Mutex<State>,
    ready: Condvar,
}

#[derive(Default)]
struct State {
    blocks: HashMap<u64, Block>,
    clock: u64,
    /// Buffers of evicted blocks, for the next ones.
    spare: Vec<Vec<u8>>,
}

struct Block {
    /// `None` while another thread fetches the block.
    data: Option<Vec<u8>>,
    used: u64,
    /// Number of blocks in the same fetch.
    run: u64,
}

impl Cache {
    /// Fills `buf` from `offset`; the range lies inside the file.
    pub(crate) fn read(&self, file: &impl Ranged, mut buf: &mut [u8], mut offset: u64) -> Result<()> {
        while !buf.is_empty() {
            let index = offset / BLOCK;
            let end = offset + buf.len() as u64;
            let mut state = self.lock();
            let copied = state.copy(buf, offset);
            if copied > 0 {
                buf = &mut buf[copied..];
                offset += copied as u64;
            } else if state.blocks.contains_key(&index) {
                // Another thread is fetching the block. If that fails, its mark is removed and this thread
                // tries.
                drop(self.ready.wait(state));
            } else {
                let run = state.reserve(index, end.div_ceil(BLOCK), file.size().div_ceil(BLOCK));
                drop(state);
                let copied = self.fill(file, index, run, buf, offset)?;
                buf = &mut buf[copied..];
                offset += copied as u64;
            }
        }
        Ok(())
    }

    /// Copies the cached part of the beginning of `buf`, without waiting.
    pub(crate) fn prefix(&self, buf: &mut [u8], offset: u64) -> usize {
        let mut done = 0;
        let mut state = self.lock();
        while done < buf.len() {
            match state.copy(&mut buf[done..], offset + done as u64) {
                0 => break,
                copied => done += copied,
            }
        }
        done
    }

    /// Fetches blocks, and copies the bytes for `buf` before another thread can evict them.
    fn fill(&self, file: &impl Ranged, index: u64, run: u64, buf: &mut [u8], offset: u64) -> Result<usize> {
        // Dropped on every return: the marks of blocks that did not come are removed, so that no thread waits
        // for them for ever.
        let unmark = Unmark { cache: self, index, run };
        let start = index * BLOCK;
        let end = start.saturating_add(run * BLOCK).min(file.size());
        let mut filled = Blocks { full: vec![], spare: std::mem::take(&mut self.lock().spare) };
        on_this_thread(file, start..end, &mut filled)?;
        let mut state = self.lock();
        state.spare.append(&mut filled.spare);
        for (i, data) in (index..).zip(filled.full) {
            state.clock += 1;
            let used = state.clock;
            state.blocks.insert(i, Block { data: Some(data), used, run });
        }
        let copied = state.copy(buf, offset);
        state.evict();
        drop(state);
        drop(unmark);
        Ok(copied)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements, so a panic in another thread does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn copy(&mut self, buf: &mut [u8], offset: u64) -> usize {
        self.clock += 1;
        let now = self.clock;
        let Some(block) = self.blocks.get_mut(&(offset / BLOCK)) else { return 0 };
        let Some(data) = &block.data else { return 0 };
        block.used = now;
        let rest = data.get((offset % BLOCK) as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        len
    }

    /// Marks the blocks that one fetch will bring: those up to `needed`, and more when reads go forward.
    fn reserve(&mut self, index: u64, needed: u64, file_end: u64) -> u64 {
        let previous = index.checked_sub(1).and_then(|p| self.blocks.get(&p)).map_or(0, |block| block.run);
        let on_their_way = self.blocks.values().filter(|block| block.data.is_none()).count();
        let room = MOST_BLOCKS.saturating_sub(on_their_way) as u64;
        let ahead = (previous * 2).clamp(1, MOST_AHEAD).min(room).max(needed - index);
        let most = ahead.min(file_end - index);
        let run = (index..index + most).take_while(|i| !self.blocks.contains_key(i)).count() as u64;
        for i in index..index + run {
            self.blocks.insert(i, Block { data: None, used: self.clock, run });
        }
        run
    }

    fn evict(&mut self) {
        loop {
            let there = || self.blocks.iter().filter(|(_, block)| block.data.is_some());
            if there().count() <= MOST_BLOCKS {
                return;
            }
            let Some(oldest) = there().min_by_key(|(_, block)| block.used).map(|(i, _)| *i) else { return };
            let memory = self.blocks.remove(&oldest).and_then(|block| block.data);
            if self.spare.len() < MOST_AHEAD as usize {
                self.spare.extend(memory);
            }
        }
    }
}

/// Cuts received bytes into blocks.
struct Blocks {
    full: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl PartSink for Blocks {
    const READER_WAITS: bool = true;

    async fn take(&mut self, mut bytes: Bytes, _: &mut Option<Permit<'_>>) {
        while !bytes.is_empty() {
            let room = self.full.last().map_or(0, |last| BLOCK as usize - last.len());
            if room == 0 {
                let mut next = self.spare.pop().unwrap_or_default();
                next.clear();
                next.reserve_exact(BLOCK as usize);
                self.full.push(next);
            } else if let Some(last) = self.full.last_mut() {
                last.extend_from_slice(&bytes.split_to(room.min(bytes.len())));
            }
        }
    }
}

/// Removes the marks of a fetch that brought nothing.
struct Unmark<'a> {
    cache: &'a Cache,
    index: u64,
    run: u64,
}

impl Drop for Unmark<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        for i in self.index..self.index + self.run {
            if state.blocks.get(&i).is_some_and(|block| block.data.is_none()) {
                state.blocks.remove(&i);
            }
        }
        drop(state);
        self.cache.ready.notify_all();
    }
}
