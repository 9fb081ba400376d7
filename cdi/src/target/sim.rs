//! A simulated folder for tests. It records the durable state, and its power can be cut at every single
//! operation.
//!
//! Until it is synced, a file's history is a list of changes. A power cut leaves each sector at some moment
//! of that history or with junk in it, the length at some other moment, and any subset of the changes to
//! names. This is more disorder than a real file system makes, so code that survives here survives there.
//!
//! A sync or a write can be made to fail ([`SimFolder::fail`]). A sync reports its error once, as Linux does.
//! Sectors that it could not write read as written until the page cache drops them, and no later sync writes
//! them. A later sync does not write them either after they were written again: ext4 takes the block of a
//! cached page for allocated, and a read from the device returns zeros.

use super::disk::{Claimed, Folder, ForeignFile, Handle, OldAttributes, Replaced};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use storage::publish::ExistingFile;

const SECTOR: usize = 512;

/// A random number generator: small, fast, the same on every host.
#[derive(Debug, Clone)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 1
    }
}

#[derive(Clone)]
pub(super) struct SimFolder(Arc<Mutex<State>>);

#[derive(Clone, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<OsString, usize>,
    durable_names: BTreeMap<OsString, usize>,
    unsynced_names: Vec<Change>,
    steps: usize,
    /// The step at which the host or the process stops.
    stop_at: usize,
    /// The reason why the owner of its files proves nothing.
    doubt: Option<String>,
    has_no_locks: bool,
    age: Duration,
    done: Count,
    fault: Option<Fault>,
    luck: Option<Rng>,
}

/// Operations on files so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) syncs: usize,
    pub(super) writes: usize,
}

/// The one operation that fails, counted from the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A sync of a file writes some sectors and loses others (EIO).
    Sync(usize),
    /// A write ends in its middle (ENOSPC).
    Write(usize),
}

#[derive(Clone)]
struct Inode {
    /// Contents on the device.
    durable: Vec<u8>,
    /// Contents since the last sync, oldest first; the last is the present one.
    history: Vec<Vec<u8>>,
    /// Sectors that the next sync writes.
    dirty: BTreeSet<usize>,
    /// Sectors that a failed sync did not write. They count as clean, and only reading shows them.
    lost: BTreeSet<usize>,
}

#[derive(Clone)]
enum Change {
    Link(OsString, usize),
    Unlink(OsString),
    Rename(OsString, OsString, usize),
}

fn apply(names: &mut BTreeMap<OsString, usize>, change: &Change) {
    match change {
        Change::Link(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        Change::Unlink(name) => {
            names.remove(name);
        }
        Change::Rename(from, to, inode) => {
            names.remove(from);
            names.insert(to.clone(), *inode);
        }
    }
}

impl SimFolder {
    pub(super) fn new() -> Self {
        SimFolder(Arc::new(Mutex::new(State { stop_at: usize::MAX, ..State::default() })))
    }

    /// Fails every operation from this step on (counted from now).
    pub(super) fn stop_after(&self, steps: usize) {
        let mut s = self.lock();
        s.stop_at = s.steps.saturating_add(steps);
    }

    /// From now on the owner of its files proves nothing.
    pub(super) fn begin_to_doubt(&self, why: &str) {
        self.lock().doubt = Some(why.to_owned());
    }

    /// From now on its files cannot be locked.
    pub(super) fn lose_locks(&self) {
        self.lock().has_no_locks = true;
    }

    /// From now on the last write to a file is so long ago.
    pub(super) fn age_to(&self, age: Duration) {
        self.lock().age = age;
    }

    /// The file of this name, as one to be replaced.
    pub(super) fn replaced(&self, name: &str) -> Option<Replaced> {
        self.contents(name)?;
        // Any file will do: this folder checks only if there is one.
        let standing = ExistingFile::from_fd(tempfile::tempfile().unwrap().into()).unwrap();
        Some(Replaced { standing, kept: None })
    }

    /// Makes one operation fail; `luck` decides which sectors are lost.
    pub(super) fn fail(&self, fault: Fault, luck: u64) {
        let mut s = self.lock();
        (s.fault, s.luck) = (Some(fault), Some(Rng(luck)));
    }

    pub(super) fn done(&self) -> Count {
        self.lock().done
    }

    pub(super) fn steps(&self) -> usize {
        self.lock().steps
    }

    /// Contents of a file on the device, whatever the page cache shows.
    pub(super) fn on_device(&self, name: &str) -> Option<Vec<u8>> {
        let s = self.lock();
        s.names.get(OsStr::new(name)).map(|&i| s.inodes[i].durable.clone())
    }

    pub(super) fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let s = self.lock();
        s.names.get(OsStr::new(name)).map(|&i| s.inodes[i].now().clone())
    }

    pub(super) fn names(&self) -> Vec<OsString> {
        self.lock().names.keys().cloned().collect()
    }

    /// The folder after the process was killed, for the next process.
    pub(super) fn after_kill(&self) -> Self {
        let mut s = self.lock().clone();
        (s.stop_at, s.fault) = (usize::MAX, None);
        SimFolder(Arc::new(Mutex::new(s)))
    }

    /// The same, after the page cache has dropped every clean page.
    pub(super) fn after_eviction(&self) -> Self {
        let folder = self.after_kill();
        folder.lock().inodes.iter_mut().for_each(Inode::forget_clean);
        folder
    }

    /// The folder after a power cut.
    pub(super) fn after_power_cut(&self, rng: &mut Rng) -> Self {
        self.after_cut(rng, true)
    }

    /// The same on a device that leaves each sector at some moment of its history, and no junk in it.
    pub(super) fn after_power_cut_without_junk(&self, rng: &mut Rng) -> Self {
        self.after_cut(rng, false)
    }

    fn after_cut(&self, rng: &mut Rng, with_junk: bool) -> Self {
        let s = self.lock().clone();
        let mut names = s.durable_names;
        let (prefix, upto) = (rng.coin(), rng.below(s.unsynced_names.len() + 1));
        for (i, change) in s.unsynced_names.iter().enumerate() {
            if if prefix { i < upto } else { rng.coin() } {
                apply(&mut names, change);
            }
        }
        let inodes = s.inodes.iter().map(|inode| inode.after_cut(rng, with_junk)).collect();
        let state =
            State { inodes, durable_names: names.clone(), names, stop_at: usize::MAX, ..State::default() };
        SimFolder(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Performs one operation that changes something. The last one may or may not happen, depending on the
    /// step.
    fn step(&self, change: impl FnOnce(&mut State)) -> io::Result<()> {
        let mut s = self.lock();
        if s.steps > s.stop_at {
            return Err(io::Error::other("the host is off"));
        }
        s.steps += 1;
        if s.steps <= s.stop_at || s.stop_at.is_multiple_of(2) {
            change(&mut s);
        }
        if s.steps > s.stop_at { Err(io::Error::other("the host is off")) } else { Ok(()) }
    }

    fn make(&self, name: &OsStr) -> io::Result<usize> {
        let mut made = 0;
        self.step(|s| {
            made = s.inodes.len();
            s.inodes.push(Inode::of(vec![]));
            s.names.insert(name.to_owned(), made);
            s.unsynced_names.push(Change::Link(name.to_owned(), made));
        })?;
        Ok(made)
    }

    fn handle(&self, inode: usize) -> Box<dyn Handle> {
        Box::new(SimFile { folder: self.clone(), inode })
    }

    fn claimed(&self, inode: usize, created: bool) -> Claimed {
        Claimed { file: Arc::from(self.handle(inode)), created, is_locked: !self.lock().has_no_locks }
    }
}

/// The sectors that a range touches.
fn sectors(range: &Range<usize>) -> Range<usize> {
    range.start / SECTOR..range.end.div_ceil(SECTOR)
}

impl Inode {
    /// An inode whose bytes are durable already.
    fn of(bytes: Vec<u8>) -> Inode {
        let history = vec![bytes.clone()];
        Inode { durable: bytes, history, dirty: BTreeSet::new(), lost: BTreeSet::new() }
    }

    fn now(&self) -> &Vec<u8> {
        self.history.last().unwrap()
    }

    /// Replaces the contents, of which `range` was written.
    fn write(&mut self, next: Vec<u8>, range: Range<usize>) {
        self.dirty.extend(sectors(&range));
        self.history.push(next);
    }

    /// As `write`, for a range that becomes a hole: its pages leave the cache.
    fn punch(&mut self, next: Vec<u8>, range: Range<usize>) {
        let whole = range.start.div_ceil(SECTOR)..range.end / SECTOR;
        self.lost.retain(|sector| !whole.contains(sector));
        self.write(next, range);
    }

    /// Makes it durable, but for sectors that are `lost` now or were before.
    fn sync(&mut self, lost: BTreeSet<usize>) {
        self.lost.extend(lost);
        self.durable = self.on_device_after_sync();
        self.history.drain(..self.history.len() - 1);
        self.dirty.clear();
    }

    fn on_device_after_sync(&self) -> Vec<u8> {
        let mut bytes = self.now().clone();
        for (i, sector) in bytes.chunks_mut(SECTOR).enumerate().filter(|(i, _)| self.lost.contains(i)) {
            let from = self.durable.len().min(i * SECTOR);
            let there = &self.durable[from..self.durable.len().min(from + sector.len())];
            sector.fill(0);
            sector[..there.len()].copy_from_slice(there);
        }
        bytes
    }

    fn forget_clean(&mut self) {
        let now = self.on_device_after_sync();
        self.lost.clear();
        match self.dirty.is_empty() {
            true => self.history = vec![now],
            false => self.history.push(now),
        }
    }

    fn after_cut(&self, rng: &mut Rng, with_junk: bool) -> Inode {
        let states: Vec<&Vec<u8>> = std::iter::once(&self.durable).chain(&self.history).collect();
        let any = |rng: &mut Rng| states[rng.below(states.len())];
        let mut left = vec![0; any(rng).len()];
        for (i, sector) in left.chunks_mut(SECTOR).enumerate() {
            let then = if self.lost.contains(&i) { &self.durable } else { any(rng) };
            let from = then.len().min(i * SECTOR);
            let bytes = &then[from..then.len().min(from + sector.len())];
            sector[..bytes.len()].copy_from_slice(bytes);
            // A block that was allocated to the file and not yet written may show another file's old data.
            let written = states.iter().any(|h| h.get(from..from + bytes.len()) != Some(bytes));
            if with_junk && written && rng.below(4) == 0 {
                sector.fill(0xEE);
            }
        }
        Inode::of(left)
    }
}

impl Folder for SimFolder {
    fn claim(&self, name: &OsStr, _strangers: ForeignFile) -> Result<Claimed> {
        let there = self.lock().names.get(name).copied();
        match there {
            Some(inode) => Ok(self.claimed(inode, false)),
            None => {
                let inode = self.make(name).map_err(|e| Error::io("claim", e))?;
                Ok(self.claimed(inode, true))
            }
        }
    }

    fn open(&self, name: &OsStr) -> io::Result<Option<Box<dyn Handle>>> {
        Ok(self.lock().names.get(name).map(|&inode| self.handle(inode)))
    }

    fn create(&self, name: &OsStr) -> io::Result<Box<dyn Handle>> {
        self.remove(name)?;
        self.make(name).map(|inode| self.handle(inode))
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.step(|s| {
            let inode = s.names[from];
            let change = Change::Rename(from.to_owned(), to.to_owned(), inode);
            apply(&mut s.names, &change);
            s.unsynced_names.push(change);
        })
    }

    fn remove(&self, name: &OsStr) -> io::Result<bool> {
        if !self.lock().names.contains_key(name) {
            return Ok(false);
        }
        self.step(|s| {
            s.names.remove(name);
            s.unsynced_names.push(Change::Unlink(name.to_owned()));
        })?;
        Ok(true)
    }

    fn sync(&self) -> io::Result<()> {
        self.step(|s| {
            for change in std::mem::take(&mut s.unsynced_names) {
                apply(&mut s.durable_names, &change);
            }
        })
    }

    fn free(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn path(&self, name: &OsStr) -> PathBuf {
        PathBuf::from(name)
    }
}

struct SimFile {
    folder: SimFolder,
    inode: usize,
}

impl SimFile {
    fn is_named(&self, name: &OsStr) -> bool {
        self.folder.lock().names.get(name) == Some(&self.inode)
    }

    /// Changes the contents by `how`, which returns the changed range. `keep`: [`Inode::write`] or
    /// [`Inode::punch`].
    fn change(
        &self,
        how: impl FnOnce(&mut Vec<u8>) -> Range<usize>,
        keep: impl FnOnce(&mut Inode, Vec<u8>, Range<usize>),
    ) -> io::Result<()> {
        self.folder.step(|s| {
            let inode = &mut s.inodes[self.inode];
            let mut next = inode.now().clone();
            let range = how(&mut next);
            keep(inode, next, range);
        })
    }

    fn set_len_to(&self, len: impl FnOnce(usize) -> usize) -> io::Result<()> {
        let cut = |bytes: &mut Vec<u8>| {
            let (before, len) = (bytes.len(), len(bytes.len()));
            bytes.resize(len, 0);
            // The last sector is written where it is truncated.
            if len < before { len - len % SECTOR..len } else { len..len }
        };
        self.change(cut, |inode, next, range| {
            let end = next.len().div_ceil(SECTOR);
            inode.lost.retain(|&sector| sector < end);
            inode.write(next, range);
        })
    }
}

impl Handle for SimFile {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let from = offset as usize;
        let is_full = {
            let mut s = self.folder.lock();
            s.done.writes += 1;
            s.fault == Some(Fault::Write(s.done.writes - 1))
        };
        let data = if is_full { &data[..data.len() / 2] } else { data };
        let put = |bytes: &mut Vec<u8>| {
            bytes.resize(bytes.len().max(from + data.len()), 0);
            bytes[from..from + data.len()].copy_from_slice(data);
            from..from + data.len()
        };
        self.change(put, Inode::write)?;
        if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let s = self.folder.lock();
        let bytes = s.inodes[self.inode].now();
        buf.copy_from_slice(&bytes[offset as usize..offset as usize + buf.len()]);
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64, _keep: bool) -> io::Result<()> {
        let fill = |bytes: &mut Vec<u8>| {
            let (from, to) = ((offset as usize).min(bytes.len()), ((offset + len) as usize).min(bytes.len()));
            bytes[from..to].fill(0);
            from..to
        };
        self.change(fill, Inode::punch)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.set_len_to(|now| now.max(len as usize))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.set_len_to(|_| len as usize)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.folder.lock().inodes[self.inode].now().len() as u64)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.len()
    }

    fn take_after(&self, _old: Option<&OldAttributes>) -> io::Result<()> {
        let s = self.folder.lock();
        let waiting = s.inodes[self.inode].history.len() - 1;
        assert_eq!(
            waiting, 0,
            "its owner changes while {waiting} writes are not durable: that takes long, and a run \
                                that ends meanwhile leaves a file behind that is no longer ours"
        );
        Ok(())
    }

    fn write_out(&self) {}

    fn drop_cache(&self) {
        let _ = self.sync();
        let _ = self.folder.step(|s| s.inodes[self.inode].forget_clean());
    }

    fn sync(&self) -> io::Result<()> {
        let mut has_failed = false;
        self.folder.step(|s| {
            s.done.syncs += 1;
            has_failed = s.fault == Some(Fault::Sync(s.done.syncs - 1));
            let inode = &mut s.inodes[self.inode];
            let lost = match s.luck.as_mut().filter(|_| has_failed) {
                Some(luck) => inode.dirty.iter().copied().filter(|_| luck.coin()).collect(),
                None => BTreeSet::new(),
            };
            inode.sync(lost);
        })?;
        if has_failed { Err(io::Error::other("a sector cannot be written")) } else { Ok(()) }
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn strange(&self) -> io::Result<Option<String>> {
        Ok(None)
    }

    fn doubt(&self) -> io::Result<Option<String>> {
        Ok(self.folder.lock().doubt.clone())
    }

    fn identity(&self) -> io::Result<String> {
        Ok(format!("inode:{}", self.inode))
    }

    fn age(&self) -> io::Result<Duration> {
        Ok(self.folder.lock().age)
    }

    fn publish(&self, from: &OsStr, to: &OsStr, over: Option<&ExistingFile>) -> io::Result<()> {
        if !self.is_named(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        match over.is_none() && self.folder.lock().names.contains_key(to) {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => self.folder.rename(from, to),
        }
    }

    fn remove(&self, name: &OsStr) -> io::Result<bool> {
        if self.is_named(name) { self.folder.remove(name) } else { Ok(false) }
    }
}
