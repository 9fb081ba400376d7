//! The first bytes of a disk inside its layers: decoded until there are enough of them.

use super::InspectOptions;
use crate::filter::{self, Budget, Layer};
use crate::{Error, ErrorKind, Result};
use std::io::{self, Cursor, Read};
use std::sync::{Arc, OnceLock};

/// The front of a disk.
pub(super) struct Front {
    /// The layers around it, the outermost first.
    pub(super) layers: Vec<Layer>,
    /// Path of the file in the outermost archive that the disk is in.
    pub(super) member: Option<String>,
    pub(super) bytes: Vec<u8>,
    /// True if these are all bytes of the disk.
    pub(super) whole: bool,
    /// The reason why a layer is refused.
    pub(super) refused: Option<String>,
    /// True if decoding ended before the end.
    cut: bool,
}

/// True if the first bytes belong to a layer, supported or not.
pub(super) fn is_layered(head: &[u8]) -> bool {
    filter::detect(head).is_some() || filter::refused_layer(head).is_some()
}

impl Front {
    /// A disk without layers.
    pub(super) fn plain(bytes: Vec<u8>, whole: bool) -> Front {
        Front { layers: vec![], member: None, bytes, whole, refused: None, cut: false }
    }

    /// Removes the layers of `input`, whose end is the real one only if `whole`. An unsupported layer is a
    /// finding, not an error.
    pub(super) fn decode(
        input: Box<dyn Read + Send>,
        whole: bool,
        options: InspectOptions<'_>,
    ) -> Result<Front> {
        let found = Arc::new(OnceLock::new());
        let front = Front::unwrap_layers(input, whole, options, &found)?;
        Ok(Front { member: found.get().cloned(), ..front })
    }

    /// Removes the layers as [`Front::decode`] does. `found` receives the path of the disk in an archive.
    fn unwrap_layers(
        input: Box<dyn Read + Send>,
        whole: bool,
        options: InspectOptions<'_>,
        found: &Arc<OnceLock<String>>,
    ) -> Result<Front> {
        let mut front = Front::plain(vec![], false);
        let mut reader = input;
        let mut path = options.path;
        loop {
            let mut head = vec![];
            if let Err(e) = read_into(&mut reader, &mut head, filter::HEAD) {
                front.ended(e, whole)?;
                // A reader that has failed is not read again: the bytes before are all there is.
                reader = Box::new(io::empty());
            }
            if let Some(why) = filter::refused_layer(&head) {
                front.refused = Some(why.to_string());
                return Ok(front);
            }
            let next = filter::detect(&head);
            let need = next.map(|layer| filter::need(layer, &head));
            reader = Box::new(Cursor::new(head).chain(reader));
            let (Some(layer), Some(need)) = (next, need) else { break };
            if front.layers.len() == filter::stack::DEPTH {
                let most = filter::stack::DEPTH;
                front.refused =
                    Some(format!("the disk is wrapped in more than {most} layers; unpack it first"));
                return Ok(front);
            }
            front.layers.push(layer);
            // The least memory only: decoding ahead would fetch bytes that are not needed.
            let path = if layer == Layer::Tar { path.take() } else { None };
            let opened = need.and_then(|need| {
                if layer == Layer::Tar {
                    let archive: Box<dyn Read + Send> = filter::open_archive(reader, path, found);
                    return Ok(archive);
                }
                let memory = need.least.min(options.memory);
                filter::open(layer, reader, Budget { threads: 1, memory, beside: 0 }, None, None)
            });
            match opened {
                Ok(inner) => reader = inner,
                Err(e) => {
                    front.ended(e.into(), whole)?;
                    return Ok(front);
                }
            }
        }
        let mut bytes = vec![];
        match read_into(&mut reader, &mut bytes, options.front) {
            Ok(ended) => front.whole = ended && !front.cut,
            Err(e) => front.ended(e, whole)?,
        }
        front.bytes = bytes;
        Ok(front)
    }

    /// Handles an early end of decoding. If the input was cut on purpose this is its end; otherwise it is a
    /// finding, or an error if the input could not be read.
    fn ended(&mut self, e: io::Error, whole: bool) -> Result<()> {
        self.cut = true;
        let e = Error::reading("cannot decode the beginning of the disk", e);
        match e.kind() {
            ErrorKind::Refused if whole && self.refused.is_none() => self.refused = Some(e.chain()),
            ErrorKind::Refused => {}
            _ => return Err(e),
        }
        Ok(())
    }
}

/// Reads up to `most` bytes; true if that was the end.
pub(super) fn read_up_to(reader: &mut dyn Read, most: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = vec![];
    let ended = read_into(reader, &mut bytes, most)?;
    Ok((bytes, ended))
}

/// As [`read_up_to`], but bytes before an error are kept.
fn read_into(reader: &mut dyn Read, bytes: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    let mut buf = vec![0; 64 << 10];
    // One byte more than requested shows if anything follows.
    while bytes.len() <= most {
        let room = (most + 1 - bytes.len()).min(buf.len());
        match reader.read(&mut buf[..room]) {
            Ok(0) => return Ok(true),
            Ok(n) => bytes.extend_from_slice(&buf[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(false)
}
