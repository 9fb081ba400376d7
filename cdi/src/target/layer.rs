//! A layer of a container image: the disk goes through tar, compression and hashes into a sink as it is
//! written.
//!
//! A tar header has the size before the first byte. If the size is announced first, nothing is kept. If it is
//! known only at the end, the disk waits in one anonymous file in the given folder (the store's).

use super::{Finished, Order, Target};
use crate::run::scratch::Scratch;
use crate::{Error, Result};
use container_disk::pack::{Layer, LayerWriter, Options};
use container_disk::place::Sink;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// The layer, once the target is finished.
pub type SharedLayer = Arc<OnceLock<Layer>>;

/// One layer with one disk in it, while it is written.
pub struct LayerTarget<'a> {
    sink: &'a dyn Sink,
    options: Options,
    folder: PathBuf,
    state: Mutex<State<'a>>,
    made: SharedLayer,
}

struct State<'a> {
    to: To<'a>,
    /// Bytes so far, and so the next offset.
    at: u64,
}

enum To<'a> {
    Nothing,
    Layer(Box<LayerWriter<'a>>),
    Spool(Scratch),
}

impl<'a> LayerTarget<'a> {
    /// The sink gets no byte before the disk's size is known. `folder` is for a disk whose size is
    /// not announced.
    pub fn new(sink: &'a dyn Sink, options: Options, folder: PathBuf) -> LayerTarget<'a> {
        let state = Mutex::new(State { to: To::Nothing, at: 0 });
        LayerTarget { sink, options, folder, state, made: SharedLayer::default() }
    }

    /// A handle that holds the layer's digest and size in the end.
    pub fn made(&self) -> SharedLayer {
        self.made.clone()
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, checked for this offset and with a place to write to.
    fn at(&self, guest: u64) -> Result<MutexGuard<'_, State<'a>>> {
        let mut state = self.state();
        if guest != state.at {
            let what = format!("the layer is written out of order: offset {guest} follows {}", state.at);
            return Err(Error::failed(what));
        }
        if matches!(state.to, To::Nothing) {
            state.to = To::Spool(Scratch::beside(&self.folder)?);
        }
        Ok(state)
    }

    fn begin(&self, size: u64) -> Result<LayerWriter<'a>> {
        Ok(LayerWriter::disk(self.sink, &self.options, size)?)
    }
}

impl Target for LayerTarget<'_> {
    fn order(&self) -> Order {
        Order::Guest
    }

    fn announce(&self, size: u64) -> Result<()> {
        let mut state = self.state();
        if matches!(state.to, To::Nothing) {
            state.to = To::Layer(Box::new(self.begin(size)?));
        }
        Ok(())
    }

    fn write(&self, guest: u64, data: &[u8]) -> Result<()> {
        let mut state = self.at(guest)?;
        match &mut state.to {
            To::Layer(layer) => put(layer, data)?,
            To::Spool(spool) => spool.write(guest, data)?,
            To::Nothing => {}
        }
        state.at += data.len() as u64;
        Ok(())
    }

    fn zero(&self, guest: u64, len: u64) -> Result<()> {
        let mut state = self.at(guest)?;
        if let To::Layer(layer) = &mut state.to {
            let mut left = len;
            while left > 0 {
                let n = left.min(ZEROS.len() as u64);
                put(layer, &ZEROS[..n as usize])?;
                left -= n;
            }
        }
        state.at += len;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        let state = std::mem::replace(&mut *self.state(), State { to: To::Nothing, at: 0 });
        let layer = match state.to {
            To::Layer(layer) => layer.finish()?,
            To::Spool(spool) => {
                let mut layer = self.begin(state.at)?;
                spool.copy_with(state.at, |_, part| put(&mut layer, part))?;
                layer.finish()?
            }
            To::Nothing => self.begin(0)?.finish()?,
        };
        let size = layer.size;
        // No other thread sets it: a target is finished once.
        let _ = self.made.set(layer);
        Ok(Finished { allocated: size })
    }
}

fn put(layer: &mut LayerWriter<'_>, data: &[u8]) -> Result<()> {
    layer.write_all(data).map_err(|e| Error::io("cannot write the layer", e))
}
