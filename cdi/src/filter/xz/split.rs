//! The splitter: cuts an .xz file into blocks.

use super::container::{self, BlockHeader, STREAM_HEADER, StreamFlags};
use super::index::{self, BlockSizes, Sums};
use super::{CODEC, broken};
use crate::filter::lanes::{self, Split, Stop, Tape, Unit};
use crate::filter::{Budget, Layer, too_much_memory, truncated};

pub(super) struct Splitter {
    budget: Budget,
    resume: Option<Resume>,
}

/// State for entering a stream at a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resume {
    flags: StreamFlags,
    before: Sums,
}

impl Resume {
    const VERSION: u8 = 1;

    /// Parses a boundary's state.
    pub(super) fn parse(state: &[u8]) -> Option<Self> {
        let (&[version], rest) = state.split_first_chunk()?;
        let (header, rest) = rest.split_first_chunk::<STREAM_HEADER>()?;
        let (blocks, rest) = rest.split_first_chunk()?;
        let (packed, rest) = rest.split_first_chunk()?;
        let (&plain, rest) = rest.split_first_chunk()?;
        let before = Sums {
            blocks: u64::from_le_bytes(*blocks),
            packed: u64::from_le_bytes(*packed),
            plain: u64::from_le_bytes(plain),
        };
        let flags = container::stream_header(header, 0).ok()?;
        (version == Self::VERSION && rest.is_empty()).then_some(Resume { flags, before })
    }

    fn write(&self) -> Vec<u8> {
        let mut state = vec![Self::VERSION];
        state.extend(self.flags.header);
        for number in [self.before.blocks, self.before.packed, self.before.plain] {
            state.extend(number.to_le_bytes());
        }
        state
    }
}

impl Split for Splitter {
    fn split(&mut self, tape: &mut Tape) -> Result<(), Stop> {
        let mut first = true;
        if let Some(Resume { flags, before }) = self.resume.take() {
            self.stream(tape, flags, BlockSizes::entered(before))?;
            self.padding(tape)?;
            first = false;
        }
        // Another stream may follow behind the padding.
        while first || tape.peek()?.is_some() {
            first = false;
            let at = tape.offset();
            let mut header = [0; STREAM_HEADER];
            if tape.take(&mut header)? < header.len() {
                return Err(truncated(Layer::Xz, tape.offset(), "a stream header").into());
            }
            let flags = container::stream_header(&header, at)?;
            self.stream(tape, flags, BlockSizes::default())?;
            self.padding(tape)?;
        }
        Ok(())
    }
}

impl Splitter {
    pub(super) fn new(budget: Budget, resume: Option<Resume>) -> Self {
        Splitter { budget, resume }
    }

    /// Reads blocks, index and footer.
    fn stream(&self, tape: &mut Tape, flags: StreamFlags, mut sizes: BlockSizes) -> Result<(), Stop> {
        loop {
            match tape.peek()? {
                None => return Err(truncated(Layer::Xz, tape.offset(), "a stream").into()),
                Some(0) => return sizes.check(tape, &flags),
                Some(size) => self.block(tape, &flags, &mut sizes, (usize::from(size) + 1) * 4)?,
            }
        }
    }

    fn block(
        &self,
        tape: &mut Tape,
        flags: &StreamFlags,
        sizes: &mut BlockSizes,
        header_size: usize,
    ) -> Result<(), Stop> {
        let start = tape.offset();
        let resume = Resume { flags: *flags, before: sizes.sums };
        // The header must be parsed before the unit begins, so the codec gets a copy, behind the stream's
        // header.
        let mut before = vec![0; STREAM_HEADER + header_size];
        before[..STREAM_HEADER].copy_from_slice(&flags.header);
        let header = &mut before[STREAM_HEADER..];
        if tape.take(header)? < header_size {
            return Err(truncated(Layer::Xz, tape.offset(), "a block header").into());
        }
        let block = container::block_header(header, start)?;
        let memory = block.dictionary + CODEC;
        let need = memory + lanes::BUFFERS;
        if need > self.budget.memory {
            return Err(too_much_memory(Layer::Xz, start, "dictionary", need, self.budget).into());
        }
        let near = block.packed.filter(|&packed| packed < self.budget.memory / 2);
        let ahead = near.unwrap_or(lanes::AHEAD);
        tape.begin(Unit { at: start, memory, ahead, boundary: resume.write() }, before)?;
        let body = tape.offset();
        let plain = lzma2(tape)?;
        let packed = tape.offset() - body;
        compare(&block, packed, plain, start)?;
        while !(tape.offset() - start).is_multiple_of(4) {
            // liblzma checks that the padding is zero.
            pass(tape, 1)?;
        }
        pass(tape, flags.check)?;
        let unpadded = header_size as u64 + packed + flags.check;
        sizes.block(unpadded, plain).ok_or_else(|| broken(start, "the sizes of all blocks pass 64 bits"))?;
        let mut after = index::of_one_block(unpadded, plain);
        let footer = container::footer(flags, after.len() as u64);
        after.extend(footer.into_iter().flatten());
        tape.end(after)
    }

    /// Skips zeros between and after streams, in fours.
    fn padding(&self, tape: &mut Tape) -> Result<(), Stop> {
        let start = tape.offset();
        while tape.peek()? == Some(0) {
            tape.byte()?;
        }
        match (tape.offset() - start) % 4 {
            0 => Ok(()),
            _ => Err(broken(start, "the stream padding is not a multiple of 4 bytes").into()),
        }
    }
}

/// Skips the chunks of LZMA2 data, to its end; returns the uncompressed bytes.
fn lzma2(tape: &mut Tape) -> Result<u64, Stop> {
    let mut plain = 0u64;
    loop {
        let at = tape.offset();
        let mut fields = [0; 5];
        let mut field = |tape: &mut Tape, n: usize| match tape.take(&mut fields[..n])? {
            taken if taken < n => Err(Stop::from(truncated(Layer::Xz, tape.offset(), "a block"))),
            _ => Ok(fields),
        };
        let [control, ..] = field(tape, 1)?;
        let (made, rest) = match control {
            0 => return Ok(plain),
            1 | 2 => {
                let [h, l, ..] = field(tape, 2)?;
                let size = u64::from(u16::from_be_bytes([h, l])) + 1;
                (size, size)
            }
            3..=0x7f => {
                let what = format_args!("an LZMA2 chunk begins with {control:#04x}, which means nothing");
                return Err(broken(at, what).into());
            }
            0x80.. => {
                let [plain_h, plain_l, packed_h, packed_l, _] = field(tape, 4)?;
                let high = u64::from(control & 0x1f) << 16;
                let properties = u64::from(control >= 0xc0);
                let packed = u64::from(u16::from_be_bytes([packed_h, packed_l])) + 1;
                (high + u64::from(u16::from_be_bytes([plain_h, plain_l])) + 1, properties + packed)
            }
        };
        plain = plain.checked_add(made).ok_or_else(|| broken(at, "a block passes 64 bits"))?;
        pass(tape, rest)?;
    }
}

fn pass(tape: &mut Tape, n: u64) -> Result<(), Stop> {
    match tape.pass(n)? {
        true => Ok(()),
        false => Err(truncated(Layer::Xz, tape.offset(), "a block").into()),
    }
}

fn compare(block: &BlockHeader, packed: u64, plain: u64, at: u64) -> Result<(), Stop> {
    for (name, stated, found) in [("compressed", block.packed, packed), ("uncompressed", block.plain, plain)]
    {
        if let Some(stated) = stated.filter(|&stated| stated != found) {
            let what = format_args!("a block header states a {name} size of {stated}, the block has {found}");
            return Err(broken(at, what).into());
        }
    }
    Ok(())
}
