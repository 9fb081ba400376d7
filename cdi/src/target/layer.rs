//! A layer of a container image: the disk goes through tar, compression and hashes into a sink as it is
//! written.
//!
//! A tar header has the size before the first byte. If the size is announced first, nothing is kept. If it is
//! known only at the end, the disk waits in one anonymous file in the given folder (the store's).

use super::{Finished, Order, Target};
use crate::filter::{HEAD, mistaken_for};
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
    /// The first bytes of a raw disk.
    head: Option<Vec<u8>>,
}

impl State<'_> {
    /// Keeps the first bytes of a raw disk.
    fn note(&mut self, part: impl Iterator<Item = u8>) {
        if let Some(head) = &mut self.head
            && head.len() < HEAD
        {
            head.extend(part.take(HEAD - head.len()));
        }
    }
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
        let state = Mutex::new(State { to: To::Nothing, at: 0, head: None });
        LayerTarget { sink, options, folder, state, made: SharedLayer::default() }
    }

    /// The same for a raw disk, which is refused if others would take it for something else: nothing in an image says that a
    /// disk is raw.
    #[must_use]
    pub fn for_raw_disk(self, is_raw: bool) -> LayerTarget<'a> {
        self.state().head = is_raw.then(Vec::new);
        self
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
        state.note(data.iter().copied());
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
        state.note(std::iter::repeat_n(0, usize::try_from(len).unwrap_or(HEAD)));
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        let state = std::mem::replace(&mut *self.state(), State { to: To::Nothing, at: 0, head: None });
        if let Some(form) = state.head.as_deref().and_then(mistaken_for) {
            return Err(mistaken(&form));
        }
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

/// Error of a raw disk that others would take for something of this form.
pub(crate) fn mistaken(form: &str) -> Error {
    Error::refused(format!(
        "the disk is raw and begins like {form}: in a raw image others would take it for that; choose the format qcow2"
    ))
}

fn put(layer: &mut LayerWriter<'_>, data: &[u8]) -> Result<()> {
    layer.write_all(data).map_err(|e| Error::io("cannot write the layer", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use container_disk::pack::Compression;
    use container_disk::store::Store;

    const KIB: u64 = 1 << 10;

    /// Parts of a disk of 768 KiB: offset, length, and the byte that fills it (0: passed as zeros).
    const PARTS: [(u64, u64, u8); 4] =
        [(0, 4 * KIB, 1), (4 * KIB, 600 * KIB, 0), (604 * KIB, 12 * KIB, 2), (616 * KIB, 152 * KIB, 0)];
    const SIZE: u64 = 768 * KIB;

    struct Fixture {
        folder: tempfile::TempDir,
        store: Store,
    }

    impl Fixture {
        fn new() -> Fixture {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(&folder.path().join("store")).unwrap();
            Fixture { folder, store }
        }

        fn target(&self) -> LayerTarget<'_> {
            LayerTarget::new(&self.store, OPTIONS, self.folder.path().to_owned())
        }
    }

    const OPTIONS: Options =
        Options { compression: Compression::Zstd, created: 0, threads: 1, memory: 48 << 20 };

    fn finish(target: LayerTarget<'_>) -> Result<Layer> {
        let made = target.made();
        let done = (Box::new(target) as Box<dyn Target>).finish()?;
        let layer = made.get().unwrap().clone();
        assert_eq!(done.allocated, layer.size);
        Ok(layer)
    }

    fn put_parts(target: &LayerTarget<'_>) {
        for (at, len, byte) in PARTS {
            match byte {
                0 => target.zero(at, len).unwrap(),
                _ => target.write(at, &vec![byte; len as usize]).unwrap(),
            }
        }
    }

    /// The layer of a disk whose bytes are written in one go.
    fn expected(fixture: &Fixture) -> Layer {
        let mut layer = LayerWriter::disk(&fixture.store, &OPTIONS, SIZE).unwrap();
        for (_, len, byte) in PARTS {
            layer.write_all(&vec![byte; len as usize]).unwrap();
        }
        layer.finish().unwrap()
    }

    #[test]
    fn a_layer_is_the_same_whether_its_size_is_told_first_or_last() {
        let fixture = Fixture::new();
        let expected = expected(&fixture);
        let announced = fixture.target();
        announced.announce(SIZE).unwrap();
        put_parts(&announced);
        // Only the first one begins a layer.
        announced.announce(SIZE).unwrap();
        announced.sync().unwrap();
        let layer = finish(announced).unwrap();
        assert_eq!((&layer.diff_id, &layer.digest), (&expected.diff_id, &expected.digest));
        let spooled = fixture.target();
        put_parts(&spooled);
        let layer = finish(spooled).unwrap();
        assert_eq!((&layer.diff_id, &layer.digest), (&expected.diff_id, &expected.digest));
        let empty = LayerWriter::disk(&fixture.store, &OPTIONS, 0).unwrap().finish().unwrap();
        assert_eq!(finish(fixture.target()).unwrap().diff_id, empty.diff_id);
    }

    /// Nothing in an image says that its disk is raw.
    #[test]
    fn a_raw_disk_that_others_would_take_for_something_else_is_no_layer() {
        let fixture = Fixture::new();
        let built = |head: &[u8], is_raw, zeros| {
            let target = fixture.target().for_raw_disk(is_raw);
            target.announce(head.len() as u64 + zeros).unwrap();
            target.write(0, head).unwrap();
            target.zero(head.len() as u64, zeros).unwrap();
            finish(target)
        };
        for (head, form) in [
            (&b"QFI\xfb\0\0\0\x03"[..], "an image of the format qcow2"),
            (b"\x1f\x8b\x08\0", "a file of gzip"),
            (b"\x28\xb5\x2f\xfd", "a file of zstd"),
            (b"\x50\x2a\x4d\x18", "a file of zstd"),
            (b"\xfd7zXZ\0", "a file of xz"),
            (b"PK\x03\x04", "a file of zip"),
        ] {
            for zeros in [504, 1 << 20] {
                let e = built(head, true, zeros).unwrap_err();
                assert_eq!(e.kind(), crate::ErrorKind::Refused);
                assert!(e.to_string().contains(&format!("is raw and begins like {form}: ")), "{e}");
                built(head, false, zeros).unwrap();
            }
        }
        for head in [&b"\xeb\x63\x90"[..], b"\0\0", b"x"] {
            built(head, true, 1 << 20).unwrap();
        }
        let none = fixture.target().for_raw_disk(true);
        finish(none).unwrap();
    }

    #[test]
    fn bytes_out_of_order_and_of_another_size_are_refused() {
        let fixture = Fixture::new();
        let target = fixture.target();
        target.announce(SIZE).unwrap();
        target.write(0, &[1; 4096]).unwrap();
        for at in [0, 8192] {
            let e = target.write(at, &[1; 4096]).unwrap_err();
            assert!(e.to_string().contains("out of order"), "{e}");
            assert!(target.zero(at, 4096).is_err());
        }
        let e = finish(target).unwrap_err();
        assert!(e.to_string().contains("ends after 4096 of its"), "{e}");
        let target = fixture.target();
        target.announce(4096).unwrap();
        assert!(target.write(0, &[1; 8192]).is_err(), "more than was announced");
        let target = fixture.target();
        target.announce(4096).unwrap();
        assert!(target.zero(0, 8192).is_err());
    }

    #[test]
    fn a_folder_without_room_for_the_spool_is_told() {
        let fixture = Fixture::new();
        let target = LayerTarget::new(&fixture.store, OPTIONS, fixture.folder.path().join("gone"));
        assert!(target.write(0, &[1; 4096]).is_err());
    }
}
