//! A folder for tests that knows what was truly durable, and whose power can be cut at every single operation.
//!
//! Until it is synced, a file's history is a list of changes. A power cut leaves each sector at some moment of that
//! history or with junk in it, its length at some other, and of the changes to names any that it likes: more disorder than a real file
//! system makes, so whatever survives here survives there.

use super::disk::{Claimed, Folder, Handle, Kept, Replaced, Strangers};
use crate::{Error, Result};
use container_disk::publish::Standing;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

const SECTOR: usize = 512;

/// Small, fast, the same on every host.
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
    /// Why nothing proves who made its files.
    doubt: Option<String>,
}

#[derive(Clone, Default)]
struct Inode {
    /// Contents since the last sync, oldest first; the first is durable, the last is what is read.
    history: Vec<Vec<u8>>,
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

    /// Nothing happens any more from this step on (counted from now).
    pub(super) fn stop_after(&self, steps: usize) {
        let mut s = self.lock();
        s.stop_at = s.steps.saturating_add(steps);
    }

    /// From now on nothing proves who made its files.
    pub(super) fn begin_to_doubt(&self, why: &str) {
        self.lock().doubt = Some(why.to_owned());
    }

    /// What stands under a name, to be replaced.
    pub(super) fn replaced(&self, name: &str) -> Option<Replaced> {
        self.contents(name)?;
        // Any file does: this folder looks only whether there is one.
        let standing = Standing::of(tempfile::tempfile().unwrap().into()).unwrap();
        Some(Replaced { standing, kept: None })
    }

    pub(super) fn steps(&self) -> usize {
        self.lock().steps
    }

    pub(super) fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let s = self.lock();
        s.names.get(OsStr::new(name)).map(|&i| s.inodes[i].now().clone())
    }

    pub(super) fn names(&self) -> Vec<OsString> {
        self.lock().names.keys().cloned().collect()
    }

    /// What a process finds that comes after one that was killed.
    pub(super) fn after_kill(&self) -> Self {
        let mut s = self.lock().clone();
        s.stop_at = usize::MAX;
        SimFolder(Arc::new(Mutex::new(s)))
    }

    /// What is found after the power came back.
    pub(super) fn after_power_cut(&self, rng: &mut Rng) -> Self {
        let s = self.lock().clone();
        let mut names = s.durable_names;
        let (prefix, upto) = (rng.coin(), rng.below(s.unsynced_names.len() + 1));
        for (i, change) in s.unsynced_names.iter().enumerate() {
            if if prefix { i < upto } else { rng.coin() } {
                apply(&mut names, change);
            }
        }
        let inodes = s.inodes.iter().map(|inode| inode.after_power_cut(rng)).collect();
        let state =
            State { inodes, durable_names: names.clone(), names, stop_at: usize::MAX, ..State::default() };
        SimFolder(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// One operation that changes something. At the last one, whether it still happens depends on the step.
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
            s.inodes.push(Inode { history: vec![vec![]] });
            s.names.insert(name.to_owned(), made);
            s.unsynced_names.push(Change::Link(name.to_owned(), made));
        })?;
        Ok(made)
    }

    fn handle(&self, inode: usize) -> Box<dyn Handle> {
        Box::new(SimFile { folder: self.clone(), inode })
    }
}

impl Inode {
    fn now(&self) -> &Vec<u8> {
        self.history.last().unwrap()
    }

    fn after_power_cut(&self, rng: &mut Rng) -> Inode {
        let any = |rng: &mut Rng| &self.history[rng.below(self.history.len())];
        let mut left = vec![0; any(rng).len()];
        for (i, sector) in left.chunks_mut(SECTOR).enumerate() {
            let then = any(rng);
            let from = then.len().min(i * SECTOR);
            let bytes = &then[from..then.len().min(from + sector.len())];
            sector[..bytes.len()].copy_from_slice(bytes);
            // A block that was given to the file and not yet written may show what somebody else had there.
            let written = self.history.iter().any(|h| h.get(from..from + bytes.len()) != Some(bytes));
            if written && rng.below(4) == 0 {
                sector.fill(0xEE);
            }
        }
        Inode { history: vec![left] }
    }
}

impl Folder for SimFolder {
    fn claim(&self, name: &OsStr, _strangers: Strangers) -> Result<Claimed> {
        let there = self.lock().names.get(name).copied();
        match there {
            Some(inode) => Ok(Claimed { file: self.handle(inode), created: false }),
            None => {
                let inode = self.make(name).map_err(|e| Error::io("claim", e))?;
                Ok(Claimed { file: self.handle(inode), created: true })
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

    fn publish(&self, from: &OsStr, to: &OsStr, over: Option<&Standing>) -> io::Result<()> {
        match over.is_none() && self.lock().names.contains_key(to) {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => self.rename(from, to),
        }
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
    fn change(&self, how: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.folder.step(|s| {
            let inode = &mut s.inodes[self.inode];
            let mut next = inode.now().clone();
            how(&mut next);
            inode.history.push(next);
        })
    }
}

impl Handle for SimFile {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let from = offset as usize;
        self.change(|bytes| {
            bytes.resize(bytes.len().max(from + data.len()), 0);
            bytes[from..from + data.len()].copy_from_slice(data);
        })
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let s = self.folder.lock();
        let bytes = s.inodes[self.inode].now();
        buf.copy_from_slice(&bytes[offset as usize..offset as usize + buf.len()]);
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64, _keep: bool) -> io::Result<()> {
        self.change(|bytes| {
            let (from, to) = ((offset as usize).min(bytes.len()), ((offset + len) as usize).min(bytes.len()));
            bytes[from..to].fill(0);
        })
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        self.change(|bytes| bytes.resize(bytes.len().max(len as usize), 0))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|bytes| bytes.resize(len as usize, 0))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.folder.lock().inodes[self.inode].now().len() as u64)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.len()
    }

    fn take_after(&self, _old: Option<&Kept>) -> io::Result<()> {
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

    fn sync(&self) -> io::Result<()> {
        self.folder.step(|s| {
            let inode = &mut s.inodes[self.inode];
            inode.history.drain(..inode.history.len() - 1);
        })
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
}
