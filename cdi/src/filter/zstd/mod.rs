//! Zstandard: all frames, skippable ones skipped, checksums checked; frames in parallel. Size: grows, up to
//! 2¹⁵ times. Zeros: as stored.
//!
//! ```text
//!  frame │ frame │ skippable │ frame
//!  └unit─┘
//! ```
//!
//! A frame's end is found without decoding it, because its blocks state their sizes. So every frame is a unit
//! for [`super::lanes`], and a position where decoding can be entered. The window may be as large as the
//! memory allows: `zstd --long=31` needs no flag here.

mod decode;
mod frame;

use super::lanes::{self, Split, Stop, Tape, Unit};
use super::{
    Boundary, Budget, Layer, Need, OnBoundary, Opened, StagedBudget, refused, too_much_memory, truncated,
};
use crate::{Error, Result};
use std::io::{self, Read};

/// Memory of libzstd for a frame besides the window: its tables, and buffers for one block.
const CODEC: u64 = 512 << 10;

/// Bound for other frames' windows and all buffers: zstd is fast enough not to need more.
const EXTRA: u64 = 24 << 20;

pub(super) fn open(
    input: Box<dyn Read + Send>,
    room: StagedBudget,
    from: &Boundary,
    on_boundary: Option<OnBoundary>,
) -> Result<Opened> {
    let splitter = Splitter { budget: room.budget };
    lanes::open("zstd", input, splitter, decode::Decoder::default, (room, EXTRA), from, on_boundary)
}

/// The first frame's header states the window.
pub(super) fn need(mut head: &[u8]) -> Result<Need> {
    let short = || Error::io("zstd", truncated(Layer::Zstd, head.len() as u64, "the first frame header"));
    let least = |window: u64| window.saturating_add(CODEC + lanes::BUFFERS);
    while let [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d, rest @ ..] = head {
        let size = u64::from(u32::from_le_bytes([*a, *b, *c, *d]));
        match usize::try_from(size).ok().and_then(|size| rest.get(size..)) {
            Some(next) => head = next,
            // Frames behind a large skippable one are checked when they come.
            None => return Ok(Need { least: least(0), per_thread: 0 }),
        }
    }
    if head.is_empty() {
        return Ok(Need { least: least(0), per_thread: 0 });
    }
    let header = head.get(4..4 + frame::size(*head.get(4).ok_or_else(short)?)).ok_or_else(short)?;
    let header = frame::parse(header, 0).map_err(|e| Error::io("zstd", e))?;
    // A frame decoded beside another waits with its output, and the bytes of the one before it wait too.
    let content = header.content.unwrap_or(u64::MAX);
    let per_thread = header.window.saturating_add(CODEC).saturating_add(content).saturating_add(content / 2);
    Ok(Need { least: least(header.window), per_thread: per_thread.min(EXTRA) })
}

struct Splitter {
    budget: Budget,
}

impl Split for Splitter {
    fn split(&mut self, tape: &mut Tape) -> Result<(), Stop> {
        let mut first = true;
        while first || tape.peek()?.is_some() {
            first = false;
            let at = tape.offset();
            let mut magic = [0; 4];
            take(tape, &mut magic, "a frame header")?;
            match magic {
                [0x28, 0xb5, 0x2f, 0xfd] => self.frame(tape, at)?,
                [0x50..=0x5f, 0x2a, 0x4d, 0x18] => skip(tape)?,
                [a, b, c, d] => {
                    let what = format_args!(
                        "what follows ({a:02x} {b:02x} {c:02x} {d:02x}) is not a frame; bytes after the last frame are refused"
                    );
                    return Err(broken(at, what).into());
                }
            }
        }
        Ok(())
    }
}

impl Splitter {
    fn frame(&self, tape: &mut Tape, at: u64) -> Result<(), Stop> {
        let mut before = vec![0x28, 0xb5, 0x2f, 0xfd, 0];
        take(tape, &mut before[4..], "a frame header")?;
        before.resize(4 + frame::size(before[4]), 0);
        take(tape, &mut before[5..], "a frame header")?;
        let header = frame::parse(&before[4..], at)?;
        let need = header.window.checked_add(CODEC + lanes::BUFFERS);
        let Some(need) = need.filter(|need| *need <= self.budget.memory) else {
            let need = need.unwrap_or(u64::MAX);
            return Err(too_much_memory(Layer::Zstd, at, "window", need, self.budget).into());
        };
        let memory = need - lanes::BUFFERS;
        tape.begin(Unit { at, memory, ahead: lanes::AHEAD, boundary: Vec::new() }, before)?;
        let mut last = false;
        while !last {
            let mut block = [0; 3];
            let at = tape.offset();
            take(tape, &mut block, "a frame")?;
            let block = frame::block(block, at)?;
            pass(tape, block.packed)?;
            last = block.last;
        }
        pass(tape, if header.checksum { 4 } else { 0 })?;
        tape.end(Vec::new())
    }
}

fn skip(tape: &mut Tape) -> Result<(), Stop> {
    let mut size = [0; 4];
    take(tape, &mut size, "a skippable frame")?;
    pass(tape, u64::from(u32::from_le_bytes(size)))
}

fn take(tape: &mut Tape, out: &mut [u8], inside: &str) -> Result<(), Stop> {
    match tape.take(out)? {
        n if n < out.len() => Err(truncated(Layer::Zstd, tape.offset(), inside).into()),
        _ => Ok(()),
    }
}

fn pass(tape: &mut Tape, n: u64) -> Result<(), Stop> {
    match tape.pass(n)? {
        true => Ok(()),
        false => Err(truncated(Layer::Zstd, tape.offset(), "a frame").into()),
    }
}

fn broken(at: u64, what: impl std::fmt::Display) -> io::Error {
    refused(Layer::Zstd, at, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::stack::{Options, stack};

    /// A frame of a single segment has its content's size as its window.
    #[test]
    fn a_window_of_any_size_is_refused_by_its_need() {
        for size in [u64::MAX, u64::MAX - CODEC, 1 << 63] {
            let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
            frame.extend(size.to_le_bytes());
            for behind in [&[][..], &[1, 0, 0]] {
                let file = [&frame[..], behind].concat();
                assert!(need(&file).unwrap().least >= size);
                for memory in [64 << 20, u64::MAX] {
                    let budget = Budget { threads: 2, memory, beside: 0 };
                    let decoded = fetch::Decoded::default();
                    let options = Options { budget, limit: 1 << 30, on_boundary: None, decoded };
                    let e = stack(Box::new(io::Cursor::new(file.clone())), &options).err().unwrap();
                    assert_eq!(e.kind(), crate::ErrorKind::Refused, "{size} {memory}: {e}");
                    let says = e.to_string().contains("for its window; allow it with --memory");
                    assert!(says || memory > size, "{size}: {e}");
                }
            }
        }
    }
}
