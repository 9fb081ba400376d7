//! Several sinks as one: an image goes to all of them in one pass.

use crate::manifest::{Descriptor, Document};
use crate::place::{BlobWriter, Sink};
use crate::{Digest, Error, Result};
use std::io::{self, Write};
use std::sync::Arc;

/// What is written here is written to each. One that fails ends it for all.
pub struct Tee(Vec<Arc<dyn Sink>>);

impl Tee {
    /// At least one.
    pub fn new(sinks: Vec<Arc<dyn Sink>>) -> Tee {
        Tee(sinks)
    }
}

struct Writers<'a>(Vec<Box<dyn BlobWriter + 'a>>);

impl Sink for Tee {
    fn has(&self, descriptor: &Descriptor) -> Result<bool> {
        for sink in &self.0 {
            if !sink.has(descriptor)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
        let writers = self.0.iter().map(|sink| sink.begin(promised)).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(Writers(writers)))
    }

    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()> {
        self.0.iter().try_for_each(|sink| sink.put(document, tag))
    }

    fn close(&self) -> Result<()> {
        self.0.iter().try_for_each(|sink| sink.close())
    }
}

impl Write for Writers<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.iter_mut().try_for_each(|writer| writer.write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|writer| writer.flush())
    }
}

impl BlobWriter for Writers<'_> {
    fn arrive(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(|writer| writer.arrive())
    }

    fn finish(self: Box<Self>) -> Result<(Digest, u64)> {
        let mut made = None;
        for writer in self.0 {
            let one = writer.finish()?;
            if made.is_some_and(|other| other != one) {
                return Err(Error::failed(format!("{} was written differently to two places", one.0)));
            }
            made = Some(one);
        }
        made.ok_or_else(|| Error::failed("a blob was written nowhere"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    #[test]
    fn a_blob_is_in_each_place_or_has_no_name_in_any() {
        let folder = tempfile::tempdir().unwrap();
        let places: Vec<_> = ["a", "b"].map(|name| Layout::create(&folder.path().join(name)).unwrap()).into();
        let places: Vec<Arc<dyn Sink>> = places.into_iter().map(|l| Arc::new(l) as Arc<dyn Sink>).collect();
        let tee = Tee::new(places);
        let mut writer = tee.begin(None).unwrap();
        writer.write_all(b"abc").unwrap();
        assert_eq!(writer.finish().unwrap(), (Digest::of(b"abc"), 3));
        drop(tee.begin(None).unwrap());
        for name in ["a", "b"] {
            let blobs = folder.path().join(name).join("blobs/sha256");
            let names: Vec<_> = std::fs::read_dir(blobs).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(names, [Digest::of(b"abc").hex().as_str()], "{name}");
        }
    }
}
