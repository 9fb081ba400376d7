//! Decoding of a layer unit by unit, with the position of each unit: gzip members, zstd frames, or any
//! position of an uncompressed layer. The output and its limits are the same as those of `layer_decoder.rs`,
//! which decodes in one go.

use crate::pack::Compression;
use crate::reentry::{Notes, UNITS_APART};
use crate::{Error, Result};
use std::io::{self, BufRead, BufReader, Read};

/// Maximum zstd window, the default of all tools: 128 MiB.
pub(crate) const WINDOW_LOG: u32 = 27;
/// Bytes of one read.
const INPUT: usize = 256 << 10;

/// A decoder that reports each unit to `notes` once all bytes before it have been returned.
pub(crate) struct Units<R: Read> {
    state: State<R>,
    compression: Compression,
    notes: Notes,
    /// Offset of the next byte in the tar.
    tar: u64,
}

enum State<R: Read> {
    Between(Input<R>),
    /// An uncompressed layer, and the offset in the tar that was reported last.
    Plain(Input<R>, u64),
    Gzip(Box<flate2::bufread::GzDecoder<Input<R>>>),
    Zstd(Box<zstd::Decoder<'static, Input<R>>>),
    Ended,
    Failed,
}

impl<R: Read> Units<R> {
    /// Decodes `bytes`, which begin with a unit at offset `input` of the blob and `tar` of the tar.
    pub(crate) fn new(
        bytes: R,
        compression: Compression,
        (input, tar): (u64, u64),
        notes: &Notes,
    ) -> Units<R> {
        let bytes = Input { inner: BufReader::with_capacity(INPUT, bytes), at: input };
        Units { state: State::Between(bytes), compression, notes: notes.clone(), tar }
    }

    /// Starts the next unit, if there is one.
    fn next(&mut self, mut input: Input<R>) -> io::Result<State<R>> {
        if input.fill_buf()?.is_empty() {
            return Ok(State::Ended);
        }
        self.notes.unit(input.at, self.tar);
        Ok(match self.compression {
            Compression::None => State::Plain(input, self.tar),
            Compression::Gzip => State::Gzip(Box::new(flate2::bufread::GzDecoder::new(input))),
            Compression::Zstd => State::Zstd(Box::new(frame(input)?)),
        })
    }

    fn step(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match &mut self.state {
                State::Ended => return Ok(0),
                State::Failed => return Err(io::Error::other("the layer failed in an earlier read")),
                State::Plain(input, told) => {
                    if self.tar.saturating_sub(*told) >= UNITS_APART {
                        *told = self.tar;
                        self.notes.unit(input.at, self.tar);
                    }
                    return input.read(out);
                }
                State::Gzip(decoder) => match decoder.read(out)? {
                    0 => {}
                    n => return Ok(n),
                },
                State::Zstd(decoder) => match decoder.read(out)? {
                    0 => {}
                    n => return Ok(n),
                },
                State::Between(_) => {}
            }
            self.state = match std::mem::replace(&mut self.state, State::Failed) {
                State::Between(input) => self.next(input)?,
                State::Gzip(decoder) => State::Between(decoder.into_inner()),
                State::Zstd(decoder) => State::Between(decoder.finish()),
                other => other,
            };
        }
    }
}

fn frame<R: Read>(input: Input<R>) -> Result<zstd::Decoder<'static, Input<R>>> {
    let cannot = |e| Error::io("cannot start the zstd decoder", e);
    let mut decoder = zstd::Decoder::with_buffer(input).map_err(cannot)?.single_frame();
    decoder.window_log_max(WINDOW_LOG).map_err(cannot)?;
    Ok(decoder)
}

impl<R: Read> Read for Units<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let n = self.step(out)?;
        self.tar = self.tar.saturating_add(n as u64);
        Ok(n)
    }
}

/// A reader that counts its position in the blob.
struct Input<R: Read> {
    inner: BufReader<R>,
    at: u64,
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        self.at = self.at.saturating_add(n as u64);
        Ok(n)
    }
}

impl<R: Read> BufRead for Input<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        self.inner.consume(n);
        self.at = self.at.saturating_add(n as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reentry::{Reentry, SumAt};
    use std::io::Write as _;
    use std::sync::{Arc, Mutex};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        packed.write_all(bytes).and_then(|()| packed.finish()).unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    fn as_it_is(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    /// The output of `packed` from a position on, and the reported positions in the disk and in the blob.
    fn read(packed: &[u8], how: Compression, from: (u64, u64)) -> (io::Result<Vec<u8>>, Vec<(u64, u64)>) {
        let (notes, list) = (Notes::default(), Arc::new(Mutex::new(vec![])));
        let to = Arc::clone(&list);
        notes.tell(
            0..u64::MAX,
            Arc::new(move |place: Reentry| to.lock().unwrap().push((place.disk, place.input))),
        );
        [0, u64::MAX].into_iter().for_each(|at| notes.sum(SumAt { at, state: String::new() }));
        let mut out = vec![];
        let rest = packed.get(from.0 as usize..).unwrap();
        let read = Units::new(rest, how, from, &notes).read_to_end(&mut out).map(|_| out);
        let places = list.lock().unwrap().clone();
        (read, places)
    }

    #[test]
    fn each_place_that_is_told_is_one_where_the_rest_can_be_read() {
        let plain: Vec<u8> = (0..6_000_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
        type Pack = fn(&[u8]) -> Vec<u8>;
        let ways =
            [(Compression::None, as_it_is as Pack), (Compression::Gzip, gzip), (Compression::Zstd, zstd)];
        for (how, pack) in ways {
            let packed: Vec<u8> = plain.chunks(1_500_000).flat_map(pack).collect();
            let (whole, places) = read(&packed, how, (0, 0));
            assert!(whole.unwrap() == plain, "{how:?}");
            assert!(places.len() >= 3, "{how:?}: {places:?}");
            for (disk, input) in places {
                let (rest, _) = read(&packed, how, (input, disk));
                assert!(rest.unwrap() == plain[disk as usize..], "{how:?} from {input}");
            }
        }
    }

    #[test]
    fn a_layer_of_one_unit_tells_no_place_and_garbage_behind_a_unit_is_an_error() {
        let plain = vec![7; 3 << 20];
        for (how, packed) in [(Compression::Gzip, gzip(&plain)), (Compression::Zstd, zstd(&plain))] {
            let (whole, places) = read(&packed, how, (0, 0));
            assert!(whole.unwrap() == plain && places.is_empty(), "{how:?}");
            let mut reader = Units::new(&b""[..], how, (0, 0), &Notes::default());
            assert_eq!(reader.read(&mut [0]).unwrap(), 0);
            for behind in [&b"garbage"[..], &packed[..packed.len() / 2]] {
                let (read, _) = read(&[&packed[..], behind].concat(), how, (0, 0));
                assert!(read.is_err(), "{how:?}");
            }
        }
    }
}
