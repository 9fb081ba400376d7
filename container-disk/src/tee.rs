//! Several sinks as one: an image is written to all of them in one pass.
//!
//! An error of the leading sink ends the write. Any other sink that fails is left out from then on.
//! [`Tee::fallen`] returns these, so that the image can be copied to them from the leading sink afterwards.

use crate::manifest::{Descriptor, Document};
use crate::place::{BlobWriter, Sink};
use crate::{Digest, Error, Result};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A sink that writes to several sinks.
pub struct Tee(Vec<Member>);

struct Member {
    sink: Arc<dyn Sink>,
    /// An error of this sink ends the write.
    leads: bool,
    fallen: Mutex<Option<Error>>,
}

impl Tee {
    /// Combines sinks. `leading` tells by index which of them must not fail.
    pub fn new(sinks: Vec<Arc<dyn Sink>>, leading: impl Fn(usize) -> bool) -> Tee {
        let member = |(at, sink)| Member { sink, leads: leading(at), fallen: Mutex::default() };
        Tee(sinks.into_iter().enumerate().map(member).collect())
    }

    /// Indexes of the sinks that have failed, with their errors. Each is returned once.
    pub fn fallen(&self) -> Vec<(usize, Error)> {
        let fallen = self.0.iter().enumerate().filter_map(|(at, member)| Some((at, member.fallen().take()?)));
        fallen.collect()
    }

    /// Calls `with` for each sink that has not failed.
    fn each(&self, mut with: impl FnMut(&dyn Sink) -> Result<()>) -> Result<()> {
        self.0
            .iter()
            .filter(|member| member.is_up())
            .try_for_each(|member| member.judge(with(&*member.sink)).map(drop))
    }
}

impl Member {
    fn fallen(&self) -> MutexGuard<'_, Option<Error>> {
        self.fallen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_up(&self) -> bool {
        self.fallen().is_none()
    }

    /// Records an error of a sink that is not leading. Returns the error of a leading sink.
    fn judge<T>(&self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Err(e) if !self.leads => {
                tracing::warn!("{e}; the image is copied there again at the end");
                self.fallen().get_or_insert(e);
                Ok(None)
            }
            other => other.map(Some),
        }
    }
}

struct Writers<'a>(Vec<(&'a Member, Option<Box<dyn BlobWriter + 'a>>)>);

impl Writers<'_> {
    fn each(&mut self, mut with: impl FnMut(&mut dyn BlobWriter) -> Result<()>) -> Result<()> {
        for (member, slot) in &mut self.0 {
            let Some(writer) = slot else { continue };
            if member.judge(with(&mut **writer))?.is_none() {
                *slot = None;
            }
        }
        Ok(())
    }
}

impl Sink for Tee {
    fn has(&self, descriptor: &Descriptor) -> Result<bool> {
        let mut all = true;
        self.each(|sink| {
            all = all && sink.has(descriptor)?;
            Ok(())
        })?;
        Ok(all)
    }

    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
        let up = self.0.iter().filter(|member| member.is_up());
        let begun = up.map(|member| Ok((member, member.judge(member.sink.begin(promised))?)));
        Ok(Box::new(Writers(begun.collect::<Result<Vec<_>>>()?)))
    }

    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()> {
        self.each(|sink| sink.put(document, tag))
    }

    fn close(&self) -> Result<()> {
        self.each(|sink| sink.close())
    }
}

impl Write for Writers<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.each(|writer| writer.write_all(bytes).map_err(|e| Error::io("cannot write the blob", e)))
            .map_err(io::Error::from)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.each(|writer| writer.flush().map_err(|e| Error::io("cannot write the blob", e)))
            .map_err(io::Error::from)
    }
}

impl BlobWriter for Writers<'_> {
    fn arrive(&mut self) -> Result<()> {
        self.each(|writer| writer.arrive())
    }

    fn spoil(&mut self) {
        self.0.iter_mut().filter_map(|(_, writer)| writer.as_mut()).for_each(|writer| writer.spoil());
    }

    fn digest(&mut self) -> Result<Digest> {
        let mut digest = None;
        self.each(|writer| {
            digest = Some(writer.digest()?);
            Ok(())
        })?;
        digest.ok_or_else(|| Error::failed("no sink accepted the blob"))
    }

    fn finish(self: Box<Self>) -> Result<(Digest, u64)> {
        let mut made = None;
        for (member, writer) in self.0 {
            let Some(writer) = writer else { continue };
            let Some(one) = member.judge(writer.finish())? else { continue };
            if made.is_some_and(|other| other != one) {
                return Err(Error::failed(format!(
                    "{} has different digests or sizes in two sinks; this is a bug, please report it",
                    one.0
                )));
            }
            made = Some(one);
        }
        made.ok_or_else(|| Error::failed("no sink accepted the blob"))
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
        let tee = Tee::new(places, |_| true);
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

    #[test]
    fn one_that_fails_falls_behind_and_the_others_go_on() {
        struct Broken;
        impl Sink for Broken {
            fn has(&self, _: &Descriptor) -> Result<bool> {
                Ok(false)
            }
            fn begin(&self, _: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
                Err(Error::failed("no room"))
            }
            fn put(&self, _: &Document, _: Option<&str>) -> Result<()> {
                Err(Error::failed("asked though it has fallen behind"))
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let layout = || Layout::create(&folder.path().join("a")).unwrap();
        let sinks = || -> Vec<Arc<dyn Sink>> { vec![Arc::new(layout()), Arc::new(Broken)] };
        let tee = Tee::new(sinks(), |at| at == 0);
        let mut writer = tee.begin(None).unwrap();
        writer.write_all(b"abc").unwrap();
        assert_eq!(writer.finish().unwrap().1, 3);
        let fallen = tee.fallen();
        assert!(fallen.len() == 1 && fallen[0].0 == 1 && fallen[0].1.to_string() == "no room", "{fallen:?}");
        assert!(Tee::new(sinks(), |_| true).begin(None).is_err());
    }
}
