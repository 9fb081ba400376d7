//! RFC 1952: all members, each checked against its CRC and size. Size: grows, up to 1032 times. Zeros: as stored.
//!
//! The container is parsed here and only the deflate data goes to the codec (`inflate.rs`). So the position is
//! exact, and each member's start is a boundary. Inside a long member, every few MiB the end of a deflate block is
//! one: with the bytes that later blocks may refer to, as `access_point.rs` keeps them. After the last member zeros
//! may follow, as on tapes and in `gzip(1)`; other bytes are refused.

mod access_point;
mod inflate;

use super::marks::Marks;
use super::read_ahead::{ReadAhead, Shape};
use super::{Boundary, Budget, Layer, Need, OnBoundary, Opened, STATES};
use super::{refused, too_much_memory, truncated, unreadable_notes};
use crate::{Error, Result};
use access_point::AccessPoint;
use inflate::{Inflate, Step};
use std::io::{self, Read};

const INPUT: usize = 256 << 10;

/// Decoded bytes between two access points of a member. Each is a copy of the window: with more of them a run that
/// goes on would save less than a second.
const APART: u64 = 4 << 20;

/// The input buffer, the codec's window and tables, the buffers of the read-ahead, and the windows of access points.
pub(super) const NEED: Need =
    Need { least: INPUT as u64 + (128 << 10) + STATES as u64 + Shape::DEFAULT.memory(), per_thread: 0 };

const FHCRC: u8 = 2;
const FEXTRA: u8 = 4;
const FNAME: u8 = 8;
const FCOMMENT: u8 = 16;

/// Longest name, comment or extra field in a member's header.
const TEXT: usize = 64 << 10;

pub(super) fn open(
    input: Box<dyn Read + Send>,
    budget: Budget,
    from: &Boundary,
    on_boundary: Option<OnBoundary>,
) -> Result<Opened> {
    if NEED.least > budget.memory {
        return Err(Error::io(
            "gzip",
            too_much_memory(Layer::Gzip, from.input, "buffers", NEED.least, budget),
        ));
    }
    let marks = on_boundary.map(|f| Marks::new(f, from.output));
    let start = from.output;
    let gzip = Gzip::new(input, from, marks.clone())?;
    let reader = ReadAhead::with_marks("gzip", gzip, Shape::DEFAULT, marks, start)?;
    Ok(Opened { reader: Box::new(reader), allow: None })
}

struct Gzip {
    input: Input,
    inflate: Inflate,
    crc: crc32fast::Hasher,
    /// Bytes of this member so far.
    size: u64,
    /// Bytes of all members so far.
    output: u64,
    /// Value of `output` at the last boundary.
    noted: u64,
    marks: Option<Marks>,
    state: State,
}

enum State {
    First,
    /// In the middle of a member that an earlier run has begun.
    Entered(AccessPoint),
    Between,
    Body,
    Ended,
    Failed,
}

impl Gzip {
    fn new(input: Box<dyn Read + Send>, from: &Boundary, marks: Option<Marks>) -> Result<Self> {
        let state = match from.state.as_slice() {
            [] => State::First,
            state => {
                let point = AccessPoint::parse(state);
                State::Entered(point.ok_or_else(|| unreadable_notes(Layer::Gzip, from))?)
            }
        };
        let inflate = Inflate::new();
        Ok(Gzip {
            input: Input { inner: input, buf: vec![0; INPUT], range: 0..0, offset: from.input },
            inflate: inflate.map_err(|e| Error::failed(format!("gzip: cannot start the decoder: {e}")))?,
            crc: crc32fast::Hasher::new(),
            size: 0,
            output: from.output,
            noted: from.output,
            marks,
            state,
        })
    }

    fn step(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match &self.state {
                State::First => self.begin(false)?,
                State::Entered(_) => self.enter()?,
                State::Between => match self.input.byte()? {
                    None => self.state = State::Ended,
                    Some(0) => self.padding()?,
                    Some(0x1f) => self.begin(true)?,
                    Some(other) => return Err(self.garbage(other)),
                },
                State::Body => {
                    let made = self.inflate(out)?;
                    if made > 0 {
                        return Ok(made);
                    }
                }
                State::Ended => return Ok(0),
                State::Failed => return Err(io::Error::other("the stream has already failed")),
            }
        }
    }

    /// Reads a member's header; `begun`: its first byte has been read already.
    fn begin(&mut self, begun: bool) -> io::Result<()> {
        let start = self.input.offset - u64::from(begun);
        let mut header = Header { input: &mut self.input, crc: crc32fast::Hasher::new() };
        if begun {
            header.crc.update(&[0x1f]);
        } else if header.byte()? != 0x1f {
            return Err(refused(Layer::Gzip, start, "this is not a gzip member"));
        }
        header.read(start)?;
        if let Some(marks) = &self.marks {
            marks.put(Boundary { input: start, output: self.output, state: Vec::new() });
        }
        self.noted = self.output;
        self.inflate.reset().map_err(|e| io::Error::other(format!("gzip: {e}")))?;
        self.crc = crc32fast::Hasher::new();
        self.size = 0;
        self.state = State::Body;
        Ok(())
    }

    /// Goes on in the middle of a member.
    fn enter(&mut self) -> io::Result<()> {
        let State::Entered(point) = std::mem::replace(&mut self.state, State::Body) else { return Ok(()) };
        let (bits, value) = match point.skip {
            0 => (0, 0),
            skip => {
                let at = self.input.offset;
                let byte = self.input.byte()?.ok_or_else(|| truncated(Layer::Gzip, at, "a member's data"))?;
                (8 - u32::from(skip), byte >> skip)
            }
        };
        let entered = self.inflate.enter(&point.window, bits, value);
        entered.map_err(|e| {
            refused(Layer::Gzip, self.input.offset, format_args!("cannot enter a member: {e}"))
        })?;
        self.crc = crc32fast::Hasher::new_with_initial_len(point.crc, point.size);
        self.size = point.size;
        Ok(())
    }

    fn inflate(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.input.fill()?;
        let at = self.input.offset;
        let is_due = self.marks.is_some() && self.output.saturating_sub(self.noted) >= APART;
        let Step { taken, made, ended, boundary } =
            self.inflate.step(self.input.bytes(), out, is_due).map_err(|e| {
                refused(Layer::Gzip, at, format_args!("the deflate data near here is broken: {e}"))
            })?;
        let starved = self.input.range.is_empty();
        self.input.take(taken);
        self.crc.update(&out[..made]);
        self.size = self.size.wrapping_add(made as u64);
        self.output += made as u64;
        match boundary {
            _ if ended => self.trailer()?,
            // This is progress, even if no byte was taken.
            Some(unused) => self.note(unused),
            None if made == 0 && taken == 0 && starved => {
                return Err(truncated(Layer::Gzip, self.input.offset, "a member's data"));
            }
            None if made == 0 && taken == 0 => {
                return Err(refused(Layer::Gzip, self.input.offset, "the deflate data leads nowhere"));
            }
            None => {}
        }
        Ok(made)
    }

    /// Reports an access point. `unused`: bits of the taken bytes that belong to the next block.
    fn note(&mut self, unused: u32) {
        let taken = self.input.offset.checked_mul(8);
        let bits = taken.and_then(|bits| bits.checked_sub(u64::from(unused)));
        let (Some(bits), Some(marks)) = (bits, &self.marks) else { return };
        let point = AccessPoint {
            skip: (bits % 8) as u8,
            crc: self.crc.clone().finalize(),
            size: self.size,
            window: self.inflate.window(),
        };
        marks.put(Boundary { input: bits / 8, output: self.output, state: point.write() });
        self.noted = self.output;
    }

    fn trailer(&mut self) -> io::Result<()> {
        let at = self.input.offset;
        let mut trailer = [0; 8];
        for byte in &mut trailer {
            *byte = self.input.byte()?.ok_or_else(|| truncated(Layer::Gzip, at, "a member's trailer"))?;
        }
        let [c0, c1, c2, c3, s0, s1, s2, s3] = trailer;
        let (stored, computed) = (u32::from_le_bytes([c0, c1, c2, c3]), self.crc.clone().finalize());
        if stored != computed {
            let what = format_args!("a member's CRC-32 is {computed:08x}, its trailer says {stored:08x}");
            return Err(refused(Layer::Gzip, at, what));
        }
        // The trailer holds the size modulo 2³².
        let (stored, size) = (u32::from_le_bytes([s0, s1, s2, s3]), self.size);
        if u64::from(stored) != size & 0xffff_ffff {
            let what =
                format_args!("a member unpacks to {size} bytes, its trailer says {stored} (modulo 2^32)");
            return Err(refused(Layer::Gzip, at, what));
        }
        self.state = State::Between;
        Ok(())
    }

    fn padding(&mut self) -> io::Result<()> {
        while let Some(byte) = self.input.byte()? {
            if byte != 0 {
                return Err(self.garbage(byte));
            }
        }
        self.state = State::Ended;
        Ok(())
    }

    fn garbage(&self, byte: u8) -> io::Error {
        let what =
            format_args!("after the last member comes a byte {byte:#04x}, which begins no other member");
        refused(Layer::Gzip, self.input.offset - 1, what)
    }
}

impl Read for Gzip {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let result = self.step(out);
        if result.is_err() {
            self.state = State::Failed;
        }
        result
    }
}

/// The fields before the deflate data, hashed as they are read because the header may carry a CRC of itself.
struct Header<'a> {
    input: &'a mut Input,
    crc: crc32fast::Hasher,
}

impl Header<'_> {
    fn byte(&mut self) -> io::Result<u8> {
        let at = self.input.offset;
        let byte = self.input.byte()?.ok_or_else(|| truncated(Layer::Gzip, at, "a member's header"))?;
        self.crc.update(&[byte]);
        Ok(byte)
    }

    /// Reads the header from its second byte on.
    fn read(&mut self, start: u64) -> io::Result<()> {
        if self.byte()? != 0x8b {
            return Err(refused(Layer::Gzip, start, "what follows is not a gzip member"));
        }
        let method = self.byte()?;
        if method != 8 {
            let what = format_args!("a member's compression method is {method}, only 8 (deflate) is known");
            return Err(refused(Layer::Gzip, start + 2, what));
        }
        let flags = self.byte()?;
        if flags & 0xe0 != 0 {
            let what = format_args!("a member's flags are {flags:#04x}, bits 5 to 7 are reserved");
            return Err(refused(Layer::Gzip, start + 3, what));
        }
        // Time, extra flags, operating system.
        for _ in 0..6 {
            self.byte()?;
        }
        if flags & FEXTRA != 0 {
            let len = u16::from_le_bytes([self.byte()?, self.byte()?]);
            for _ in 0..len {
                self.byte()?;
            }
        }
        for (flag, name) in [(FNAME, "name"), (FCOMMENT, "comment")] {
            if flags & flag != 0 {
                self.text(start, name)?;
            }
        }
        if flags & FHCRC != 0 {
            let computed = self.crc.clone().finalize() & 0xffff;
            let stored = u16::from_le_bytes([self.byte()?, self.byte()?]);
            if computed != u32::from(stored) {
                let what =
                    format_args!("a member's header CRC is {computed:04x}, the header says {stored:04x}");
                return Err(refused(Layer::Gzip, start, what));
            }
        }
        Ok(())
    }

    fn text(&mut self, start: u64, name: &str) -> io::Result<()> {
        for _ in 0..TEXT {
            if self.byte()? == 0 {
                return Ok(());
            }
        }
        Err(refused(Layer::Gzip, start, format_args!("a member's {name} is longer than {TEXT} bytes")))
    }
}

/// Input with a position.
struct Input {
    inner: Box<dyn Read + Send>,
    buf: Vec<u8>,
    range: std::ops::Range<usize>,
    offset: u64,
}

impl Input {
    fn bytes(&self) -> &[u8] {
        &self.buf[self.range.clone()]
    }

    fn take(&mut self, n: usize) {
        self.range.start += n;
        self.offset += n as u64;
    }

    /// Ensures that at least one byte is buffered, unless the input has ended.
    fn fill(&mut self) -> io::Result<()> {
        while self.range.is_empty() {
            match self.inner.read(&mut self.buf) {
                Ok(0) => return Ok(()),
                Ok(n) => self.range = 0..n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        self.fill()?;
        let byte = self.bytes().first().copied();
        self.take(usize::from(byte.is_some()));
        Ok(byte)
    }
}
