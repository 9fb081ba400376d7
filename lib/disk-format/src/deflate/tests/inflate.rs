//! A slow and simple decoder that refuses distances over 4096, which zlib-rs and libdeflate accept.

const LENGTH_BASE: [usize; 29] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195,
    227, 258,
];
const LENGTH_BITS: [u32; 29] =
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, n: u32) -> Result<usize, String> {
        let mut value = 0;
        for i in 0..n {
            let byte = *self.bytes.get(self.at / 8).ok_or("ends early")?;
            value |= usize::from(byte >> (self.at % 8) & 1) << i;
            self.at += 1;
        }
        Ok(value)
    }

    /// Walks the canonical code: at each length, codes are consecutive numbers.
    fn symbol(&mut self, code: &Code) -> Result<usize, String> {
        let (mut value, mut first, mut before) = (0, 0, 0);
        for of_this_length in &code.counts[1..] {
            value = value << 1 | self.take(1)?;
            first <<= 1;
            if value < first + of_this_length {
                return Ok(code.symbols[before + value - first]);
            }
            first += of_this_length;
            before += of_this_length;
        }
        Err("no such code".into())
    }
}

struct Code {
    /// Number of codes of each length.
    counts: [usize; 16],
    /// Symbols by code length, then by number.
    symbols: Vec<usize>,
}

impl Code {
    fn new(lengths: &[u8]) -> Self {
        let mut counts = [0; 16];
        let mut symbols: Vec<usize> = (0..lengths.len()).filter(|&symbol| lengths[symbol] > 0).collect();
        symbols.sort_by_key(|&symbol| lengths[symbol]);
        symbols.iter().for_each(|&symbol| counts[usize::from(lengths[symbol])] += 1);
        Code { counts, symbols }
    }
}

/// Every set of lengths must fill the code space exactly. Some decoders refuse any other.
fn complete(lengths: &[u8]) -> Result<(), String> {
    let sum: u32 = lengths.iter().filter(|l| **l > 0).map(|l| 1 << (15 - l)).sum();
    if sum == 1 << 15 { Ok(()) } else { Err(format!("code space filled to {sum} of 32768")) }
}

pub(super) fn inflate(packed: &[u8]) -> Result<Vec<u8>, String> {
    let mut bits = Bits { bytes: packed, at: 0 };
    let mut out = Vec::new();
    loop {
        let last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => {
                bits.at = bits.at.next_multiple_of(8);
                let (len, inverse) = (bits.take(16)?, bits.take(16)?);
                if len ^ inverse != 0xffff {
                    return Err("stored length".into());
                }
                let from = bits.at / 8;
                out.extend(packed.get(from..from + len).ok_or("stored block ends early")?);
                bits.at += 8 * len;
            }
            1 => {
                let mut litlen = [8; 288];
                litlen[144..256].fill(9);
                litlen[256..280].fill(7);
                block(&mut bits, &litlen, &[5; 30], &mut out)?;
            }
            2 => {
                let (litlen, distances) = header(&mut bits)?;
                block(&mut bits, &litlen, &distances, &mut out)?;
            }
            _ => return Err("block type 3".into()),
        }
        if last {
            break;
        }
    }
    if bits.at.div_ceil(8) == packed.len() { Ok(out) } else { Err("bytes behind the end".into()) }
}

fn header(bits: &mut Bits<'_>) -> Result<(Vec<u8>, Vec<u8>), String> {
    let (litlen, distances, stored) = (bits.take(5)? + 257, bits.take(5)? + 1, bits.take(4)? + 4);
    let mut own = [0; 19];
    for &symbol in &ORDER[..stored] {
        own[symbol] = bits.take(3)? as u8;
    }
    complete(&own)?;
    let own = Code::new(&own);
    let mut lengths = Vec::new();
    while lengths.len() < litlen + distances {
        let (len, n) = match bits.symbol(&own)? {
            16 => (*lengths.last().ok_or("nothing to repeat")?, 3 + bits.take(2)?),
            17 => (0, 3 + bits.take(3)?),
            18 => (0, 11 + bits.take(7)?),
            len => (len as u8, 1),
        };
        lengths.resize(lengths.len() + n, len);
    }
    if lengths.len() > litlen + distances || litlen > 286 || distances > 30 {
        return Err("too many code lengths".into());
    }
    let distances = lengths.split_off(litlen);
    complete(&lengths)?;
    complete(&distances)?;
    Ok((lengths, distances))
}

fn block(bits: &mut Bits<'_>, litlen: &[u8], distances: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let (litlen, distances) = (&Code::new(litlen), &Code::new(distances));
    loop {
        match bits.symbol(litlen)? {
            byte @ 0..=255 => out.push(byte as u8),
            256 => return Ok(()),
            symbol => {
                let slot = symbol - 257;
                let len = LENGTH_BASE.get(slot).ok_or("length symbol")? + bits.take(LENGTH_BITS[slot])?;
                let distance = match bits.symbol(distances)? {
                    slot @ 0..4 => slot + 1,
                    slot @ 4..30 => {
                        let extra = slot as u32 / 2 - 1;
                        ((2 + slot % 2) << extra) + 1 + bits.take(extra)?
                    }
                    _ => return Err("distance symbol".into()),
                };
                if distance > 4096 || distance > out.len() {
                    return Err(format!("distance {distance} at {}", out.len()));
                }
                (0..len).for_each(|_| out.push(out[out.len() - distance]));
            }
        }
    }
}
